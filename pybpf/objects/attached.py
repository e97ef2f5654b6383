"""Where programs are to be attached, and what holds one attached: values of the steps of attach.py.

Nothing outlasts an Attached but pins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Self

from pybpf.dataclass import dataclass
from pybpf.errors import ObjectError
from pybpf.kernel import packed
from pybpf.kernel.fd import Fd
from pybpf.objects.programs import BpfProgram


@dataclass(frozen=True, slots=True)
class Where:
    """What sections do not say: where to attach programs that are not about the kernel's code.

    ``dev`` is the name of a network interface, ``cgroup`` a directory (``self``: this process's
    own), ``netns`` the file of a network namespace (``self``), ``pid`` the process that user
    probes are for (None: all), ``frequency`` how often each CPU runs a ``perf_event`` program in
    a second, ``netfilter`` a family, a hook and a priority: ``ipv4:input:-100``.
    """

    dev: str | None = None
    cgroup: str | None = None
    netns: str | None = None
    pid: int | None = None
    frequency: int | None = None
    netfilter: str | None = None


class Unattachable(ObjectError):
    """A program that is not attached as it is: something must be said, or done by other means."""


class Attached:
    """A program that is attached, until this is closed. ``links`` are what can be pinned."""

    def __init__(self, program: str, links: tuple[Fd, ...], others: tuple[Fd, ...] = (),
                 close: Callable[[], None] = lambda: None) -> None:  # fmt: skip
        self.program = program
        self.links = links
        self._others = others
        self._close = close
        self.closed = False

    def read(self) -> bytes:
        """Return what an iterator's program writes as it goes over everything once."""
        with packed.iter_create(self.links[0]) as file:
            found = b""
            while piece := os.read(file.fileno(), 1 << 16):
                found += piece
            return found

    def close(self) -> None:
        """Detach; closing twice is allowed."""
        self.closed = True
        self._close()
        for held in (*self.links, *self._others):
            held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Attached({self.program!r})"


def wants(program: BpfProgram, what: str, *hints: str) -> Unattachable:
    """Return the error of a program that is not attached as it is, and what to do about it."""
    return Unattachable("", f'program {program.name} (SEC("{program.section}")) {what}',
                        hints=hints)  # fmt: skip
