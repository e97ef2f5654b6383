"""Declare how bytes are laid out: types -> a Layout, and from it construct and struct decoders.

A Layout is a small table of what lies where, the only place a record's or a map entry's form is
written down. `to_construct` turns it into a construct declaration, for tools, documentation and
tests; `Codec` into one flat `struct` format, for the hot path. Importing construct takes as long as
starting Python, so nothing but `to_construct` does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pybpf.dataclass import dataclass
from pybpf.errors import EventError
from pybpf.script import EventSchema
from pybpf.types import Array, DataLoc, Func, Int, Ptr, Struct, Type, Typedef, Void, is_string


@dataclass(frozen=True, slots=True)
class Scalar:
    """An integer of ``size`` bytes (1, 2, 4 or 8)."""

    size: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Chars:
    """A char array, taken whole."""

    size: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """``count`` elements without gaps."""

    element: Layout
    count: int

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.element.size * self.count


@dataclass(frozen=True, slots=True)
class Member:
    """A named part of a record; ``offset`` in bytes from the record's start."""

    name: str
    offset: int
    layout: Layout


@dataclass(frozen=True, slots=True)
class Record:
    """Members in memory order; what lies between and behind them is padding."""

    members: tuple[Member, ...]
    size: int


Layout = Scalar | Chars | Repeat | Record

Plain = int | bytes | tuple["Plain", ...]
"""A decoded value: int of a Scalar, bytes of Chars, a tuple of the others' parts in order."""

# (size, signed): the letter of struct, the stem of construct's name (``l`` or ``b`` ends it)
_SCALARS = {
    (1, False): ("B", "Int8u"),
    (1, True): ("b", "Int8s"),
    (2, False): ("H", "Int16u"),
    (2, True): ("h", "Int16s"),
    (4, False): ("I", "Int32u"),
    (4, True): ("i", "Int32s"),
    (8, False): ("Q", "Int64u"),
    (8, True): ("q", "Int64s"),
}


def declare(t: Type, path: str = "value") -> Layout:
    """Return the layout of a type; EventError, naming ``path``, if values of it have no bytes."""
    match t:
        case Typedef():
            return declare(t.type, path)
        case Int(size=size, signed=signed):
            return Scalar(size, signed)
        case Ptr():
            return Scalar(8, signed=False)
        case DataLoc():
            return Scalar(4, signed=False)
        case Array() if is_string(t):
            return Chars(t.count)
        case Array():
            return Repeat(declare(t.element, f"{path}[]"), t.count)
        case Struct():
            return declare_struct(t, path)
        case Void() | Func():
            raise EventError(f"{path}: a value of type '{t}' has no bytes")


def declare_struct(t: Struct, path: str) -> Record:
    """Return the layout of a struct; EventError if its fields overlap or leave it."""
    members = tuple(Member(f.name, f.offset, declare(f.type, f"{path}.{f.name}")) for f in t.fields)
    end = 0
    for member in members:
        if member.offset < end:
            raise EventError(f"{path}.{member.name}: overlaps the field before it")
        end = member.offset + member.layout.size
    if end > t.size:
        raise EventError(f"{path}: {end} bytes of fields in {t.size} bytes")
    return Record(members, t.size)


#        0        4
#       +--------+-----+----------+-----+----------+-----
#       |   id   | pad | field 0  | pad | field 1  | ...      id: u32; size: a multiple of 8
#       +--------+-----+----------+-----+----------+-----
def declare_event(schema: EventSchema) -> Record:
    """Return the layout of an event's record: its id, then the payload's fields."""
    path = f"event {schema.id}"
    payload = declare_struct(schema.payload, path)
    if payload.members and payload.members[0].offset < 4:
        raise EventError(f"{path}.{payload.members[0].name}: overlaps the event's id")
    return Record((Member("id", 0, Scalar(4, signed=False)), *payload.members), payload.size)


class Codec:
    """Decodes records of one layout. ``byteorder`` is ``little`` or ``big``.

    The kernel rounds per-CPU values and perf samples up to 8 bytes, so up to 7 bytes may follow.
    """

    __slots__ = ("_layout", "_path", "_unpack", "flat", "format", "size")

    def __init__(self, layout: Record, byteorder: str, path: str) -> None:
        self.format = ("<" if byteorder == "little" else ">") + "".join(_codes(layout))
        self.size = layout.size
        self._layout = layout
        self._path = path
        self._unpack = struct.Struct(self.format).unpack_from
        self.flat = all(isinstance(m.layout, Scalar | Chars) for m in layout.members)

    def decode(self, data: bytes | memoryview) -> tuple[Plain, ...]:
        """Return the members' values in order; EventError if the size of ``data`` is wrong."""
        if not self.size <= len(data) < self.size + 8:
            raise EventError(f"{self._path}: {len(data)} bytes where {self.size} are expected")
        flat = self._unpack(data)
        if self.flat:
            return flat
        values = iter(flat)
        return tuple(_nest(m.layout, values) for m in self._layout.members)


def _codes(layout: Layout) -> Iterator[str]:
    match layout:
        case Scalar(size=size, signed=signed):
            yield _SCALARS[size, signed][0]
        case Chars(size=size):
            yield f"{size}s"
        case Repeat(element=Scalar(size=size, signed=signed), count=count):
            yield f"{count}{_SCALARS[size, signed][0]}"
        case Repeat(element=element, count=count):
            yield "".join(_codes(element)) * count
        case Record(members=members, size=size):
            end = 0
            for member in members:
                yield _padding(member.offset - end)
                yield from _codes(member.layout)
                end = member.offset + member.layout.size
            yield _padding(size - end)


def _padding(count: int) -> str:
    return f"{count}x" if count else ""


def _nest(layout: Layout, values: Iterator[int | bytes]) -> Plain:
    match layout:
        case Scalar() | Chars():
            return next(values)
        case Repeat(element=Scalar(), count=count):
            return tuple(islice(values, count))
        case Repeat(element=element, count=count):
            return tuple(_nest(element, values) for _ in range(count))
        case Record(members=members):
            return tuple(_nest(member.layout, values) for member in members)


def to_construct(layout: Layout, byteorder: str) -> Any:
    """Return the construct declaration of a layout: a Struct of named fields for a Record."""
    import construct

    match layout:
        case Scalar(size=size, signed=signed):
            return getattr(construct, _SCALARS[size, signed][1] + byteorder[0])
        case Chars(size=size):
            return construct.Bytes(size)
        case Repeat(element=element, count=count):
            return construct.Array(count, to_construct(element, byteorder))
        case Record(members=members, size=size):
            parts, end = [], 0
            for member in members:
                parts.append(construct.Padding(member.offset - end))
                parts.append(member.name / to_construct(member.layout, byteorder))
                end = member.offset + member.layout.size
            return construct.Struct(*parts, construct.Padding(size - end))
