"""What a program can learn of the machine it runs on, under the caller's control."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from pybpf.dataclass import dataclass, field

_PID_NAMESPACE = (4, 0xEFFF_FFFC)
_KERNEL_HALF = 1 << 63
_LINE = 64
"""Bytes that a line takes beside its text."""


def _repeatable() -> Callable[[], int]:
    generator = random.Random(0)  # noqa: S311 - a script's dice, not a secret
    return lambda: generator.getrandbits(32)


def is_kernel_address(address: int) -> bool:
    """Whether an address lies in the upper half, which Linux keeps for the kernel.

    s390x has two address spaces instead, which the VM does not tell apart.
    """
    return address >= _KERNEL_HALF


@dataclass(slots=True)
class World:
    """The environment of a run. Change the fields between runs.

    ``pid`` is what user space calls so (the kernel's tgid), ``tid`` the thread. ``time`` is
    CLOCK_MONOTONIC in nanoseconds; ``suspended`` is how far CLOCK_BOOTTIME is ahead of it.
    ``random`` gives the next 32-bit number. ``stack`` and ``user_stack`` are return addresses,
    innermost first. ``memory`` holds pieces of kernel and user memory by the address they begin
    at; nothing lies outside them. ``pid_namespace`` is the (device, inode) of the namespace that
    pid and tid belong to. ``ifindex`` is the device that packets come from, ``release`` the kernel
    whose helpers these are, where releases differ. What programs print with bpf_trace_printk is
    appended to ``printed``, up to 64 MiB.
    """

    cpu: int = 0
    cpus: int = 1
    time: int = 0
    suspended: int = 0
    pid: int = 0
    tid: int = 0
    uid: int = 0
    gid: int = 0
    comm: bytes = b""
    task: int = 0
    cgroup: int = 1
    random: Callable[[], int] = field(default_factory=_repeatable)
    stack: tuple[int, ...] = ()
    user_stack: tuple[int, ...] = ()
    ifindex: int = 1
    release: tuple[int, int] = (6, 12)
    memory: Mapping[int, bytes] = field(default_factory=dict)
    pid_namespace: tuple[int, int] = _PID_NAMESPACE
    printed: list[str] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    arguments: tuple[int, ...] = ()
    retval: int | None = None
    function: int = 0
    cookie: int = 0
    registers: int = 0
    ancestors: tuple[int, ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    hook_result: int = 0
    _room: int = 64 << 20

    def print(self, text: bytes) -> None:
        """Append a line to what programs print, while there is room."""
        self._room -= len(text) + _LINE
        if self._room >= 0:
            self.printed.append(text.decode("utf-8", "backslashreplace"))

    def read(self, address: int, size: int) -> bytes | None:
        """Return ``size`` bytes of kernel or user memory, or None where some are missing.

        Pieces that touch are read across.
        """
        data = b""
        while len(data) < size:
            piece = self._from(address + len(data))
            if not piece:
                return None
            data += piece
        return data[:size]

    def read_string(self, address: int, limit: int) -> bytes | None:
        """Return the bytes before the first NUL, at most ``limit``; None if memory ends first."""
        data = b""
        while len(data) < limit:
            piece = self._from(address + len(data))
            if not piece:
                return None
            text, nul, _ = piece.partition(b"\0")
            data += text
            if nul:
                break
        return data[:limit]

    def _from(self, address: int) -> bytes:
        """Return what is known of the memory from ``address`` on; empty for nothing."""
        for start, piece in self.memory.items():
            if start <= address < start + len(piece):
                return piece[address - start :]
        return b""
