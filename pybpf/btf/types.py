"""A type of a BTF as a value: what its words say, with other types by their numbers.

    match btf.type(number):
        case Composite(kind=Kind.STRUCT, name=name, members=members): …

``Btf.type`` reads them (unpack), ``Builder.add`` writes them (pack); each undoes the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from pybpf.btf.abi import (
    COUNT_MASK,
    FLAG_SHIFT,
    KIND_MASK,
    KIND_SHIFT,
    KINDS,
    Encoding,
    Kind,
    Linkage,
)
from pybpf.dataclass import dataclass
from pybpf.errors import BtfError

_U32 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Int:
    """An integer of ``size`` bytes, of which ``bits`` count, from bit ``offset`` on."""

    name: str
    size: int
    encoding: Encoding
    bits: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point number of ``size`` bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer, typedef, qualifier or type tag; only typedefs and tags have names.

    ``attribute`` is of a tag: ``name`` is an attribute of its own, not one of btf_type_tag.
    """

    kind: Literal[
        Kind.PTR, Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG
    ]  # fmt: skip
    type: int
    name: str = ""
    attribute: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """``count`` elements; ``index`` is the type of what counts them."""

    element: int
    index: int
    count: int


class Field(NamedTuple):
    """A member of a structure; ``bit_size`` is 0 for what is no bit field."""

    name: str
    type: int
    bit_offset: int
    bit_size: int = 0


@dataclass(frozen=True, slots=True)
class Composite:
    """A structure or union of ``size`` bytes.

    ``bit_fields`` says that members tell their size in bits, as is so wherever one has any.
    """

    kind: Literal[Kind.STRUCT, Kind.UNION]
    name: str
    size: int
    members: tuple[Field, ...]
    bit_fields: bool = False


@dataclass(frozen=True, slots=True)
class Enum:
    """An enumeration of ``size`` bytes, and its names and values."""

    kind: Literal[Kind.ENUM, Kind.ENUM64]
    name: str
    size: int
    signed: bool
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Forward:
    """A structure or union of which only the name is known."""

    name: str
    union: bool = False


@dataclass(frozen=True, slots=True)
class FuncProto:
    """What a function returns, and its parameters; a last one of ``("", 0)`` stands for ``…``."""

    returns: int
    params: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Func:
    """A function; ``type`` is its FuncProto, ``linkage`` a Linkage, or what else stands there."""

    name: str
    type: int
    linkage: int


@dataclass(frozen=True, slots=True)
class Var:
    """A variable; ``linkage`` as of a function."""

    name: str
    type: int
    linkage: int


class Placed(NamedTuple):
    """A variable, or an extern function, and its place and size in a section, in bytes."""

    type: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class DataSec:
    """A section of an object, of ``size`` bytes, and the variables in it."""

    name: str
    size: int
    variables: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class DeclTag:
    """A note on a declaration: on a member or parameter, or with -1 on the whole ``type``."""

    name: str
    type: int
    component: int
    attribute: bool = False


BtfType = (
    Int | Float | Reference | Array | Composite | Enum | Forward | FuncProto | Func | Var
    | DataSec | DeclTag
)  # fmt: skip


# --- what Btf answers where only a part is asked for ----------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a structure: its type, and its place in bits from the structure's start.

    ``bit_size`` is 0 for what is no bit field.
    """

    type: int
    bit_offset: int
    bit_size: int


@dataclass(frozen=True, slots=True)
class Integer:
    """How an integer is stored, all in bits."""

    signed: bool
    bits: int
    offset: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of an object: its type, its linkage, and where it lies in its section, in bytes.

    ``number`` is that of the variable itself, which tags refer to.

    The place and the size are those that the compiler left: a loader works them out for sections
    whose variables the linker places.
    """

    name: str
    type: int
    linkage: Linkage
    offset: int
    size: int
    number: int = 0


# --- words of types -------------------------------------------------------------------------------


def references(t: BtfType) -> Iterable[int]:
    """Return the numbers of the types that a type refers to, itself or by its parts."""
    match t:
        case Reference() | Func() | Var() | DeclTag():
            return (t.type,)
        case FuncProto():
            return [t.returns, *[inner for _, inner in t.params]]
        case Composite():
            return [member.type for member in t.members]
        case Array():
            return t.element, t.index
        case DataSec():
            return [placed.type for placed in t.variables]
        case Int() | Float() | Enum() | Forward():
            return ()


_KIND_OF: Mapping[type, Kind] = {
    Int: Kind.INT,
    Float: Kind.FLOAT,
    Array: Kind.ARRAY,
    Forward: Kind.FWD,
    FuncProto: Kind.FUNC_PROTO,
    Func: Kind.FUNC,
    Var: Kind.VAR,
    DataSec: Kind.DATASEC,
    DeclTag: Kind.DECL_TAG,
}


def kind_of(t: BtfType) -> Kind:
    """Return the kind of a type."""
    return t.kind if isinstance(t, Reference | Composite | Enum) else _KIND_OF[type(t)]


