"""A Unit in, the bytes of an eBPF object file out, which pybpf, bpftool and libbpf load.

SEC() names, .text   functions, global symbols but for static ones; calls and loads relocated
.maps                a variable of each map, whose type says what it is
.data .rodata .bss   as they are
license              the licence
.BTF .BTF.ext        types of all of these, and the lines of the text that instructions are from
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from pybpf.assembly.unit import TEXT, Data, Extern, Function, Map, Unit, Variable
from pybpf.btf import ext
from pybpf.btf import types as btf
from pybpf.btf.abi import Kind, Linkage
from pybpf.btf.ext import FuncInfo, SourceLine
from pybpf.btf.writer import Writer, printable
from pybpf.errors import AssemblyError, BtfError, Diagnostic
from pybpf.isa.assembler import placeholders
from pybpf.isa.encoding import encode
from pybpf.isa.layout import slot_offsets
from pybpf.isa.operands import Outside
from pybpf.isa.table import OPS, Form
from pybpf.objfile import writer
from pybpf.objfile.elf import (
    Binding,
    Relocation,
    RelocationType,
    Section,
    Symbol,
    SymbolType,
    Visibility,
)
from pybpf.types import (
    CHAR,
    INT,
    U8,
    U16,
    U32,
    U64,
    VOID,
    Array,
    Func,
    Ptr,
    Struct,
    Type,
    size_of,
    struct_of,
)

_SLOT, _POINTER = 8, 8
_CODE, _DATA, _CONSTANT = 6, 3, 2  # SHF_ALLOC, with SHF_EXECINSTR or SHF_WRITE
_CALLS = frozenset({OPS["call_local"], OPS["call_kfunc"]})
_INTEGERS = {1: U8, 2: U16, 4: U32, 8: U64}
_KSYMS, _KCONFIG, _MAPS = ".ksyms", ".kconfig", ".maps"


def write(unit: Unit) -> bytes:
    """Return the object file; the same unit gives the same bytes.

    Raises AssemblyError for a unit with instructions in no section, and where a type or a section
    has more parts than there is room for in .BTF.
    """
    for function in unit.functions:
        if not function.section:
            raise AssemblyError(_homeless(function))
    try:
        return _Objects(unit).file()
    except BtfError as error:
        raise AssemblyError(Diagnostic(str(error))) from None


def _homeless(function: Function) -> Diagnostic:
    spans = [span for span in function.program.spans if span is not None]
    hint = "begin it with .prog and a section such as xdp or kprobe/vfs_read"
    wrong = "an object has all instructions in programs and functions"
    return Diagnostic(wrong, spans[0] if spans else None, (hint,))


class _Objects:
    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._mark = "<" if unit.byteorder == "little" else ">"
        self._types = Writer(unit.byteorder)
        self._sections: list[Section] = []
        self._symbols: dict[str, Symbol] = {}
        self._starts: dict[str, int] = {}
        self._text: Symbol | None = None

    def file(self) -> bytes:
        by_section: dict[str, list[Function]] = {}
        for function in self._unit.functions:
            by_section.setdefault(function.section, []).append(function)
        names = [*by_section, *([_MAPS] if self._unit.maps else ()),
                 *(data.section for data in self._unit.data)]  # fmt: skip
        index_of = {name: index for index, name in enumerate(names, start=1)}
        self._place(by_section, index_of)
        infos = {}
        lines = {}
        for name, functions in by_section.items():
            self._code(name, functions)
            infos[name] = [self._info(function) for function in functions]
            lines[name] = [row for function in functions for row in self._lines(function)]
        self._maps()
        for data in self._unit.data:
            self._data(data)
        self._externs()
        self._add("license", _DATA, self._unit.licence.encode("utf-8", "replace") + b"\0")
        extra = ext.pack(infos, lines, self._types.string, self._unit.byteorder)
        self._add(".BTF", 0, self._types.blob())
        if infos:
            self._add(".BTF.ext", 0, extra)
        symbols = [*self._symbols.values(), *([self._text] if self._text else ())]
        return writer.write(self._sections, symbols, self._unit.byteorder)

    def _add(
        self, name: str, flags: int, data: bytes, relocations: Sequence[Relocation] = (),
        *, zeros: bool = False,
    ) -> None:  # fmt: skip
        kind = "SHT_NOBITS" if zeros else "SHT_PROGBITS"
        kept = b"" if zeros else data
        self._sections.append(
            Section(len(self._sections) + 1, name, kind, flags, len(data), kept, tuple(relocations))
        )

    # --- where everything is ----------------------------------------------------------------------

    def _place(
        self, by_section: Mapping[str, Sequence[Function]], index_of: Mapping[str, int]
    ) -> None:
        for section, functions in by_section.items():
            end = 0
            for function in functions:
                size = slot_offsets(function.program)[-1] * _SLOT
                static = section == TEXT and not function.is_global
                binding = Binding.LOCAL if static else Binding.GLOBAL
                self._symbol(function.name, SymbolType.FUNC, index_of[section], end, size, binding)
                self._starts[function.name] = end
                end += size
        if TEXT in index_of:
            self._text = Symbol(
                "", SymbolType.SECTION, Binding.LOCAL, Visibility.DEFAULT, index_of[TEXT], 0, 0
            )
        end = 0
        for one in self._unit.maps:
            size = _declaration(one).size + _POINTER * _slots(one)
            self._symbol(one.name, SymbolType.OBJECT, index_of[_MAPS], end, size)
            end += size
        for data in self._unit.data:
            for one_of in data.variables:
                self._symbol(
                    one_of.name, SymbolType.OBJECT, index_of[data.section], one_of.offset,
                    one_of.size,
                )  # fmt: skip
        for extern in self._unit.externs:
            binding = Binding.WEAK if extern.weak else Binding.GLOBAL
            self._symbol(extern.name, SymbolType.NOTYPE, None, 0, 0, binding)

    def _symbol(
        self, name: str, kind: SymbolType, section: int | None, value: int, size: int,
        binding: Binding = Binding.GLOBAL,
    ) -> None:  # fmt: skip
        self._symbols[name] = Symbol(name, kind, binding, Visibility.DEFAULT, section, value, size)

    # --- functions --------------------------------------------------------------------------------

    def _code(self, section: str, functions: Sequence[Function]) -> None:
        code = bytearray()
        relocations: list[Relocation] = []
        for function in functions:
            start = len(code)
            code += encode(placeholders(function.program, self._unit.symbols), self._unit.byteorder)
            for row, imm in self._relocations(function, start):
                relocations.append(row)
                if imm is not None:
                    struct.pack_into(f"{self._mark}I", code, row.offset + 4, imm)
        self._add(section, _CODE, bytes(code), relocations)

    def _relocations(
        self, function: Function, start: int
    ) -> Iterator[tuple[Relocation, int | None]]:
        """Yield the relocations of a function that begins at ``start``, each with a new ``imm``."""
        slots = slot_offsets(function.program)
        for slot, insn in zip(slots, function.program.insns, strict=False):
            kind = self._unit.symbols.get(insn.symbol or "")
            if insn.symbol is None or kind is None:
                continue
            symbol, place = self._symbols[insn.symbol], start + slot * _SLOT
            if insn.op in _CALLS:
                yield Relocation(place, RelocationType.INSN_32, symbol, 0), None
            elif insn.op.form is Form.LOAD_IMM64:
                imm = None
                if kind is Outside.FUNCTION and symbol.binding == Binding.LOCAL and self._text:
                    # libbpf takes the addresses of static functions by places in their section.
                    imm, symbol = symbol.value, self._text
                yield Relocation(place, RelocationType.INSN_64, symbol, 0), imm

    def _info(self, function: Function) -> FuncInfo:
        static = function.section == TEXT and not function.is_global
        linkage = Linkage.STATIC if static else Linkage.GLOBAL
        number = self._types.function(function.name, function.prototype, linkage)
        return FuncInfo(self._starts[function.name], number)

    def _lines(self, function: Function) -> Iterator[SourceLine]:
        """Yield the first instruction of each statement's line, in order."""
        source = self._unit.source
        start = self._starts[function.name]
        rows = (
            (source.position(span.start), start + slot * _SLOT)
            for span, slot in zip(
                function.program.spans, slot_offsets(function.program), strict=False
            )
            if span is not None
        )
        for (line, _), group in groupby(rows, key=lambda row: (row[0][0], 0)):
            (_, column), offset = next(group)
            text = printable(source.line(line).strip())
            yield SourceLine(offset, printable(source.name), text, line, column)

    # --- maps, data, externs ----------------------------------------------------------------------

    def _maps(self) -> None:
        if not self._unit.maps:
            return
        content = bytearray()
        relocations = []
        rows = []
        for one in self._unit.maps:
            t = _declaration(one)
            start = len(content)
            relocations += [
                Relocation(
                    start + t.size + index * _POINTER, RelocationType.ABS64, self._symbols[name], 0
                )
                for index, name in one.values
            ]
            size = t.size + _POINTER * _slots(one)
            content += bytes(size)
            rows.append(btf.Placed(self._variable(one.name, t), start, size))
        relocations.sort(key=lambda row: row.offset)
        self._types.add(btf.DataSec(_MAPS, len(content), tuple(rows)))
        self._add(_MAPS, _DATA, bytes(content), relocations)

    def _variable(self, name: str, t: Type, linkage: Linkage = Linkage.GLOBAL) -> int:
        return self._types.add(btf.Var(name, self._types.type(t), linkage))

    def _data(self, data: Data) -> None:
        rows = [
            btf.Placed(self._variable(one.name, one.type), one.offset, one.size)
            for one in _apart(data.variables)
        ]
        if rows:
            self._types.add(btf.DataSec(data.section, len(data.content), tuple(rows)))
        flags = _CONSTANT if data.section.startswith(".rodata") else _DATA
        self._add(data.section, flags, data.content, zeros=data.zeros)

    def _externs(self) -> None:
        sections: dict[str, list[btf.Placed]] = {}
        for extern in self._unit.externs:
            number = self._extern(extern)
            row = btf.Placed(number, 0, size_of(extern.type))
            sections.setdefault(_KCONFIG if extern.kconfig else _KSYMS, []).append(row)
        for name, rows in sections.items():
            self._types.add(btf.DataSec(name, 0, tuple(rows)))

    def _extern(self, extern: Extern) -> int:
        if isinstance(extern.type, Func):
            params = tuple((name, self._opaque(t)) for name, t in extern.type.params)
            proto = btf.FuncProto(self._opaque(extern.type.returns), params)
            return self._types.add(btf.Func(extern.name, self._types.add(proto), Linkage.EXTERN))
        return self._types.add(btf.Var(extern.name, self._opaque(extern.type), Linkage.EXTERN))

    def _opaque(self, t: Type) -> int:
        """Return the number of a type of the kernel's, unknown structures being empty.

        libbpf compares kinds, and takes none that is only declared for one that is defined.
        """
        match t:
            case Ptr():
                return self._types.add(btf.Reference(Kind.PTR, self._opaque(t.to)))
            case Struct(fields=()):
                return self._types.add(btf.Composite(Kind.STRUCT, t.name, 0, ()))
            case _:
                return self._types.type(t)


