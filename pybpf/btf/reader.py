"""The kernel's BTF: the bytes of /sys/kernel/btf/vmlinux in; structures, members, functions out.

Types go by their numbers, as in the blob; 0 is ``void``. What is not asked for is not decoded: a
kernel has some 130,000 types, of which a probe needs a handful. Source: Documentation/bpf/btf.rst.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property

from pybpf.dataclass import dataclass
from pybpf.errors import TargetError


class Kind(IntEnum):
    """What a type is."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


class Linkage(IntEnum):
    """Where a variable or a function is known."""

    STATIC = 0
    GLOBAL = 1
    EXTERN = 2


MODIFIERS = frozenset({Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG})

# Bytes that follow the 12 of every type: so many for the type, so many for each of its vlen parts.
_TAILS: Mapping[int, tuple[int, int]] = {
    Kind.INT: (4, 0),
    Kind.ARRAY: (12, 0),
    Kind.STRUCT: (0, 12),
    Kind.UNION: (0, 12),
    Kind.ENUM: (0, 8),
    Kind.FUNC_PROTO: (0, 8),
    Kind.VAR: (4, 0),
    Kind.DATASEC: (0, 12),
    Kind.DECL_TAG: (4, 0),
    Kind.ENUM64: (0, 12),
}
_KINDS = {kind.value: kind for kind in Kind}
_SIZED = frozenset({Kind.INT, Kind.ENUM, Kind.ENUM64, Kind.STRUCT, Kind.UNION, Kind.FLOAT})
_LINKAGES = frozenset(Linkage)
_DEEPEST = 32
"""The most typedefs and qualifiers before a type, as in the kernel."""
_LONGEST = 4096
_NAMED = frozenset({Kind.STRUCT, Kind.FUNC, Kind.FWD, Kind.DATASEC})


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a structure: its type, and its place in bits from the structure's start.

    ``bit_size`` is 0 for what is no bit field.
    """

    type: int
    bit_offset: int
    bit_size: int


@dataclass(frozen=True, slots=True)
class Proto:
    """A function's type: what it returns, and its parameters, each a name and a type."""

    returns: int
    params: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Integer:
    """How an integer is stored, all in bits."""

    signed: bool
    bits: int
    offset: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of an object: its type, its linkage, and where it lies in its section, in bytes.

    The place and the size are those that the compiler left: a loader works them out for sections
    whose variables the linker places.
    """

    name: str
    type: int
    linkage: Linkage
    offset: int
    size: int


class Btf:
    """The types of one kernel, or of one object. Raises TargetError for bytes that are no BTF.

    ``complete`` is False for a part of them, where a forward declaration says no more than that
    there is such a structure, and a function that is not there may be in the kernel.
    """

    def __init__(self, data: bytes, *, complete: bool = True) -> None:
        self._data = data
        self.complete = complete
        self._values: dict[int, int | None] | None = None
        try:
            self._read_header()
            self._read_index()
        except struct.error as error:
            raise TargetError(f"no BTF: {error}") from None

    def _read_header(self) -> None:
        magic = self._data[:2]
        if magic not in {b"\x9f\xeb", b"\xeb\x9f"}:
            raise TargetError("no BTF: its first two bytes are not 0xeb9f")
        self._order = "<" if magic == b"\x9f\xeb" else ">"
        _, _, _, size, type_at, type_size, text_at, text_size = self._unpack("HBBIIIII", 0)
        self._types = size + type_at
        self._types_end = self._types + type_size
        self._texts, self._texts_size = size + text_at, text_size
        end = self._texts + text_size
        if max(self._types_end, end) > len(self._data) or self._data[end - 1 : end] != b"\0":
            raise TargetError("no BTF: it ends before its types or names do")

    def _read_index(self) -> None:
        self._places = [0]
        self._by_name: dict[tuple[int, int], int] = {}
        head, place, end = struct.Struct(f"{self._order}III"), self._types, self._types_end
        while place < end:
            name, info, _ = head.unpack_from(self._data, place)
            kind = info >> 24 & 31
            if kind in _NAMED:
                self._by_name.setdefault((kind, name), len(self._places))
            self._places.append(place)
            fixed, each = _TAILS.get(kind, (0, 0))
            place += 12 + fixed + each * (info & 0xFFFF)
        if place != end:
            raise TargetError("no BTF: its last type is cut off")

    def _unpack(self, layout: str, place: int) -> tuple[int, ...]:
        return struct.unpack_from(self._order + layout, self._data, place)

    def _head(self, number: int) -> tuple[int, int, int]:
        """Return the name's place, the info word and the size or type of a type."""
        if not 0 < number < len(self._places):
            return 0, 0, 0
        name, info, size_or_type = self._unpack("III", self._places[number])
        return name, info, size_or_type

    def place(self, number: int) -> int:
        """Return where in the bytes a type begins, 0 for one that is not there."""
        return self._places[number] if 0 < number < len(self._places) else 0

    def text(self, offset: int) -> str:
        """Return the string at an offset into the names, empty where there is none.

        No more than its first 4,096 bytes: strings may overlap, and so be larger than the file.
        """
        start = self._texts + offset
        if not 0 <= offset < self._texts_size:
            return ""
        end = self._data.find(b"\0", start, start + _LONGEST)
        return self._data[start : end if end >= 0 else start + _LONGEST].decode("ascii", "replace")

    def _find(self, kind: Kind, name: str) -> int | None:
        place = self._text_place(name)
        return None if place is None else self._by_name.get((kind, place))

    def _text_place(self, name: str) -> int | None:
        """Return where among the names one is, None where it is not."""
        if not name:
            return 0
        wanted = b"\0" + name.encode("utf-8", "replace") + b"\0"
        found = self._data.find(wanted, self._texts)
        return None if found < 0 else found + 1 - self._texts

    def kind(self, number: int) -> Kind:
        """Return what a type is."""
        return _KINDS.get(self._head(number)[1] >> 24 & 31, Kind.VOID)

    def name(self, number: int) -> str:
        """Return a type's name, empty for a type without."""
        return self.text(self._head(number)[0])

    def struct(self, name: str) -> int | None:
        """Return the structure called ``name``, or None; unions and typedefs do not count.

        An empty name finds the first structure that has none, as it does in the kernel.
        """
        return self._find(Kind.STRUCT, name)

    def declares(self, name: str) -> bool:
        """Say whether a structure is declared, its members not told."""
        return bool(name) and self._find(Kind.FWD, name) is not None

    def function_number(self, name: str) -> int | None:
        """Return the number of the function called ``name``, or None."""
        return self._find(Kind.FUNC, name)

    def function(self, name: str) -> Proto | None:
        """Return the type of the function called ``name``, or None."""
        found = self._find(Kind.FUNC, name) if name else None
        return None if found is None else self.prototype(found)

    def prototype(self, number: int) -> Proto | None:
        """Return the type of a function, or None where it has none."""
        proto = self._head(number)[2]
        if self.kind(proto) is not Kind.FUNC_PROTO:
            return None
        _, info, returns = self._head(proto)
        pairs = [self._unpack("II", at) for at in self._parts(proto, 8, info)]
        return Proto(returns, tuple((self.text(name), number) for name, number in pairs))

    def skip(self, number: int) -> int:
        """Return the type behind typedefs and qualifiers."""
        for _ in range(_DEEPEST):
            if self.kind(number) not in MODIFIERS:
                return number
            number = self._head(number)[2]
        return 0

    def pointed(self, number: int) -> int:
        """Return what a pointer points to, behind typedefs and qualifiers."""
        return self.skip(self._head(number)[2])

    def element(self, number: int) -> int:
        """Return the type of an array's elements, behind typedefs and qualifiers."""
        if self.kind(number) is not Kind.ARRAY:
            return 0
        return self.skip(self._unpack("I", self._places[number] + 12)[0])

    def integer(self, number: int) -> Integer | None:
        """Return how an integer is stored; None for another type."""
        if self.kind(number) is not Kind.INT:
            return None
        (word,) = self._unpack("I", self._places[number] + 12)
        return Integer(bool(word >> 24 & 1), word & 0xFF, word >> 16 & 0xFF)

    def enumerator(self, name: str) -> int | None:
        """Return the value of a name of an enum; None where there is none, or several differ."""
        place = self._text_place(name)
        return None if place is None else self._enumerators().get(place)

    def _enumerators(self) -> dict[int, int | None]:
        """Return the values of all names of enums, by the places of the names."""
        if self._values is None:
            self._values = {}
            for number in range(1, len(self._places)):
                for text, value in self._enum(number):
                    if self._values.setdefault(text, value) != value:
                        self._values[text] = None
        return self._values

    def _enum(self, number: int) -> Iterator[tuple[int, int]]:
        _, info, _ = self._head(number)
        kind, signed = info >> 24 & 31, info >> 31
        if kind == Kind.ENUM:
            for place in self._parts(number, 8, info):
                text, value = self._unpack("Ii" if signed else "II", place)
                yield text, value
        elif kind == Kind.ENUM64:
            for place in self._parts(number, 12, info):
                text, low, high = self._unpack("IIi" if signed else "III", place)
                yield text, high << 32 | low

    def is_aggregate(self, number: int) -> bool:
        """Say whether a type is a structure or a union."""
        return self.kind(number) in {Kind.STRUCT, Kind.UNION}

    def member(self, number: int, name: str) -> Member | None:
        """Return the member ``name`` of a structure or union, or of a nameless one within it."""
        waiting, seen = [(number, 0)], set()
        while waiting:
            outer, base = waiting.pop()
            if outer in seen:
                continue
            seen.add(outer)
            for text, inner, offset, size in self._members(outer):
                if not text:
                    if self.is_aggregate(self.skip(inner)):
                        waiting.append((self.skip(inner), base + offset))
                elif self.text(text) == name:
                    return Member(inner, base + offset, size)
        return None

    def members(self, number: int) -> tuple[str, ...]:
        """Return the names of all members, those of nameless structures within it included."""
        found: list[str] = []
        waiting, seen = [number], set()
        while waiting:
            outer = waiting.pop()
            if outer in seen:
                continue
            seen.add(outer)
            for text, inner, _, _ in self._members(outer):
                if text:
                    found.append(self.text(text))
                else:
                    waiting.append(self.skip(inner))
        return tuple(found)

    def _members(self, number: int) -> Iterator[tuple[int, int, int, int]]:
        if not self.is_aggregate(number):
            return
        _, info, _ = self._head(number)
        for place in self._parts(number, 12, info):
            text, inner, word = self._unpack("III", place)
            if info >> 31:
                yield text, inner, word & 0xFFFFFF, word >> 24
            else:
                yield text, inner, word, 0

    def _parts(self, number: int, size: int, info: int) -> range:
        first = self._places[number] + 12
        return range(first, first + size * (info & 0xFFFF), size)

    def has_kind(self, kind: Kind) -> bool:
        """Whether any type is of a kind."""
        return kind in self._kinds

    @cached_property
    def _kinds(self) -> frozenset[Kind]:
        return frozenset(self.kind(number) for number in range(1, len(self._places)))

    def __len__(self) -> int:
        """Return how many types there are, ``void`` included."""
        return len(self._places)

    def target(self, number: int) -> int:
        """Return the type that a pointer, typedef, qualifier, function or variable refers to."""
        return self._head(number)[2]

    def array(self, number: int) -> tuple[int, int] | None:
        """Return the type and the number of an array's elements; None for another type."""
        if self.kind(number) is not Kind.ARRAY:
            return None
        element, _, count = self._unpack("III", self._places[number] + 12)
        return element, count

    def size(self, number: int) -> int | None:
        """Return how many bytes a value of a type takes; None for what has no size."""
        count = 1
        for _ in range(_DEEPEST):
            kind = self.kind(number)
            if kind in MODIFIERS:
                number = self.target(number)
            elif kind is Kind.ARRAY:
                number, each = self._unpack("I4xI", self._places[number] + 12)
                count *= each
            elif kind is Kind.PTR:
                return count * 8
            elif kind in _SIZED:
                return count * self.target(number)
            else:
                return None
        return None

    def enumerators(self, number: int) -> tuple[tuple[str, int], ...]:
        """Return names and values of an enumeration; nothing for another type."""
        return tuple((self.text(place), value) for place, value in self._enum(number))

    def datasec(self, name: str) -> int | None:
        """Return the section of variables called ``name``, or None."""
        return self._find(Kind.DATASEC, name) if name else None

    def variables(self, number: int) -> tuple[Variable, ...]:
        """Return what a section of variables holds, functions that are declared there included."""
        if self.kind(number) is not Kind.DATASEC:
            return ()
        _, info, _ = self._head(number)
        found = []
        for at in self._parts(number, 12, info):
            inner, offset, size = self._unpack("III", at)
            linkage = self.linkage(inner)
            if linkage is not None:
                name, target = self.name(inner), self.target(inner)
                found.append(Variable(name, target, linkage, offset, size))
        return tuple(found)

    def externs(self, number: int) -> tuple[tuple[int, str], ...]:
        """Return types and names of the variables and functions that a section declares extern."""
        if self.kind(number) is not Kind.DATASEC:
            return ()
        parts = self._parts(number, 12, self._head(number)[1])
        numbers = [self._unpack("I", at)[0] for at in parts]
        return tuple((n, self.name(n)) for n in numbers if self.linkage(n) is Linkage.EXTERN)

    def linkage(self, number: int) -> Linkage | None:
        """Return where a variable or function is known; None for another type."""
        match self.kind(number):
            case Kind.VAR:
                (value,) = self._unpack("I", self._places[number] + 12)
            case Kind.FUNC:
                value = self._head(number)[1] & 0xFFFF
            case _:
                return None
        return Linkage(value) if value in _LINKAGES else None

    def fields(self, number: int) -> tuple[tuple[str, Member], ...]:
        """Return the members of a structure or union in their order, the nameless too."""
        return tuple(
            (self.text(name), Member(inner, offset, size))
            for name, inner, offset, size in self._members(number)
        )
