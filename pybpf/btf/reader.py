"""BTF: the bytes of a kernel's, a module's or an object's in; structures, members, functions out.

Types go by their numbers, as in the blob; 0 is ``void``. What is not asked for is not decoded: a
kernel has some 130,000 types, of which a probe needs a handful. Source: Documentation/bpf/btf.rst.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from pybpf.btf.abi import (
    COMPOSITES,
    COUNT_MASK,
    ENUMS,
    FLAG_SHIFT,
    HEAD,
    KIND_MASK,
    KIND_SHIFT,
    KINDS,
    MODIFIERS,
    Kind,
    Linkage,
)
from pybpf.btf.blob import Blob, parse
from pybpf.btf.index import Index
from pybpf.btf.types import (
    BtfType,
    Integer,
    Member,
    Variable,
    enumerators,
    references,
    unpack,
)
from pybpf.btf.types import FuncProto as Proto
from pybpf.errors import BtfError
from pybpf.isa.insn import ByteOrder

__all__ = ["MODIFIERS", "Btf", "Integer", "Kind", "Linkage", "Member", "Proto", "Variable"]

_LONG = frozenset({"long", "long int", "unsigned long", "long unsigned int"})
_SIZED = COMPOSITES | ENUMS | {Kind.INT, Kind.FLOAT}
_LINKAGES = frozenset(Linkage)
_DEEPEST = 32
"""The most typedefs and qualifiers before a type, as in the kernel."""
_LONGEST = 4096


class Btf:
    """The types of one kernel, module or object. Raises BtfError for bytes that are no BTF.

    ``base`` is what a module's go on from: its types are found, too, and have their numbers.

    ``complete`` is False for a part of them, where a forward declaration says no more than that
    there is such a structure, and a function that is not there may be in the kernel.
    """

    def __init__(self, data: bytes, *, base: Btf | None = None, complete: bool = True) -> None:
        self.blob: Blob = parse(data, None if base is None else base.blob)
        self.index: Index = Index(self.blob, None if base is None else base.index)
        self.base = base
        self.complete = complete
        self._words, self._places = self.blob.words, self.blob.places
        self._texts = self.blob.texts

    @property
    def byteorder(self) -> ByteOrder:
        """The byte order of the machine that the types are of."""
        return self.blob.byteorder

    @property
    def first(self) -> int:
        """The number of the first type that is not the base's; 1 without a base."""
        return self.blob.first

    def __len__(self) -> int:
        """Return how many types there are, ``void`` and the base's included."""
        return len(self._places)

    def type(self, number: int) -> BtfType | None:
        """Return all that is told of a type; None for ``void``.

        Raises BtfError where it, its name or a type that it refers to is not there, where what is
        asked for one by one is ``void`` and an empty name.
        """
        if not number:
            return None
        words = self._record(number)
        if not words[1]:
            raise BtfError(f"there is no type {number}: they end at {len(self) - 1}")
        try:
            found = unpack(words, self._text)
        except BtfError as error:
            raise BtfError(f"type {number}: {error.reason}", self.place(number)) from None
        if (most := max(references(found), default=0)) >= len(self):
            reason = f"type {number} refers to type {most}, and they end at {len(self) - 1}"
            raise BtfError(reason, self.place(number))
        return found

    def _text(self, offset: int) -> str:
        if offset >= len(self._texts):
            raise BtfError(f"a name is at {offset} of {len(self._texts)} bytes of names")
        return self.text(offset)

    def types(self) -> Iterator[tuple[int, BtfType]]:
        """Yield all types of the BTF's own and their numbers; raises as ``type``."""
        for number in range(self.first, len(self)):
            if (found := self.type(number)) is not None:
                yield number, found

    def numbers(self, *kinds: Kind, first: int = 0) -> list[int]:
        """Return the numbers of all types of some kinds, in their order, from ``first`` on."""
        words, wanted = self._words, {kind.value for kind in kinds}
        return [
            number
            for number, at in enumerate(self._places[first:], first)
            if words[at + 1] >> KIND_SHIFT & KIND_MASK in wanted
        ]

    def has_kind(self, kind: Kind) -> bool:
        """Whether any type is of a kind."""
        return kind in self._kinds

    @cached_property
    def _kinds(self) -> frozenset[Kind]:
        infos = {self._words[at + 1] for at in self._places[1:]}
        return frozenset(KINDS[info >> KIND_SHIFT & KIND_MASK] for info in infos)

    @cached_property
    def pointer_size(self) -> int:
        """The size of a pointer in bytes, which is that of ``long``; 8 where there is none."""
        for number in self.numbers(Kind.INT):
            if self.name(number) in _LONG:
                return self.target(number)
        return 8

    def _at(self, number: int) -> int:
        """Return the first word of a type; that of void for a number that is none."""
        return self._places[number] if 0 < number < len(self._places) else 0

    def _head(self, number: int) -> tuple[int, int, int]:
        """Return the name's offset, the info word and the size or type of a type."""
        at, words = self._at(number), self._words
        return words[at], words[at + 1], words[at + 2]

    def _record(self, number: int) -> list[int]:
        """Return all words of a type."""
        if not 0 < number < len(self._places):
            return [0] * HEAD
        places = self._places
        end = places[number + 1] if number + 1 < len(places) else len(self._words)
        return self._words[places[number] : end].tolist()

    def _rest(self, number: int) -> list[int]:
        """Return the words of a type that follow the first three."""
        return self._record(number)[HEAD:]

    def place(self, number: int) -> int:
        """Return where in the bytes a type of the BTF's own begins, 0 for another."""
        if not self.first <= number < len(self._places):
            return 0
        return self.blob.offset(self._places[number])

    def text(self, offset: int) -> str:
        """Return the string at an offset into the names, empty where there is none.

        No more than its first 4,096 bytes: strings may overlap, and so be larger than the file.
        """
        texts = self._texts
        end = texts.find(b"\0", offset, offset + _LONGEST)
        return texts[offset : end if end >= 0 else offset + _LONGEST].decode("ascii", "replace")

    def kind(self, number: int) -> Kind:
        """Return what a type is."""
        return KINDS[self._words[self._at(number) + 1] >> KIND_SHIFT & KIND_MASK]

    def name(self, number: int) -> str:
        """Return a type's name, empty for a type without."""
        return self.text(self._words[self._at(number)])

    def struct(self, name: str) -> int | None:
        """Return the structure called ``name``, or None; unions and typedefs do not count.

        An empty name finds the first structure that has none, as it does in the kernel.
        """
        return self.index.find(Kind.STRUCT, name)

    def find(self, kind: Kind, name: str) -> int | None:
        """Return the first type of a kind that has a name, or None."""
        return self.index.find(kind, name) if name else None

    def declares(self, name: str) -> bool:
        """Say whether a structure is declared, its members not told."""
        return self.find(Kind.FWD, name) is not None

    def function_number(self, name: str) -> int | None:
        """Return the number of the function called ``name``, or None."""
        return self.index.find(Kind.FUNC, name)

    def function(self, name: str) -> Proto | None:
        """Return the type of the function called ``name``, or None."""
        found = self.find(Kind.FUNC, name)
        return None if found is None else self.prototype(found)

    def prototype(self, number: int) -> Proto | None:
        """Return the type of a function, or None where it has none."""
        return self.signature(self._head(number)[2])

    def signature(self, number: int) -> Proto | None:
        """Return what a type of functions says, None for another type."""
        if self.kind(number) is not Kind.FUNC_PROTO:
            return None
        return Proto(self.target(number), self.params(number))

    def params(self, number: int) -> tuple[tuple[str, int], ...]:
        """Return names and types of a prototype's parameters; nothing for another type."""
        if self.kind(number) is not Kind.FUNC_PROTO:
            return ()
        rest = self._rest(number)
        pairs = zip(rest[::2], rest[1::2], strict=True)
        return tuple((self.text(name), inner) for name, inner in pairs)

    def flag(self, number: int) -> bool:
        """Say whether the flag of a type is set, which depends on what it is.

        An enumeration is signed, a forward declaration is a union's, a structure has bit fields.
        """
        return bool(self._head(number)[1] >> FLAG_SHIFT)

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
        return self.skip(self._rest(number)[0])

    def integer(self, number: int) -> Integer | None:
        """Return how an integer is stored; None for another type."""
        if self.kind(number) is not Kind.INT:
            return None
        (word,) = self._rest(number)
        return Integer(bool(word >> 24 & 1), word & 0xFF, word >> 16 & 0xFF)

    def enumerator(self, name: str) -> int | None:
        """Return the value of a name of an enum; None where there is none, or several differ."""
        return self.index.value(name)

    def _enum(self, number: int) -> Iterator[tuple[int, int]]:
        kind = self.kind(number)
        if kind not in ENUMS:
            return iter(())
        _, info, _, *rest = self._record(number)
        return enumerators(kind, rest, signed=bool(info >> FLAG_SHIFT))

    def is_aggregate(self, number: int) -> bool:
        """Say whether a type is a structure or a union."""
        return self.kind(number) in COMPOSITES

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
        _, info, _, *rest = self._record(number)
        bits = 24 if info >> FLAG_SHIFT else 32
        for text, inner, word in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
            yield text, inner, word & ((1 << bits) - 1), word >> bits

    def decl_tags(self, number: int, index: int = -1) -> tuple[str, ...]:
        """Return the texts of the tags of a type, or of its member or parameter ``index``."""
        return self._tags.get((number, index), ())

    @cached_property
    def _tags(self) -> Mapping[tuple[int, int], tuple[str, ...]]:
        found: dict[tuple[int, int], tuple[str, ...]] = {}
        for number in self.numbers(Kind.DECL_TAG):
            (index,) = self._rest(number)
            key = self.target(number), index - (index >> 31 << 32)
            found[key] = (*found.get(key, ()), self.name(number))
        return found

    def target(self, number: int) -> int:
        """Return the type that a pointer, typedef, qualifier, function or variable refers to."""
        return self._words[self._at(number) + 2]

    def array(self, number: int) -> tuple[int, int] | None:
        """Return the type and the number of an array's elements; None for another type."""
        if self.kind(number) is not Kind.ARRAY:
            return None
        element, _, count = self._rest(number)
        return element, count

    def size(self, number: int) -> int | None:
        """Return how many bytes a value of a type takes; None for what has no size."""
        count = 1
        for _ in range(_DEEPEST):
            kind = self.kind(number)
            if kind in MODIFIERS:
                number = self.target(number)
            elif kind is Kind.ARRAY:
                number, _, each = self._rest(number)
                count *= each
            elif kind is Kind.PTR:
                return count * self.pointer_size
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
        return self.find(Kind.DATASEC, name)

    def variables(self, number: int) -> tuple[Variable, ...]:
        """Return what a section of variables holds, functions that are declared there included."""
        found = []
        for inner, offset, size in self._placed(number):
            linkage = self.linkage(inner)
            if linkage is not None:
                name, target = self.name(inner), self.target(inner)
                found.append(Variable(name, target, linkage, offset, size, inner))
        return tuple(found)

    def externs(self, number: int) -> tuple[tuple[int, str], ...]:
        """Return types and names of the variables and functions that a section declares extern."""
        numbers = [inner for inner, _, _ in self._placed(number)]
        return tuple((n, self.name(n)) for n in numbers if self.linkage(n) is Linkage.EXTERN)

    def _placed(self, number: int) -> Iterable[tuple[int, int, int]]:
        if self.kind(number) is not Kind.DATASEC:
            return ()
        rest = self._rest(number)
        return zip(rest[::3], rest[1::3], rest[2::3], strict=True)

    def linkage(self, number: int) -> Linkage | None:
        """Return where a variable or function is known; None for another type."""
        match self.kind(number):
            case Kind.VAR:
                (value,) = self._rest(number)
            case Kind.FUNC:
                value = self._head(number)[1] & COUNT_MASK
            case _:
                return None
        return Linkage(value) if value in _LINKAGES else None

    def fields(self, number: int) -> tuple[tuple[str, Member], ...]:
        """Return the members of a structure or union in their order, the nameless too."""
        return tuple(
            (self.text(name), Member(inner, offset, size))
            for name, inner, offset, size in self._members(number)
        )