def _apart(variables: Sequence[Variable]) -> Iterator[Variable]:
    """Yield the variables that .BTF can tell of: with a size, one for each place."""
    end = 0
    for one in variables:
        if one.size and one.offset >= end:
            end = one.offset + one.size
            yield one


def _slots(one: Map) -> int:
    """Return how many pointers to values a map's declaration has behind it."""
    return max((index for index, _ in one.values), default=-1) + 1


def _number(value: int) -> Type:
    """Return what says a number: an array's length (of bytes, so that no size is out of range)."""
    return Ptr(Array(CHAR, value))


def _declaration(one: Map) -> Struct:
    """Return the type that declares a map, as libbpf reads it."""
    fields: list[tuple[str, Type]] = [("type", _number(one.map_type))]
    # The kernel takes the types of both or of none.
    typed = not (isinstance(one.key, int | None) and isinstance(one.value, int | None))
    for name, t in (("key", one.key), ("value", one.value)):
        if isinstance(t, int) and typed:
            fields.append((name, Ptr(_INTEGERS.get(t) or Array(U8, t))))
        elif isinstance(t, int):
            fields.append((f"{name}_size", _number(t)))
        elif t is not None and not (name == "value" and one.inner is not None):
            fields.append((name, Ptr(t)))
    for name, value in (
        ("max_entries", one.entries), ("map_flags", one.flags), ("map_extra", one.extra),
        ("pinning", int(one.pinned_by_name)), ("numa_node", one.numa_node or 0),
    ):  # fmt: skip
        if value:
            fields.append((name, _number(value)))
    if one.inner is not None:
        fields.append(("values", Array(Ptr(_declaration(one.inner)), 0)))
    elif one.values:
        program = Func(INT, (("ctx", Ptr(VOID)),))
        fields.append(("values", Array(Ptr(program), 0)))
    return struct_of("", fields)
