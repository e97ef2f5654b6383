"""What a program recorded in an eprobe's place: its values in, the bytes the kernel records out.

So all that reads, prints and writes records of the kernel's does so with these.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.events.eprobes.memory import FAULT
from pybpf.events.eprobes.slots import Slots
from pybpf.events.ftrace.printer import Symbols
from pybpf.isa.insn import ByteOrder
from pybpf.rows import Value
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.layout import FIXED

Marks = Sequence[tuple[int, ...]]
"""For each argument which bits say that it could not be read; an array of strings has several."""


class Payloads:
    """Makes the records of one eprobe, whose ID is ``number``.

    ``symbols`` are for the type symstr; without them an address is shown as a number. ``count`` is
    how many values there are.
    """

    __slots__ = ("_args", "_byteorder", "_fixed", "_marks", "_number", "_symbols", "count")

    def __init__(
        self,
        args: Sequence[Argument],
        marks: Marks,
        number: int,
        byteorder: ByteOrder = "little",
        symbols: Symbols | None = None,
    ) -> None:
        self._args = args
        self._marks = marks
        self._number = number
        self._byteorder: ByteOrder = byteorder
        self._symbols = symbols
        self._fixed = FIXED + sum(arg.size for arg in args)
        self.count = sum((arg.count or 1) if arg.storage.string else 1 for arg in args)

    def make(
        self, pid: int, values: Sequence[Value], faults: Sequence[int]
    ) -> tuple[bytes, frozenset[str]]:
        """Return a record, and the names of the arguments that could not be read.

        ``values`` are those of the arguments, of arrays of strings each by itself, ``faults`` the
        words of bits. A number that could not be read is 0, a string ``(fault)``.
        """
        failed = sum(word << (64 * at) for at, word in enumerate(faults))
        slots = Slots(self._fixed, self._byteorder, self._fixed)
        slots.put(0, self._number.to_bytes(2, self._byteorder))
        slots.put(4, pid.to_bytes(4, self._byteorder))
        names: set[str] = set()
        rest = iter(values)
        for arg, marks in zip(self._args, self._marks, strict=True):
            lost = [bool(failed >> mark & 1) for mark in marks]
            if any(lost):
                names.add(arg.name)
            if arg.storage.string:
                for at in range(arg.count or 1):
                    fault = at < len(lost) and lost[at]
                    place = FIXED + arg.offset + at * arg.storage.size
                    text = self._text(arg, next(rest))
                    slots.put_string(place, FAULT if fault else text)
            else:
                value = next(rest)
                data = bytes(arg.size) if any(lost) else self._number_bytes(arg, value)
                slots.put(FIXED + arg.offset, data)
        slots.finish()
        return bytes(slots.data), frozenset(names)

    def _text(self, arg: Argument, value: Value) -> bytes:
        if arg.storage.name == "symstr":
            assert isinstance(value, int)
            name = None if self._symbols is None else self._symbols(value)
            text = f"0x{value:x}" if name is None else name
            return text.encode("utf-8", "surrogateescape") + b"\0"
        assert isinstance(value, bytes)
        return value.partition(b"\0")[0] + b"\0"

    def _number_bytes(self, arg: Argument, value: Value) -> bytes:
        if isinstance(value, bytes):
            return value
        numbers = value if isinstance(value, tuple) else (value,)
        size, data = arg.storage.size, b""
        for number in numbers:
            assert isinstance(number, int)
            data += (number & ((1 << 8 * size) - 1)).to_bytes(size, self._byteorder)
        return data
