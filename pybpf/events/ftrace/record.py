"""A payload by its format file: bytes in, a typed record out.

Integers are ``int`` of the field's sign, pointers and ``bool`` too; char arrays and dynamic strings
are ``str`` up to their NUL (UTF-8, other bytes as surrogate escapes: ``os.fsencode`` gives them
back); other arrays, dynamic ones included, are tuples; structs, and what has no C integer type,
``bytes``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pybpf.errors import EventError
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.format import EventField, EventFormat
from pybpf.types import Array, DataLoc, Int, Ptr, Type, size_of, strip

Value = int | str | bytes | tuple["Value", ...]
Convert = Callable[[bytes], Value]
"""Makes a value of the bytes of an array."""
Locate = Callable[[Any, bytes, int, int], Value]
"""Makes a value of a location, given the bytes and where the record starts and ends in them."""

_LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class _One(NamedTuple):
    value: int


# What named tuples have for attributes: unlike ``itemgetter`` it does not ask our ``__getitem__``.
_item: Any = type(_One.value)


class TraceRecord(tuple[Any, ...]):
    """A record: ``timestamp`` in ns, ``cpu``, and a value of each field of its event's format.

    Every event has a class of its own, whose fields are attributes. ``record["name"]`` is a field
    too, also where its name is that of something else here, such as ``cpu``.
    """

    __slots__ = ()
    event: ClassVar[str] = ""
    """``group/event``, or the event's name alone where its format was read without its group."""
    id: ClassVar[int] = -1
    places: ClassVar[Mapping[str, int]] = {}
    """At which index each field is."""

    timestamp: int = _item(0, "When it was recorded, in ns of the trace clock.")
    cpu: int = _item(1, "On which CPU.")

    def __getitem__(self, key: Any) -> Any:
        """Return the field of a name, or the item at an index."""
        if isinstance(key, str):
            return tuple.__getitem__(self, self.places[key])
        return tuple.__getitem__(self, key)

    def fields(self) -> dict[str, Value]:
        """Return the values by name, those that all events have included."""
        return dict(zip(self.places, self[2:], strict=True))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.fields().items())
        return f"<{self.event} at {self.timestamp} on CPU {self.cpu}: {values}>"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class Decoder:
    """Decodes the payloads of one event. ``record`` is the class of what it makes.

    Raises EventError for a format whose fields overlap.
    """

    __slots__ = ("_convert", "_locate", "_unpack", "format", "record", "size")

    def __init__(self, format_: EventFormat, byteorder: ByteOrder = "little") -> None:
        self.format = format_
        fields = sorted(format_.fields, key=lambda f: f.offset)
        self._convert: list[tuple[int, Convert]] = []
        self._locate: list[tuple[int, Locate]] = []
        code, end = _order(byteorder), 0
        for index, field in enumerate(fields, start=2):
            if field.offset < end:
                raise EventError(f"{format_.name}.{field.name}: overlaps the field before it")
            code += "x" * (field.offset - end) + _letters(field.type)
            end = field.offset + size_of(field.type)
            if (locate := _locating(field, byteorder)) is not None:
                self._locate.append((index, locate))
            elif (convert := _converting(field.type, byteorder)) is not None:
                self._convert.append((index, convert))
        self.size = end
        self._unpack = struct.Struct(code).unpack_from
        self.record = _record_class(format_, fields)

    def __call__(self, timestamp: int, cpu: int, data: bytes, start: int, end: int) -> TraceRecord:
        """Return the record whose payload is ``data[start:end]``.

        Raises EventError where the payload is shorter than its fields, or does not hold what they
        point to.
        """
        if end - start < self.size:
            raise EventError(
                f"{self.format.name}: {end - start} bytes where {self.size} are expected"
            )
        values = (timestamp, cpu, *self._unpack(data, start))
        if not self._convert and not self._locate:
            return tuple.__new__(self.record, values)
        changed: list[Any] = list(values)
        for index, convert in self._convert:
            changed[index] = convert(changed[index])
        for index, locate in self._locate:
            try:
                changed[index] = locate(changed[index], data, start, end)
            except EventError as error:
                name = list(self.record.places)[index - 2]
                raise EventError(f"{self.format.name}.{name}: {error}") from None
        return tuple.__new__(self.record, changed)


