"""The record an eprobe writes, slot by slot, and which of its bytes are known."""

from __future__ import annotations

from pybpf.events.eprobes.memory import FAULT, UNKNOWN, Outcome
from pybpf.events.ftrace.printer import Symbols
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.layout import FIXED

SlotValue = int | str | Outcome | tuple["SlotValue", ...]
_UNKNOWN_TEXT = "?"


class Slots:
    """The bytes of a record: a fixed part of ``fixed`` bytes, then the strings.

    From ``certain`` on, if that is less, the places in the fixed part are not known. ``size`` is
    what the ring buffer makes of the record; None once a string of unknown length was stored, since
    which no place behind it is known.
    """

    __slots__ = (
        "_byteorder",
        "_certain",
        "_end",
        "_faults",
        "_numbers",
        "_strings",
        "data",
        "mask",
        "size",
    )

    def __init__(self, fixed: int, byteorder: ByteOrder, certain: int) -> None:
        self.data = bytearray(min(fixed, certain))
        self.mask = bytearray(min(fixed, certain))
        self.size: int | None = None
        self._byteorder: ByteOrder = byteorder
        self._certain = certain
        self._end = fixed if certain >= fixed else None
        # What was stored, by its place in the fixed part.
        self._numbers: dict[int, bytes] = {}
        self._strings: dict[int, bytes] = {}
        self._faults: set[int] = set()

    def put(self, place: int, data: bytes) -> None:
        """Store bytes in the fixed part."""
        self._numbers[place] = data
        if place + len(data) <= self._certain:
            self.data[place : place + len(data)] = data
            self.mask[place : place + len(data)] = b"\1" * len(data)

    #      31              16 15               0
    #     +------------------+------------------+
    #     |  length with NUL |      offset      |
    #     +------------------+------------------+
    def put_string(self, place: int, data: bytes | Outcome) -> None:
        """Store a string behind the others, and at ``place`` in the fixed part where it is."""
        if data is UNKNOWN:
            self._end = None
            return
        found = b"" if isinstance(data, Outcome) else data
        if isinstance(data, Outcome):
            self._faults.add(place)
        else:
            self._strings[place] = data
        if self._end is None:
            return
        self.put(place, (len(found) << 16 | self._end).to_bytes(4, self._byteorder))
        self.data += found
        self.mask += b"\1" * len(found)
        self._end += len(found)

    def unknown(self, arg: Argument) -> None:
        """Leave an argument's slots unknown."""
        if arg.storage.string:
            self._end = None

    def finish(self) -> None:
        """Pad the record as the ring buffer does."""
        if self._end is None:
            return
        size = -(-self._end // 4) * 4
        # A record of 8 bytes would be too small to be discarded once it is reserved.
        self.size = 12 if size == 8 else size
        padding = self.size - self._end
        self.data += bytes(padding)
        self.mask += bytes(padding)

    def value(self, arg: Argument) -> SlotValue:
        """Return an argument's value."""
        found = tuple(self._one(arg, at) for at in range(arg.count or 1))
        return found if arg.count else found[0]

    def _place(self, arg: Argument, at: int) -> int:
        return FIXED + arg.offset + at * arg.storage.size

    def _one(self, arg: Argument, at: int) -> int | str | Outcome:
        place = self._place(arg, at)
        if arg.storage.string:
            if place in self._faults:
                return FAULT
            found = self._string(place)
            return UNKNOWN if found is None else found.decode("utf-8", "surrogateescape")
        data = self._numbers.get(place)
        if data is None:
            return UNKNOWN
        return int.from_bytes(data, self._byteorder, signed=arg.storage.signed)

    def _string(self, place: int) -> bytes | None:
        """Return a string as it reads, which is up to the next NUL."""
        own = self._strings.get(place)
        if own is None or own.endswith(b"\0"):
            return None if own is None else own[:-1]
        if not all(self.mask[place : place + 4]):
            return None
        start = int.from_bytes(self.data[place : place + 4], self._byteorder) & 0xFFFF
        end = self.data.find(0, start)
        return bytes(self.data[start:end]) if end >= 0 and all(self.mask[start : end + 1]) else None

    def text(self, arg: Argument, symbols: Symbols | None) -> str:
        """Return an argument's value as the kernel prints it."""
        shown = [
            _shown(self._one(arg, at), arg.storage.name, symbols) for at in range(arg.count or 1)
        ]
        return "{" + ",".join(shown) + "}" if arg.count else shown[0]


def _shown(value: int | str | Outcome, kind: str, symbols: Symbols | None) -> str:
    if value is FAULT:
        return "(fault)"
    if isinstance(value, Outcome):
        return _UNKNOWN_TEXT
    if isinstance(value, str):
        return f'"{value}"'
    match kind[0], kind:
        case "x", _:
            return f"0x{value:x}"
        case _, "char":
            return f"'{bytes([value]).decode('utf-8', 'surrogateescape')}'"
        case _, "symbol":
            if symbols is None:
                return _UNKNOWN_TEXT
            return symbols(value) or f"0x{value:x}"
        case _:
            return str(value)
