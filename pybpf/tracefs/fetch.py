"""Fetch arguments as values: what a dynamic event records of each hit, and its text for the kernel.

The grammar is that of the kernel's ``dynamic_events`` (Documentation/trace/eprobetrace.rst,
kprobetrace.rst); ``str`` of each value is its one canonical text.
"""

from __future__ import annotations

from typing import Literal

from pybpf.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the event an eprobe is attached to: ``$name``, or ``name`` where ``bare``."""

    name: str
    bare: bool = False

    def __str__(self) -> str:
        return self.name if self.bare else f"${self.name}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter of the probed function or tracepoint by its name in BTF: ``name``."""

    name: str

    def __str__(self) -> str:
        return self.name


Special = Literal["comm", "current", "retval", "stack", "arg*"]


@dataclass(frozen=True, slots=True)
class Builtin:
    """``$comm``, ``$current``, ``$retval``, ``$stack`` (its address) or ``$arg*`` (all of BTF)."""

    name: Special

    def __str__(self) -> str:
        return f"${self.name}"


@dataclass(frozen=True, slots=True)
class FunctionArg:
    """``$argN``: the Nth argument of the probed function, from 1."""

    number: int

    def __str__(self) -> str:
        return f"$arg{self.number}"


@dataclass(frozen=True, slots=True)
class StackWord:
    """``$stackN``: the Nth word of the stack, from 0."""

    index: int

    def __str__(self) -> str:
        return f"$stack{self.index}"


@dataclass(frozen=True, slots=True)
class Register:
    """``%name``: a register."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True)
class Memory:
    """``@ADDR``: the memory at an address of the kernel."""

    address: int

    def __str__(self) -> str:
        return f"@{_shorter(self.address, prefer_hex=True)}"


@dataclass(frozen=True, slots=True)
class SymbolMemory:
    """``@SYM``, ``@SYM+off``: the memory at a symbol of the kernel."""

    symbol: str
    offset: int = 0

    def __str__(self) -> str:
        sign = "-" if self.offset < 0 else "+"
        return (
            f"@{self.symbol}{sign}{_shorter(abs(self.offset))}"
            if self.offset
            else f"@{self.symbol}"
        )


@dataclass(frozen=True, slots=True)
class FileMemory:
    """``@+off``: the memory that an offset of the probed file is mapped to (uprobes)."""

    offset: int

    def __str__(self) -> str:
        sign = "-" if self.offset < 0 else ""
        return f"@+{sign}{_shorter(abs(self.offset), prefer_hex=True)}"


@dataclass(frozen=True, slots=True)
class Immediate:
    r"""``\N``: a number."""

    value: int

    def __str__(self) -> str:
        sign = "-" if self.value < 0 else ""
        return f"\\{sign}{_shorter(abs(self.value))}"


@dataclass(frozen=True, slots=True)
class Text:
    r"""``\"text"``: a string."""

    text: str

    def __str__(self) -> str:
        return f'\\"{self.text}"'


@dataclass(frozen=True, slots=True)
class Deref:
    """``+off(base)``: the memory ``offset`` bytes from an address; of user space with ``+uoff``."""

    offset: int
    base: Fetch
    user: bool = False

    def __str__(self) -> str:
        sign, user = "-" if self.offset < 0 else "+", "u" if self.user else ""
        return f"{sign}{user}{_shorter(abs(self.offset))}({self.base})"


@dataclass(frozen=True, slots=True)
class PerCpu:
    """``this_cpu_read(base)`` or ``this_cpu_ptr(base)``: this CPU's copy of a per-CPU variable."""

    operation: Literal["this_cpu_read", "this_cpu_ptr"]
    base: Fetch

    def __str__(self) -> str:
        return f"{self.operation}({self.base})"


@dataclass(frozen=True, slots=True)
class Access:
    """One step of a path through BTF: ``->name`` or ``.name``."""

    operator: Literal["->", "."]
    name: str

    def __str__(self) -> str:
        return f"{self.operator}{self.name}"


@dataclass(frozen=True, slots=True)
class Path:
    """``base->a->b.c``: a member of what a pointer of known type points to."""

    base: Fetch
    steps: tuple[Access, ...]

    def __str__(self) -> str:
        return f"{self.base}{''.join(map(str, self.steps))}"


@dataclass(frozen=True, slots=True)
class Cast:
    """``(struct)base``: ``base`` as a pointer to a structure, for a ``Path`` to go on from.

    With ``member``, ``(struct,member)base``: to the structure that holds the member that ``base``
    points to.
    """

    struct: str
    base: Fetch
    member: str | None = None

    def __str__(self) -> str:
        member = "" if self.member is None else f",{self.member}"
        base = str(self.base) if isinstance(self.base, Field | Variable) else f"({self.base})"
        return f"({self.struct}{member}){base}"


Fetch = (
    Field
    | Variable
    | Builtin
    | FunctionArg
    | StackWord
    | Register
    | Memory
    | SymbolMemory
    | FileMemory
    | Immediate
    | Text
    | Deref
    | PerCpu
    | Path
    | Cast
)


@dataclass(frozen=True, slots=True)
class Bits:
    """A bit field: ``width`` bits from bit ``offset`` of a container of ``container`` bits."""

    width: int
    offset: int
    container: int

    def __str__(self) -> str:
        return f"b{_shorter(self.width)}@{_shorter(self.offset)}/{self.container}"


@dataclass(frozen=True, slots=True)
class FetchType:
    """How a value is stored and shown: a type's name or a bit field, and how many in an array.

    Names: u8 to u64, s8 to s64, x8 to x64, char, string, ustring, symbol, symstr, %pd, %pD.
    """

    base: str | Bits
    count: int | None = None

    def __str__(self) -> str:
        return f"{self.base}" if self.count is None else f"{self.base}[{self.count}]"


@dataclass(frozen=True, slots=True)
class FetchArg:
    """An argument of an event, ``[NAME=]FETCH[:TYPE]``; its ``name`` is None where it has none."""

    fetch: Fetch
    name: str | None = None
    type: FetchType | None = None

    def __str__(self) -> str:
        name = "" if self.name is None else f"{self.name}="
        return f"{name}{self.fetch}" + ("" if self.type is None else f":{self.type}")


def _shorter(number: int, *, prefer_hex: bool = False) -> str:
    """Return a number in decimal or in hexadecimal, as an argument's text has a greatest length."""
    decimal, hexadecimal = f"{number}", f"{number:#x}"
    if prefer_hex:
        return hexadecimal if len(hexadecimal) <= len(decimal) else decimal
    return decimal if len(decimal) <= len(hexadecimal) else hexadecimal
