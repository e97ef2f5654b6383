"""Target: everything a compile or a verdict depends on, from the live machine or a snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pybpf.target.arch import Arch
from pybpf.tracefs.format import EventFormat

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf


LATER = "\0later"
"""In the environment: a number, of 32 bits, that is known when the script runs, and not before."""


class Symbols(Protocol):
    """The kernel's symbol table."""

    def resolve(self, address: int) -> tuple[str, int] | None:
        """Return the (symbol, offset) an address lies in, or None."""

    def addresses(self, name: str) -> Sequence[int]:
        """Return every address of the text symbol ``name`` (several where it is ambiguous)."""


class Target(Protocol):
    """What the compiler may ask. Everything is read when first asked for, and kept."""

    @property
    def arch(self) -> Arch:
        """Registers and calling convention."""

    @property
    def release(self) -> str:
        """The kernel release, such as ``6.12.117+deb13-amd64``."""

    @property
    def cpus(self) -> int:
        """The number of possible CPUs."""

    @property
    def features(self) -> frozenset[str]:
        """What the kernel's BPF can do, by the names in ``target.features``."""

    @property
    def pid_namespace(self) -> tuple[int, int] | None:
        """The namespace that numbers processes: its device and inode; None for the initial one.

        The device is as the kernel writes it: the major number times 2**20, plus the minor.
        """

    @property
    def environment(self) -> Mapping[str, str]:
        """What ``$name`` stands for in a script."""

    @property
    def symbols(self) -> Symbols:
        """The kernel's symbols."""

    @property
    def types(self) -> Btf | None:
        """The kernel's types; None where they are not known."""

    def symbol_address(self, name: str) -> int:
        """Return the address of a symbol of code or data, ``name``; raises TargetError."""

    def event_names(self) -> Sequence[str]:
        """Return all tracepoints as ``category/event``, sorted; raises TargetError without any."""

    def event_format(self, name: str) -> EventFormat:
        """Return the format of tracepoint ``category/event``; raises TargetError if unknown."""

    def entries(self) -> frozenset[int]:
        """Return the addresses of the calls that ftrace replaces; none where it does not tell."""

    def functions(self) -> Sequence[str]:
        """Return the names of the functions a kprobe may be put on, sorted, without repeats."""