def unpack(words: list[int], text: Callable[[int], str]) -> BtfType:
    """Return the type that some words are, all of it; ``text`` gives a string by its offset.

    Raises BtfError for a kind that is none.
    """
    name, info, other, *rest = words
    flag = bool(info >> FLAG_SHIFT)
    # The most frequent first: a kernel has 130,000 types.
    match KINDS.get(info >> KIND_SHIFT & KIND_MASK, Kind.VOID):
        case Kind.FUNC_PROTO:
            return FuncProto(other, tuple([(text(n), inner) for n, inner in _rows(rest, 2)]))
        case Kind.FUNC:
            return Func(text(name), other, info & COUNT_MASK)
        case (
            Kind.PTR | Kind.CONST | Kind.TYPEDEF | Kind.TYPE_TAG | Kind.VOLATILE | Kind.RESTRICT
        ) as kind:
            return Reference(kind, other, text(name), flag and kind is Kind.TYPE_TAG)
        case (Kind.STRUCT | Kind.UNION) as kind:
            bits = 24 if flag else 32
            mask = (1 << bits) - 1
            members = [
                Field(text(n), inner, at & mask, at >> bits) for n, inner, at in _rows(rest, 3)
            ]
            return Composite(kind, text(name), other, tuple(members), flag)
        case Kind.ARRAY:
            return Array(rest[0], rest[1], rest[2])
        case Kind.DECL_TAG:
            return DeclTag(text(name), other, rest[0] - (rest[0] >> 31 << 32), flag)
        case (Kind.ENUM | Kind.ENUM64) as kind:
            values = [(text(n), value) for n, value in enumerators(kind, rest, signed=flag)]
            return Enum(kind, text(name), other, flag, tuple(values))
        case Kind.FWD:
            return Forward(text(name), flag)
        case Kind.VAR:
            return Var(text(name), other, rest[0])
        case Kind.DATASEC:
            return DataSec(text(name), other, tuple(Placed(*row) for row in _rows(rest, 3)))
        case Kind.INT:
            encoding = Encoding(rest[0] >> 24 & 15)
            return Int(text(name), other, encoding, rest[0] & 0xFF, rest[0] >> 16 & 0xFF)
        case Kind.FLOAT:
            return Float(text(name), other)
        case Kind.VOID:
            raise BtfError(f"a type is of kind {info >> KIND_SHIFT & KIND_MASK}: that is none")


def _rows(words: list[int], width: int) -> Iterator[tuple[int, ...]]:
    return zip(*[iter(words)] * width, strict=True)


def enumerators(kind: Kind, words: list[int], *, signed: bool) -> Iterator[tuple[int, int]]:
    """Yield the names' offsets and the values of an enumeration's words behind the first three."""
    if kind is Kind.ENUM:
        bits = 31
        rows: Iterator[tuple[int, int]] = zip(words[::2], words[1::2], strict=True)
    else:
        bits = 63
        values = (low | high << 32 for low, high in zip(words[1::3], words[2::3], strict=True))
        rows = zip(words[::3], values, strict=True)
    for name, value in rows:
        yield name, value - (value >> bits << bits + 1) if signed else value


def pack(t: BtfType, string: Callable[[str], int]) -> tuple[int, ...]:
    """Return the words of a type; ``string`` gives the offset of a string.

    Raises BtfError for a number that has no room where it belongs.
    """
    rest: list[int] = []
    name, count, other, flag = "", 0, 0, False
    match t:
        case Int(name=name, size=other):
            rest = [t.encoding << 24 | t.offset << 16 | t.bits]
        case Float(name=name, size=other):
            pass
        case Forward(name=name, union=flag):
            pass
        case Reference(name=name, type=other, attribute=flag):
            pass
        case Array():
            rest = [t.element, t.index, t.count]
        case Composite(name=name, size=other, members=members, bit_fields=flag):
            count, rest = (
                len(members),
                [w for m in members for w in _member(m, string, bit_fields=flag)],
            )
        case Enum(name=name, size=other, values=values, signed=flag):
            count = len(values)
            rest = [word for n, v in values for word in (string(n), *_halves(v, t.kind))]
        case FuncProto(returns=other, params=params):
            count, rest = len(params), [w for n, inner in params for w in (string(n), inner)]
        case Func(name=name, type=other, linkage=count):
            pass
        case Var(name=name, type=other, linkage=linkage):
            rest = [linkage]
        case DataSec(name=name, size=other, variables=variables):
            count, rest = len(variables), [word for row in variables for word in row]
        case DeclTag(name=name, type=other, component=component, attribute=flag):
            rest = [component & _U32]
    kind = kind_of(t)
    if count > COUNT_MASK or any(not 0 <= word <= _U32 for word in (other, *rest)):
        raise BtfError(f"a {kind.name} has no room for all that it says: {name or '(anon)'}")
    return string(name), flag << FLAG_SHIFT | kind << KIND_SHIFT | count, other, *rest


def _member(
    member: Field, string: Callable[[str], int], *, bit_fields: bool
) -> tuple[int, int, int]:
    if bit_fields and (member.bit_offset >> 24 or member.bit_size >> 8):
        raise BtfError(f"a bit field has no room for all that it says: {member.name or '(anon)'}")
    return string(member.name), member.type, member.bit_offset | member.bit_size << 24


def _halves(value: int, kind: Kind) -> tuple[int, ...]:
    """Return the words of a value, the low one first whatever the byte order is."""
    words = value & _U32, value >> 32 & _U32
    return words[: 1 if kind is Kind.ENUM else 2]
