"""A compiled script and what it needs in; the bytes of an object file that holds both, out.

Other loaders find what they look for: programs in sections named as SEC() would (``tracepoint/…``,
``kprobe/…``, ``perf_event``, and ``raw_tp`` for BEGIN and END), each probe's on its own; maps in
.maps; those that programs address directly in sections of data; .BTF, .BTF.ext, and the licence.
The rest of the script is in a section of our own, .pybpf, as JSON; see docs/ahead.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pybpf.btf import ext
from pybpf.btf import types as btf
from pybpf.btf.abi import Linkage
from pybpf.btf.ext import FuncInfo, SourceLine
from pybpf.btf.writer import Writer, printable
from pybpf.dataclass import dataclass, replace
from pybpf.isa.abi import MapType
from pybpf.isa.encoding import encode
from pybpf.isa.insn import Insn, Program
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import OPS
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
from pybpf.objfile.plain import plain
from pybpf.script import CompiledScript, MapRole, MapSpec, Needs, ProbeSpec, Provider
from pybpf.source import Source, Span
from pybpf.target.arch import ARCHES
from pybpf.types import INT, U8, U32, Array, Ptr, Struct, Type, size_of, struct_of

VERSION = 1
"""Of the content of .pybpf."""
SECTION = ".pybpf"
_SLOT = 8
_EXECUTABLE, _WRITABLE = 6, 3  # SHF_ALLOC with SHF_EXECINSTR or SHF_WRITE
_LICENCE = "GPL"
_LONGEST = 80
_PATTERN = re.compile(r"[\w.*?]+", re.ASCII)
"""What libbpf takes for a pattern of functions."""
_TYPED = frozenset({MapType.HASH, MapType.PERCPU_HASH, MapType.ARRAY, MapType.PERCPU_ARRAY})


@dataclass(frozen=True, slots=True)
class Code:
    """What .pybpf says of a program: all but its instructions, which are ``function``'s.

    ``labels`` are pairs of a name and the index of an instruction. Where several stand before the
    same one, ``jumps`` tells of an instruction, by its index, which of them it names. ``spans`` are
    (index, start, end): from that instruction on they come from these characters of the script, or
    (index alone) from nowhere.
    """

    function: str
    name: str
    labels: tuple[tuple[str, int], ...]
    jumps: tuple[tuple[int, str], ...]
    spans: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Content:
    """What .pybpf says; ``symbols`` are the names that the maps of the script have in the file."""

    version: int
    needs: Needs
    symbols: tuple[str, ...]
    programs: tuple[Code, ...]
    script: CompiledScript


@dataclass(frozen=True, slots=True)
class _Placed:
    """A map, where it is declared."""

    spec: MapSpec
    symbol: Symbol
    type: Type
    addressed: bool


def pack(script: CompiledScript, needs: Needs) -> bytes:
    """Return the object file of a script; the same script gives the same bytes."""
    return _Packer(script, needs).file()


def section_name(probe: ProbeSpec) -> str:
    """Return the name of the section of a probe's program: libbpf's, with the place if it can say.

    It cannot of addresses, of functions of modules, of most patterns, and of what is timed.
    """
    match probe.provider:
        case Provider.TRACEPOINT | Provider.EPROBE:
            return f"tracepoint/{probe.tracepoint}"
        case Provider.INTERVAL | Provider.PROFILE:
            return "perf_event"
        case Provider.BEGIN | Provider.END:
            return "raw_tp"
        case Provider.KPROBE | Provider.KRETPROBE:
            return _function_section(probe)


def _title(probe: ProbeSpec) -> str:
    """Return what a program is called: its provider, and where it is attached."""
    where = probe.tracepoint or probe.spec.partition(":")[2]
    return f"{probe.provider} {where}"


def _function_section(probe: ProbeSpec) -> str:
    word = str(probe.provider)
    where = probe.spec.partition(":")[2]
    if probe.glob:
        multi = probe.traced and _PATTERN.fullmatch(where)
        return f"{word}.multi/{where}" if multi else word
    (place,) = probe.functions
    if not re.fullmatch(r"[\w.]+", place.symbol, re.ASCII):
        return word
    if place.offset == 0:
        return f"{word}/{place.symbol}"
    return f"{word}/{place.symbol}+{place.offset:#x}" if word == Provider.KPROBE else word


class _Packer:
    def __init__(self, script: CompiledScript, needs: Needs) -> None:
        self._script = script
        self._needs = needs
        self._byteorder = ARCHES[script.arch].byteorder
        self._btf = Writer(self._byteorder)
        self._sections: list[Section] = []
        self._symbols: list[Symbol] = []
        self._names: set[str] = set()
        self._maps: dict[str, _Placed] = {}
        self._functions: dict[str, list[FuncInfo]] = {}
        self._lines: dict[str, list[SourceLine]] = {}

    def file(self) -> bytes:
        functions = [self._name(_title(probe)) for probe in self._script.probes]
        names = [self._name(spec.name) for spec in self._script.maps]
        by_section: dict[str, list[int]] = {}
        for index, probe in enumerate(self._script.probes):
            by_section.setdefault(section_name(probe), []).append(index)
        # Maps come behind programs, but are what these refer to.
        self._place_maps(names, first=len(by_section) + 1)
        for name, indices in by_section.items():
            self._programs(name, [(functions[i], self._script.probes[i].program) for i in indices])
        self._declare_maps()
        self._add("license", _WRITABLE, _LICENCE.encode() + b"\0")
        extra = ext.pack(self._functions, self._lines, self._btf.string, self._byteorder)
        self._add(".BTF", 0, self._btf.blob())
        self._add(".BTF.ext", 0, extra)
        # libbpf says nothing of tables of strings, and one string is what this is.
        content = b"\0" + self._content(functions, names) + b"\0"
        self._add(SECTION, 0, content, kind="SHT_STRTAB")
        return writer.write(self._sections, self._symbols, self._byteorder)

    def _name(self, wanted: str) -> str:
        """Return an identifier of C that nothing else in the file is called."""
        words = re.sub(r"[^a-zA-Z0-9]+", "_", wanted).strip("_")[:_LONGEST] or "map"
        stem = f"_{words}" if words[0].isdigit() else words
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name

    def _add(
        self, name: str, flags: int, data: bytes,
        *, kind: str = "SHT_PROGBITS", relocations: Iterable[Relocation] = (),
    ) -> None:  # fmt: skip
        index, moved = len(self._sections) + 1, tuple(relocations)
        self._sections.append(Section(index, name, kind, flags, len(data), data, moved))

    # --- maps -------------------------------------------------------------------------------------

    def _place_maps(self, names: Sequence[str], first: int) -> None:
        """Say where maps will be: those that programs address in sections of their own."""
        addressed = {
            insn.symbol for probe in self._script.probes for insn in probe.program.insns
            if insn.op is OPS["lddw_map_value"]
        }  # fmt: skip
        declared = [spec for spec in self._script.maps if spec.name not in addressed]
        offset, data = 0, first + bool(declared)
        for spec, name in zip(self._script.maps, names, strict=True):
            if spec.name in addressed:
                t = _sized(spec.content, spec.value_size)
                place = _object(name, data, 0, spec.value_size)
                data += 1
            else:
                t = _declaration(spec)
                place = _object(name, first, offset, t.size)
                offset += t.size
            self._maps[spec.name] = _Placed(spec, place, t, spec.name in addressed)
            self._symbols.append(place)

    def _declare_maps(self) -> None:
        declared = [each for each in self._maps.values() if not each.addressed]
        if declared:
            size = sum(each.symbol.size for each in declared)
            self._variables(".maps", size, declared)
            self._add(".maps", _WRITABLE, bytes(size))
        for each in self._maps.values():
            if each.addressed:
                self._declare_data(each)

    def _declare_data(self, placed: _Placed) -> None:
        """Add the section of a map that programs address: its first element, as it begins."""
        # Loaders give constants another value by their names, as `pybpf load --rodata` does.
        kind = "rodata" if placed.spec.role is MapRole.TARGET else "data"
        section, size = f".{kind}.{placed.symbol.name}", placed.spec.value_size
        self._variables(section, size, [placed])
        self._add(section, _WRITABLE, placed.spec.initial.ljust(size, b"\0"))

    def _variables(self, section: str, size: int, rows: Iterable[_Placed]) -> None:
        """Say in .BTF which variables a section holds."""
        variables = []
        for each in rows:
            symbol = each.symbol
            t = self._btf.type(each.type)
            number = self._btf.add(btf.Var(symbol.name, t, Linkage.GLOBAL))
            variables.append(btf.Placed(number, symbol.value, symbol.size))
        self._btf.add(btf.DataSec(section, size, tuple(variables)))

    # --- programs ---------------------------------------------------------------------------------

    def _programs(self, section: str, rows: Iterable[tuple[str, Program]]) -> None:
        """Add a section of programs, and what .BTF.ext says of it."""
        code = bytearray()
        relocations: list[Relocation] = []
        index = len(self._sections) + 1
        for name, program in rows:
            start = len(code)
            relocations += self._relocations(program, start)
            code += encode(_bare(program), self._byteorder)
            self._symbols.append(
                Symbol(name, SymbolType.FUNC, Binding.GLOBAL, Visibility.DEFAULT, index, start,
                       len(code) - start)
            )  # fmt: skip
            info = FuncInfo(start, self._btf.main(program, name))
            self._functions.setdefault(section, []).append(info)
            if program.lines:
                self._lines.setdefault(section, []).extend(_lines(program, start))
        self._add(section, _EXECUTABLE, bytes(code), relocations=relocations)

    def _relocations(self, program: Program, start: int) -> Iterator[Relocation]:
        for slot, insn in zip(slot_offsets(program), program.insns, strict=False):
            if insn.op.name in _REFERS and insn.symbol is not None:
                symbol = self._maps[insn.symbol].symbol
                yield Relocation(start + slot * _SLOT, RelocationType.INSN_64, symbol, 0)

    # --- .pybpf -----------------------------------------------------------------------------------

    def _content(self, functions: Sequence[str], names: Sequence[str]) -> bytes:
        import json

        source = self._script.source
        numbers: dict[int, int] = {}
        programs: list[Code] = []
        for probe, function in zip(self._script.probes, functions, strict=True):
            if id(probe.program) not in numbers:
                numbers[id(probe.program)] = len(programs)
                programs.append(_code(probe.program, function, source))
        hooks = {
            Program: lambda program: numbers[id(program)],
            Span: lambda span: [span.start, span.end] if span.source == source else None,
        }
        content = Content(VERSION, self._needs, tuple(names), tuple(programs), self._script)
        data: Any = plain(content, Content, hooks)
        return json.dumps(data, separators=(",", ":")).encode()


_REFERS = frozenset({"lddw_map_fd", "lddw_map_value"})


def _lines(program: Program, start: int) -> Iterator[SourceLine]:
    """Yield the lines of a program that begins at byte ``start`` of its section."""
    offsets = slot_offsets(program)
    for row in program.lines:
        offset = start + offsets[row.index] * _SLOT
        yield SourceLine(offset, printable(row.file), printable(row.text), row.line, row.column)


def _bare(program: Program) -> Program:
    """Return a program that loads zeros, or offsets, where there will be the addresses of maps."""
    return replace(program, insns=tuple(map(_bare_insn, program.insns)))


def _bare_insn(insn: Insn) -> Insn:
    if insn.op.name not in _REFERS:
        return insn
    return Insn(OPS["lddw"], insn.dst, imm=insn.imm >> 32)


def _object(name: str, section: int, offset: int, size: int) -> Symbol:
    return Symbol(
        name, SymbolType.OBJECT, Binding.GLOBAL, Visibility.DEFAULT, section, offset, size
    )


def _sized(t: Type, size: int) -> Type:
    """Return a type of that size: the given one, or else bytes."""
    return t if size_of(t) == size else Array(U8, size)


def _number(value: int) -> Type:
    """Return what ``__uint(field, value)`` makes the type of a field."""
    return Ptr(Array(INT, value))


def _declaration(spec: MapSpec) -> Struct:
    """Return the type that declares a map in .maps, as libbpf reads it."""
    fields: list[tuple[str, Type]] = [("type", _number(spec.type))]
    if spec.max_entries:
        fields.append(("max_entries", _number(spec.max_entries)))
    if spec.flags:
        fields.append(("map_flags", _number(spec.flags)))
    if spec.type in _TYPED:
        key = U32 if spec.key is None or spec.constants else spec.key
        fields.append(("key", Ptr(_sized(key, spec.key_size))))
        fields.append(("value", Ptr(_sized(spec.content, spec.value_size))))
    elif spec.key_size or spec.value_size:
        fields.append(("key_size", _number(spec.key_size)))
        fields.append(("value_size", _number(spec.value_size)))
    return struct_of("", fields)


def first_labels(labels: Iterable[tuple[str, int]]) -> dict[int, str]:
    """Return the first label before each instruction that has one, by its index."""
    first: dict[int, str] = {}
    for label, index in labels:
        first.setdefault(index, label)
    return first


def _code(program: Program, function: str, source: Source) -> Code:
    labels = tuple(program.labels.items())
    first = first_labels(labels)
    jumps = tuple(
        (index, label)
        for index, label in enumerate(insn.symbol or "" for insn in program.insns)
        if label in program.labels and first[program.labels[label]] != label
    )
    return Code(function, program.name, labels, jumps, tuple(_runs(program.spans, source)))


def _runs(spans: Sequence[Span | None], source: Source) -> Iterator[tuple[int, ...]]:
    """Yield where spans change."""
    before: tuple[int, ...] = ()
    for index, span in enumerate(spans):
        known = span is not None and span.source == source
        place = (span.start, span.end) if span is not None and known else ()
        if place != before or not index:
            yield (index, *place)
        before = place
