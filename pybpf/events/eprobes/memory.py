"""Memory while a fetch argument is worked out: what is known of it, and what is not.

What depends on memory that nobody gave is `Outcome.UNKNOWN`, never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from pybpf.dataclass import dataclass
from pybpf.events.ftrace.printer import Symbols

Memory = Callable[[int, int], bytes | None]
"""Takes an address and a size, gives the bytes; fewer where the rest cannot be read, None where it
is not known."""


class Outcome(Enum):
    """What came of a fetch that gave no value."""

    UNKNOWN = "unknown"
    FAULT = "fault"
    """The memory cannot be read: a string is ``(fault)``; another slot keeps what was in it."""


UNKNOWN, FAULT = Outcome.UNKNOWN, Outcome.FAULT


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address in the kernel that is not known, of ``data`` that are, None if they are not.

    ``base`` is the address of the first of the data where it is known after all.
    """

    data: bytes | None
    offset: int = 0
    base: int | None = None

    @property
    def address(self) -> int | Outcome:
        """The address as a number."""
        return UNKNOWN if self.base is None else (self.base + self.offset) & ALL


@dataclass(frozen=True, slots=True)
class Known:
    """What is known besides the parent's record.

    ``comm`` is the name of the process that was running, ``record_address`` where the kernel had
    the parent's record. ``address_of`` gives the address of a symbol, ``symbols`` the text of an
    address. ``cpu`` is for filters.
    """

    memory: Memory | None = None
    comm: bytes | None = None
    record_address: int | None = None
    symbols: Symbols | None = None
    address_of: Callable[[str], int | None] | None = None
    cpu: int | None = None


NOTHING = Known()
ALL = (1 << 64) - 1

# With five levels of page tables user space ends here and the kernel begins there; with four, there
# is more that cannot be read in between, but which of them a kernel has is not known.
USER_END = (1 << 56) - 4096
"""Where user space ends, at most."""
_KERNEL_START = ALL + 1 - (1 << 56)
_LONGEST = 4096
"""The kernel copies no more of a string."""


def memory_of(pieces: Mapping[int, bytes]) -> Memory:
    """Return the memory that consists of pieces by address; what is in none is not known."""

    def read(address: int, size: int) -> bytes | None:
        for start, data in pieces.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        return None

    return read


def read(
    base: int | Pointer | Outcome, offset: int, size: int, memory: Memory | None, *, user: bool
) -> bytes | Outcome:
    """Return ``size`` bytes at an offset from an address; with ``user``, as of user space.

    Kernels of x86-64 read addresses of user space as such whether they are asked to or not.
    """
    if isinstance(base, Outcome):
        return base
    if isinstance(base, Pointer):
        if user:
            return FAULT
        at = base.offset + offset
        if base.data is not None and 0 <= at <= at + size <= len(base.data):
            return base.data[at : at + size]
        return UNKNOWN
    address = (base + offset) & ALL
    if address >= USER_END and (user or address < _KERNEL_START):
        return FAULT
    found = None if memory is None else memory(address, size)
    if found is None:
        return UNKNOWN
    return found if len(found) == size else FAULT


def read_string(
    base: int | Pointer | Outcome, offset: int, memory: Memory | None, *, user: bool
) -> bytes | Outcome:
    """Return a string at an offset from an address, its NUL included."""
    found = b""
    while len(found) < _LONGEST:
        byte = read(base, offset + len(found), 1, memory, user=user)
        if isinstance(byte, Outcome):
            return byte
        found += byte
        if byte == b"\0":
            return found
    return UNKNOWN
