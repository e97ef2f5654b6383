"""A type of BTF in; a Codec out: the bytes of a C value to a Python value, and back.

    integer, pointer     int; of ``bool`` bool
    float, double        float
    enum                 the enumerator's name, or an int that has none
    char[N]              str, up to its NUL; bytes that are no UTF-8 are kept as surrogates
    unsigned char[N]     bytes, as of all other integers of one byte
    T[N]                 tuple
    struct, union        Struct; members of nameless structures are its own

A codec takes all these back, any sequence for a tuple and any mapping for a Struct, where members
that are missing become 0; for arrays, structures and unions also the bytes themselves. A hostile
type is refused when its codec is made: what a codec does takes about as long as its bytes are many.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, Union

from pybpf.btf.reader import Btf, Kind
from pybpf.dataclass import dataclass
from pybpf.errors import TargetError, ValueMismatch
from pybpf.suggest import did_you_mean

Value: TypeAlias = Union[int, float, str, bytes, tuple["Value", ...], "Struct"]

_DEEPEST = 32
_PARTS_AT_MOST = 1 << 20
_SIZE_AT_MOST = 1 << 30
_INTEGERS = frozenset({1, 2, 4, 8, 16})
_REALS = {4: "f", 8: "d"}
_WHOLE = {1: "b", 2: "h", 4: "i", 8: "q"}


class Struct(Mapping[str, Value]):
    """The members of a structure or union by name, as items and as attributes; it may be a key."""

    __slots__ = ("_members",)

    def __init__(self, members: Mapping[str, Value]) -> None:
        self._members = MappingProxyType(dict(members))

    def __getitem__(self, name: str) -> Value:
        return self._members[name]

    def __getattr__(self, name: str) -> Value:
        if name == "_members" or name not in self._members:
            known = () if name == "_members" else self._members
            raise AttributeError(f"no member {name}{did_you_mean(name, known)}")
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return hash(tuple(self._members.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self._members) == dict(other)

    def __repr__(self) -> str:
        return f"Struct({', '.join(f'{name}={value!r}' for name, value in self.items())})"


@dataclass(frozen=True, slots=True)
class _Whole:
    """An integer, or a pointer, of whole bytes."""

    size: int
    signed: bool = False
    boolean: bool = False


@dataclass(frozen=True, slots=True)
class _Real:
    size: int


@dataclass(frozen=True, slots=True)
class _Enum:
    size: int
    signed: bool
    names: Mapping[int, str]
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Text:
    size: int


@dataclass(frozen=True, slots=True)
class _Blob:
    """Bytes that have no other form: small integers, and floats of odd sizes."""

    size: int


@dataclass(frozen=True, slots=True)
class _Array:
    size: int
    element: _Layout
    count: int


@dataclass(frozen=True, slots=True)
class _Field:
    """A member: its place in bits, and how many it has where it is a bit field (else 0)."""

    name: str
    offset: int
    bits: int
    layout: _Layout


@dataclass(frozen=True, slots=True)
class _Record:
    size: int
    fields: Mapping[str, _Field]


_Layout: TypeAlias = _Whole | _Real | _Enum | _Text | _Blob | _Array | _Record


class Codec:
    """Values of one type, which has ``size`` bytes."""

    def __init__(self, btf: Btf, number: int) -> None:
        """Prepare for the type ``number``; raises TargetError for one that has no values."""
        self._order = btf.byteorder
        self._mark = "<" if self._order == "little" else ">"
        self._layout = _Builder(btf).layout(number)
        self.size = self._layout.size

    def decode(self, data: bytes) -> Value:
        """Return the value that ``size`` bytes hold; raises ValueMismatch for more or fewer."""
        if len(data) != self.size:
            raise ValueMismatch("", f"{len(data)} bytes, but the type has {self.size}")
        return self._decode(self._layout, data)

    def encode(self, value: object) -> bytes:
        """Return the bytes of a value; raises ValueMismatch for what the type cannot hold."""
        return self._encode(self._layout, value, "")

    def _decode(self, layout: _Layout, data: bytes) -> Value:
        match layout:
            case _Whole(signed=signed, boolean=boolean):
                number = int.from_bytes(data, self._order, signed=signed)
                return bool(number) if boolean and number < 2 else number
            case _Real(size):
                (real,) = struct.unpack(self._mark + _REALS[size], data)
                return float(real)
            case _Enum(signed=signed, names=names):
                number = int.from_bytes(data, self._order, signed=signed)
                return names.get(number, number)
            case _Text():
                return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            case _Blob():
                return data
            case _Array(_, _Whole(size, signed, False), count) if size in _WHOLE:
                letter = _WHOLE[size] if signed else _WHOLE[size].upper()
                return struct.unpack(f"{self._mark}{count}{letter}", data)
            case _Array(_, element, count):
                size = element.size
                return tuple(
                    self._decode(element, data[at : at + size])
                    for at in range(0, size * count, size or 1)
                )
            case _Record(fields=fields):
                return Struct({name: self._field(f, data) for name, f in fields.items()})

    def _field(self, field: _Field, data: bytes) -> Value:
        if not field.bits:
            start = field.offset // 8
            return self._decode(field.layout, data[start : start + field.layout.size])
        first, last, shift = self._bits(field)
        number = int.from_bytes(data[first:last], self._order) >> shift & (1 << field.bits) - 1
        match field.layout:
            case _Whole(signed=signed) | _Enum(signed=signed) if signed:
                number -= (number >> field.bits - 1) << field.bits
            case _:
                pass
        match field.layout:
            case _Enum(names=names):
                return names.get(number, number)
            case _Whole(boolean=True):
                return bool(number)
            case _:
                return number

    def _bits(self, field: _Field) -> tuple[int, int, int]:
        """Return which bytes a bit field is in, and how far from their lowest bit it begins."""
        first, last = field.offset // 8, (field.offset + field.bits + 7) // 8
        begin = field.offset - first * 8
        if self._order == "little":
            return first, last, begin
        return first, last, (last - first) * 8 - begin - field.bits

    def _encode(self, layout: _Layout, value: object, path: str) -> bytes:
        match layout, value:
            case _Whole(size, signed), int():
                return self._integer(value, size * 8, path, signed=signed)
            case _Enum(size, signed), int() | str():
                number = _enumerator(layout, value, path)
                return self._integer(number, size * 8, path, signed=signed)
            case _Real(size), int() | float():
                try:
                    return struct.pack(self._mark + _REALS[size], value)
                except (OverflowError, struct.error):
                    raise ValueMismatch(path, f"{value} is too large") from None
            case _Text(size), str():
                return _filled(value.encode("utf-8", "surrogateescape"), size, path)
            case _Text(size) | _Blob(size), bytes() | bytearray() | memoryview():
                return _filled(bytes(value), size, path)
            case ((_Array() | _Record()), bytes() | bytearray() | memoryview()):
                if len(value) != layout.size:
                    raise ValueMismatch(path, f"{len(value)} bytes instead of {layout.size}")
                return bytes(value)
            case _Array(_, element, count), Sequence() if not isinstance(value, str):
                if len(value) != count:
                    raise ValueMismatch(path, f"{len(value)} elements instead of {count}")
                return b"".join(
                    self._encode(element, part, f"{path}[{i}]") for i, part in enumerate(value)
                )
            case _Blob(size), Sequence() if not isinstance(value, str):
                return self._small(value, size, path)
            case _Record(), Mapping():
                return self._record(layout, value, path)
            case _:
                raise ValueMismatch(path, f"{value!r} is no {_described(layout)}")

    def _small(self, value: Sequence[object], size: int, path: str) -> bytes:
        """Return integers of one byte each."""
        if len(value) != size:
            raise ValueMismatch(path, f"{len(value)} elements instead of {size}")
        numbers = [part for part in value if isinstance(part, int) and -128 <= part < 256]
        if len(numbers) != size:
            raise ValueMismatch(path, f"{value!r} are no integers of 8 bits")
        return bytes(number & 0xFF for number in numbers)

    def _integer(self, value: int, bits: int, path: str, *, signed: bool) -> bytes:
        _check_range(value, bits, path, signed=signed)
        return int(value).to_bytes(bits // 8, self._order, signed=signed)

    def _record(self, layout: _Record, value: Mapping[object, object], path: str) -> bytes:
        data = bytearray(layout.size)
        for name, part in value.items():
            field = layout.fields.get(name) if isinstance(name, str) else None
            if field is None:
                similar = did_you_mean(str(name), layout.fields)
                raise ValueMismatch(path, f"there is no member {name}{similar}")
            inner = f"{path}.{name}"
            if field.bits:
                self._put_bits(data, field, part, inner)
            else:
                start = field.offset // 8
                data[start : start + field.layout.size] = self._encode(field.layout, part, inner)
        return bytes(data)

    def _put_bits(self, data: bytearray, field: _Field, value: object, path: str) -> None:
        if isinstance(field.layout, _Enum):
            value = _enumerator(field.layout, value, path)
        if not isinstance(value, int):
            raise ValueMismatch(path, f"{value!r} is no {_described(field.layout)}")
        signed = isinstance(field.layout, _Whole | _Enum) and field.layout.signed
        _check_range(value, field.bits, path, signed=signed)
        first, last, shift = self._bits(field)
        mask = (1 << field.bits) - 1
        word = int.from_bytes(data[first:last], self._order) & ~(mask << shift)
        word |= (value & mask) << shift
        data[first:last] = word.to_bytes(last - first, self._order)


def _check_range(value: int, bits: int, path: str, *, signed: bool) -> None:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ValueMismatch(path, f"{value} is not from {low} to {high}")


def _enumerator(layout: _Enum, value: object, path: str) -> int:
    if isinstance(value, int):
        return value
    if not isinstance(value, str) or value not in layout.values:
        similar = did_you_mean(str(value), layout.values)
        raise ValueMismatch(path, f"there is no enumerator {value}{similar}")
    return layout.values[value]


def _filled(data: bytes, size: int, path: str) -> bytes:
    if len(data) > size:
        raise ValueMismatch(path, f"{len(data)} bytes, but there is room for {size}")
    return data.ljust(size, b"\0")


def _described(layout: _Layout) -> str:
    match layout:
        case _Whole(boolean=True):
            return "bool"
        case _Whole(size, signed):
            return f"{'signed' if signed else 'unsigned'} integer of {size * 8} bits"
        case _Real():
            return "float"
        case _Enum():
            return "enumerator or integer"
        case _Text(size):
            return f"string of {size} bytes"
        case _Blob(size):
            return f"{size} bytes"
        case _Array(count=count):
            return f"array of {count} elements"
        case _Record():
            return "structure"


class _Builder:
    """Makes layouts of types; each type's is made once, and all parts together are counted."""

    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self._known: dict[int, tuple[_Layout, int]] = {}
        self._room = _PARTS_AT_MOST

    def layout(self, number: int) -> _Layout:
        layout, _ = self._layout(number, 0)
        if layout.size > _SIZE_AT_MOST:
            raise TargetError(f"a value of {layout.size} bytes is too large")
        return layout

    def _layout(self, number: int, depth: int) -> tuple[_Layout, int]:
        """Return the layout of a type, and of how many parts a value of it consists."""
        number = self._btf.skip(number)
        found = self._known.get(number)
        if found is None:
            if depth > _DEEPEST:
                raise TargetError(f"types are nested more than {_DEEPEST} deep")
            found = self._known[number] = self._made(number, depth + 1)
        if found[1] > _PARTS_AT_MOST:
            raise TargetError(f"a value of {self._named(number)} has too many parts")
        return found

    def _named(self, number: int) -> str:
        name = self._btf.name(number)
        return f"{self._btf.kind(number).name.lower()} {name or '(nameless)'}"

    def _made(self, number: int, depth: int) -> tuple[_Layout, int]:
        btf = self._btf
        size = btf.size(number)
        if size is None:
            raise TargetError(f"{self._named(number)} has no size, and so no values")
        match btf.kind(number):
            case Kind.INT | Kind.ENUM | Kind.ENUM64 if size not in _INTEGERS:
                raise TargetError(f"{self._named(number)} has {size} bytes, as no integer has")
            case Kind.INT:
                return self._integer(number, size), 1
            case Kind.PTR:
                return _Whole(size), 1
            case Kind.FLOAT:
                return _Real(size) if size in _REALS else _Blob(size), 1
            case Kind.ENUM | Kind.ENUM64:
                return self._enum(number, size), 1
            case Kind.ARRAY:
                return self._array(number, depth)
            case _:  # a structure or union
                return self._record(number, size, depth)

    def _integer(self, number: int, size: int) -> _Layout:
        integer = self._btf.integer(number)
        signed = integer is not None and integer.signed
        return _Whole(size, signed, self._btf.name(number) in {"_Bool", "bool"})

    def _enum(self, number: int, size: int) -> _Layout:
        rows = self._btf.enumerators(number)
        names: dict[int, str] = {}
        for name, value in rows:
            names.setdefault(value, name)
        return _Enum(size, any(value < 0 for value in names), names, dict(rows))

    def _array(self, number: int, depth: int) -> tuple[_Layout, int]:
        inner, count = self._btf.array(number) or (0, 0)
        element, parts = self._layout(inner, depth)
        if not element.size:
            count = 0
        if isinstance(element, _Whole) and element.size == 1 and not element.boolean:
            is_text = self._btf.name(self._btf.skip(inner)) == "char"
            return (_Text(count) if is_text else _Blob(count)), 1
        plain = isinstance(element, _Whole)
        return _Array(element.size * count, element, count), 1 if plain else 1 + parts * count

    def _record(self, number: int, size: int, depth: int) -> tuple[_Layout, int]:
        fields: dict[str, _Field] = {}
        parts = 1
        for field, many in self._fields(number, 0, depth):
            parts += many
            end = field.offset + (field.bits or field.layout.size * 8)
            if end > size * 8:
                raise TargetError(f"{field.name} lies behind the end of {self._named(number)}")
            fields.setdefault(field.name, field)
            if parts > _PARTS_AT_MOST:
                break
        return _Record(size, fields), parts

    def _fields(self, number: int, base: int, depth: int) -> Iterator[tuple[_Field, int]]:
        """Yield the members of a structure, those of nameless ones within it included."""
        if depth > _DEEPEST:
            raise TargetError(f"types are nested more than {_DEEPEST} deep")
        for name, member in self._btf.fields(number):
            self._room -= 1
            if self._room < 0:
                raise TargetError(f"{self._named(number)} has too many parts")
            inner = self._btf.skip(member.type)
            offset, bits = base + member.bit_offset, member.bit_size
            if not name:
                if self._btf.is_aggregate(inner):
                    yield from self._fields(inner, offset, depth + 1)
                continue
            layout, parts = self._layout(inner, depth)
            integer = self._btf.integer(inner)
            if integer is not None and not bits:
                offset += integer.offset
                bits = integer.bits % (layout.size * 8) if integer.bits < layout.size * 8 else 0
            yield _Field(name, offset, bits, layout), parts