def _record_class(format_: EventFormat, fields: list[EventField]) -> type[TraceRecord]:
    places = {field.name: index for index, field in enumerate(fields, start=2)}
    taken = {"event", "id", "places", "fields", "timestamp", "cpu"}
    members: dict[str, Any] = {
        name: _item(index, f"The field {name}.")
        for name, index in places.items()
        if name not in taken and name.isascii() and not name.startswith("__")
    }
    members |= {"__slots__": (), "event": format_.name, "id": format_.id, "places": places}
    # Names of probes may have any bytes in them, those of classes may not.
    title = format_.name.rpartition("/")[2].encode("ascii", "backslashreplace").decode()
    return type(title, (TraceRecord,), members)


def _letters(t: Type) -> str:
    """Return the letters of struct that take one value from a field's bytes."""
    bare = strip(t)
    return f"{size_of(t)}s" if isinstance(bare, Array) else letter_of(bare)


def letter_of(t: Type) -> str:
    """Return the letter of struct for an integer, a pointer or a location; others are bytes."""
    match strip(t):
        case Int(size=size, signed=signed):
            return _LETTERS[size].lower() if signed else _LETTERS[size]
        case Ptr():
            return "Q"
        case DataLoc():
            return "I"
        case _:
            return f"{size_of(t)}s"


def _converting(t: Type, byteorder: ByteOrder) -> Convert | None:
    """Return what makes a value of an array's bytes; None for what is one as it is."""
    match t:
        case Array() if is_char(t.element):
            return text
        case Array():
            return _split(t, byteorder)
        case _:
            return None


def _split(t: Array, byteorder: ByteOrder) -> Convert:
    """Return what makes nested tuples of the bytes of an array."""
    element = strip(t.element)
    if isinstance(element, Array):
        inner, size = _split(element, byteorder), size_of(element)
        return lambda value: tuple(
            inner(value[at * size : (at + 1) * size]) for at in range(t.count)
        )
    return struct.Struct(f"{_order(byteorder)}{t.count}{letter_of(element)}").unpack


def _order(byteorder: ByteOrder) -> str:
    return "<" if byteorder == "little" else ">"


def is_char(t: Type) -> bool:
    """Whether arrays of the type are text."""
    t = strip(t)
    return isinstance(t, Int) and t.size == 1 and t.name == "char"


def text(data: bytes) -> str:
    """Return what is before the first NUL."""
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


#      31              16 15               0
#     +------------------+------------------+
#     |      length      |      offset      |     from the record's start, or (__rel_loc) from the
#     +------------------+------------------+     end of this word
def located(word: int, place: int, size: int, *, relative: bool) -> tuple[int, int]:
    """Return from where to where in a record of ``size`` bytes the data of a word are.

    ``place`` is where in the record the word is. Raises EventError where they leave the record.
    """
    length, offset = word >> 16, word & 0xFFFF
    if relative:
        offset += place + 4
    if offset + length > size:
        raise EventError(f"{length} bytes at {offset}, in a record of {size}")
    return offset, offset + length


def _locating(field: EventField, byteorder: ByteOrder) -> Locate | None:
    match field.type:
        case DataLoc() as word:
            return _dynamic(word, field.offset, byteorder)
        case Array(element=DataLoc() as word, count=count):
            return _dynamic_array(word, field.offset, count, byteorder)
        case _:
            return None


def _dynamic(t: DataLoc, place: int, byteorder: ByteOrder) -> Locate:
    element = strip(t.element)
    textual, relative = is_char(element), t.relative
    size = size_of(element) or 1
    code, order = letter_of(element), _order(byteorder)

    def locate(word: int, data: bytes, start: int, end: int) -> Value:
        first, last = located(word, place, end - start, relative=relative)
        if textual:
            return text(data[start + first : start + last])
        count = (last - first) // size
        return struct.unpack_from(f"{order}{count}{code}", data, start + first)

    return locate


def _dynamic_array(t: DataLoc, place: int, count: int, byteorder: ByteOrder) -> Locate:
    each = [_dynamic(t, place + 4 * at, byteorder) for at in range(count)]
    words = struct.Struct(f"{_order(byteorder)}{count}I")

    def locate(value: bytes, data: bytes, start: int, end: int) -> Value:
        pairs = zip(each, words.unpack(value), strict=True)
        return tuple(one(word, data, start, end) for one, word in pairs)

    return locate
