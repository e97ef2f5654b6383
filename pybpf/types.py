"""C types as values: what a script's expressions, map entries and records are made of.

Sizes and alignments are those of a 64-bit kernel (LP64), the only kind pybpf compiles for.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pybpf.dataclass import dataclass


class Show(StrEnum):
    """How a value of a typedef is printed (ply's default formats)."""

    PLAIN = "plain"
    PID = "pid"
    UID = "uid"
    CPU = "cpu"
    TIME = "time"
    WALLTIME = "walltime"
    HEX = "hex"
    SYMBOL = "symbol"
    STACK = "stack"
    BYTES = "bytes"
    """A char array of ``mem()``: text where it is printable and ends in NUL, else a hexdump."""


class Space(StrEnum):
    """The address space a pointer's value belongs to; decides how it may be read."""

    KERNEL = "kernel"
    USER = "user"
    CTX = "ctx"


@dataclass(frozen=True, slots=True)
class Void:
    """The type of a call that yields nothing."""

    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class Int:
    """An integer of ``size`` bytes (1, 2, 4 or 8). The name does not take part in equality."""

    size: int
    signed: bool
    name: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Int) and (self.size, self.signed) == (other.size, other.signed)

    def __hash__(self) -> int:
        return hash((self.size, self.signed))

    def __str__(self) -> str:
        return self.name or f"{'s' if self.signed else 'u'}{self.size * 8}"

    @property
    def bits(self) -> int:
        """The width in bits."""
        return self.size * 8

    def wrap(self, value: int) -> int:
        """Return ``value`` reduced to this type, as C's conversion does."""
        value &= (1 << self.bits) - 1
        if self.signed and value >> (self.bits - 1):
            value -= 1 << self.bits
        return value


@dataclass(frozen=True, slots=True)
class Ptr:
    """A 64-bit pointer."""

    to: Type
    space: Space = Space.KERNEL

    def __str__(self) -> str:
        return f"{self.to} *"


@dataclass(frozen=True, slots=True)
class Array:
    """``count`` elements one after the other; of ``CHAR`` it is a string."""

    element: Type
    count: int

    def __str__(self) -> str:
        return f"{self.element}[{self.count}]"


@dataclass(frozen=True, slots=True)
class Field:
    """A named member of a struct; ``offset`` in bytes from its start."""

    name: str
    type: Type
    offset: int


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields in memory order. A struct without a name is a map key or a record."""

    name: str
    fields: tuple[Field, ...]
    size: int
    align: int

    def __str__(self) -> str:
        return f"struct {self.name}" if self.name else "struct"

    def field(self, name: str) -> Field | None:
        """Return the field called ``name``, or None."""
        return next((f for f in self.fields if f.name == name), None)


@dataclass(frozen=True, slots=True)
class Typedef:
    """A type under another name, which decides how its values are printed."""

    name: str
    type: Type
    show: Show = Show.PLAIN

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DataLoc:
    """A tracepoint's ``__data_loc`` or ``__rel_loc`` word: u16 offset, u16 length.

    The offset counts from the record's start, or (``relative``) from the end of the word itself.
    """

    element: Type
    relative: bool = False

    def __str__(self) -> str:
        return f"{'__rel_loc' if self.relative else '__data_loc'} {self.element}[]"


@dataclass(frozen=True, slots=True)
class Func:
    """The type of a function; programs have one in their BTF."""

    returns: Type
    params: tuple[tuple[str, Type], ...] = ()


Type = Void | Int | Ptr | Array | Struct | Typedef | DataLoc | Func

VOID = Void()
CHAR = Int(1, signed=True, name="char")
S8, S16, S32, S64 = (Int(n, signed=True) for n in (1, 2, 4, 8))
U8, U16, U32, U64 = (Int(n, signed=False) for n in (1, 2, 4, 8))
INT = Int(4, signed=True, name="int")
UINT = Int(4, signed=False, name="unsigned int")
LONG = Int(8, signed=True, name="long")
ULONG = Int(8, signed=False, name="unsigned long")


def strip(t: Type) -> Type:
    """Return the type behind any typedefs."""
    while isinstance(t, Typedef):
        t = t.type
    return t


def show_of(t: Type) -> Show:
    """Return how values of the type are printed: the outermost typedef with a format decides."""
    while isinstance(t, Typedef):
        if t.show is not Show.PLAIN:
            return t.show
        t = t.type
    return Show.PLAIN


def size_of(t: Type) -> int:
    """Return the size in bytes; a function or void has none (0)."""
    match t:
        case Int(size=size) | Struct(size=size):
            return size
        case Ptr():
            return 8
        case Array():
            return size_of(t.element) * t.count
        case Typedef():
            return size_of(t.type)
        case DataLoc():
            return 4
        case Void() | Func():
            return 0


def align_of(t: Type) -> int:
    """Return the alignment in bytes (at least 1)."""
    match t:
        case Int(size=size):
            return size
        case Struct(align=align):
            return align
        case Ptr():
            return 8
        case Array():
            return align_of(t.element)
        case Typedef():
            return align_of(t.type)
        case DataLoc():
            return 4
        case Void() | Func():
            return 1


def struct_of(
    name: str, fields: Iterable[tuple[str, Type]], *, start: int = 0, align: int = 1
) -> Struct:
    """Lay fields out as C does, from byte ``start`` on, and pad the end to the alignment."""
    offset, placed = start, []
    for field_name, t in fields:
        align = max(align, align_of(t))
        offset = -(-offset // align_of(t)) * align_of(t)
        placed.append(Field(field_name, t, offset))
        offset += size_of(t)
    return Struct(name, tuple(placed), -(-offset // align) * align, align)


def is_string(t: Type) -> bool:
    """Whether the type is an array of (any sign of) 8-bit char: ply prints it as text."""
    t = strip(t)
    return (
        isinstance(t, Array)
        and isinstance(e := strip(t.element), Int)
        and e.size == 1
        and (e.name == "char")
    )
