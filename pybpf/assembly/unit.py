"""What an assembler text describes, as values: functions, maps, data, externs.

Instructions refer to all of these by name: a ``lddw_map_fd`` has a map's as its ``symbol``, a
``lddw_map_value`` a variable's (and the offset into it in the high half of ``imm``), a
``call_local`` or a ``lddw_func`` a function's, a ``call_kfunc``, ``lddw`` or ``lddw_btf_id`` an
extern's.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.dataclass import dataclass, field
from pybpf.errors import Diagnostic
from pybpf.isa.insn import ByteOrder, Program
from pybpf.isa.operands import Outside
from pybpf.source import Source, Span
from pybpf.types import Func, Type

TEXT = ".text"
"""The section of functions that are no programs."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function. ``section`` is that of ``SEC()``, ``.text``, or empty: in none, a plain text."""

    name: str
    section: str
    is_global: bool
    prototype: Func
    program: Program
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Map:
    """A map. ``key`` and ``value`` are types, or sizes in bytes, or None where there are none.

    ``inner`` is the template of a map of maps; ``values`` are maps or programs that a map holds
    from the start, each with its index.
    """

    name: str
    map_type: int
    key: Type | int | None = None
    value: Type | int | None = None
    entries: int = 0
    flags: int = 0
    extra: int = 0
    numa_node: int | None = None
    pinned_by_name: bool = False
    inner: Map | None = None
    values: tuple[tuple[int, str], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A name for bytes of a section, ``offset`` from its start."""

    name: str
    offset: int
    size: int
    type: Type


@dataclass(frozen=True, slots=True)
class Data:
    """A section of data; ``places`` says which bytes (offset, size) a directive made."""

    section: str
    content: bytes
    variables: tuple[Variable, ...]
    places: tuple[tuple[int, int, Span], ...] = field(default=(), compare=False, repr=False)

    @property
    def zeros(self) -> bool:
        """Whether it takes no room in a file."""
        return self.section.split(".")[1] == "bss"


@dataclass(frozen=True, slots=True)
class Extern:
    """A name that the kernel defines: a kfunc, a symbol, or (``kconfig``) one of its options."""

    name: str
    type: Type
    weak: bool = False
    kconfig: bool = False

    @property
    def outside(self) -> Outside:
        """How instructions refer to it."""
        if isinstance(self.type, Func):
            return Outside.KFUNC
        return Outside.KSYM


@dataclass(frozen=True, slots=True)
class Unit:
    """All of a text. ``symbols`` are the names that instructions may refer to."""

    source: Source
    byteorder: ByteOrder
    licence: str
    functions: tuple[Function, ...]
    maps: tuple[Map, ...]
    data: tuple[Data, ...]
    externs: tuple[Extern, ...]
    symbols: Mapping[str, Outside]
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether it is nothing but instructions, which belong to no section."""
        return all(not f.section for f in self.functions) and not (self.maps or self.data)
