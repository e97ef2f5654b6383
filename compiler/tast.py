"""The typed script: names resolved, every expression typed, conversions explicit, sugar gone.

Scalars (integers and pointers) are values; arrays and structs are read where they are needed.
Operands of Arith and Compare have been converted to one type, so their type decides signedness
and width. Spans do not take part in equality.
"""

from __future__ import annotations

from pybpf.dataclass import dataclass, field
from pybpf.script import EventSchema, Filled, MapRole, ProbeSpec
from pybpf.source import Source, Span
from pybpf.types import INT, Array, Space, Struct, Type, struct_of


@dataclass(frozen=True, slots=True)
class Const:
    """An integer known to the compiler; ``value`` is in the range of ``type``.

    ``given`` is the text that it was read from, where it came from outside the script.
    """

    value: int
    type: Type
    span: Span = field(compare=False, repr=False)
    given: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A string known to the compiler; ``type`` has room for it and a final NUL."""

    value: bytes
    type: Array
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Convert:
    """A scalar converted to another scalar type, as a C cast does."""

    operand: Expr
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arith:
    """``left op right``; ``op`` as in C: ``+ - * / % & | ^ << >>``.

    A shift count is taken modulo the width. ``x / 0`` is 0 and ``x % 0`` is x.
    """

    op: str
    left: Expr
    right: Expr
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negate:
    """``-operand``."""

    operand: Expr
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Invert:
    """``~operand``."""

    operand: Expr
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """``!operand``: 0 or 1."""

    operand: Expr
    span: Span = field(compare=False, repr=False)
    type: Type = INT


@dataclass(frozen=True, slots=True)
class Compare:
    """``== != < > <= >=``: 0 or 1."""

    op: str
    left: Expr
    right: Expr
    span: Span = field(compare=False, repr=False)
    type: Type = INT


@dataclass(frozen=True, slots=True)
class Logical:
    """``&& || ^^``: 0 or 1; the first two evaluate ``right`` only where it matters."""

    op: str
    left: Expr
    right: Expr
    span: Span = field(compare=False, repr=False)
    type: Type = INT


@dataclass(frozen=True, slots=True)
class StrCmp:
    """``strcmp(left, right)``: the difference of the first bytes that differ, else 0.

    Strings end at a NUL or at the end of their array, whichever comes first.
    """

    left: Expr
    right: Expr
    span: Span = field(compare=False, repr=False)
    type: Type = INT


@dataclass(frozen=True, slots=True)
class Context:
    """A fact about the event: the row of that name in ``builtins`` says how it is had."""

    name: str
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MapValue:
    """``map[keys]``; zero where there is no such entry."""

    map: str
    keys: tuple[Expr, ...]
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CtxField:
    """What lies ``offset`` bytes into the program's context."""

    offset: int
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Deref:
    """What lies ``offset`` bytes after ``address``; zero where that memory cannot be read."""

    address: Expr
    offset: int
    space: Space | None
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReadString:
    """A copy of the NUL-terminated string at ``address``, cut to the array; empty if unreadable.

    ``space`` None: tried as a kernel address, then as a user address.
    """

    address: Expr
    space: Space | None
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DynString:
    """A copy of the dynamic array that the ``__data_loc`` or ``__rel_loc`` word refers to.

    ``end`` is the offset of the byte after the word, which relative offsets count from.
    """

    word: Expr
    relative: bool
    end: int
    text: bool
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Select:
    """A part, ``offset`` bytes in, of a struct that is itself the value of an expression."""

    object: Expr
    offset: int
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class AddressOf:
    """Where ``object`` lies while the program runs: in the context, or in a copy on the stack."""

    object: Expr
    type: Type
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parts:
    """A struct of these fields, or an array of these elements."""

    parts: tuple[Expr, ...]
    type: Struct | Array
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a string matches a pattern of ``*``, ``?`` and ``[…]`` as a whole: 0 or 1."""

    text: Expr
    pattern: bytes
    span: Span = field(compare=False, repr=False)
    type: Type = INT


@dataclass(frozen=True, slots=True)
class Sound:
    """A condition, and 0 where memory that it asks about cannot be read."""

    operand: Expr
    span: Span = field(compare=False, repr=False)
    type: Type = INT


Expr = (
    Const
    | Text
    | Convert
    | Arith
    | Negate
    | Invert
    | Not
    | Compare
    | Logical
    | StrCmp
    | Context
    | MapValue
    | CtxField
    | Deref
    | ReadString
    | DynString
    | Select
    | AddressOf
    | Parts
    | Like
    | Sound
)


@dataclass(frozen=True, slots=True)
class Assign:
    """``map[keys] = value``."""

    map: str
    keys: tuple[Expr, ...]
    value: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``@map[keys] = count() | sum(value) | quantize(value)``, each on the type of the map.

    ``value`` has been converted: to u64 or s64 for a count (Const 1) or sum, to the map's value
    type for a quantize.
    """

    map: str
    keys: tuple[Expr, ...]
    role: MapRole
    value: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """``delete map[keys]``."""

    map: str
    keys: tuple[Expr, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """``if (condition) then else otherwise``."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Return:
    """Leave the probe."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Emit:
    """Send a record of schema ``event``; ``values`` are those of the payload's fields in order.

    ``marks`` has for each value the bit that is set where memory it asks for cannot be read, or
    None; the words of these bits are the payload's last fields.
    """

    event: int
    values: tuple[Expr, ...]
    span: Span = field(compare=False, repr=False)
    marks: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluate:
    """An expression whose value nobody wants."""

    expr: Expr
    span: Span = field(compare=False, repr=False)


Stmt = Assign | Aggregate | Delete | If | Return | Emit | Evaluate


@dataclass(frozen=True, slots=True)
class MapDecl:
    """A map of the script, in the order of first appearance; ``keys`` are the key fields' types.

    ``value`` is the type of an entry (MAP), u64 or s64 (COUNT, SUM), or the type of what a
    QUANTIZE counts. ``constants`` are the keys of an aggregation that is only ever used with keys
    known now, as bytes of the key's layout; empty where a key depends on the event. Of the fields
    ``filled``, by their offsets, it is known how they follow from the place of an entry instead.
    """

    name: str
    role: MapRole
    keys: tuple[Type, ...]
    value: Type
    constants: tuple[bytes, ...] = ()
    filled: tuple[tuple[int, Filled], ...] = ()

    @property
    def layout(self) -> Struct:
        """The layout of the key; one without fields is a word that is always 0."""
        if not self.keys:
            return Struct("", (), 4, 4)
        return struct_of("", [(str(i), t) for i, t in enumerate(self.keys)])


@dataclass(frozen=True, slots=True)
class Probe:
    """One clause; ``specs`` say where it goes and still lack their program, which they share."""

    specs: tuple[ProbeSpec, ...]
    predicate: Expr | None
    body: tuple[Stmt, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TypedScript:
    """Everything inference found out."""

    source: Source
    probes: tuple[Probe, ...]
    maps: tuple[MapDecl, ...]
    events: tuple[EventSchema, ...]

    def map(self, name: str) -> MapDecl:
        """Return the map called ``name``; raises KeyError."""
        for decl in self.maps:
            if decl.name == name:
                return decl
        raise KeyError(name)
