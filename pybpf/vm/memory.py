"""The memory a program can reach: regions at made-up addresses; every access is checked.

An address tells its region by its upper half, so that a pointer that leaves its region by less than
2 GiB either way still names the region it came from:

     63        56 55                    32 31                           0
    +------------+------------------------+------------------------------+
    |    0x01    |     region number      |   0x80000000 + offset in it  |
    +------------+------------------------+------------------------------+

Such addresses are not canonical on any 64-bit machine Linux runs on, so the addresses of kernel and
user memory that recorded events carry never fall into a region.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pybpf.errors import PybpfError
from pybpf.isa.insn import ByteOrder
from pybpf.isa.semantics import MASK32, MASK64

_BIAS = 0x8000_0000
_FIRST = 0x0100_0000
_NULL_PAGE = 4096
_AT_MOST = 512 << 20
"""Bytes of all regions together: a program that asks for more shall not get the machine's."""

_STALE = b"\xcc"

Verb = Literal["load", "store"]


def stale(size: int) -> bytearray:
    """Return memory as the kernel hands it out uncleared: not zero, so that nobody relies on it."""
    return bytearray(_STALE * size)


class Trap(PybpfError):
    """What a program must not do; the machine makes it a VmFault that also says where."""


class Region:
    """Bytes from ``address`` on; a freed region has none, and ``gone`` says what became of it.

    A region that is not writable may have a ``guard``, which is given (offset, size, value) of a
    store and does it, or says that it must not be.
    """

    __slots__ = ("address", "data", "gone", "guard", "name", "size", "writable")

    def __init__(self, address: int, data: bytearray, name: str, *, writable: bool) -> None:
        self.address = address
        self.data = data
        self.size = len(data)
        self.name = name
        self.writable = writable
        self.gone = ""
        self.guard: Callable[[int, int, int], bool] | None = None

    @property
    def end(self) -> int:
        """The address of the byte after the last."""
        return self.address + self.size


class AddressSpace:
    """All regions of a machine. Sizes are in bytes, integers unsigned in the given byte order."""

    def __init__(self, byteorder: ByteOrder = "little") -> None:
        self.byteorder: ByteOrder = byteorder
        self._regions: dict[int, Region] = {}
        self._next = _FIRST
        self._retired: list[Region] = []
        self.total = 0
        """Bytes of all regions, and of what maps keep beside them."""

    def add(self, data: bytearray, name: str, *, writable: bool = True) -> Region:
        """Make ``data`` itself, not a copy of it, accessible at an address never used before.

        Raises Trap where all regions would have more than 512 MiB.
        """
        self.take(len(data), name)
        region = Region((self._next << 32) | _BIAS, data, name, writable=writable)
        self._regions[self._next] = region
        self._next += 1
        return region

    def take(self, size: int, name: str) -> None:
        """Count bytes that something takes, or with a minus gives back; raises Trap as ``add``."""
        if self.total + size > _AT_MOST:
            raise Trap(f"{name} of {size} bytes: a machine has {_AT_MOST >> 20} MiB in all")
        self.total += size

    def add_low(self, data: bytearray, name: str) -> Region:
        """Make ``data`` accessible below 4 GiB, in place of what was so before."""
        region = self._regions[0] = Region(_BIAS, data, name, writable=True)
        return region

    def free(self, region: Region, gone: str) -> None:
        """End a region's life now: any access faults and says what happened (``gone``)."""
        region.gone = gone
        region.size = 0
        self._retired.append(region)

    def retire(self, region: Region) -> None:
        """End a region's life when the running program ends, as RCU does for map values."""
        self._retired.append(region)

    def settle(self) -> None:
        """Forget the regions that were freed or retired; call it between runs."""
        for region in self._retired:
            if self._regions.pop(region.address >> 32, None) is region:
                self.total -= len(region.data)
        self._retired.clear()

    def find(self, address: int) -> Region | None:
        """Return the region that ``address`` belongs to, even where it lies outside its bounds."""
        return self._regions.get(address >> 32)

    def load(self, address: int, size: int) -> int:
        """Return the integer at ``address``; raises Trap."""
        data, start = self._locate("load", address, size)
        return int.from_bytes(data[start : start + size], self.byteorder)

    def store(self, address: int, size: int, value: int) -> None:
        """Write the low bytes of ``value`` at ``address``; raises Trap."""
        low = value & ((1 << (size * 8)) - 1)
        region = self._regions.get(address >> 32)
        if region is not None and region.guard is not None:
            start = (address & MASK32) - _BIAS
            if 0 <= start <= region.size - size and region.guard(start, size, low):
                return
        data, start = self._locate("store", address, size)
        data[start : start + size] = low.to_bytes(size, self.byteorder)

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes from ``address`` on; raises Trap. No bytes are at any address."""
        if size == 0:
            return b""
        data, start = self._locate("load", address, size)
        return bytes(data[start : start + size])

    def write(self, address: int, data: bytes) -> None:
        """Write ``data`` from ``address`` on; raises Trap."""
        if data:
            target, start = self._locate("store", address, len(data))
            target[start : start + len(data)] = data

    def clear(self, address: int, size: int) -> None:
        """Write ``size`` zeros from ``address`` on; raises Trap, before it makes any."""
        if size:
            target, start = self._locate("store", address, size)
            target[start : start + size] = bytes(size)

    def loader(self, size: int) -> Callable[[int], int]:
        """Return a ``load`` of one size, which takes addresses that wrap around."""
        regions, order, refused = self._regions, self.byteorder, self.load
        from_bytes = int.from_bytes

        def load(address: int) -> int:
            region = regions.get(address >> 32)
            if region is not None:
                start = (address & MASK32) - _BIAS
                if 0 <= start <= region.size - size:
                    return from_bytes(region.data[start : start + size], order)
            return refused(address & MASK64, size)

        return load

    def storer(self, size: int) -> Callable[[int, int], None]:
        """Return a ``store`` of one size, for values that fit."""
        regions, order, refused = self._regions, self.byteorder, self.store

        def store(address: int, value: int) -> None:
            region = regions.get(address >> 32)
            if region is not None and region.writable:
                start = (address & MASK32) - _BIAS
                if 0 <= start <= region.size - size:
                    region.data[start : start + size] = value.to_bytes(size, order)
                    return
            refused(address & MASK64, size, value)

        return store

    def _locate(self, verb: Verb, address: int, size: int) -> tuple[bytearray, int]:
        """Return the bytes of the region and the index in them where the access begins."""
        region = self._regions.get(address >> 32)
        if region is not None and (region.writable or verb == "load"):
            start = (address & MASK32) - _BIAS
            if 0 <= start <= region.size - size:
                return region.data, start
        raise self._refuse(verb, address, size)

    def _refuse(self, verb: Verb, address: int, size: int) -> Trap:
        """Say why an access is wrong."""
        count = "1 byte" if size == 1 else f"{size} bytes"
        region = self.find(address)
        if region is None or address < _NULL_PAGE:
            why = "null pointer" if address < _NULL_PAGE else "no memory of the program is there"
            return Trap(f"cannot {verb} {count} at {address:#x}: {why}")
        offset = (address & MASK32) - _BIAS
        if region.gone:
            why = region.gone
        elif 0 <= offset <= region.size - size:
            why = "it is read-only"
        else:
            why = f"outside its {region.size} bytes"
        return Trap(f"cannot {verb} {count} at offset {offset} of {region.name}: {why}")
