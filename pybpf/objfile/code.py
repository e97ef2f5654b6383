"""Sections of instructions in; programs out, with their subprograms behind them and symbols named.

What a loader does before it can ask for file descriptors: functions are cut out of their sections,
the subprograms that a program calls are put behind it, in the order in which its instructions come
to them, and every relocated instruction is given the name of what it refers to. Relocations count
slots of eight bytes:

    lddw (R_BPF_64_64)  a map, data of the object, a function's address, or an extern
    call (R_BPF_64_32)  a subprogram, or a kfunc
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from pybpf.dataclass import dataclass, field
from pybpf.errors import EncodingError, ObjectError
from pybpf.isa.encoding import decode
from pybpf.isa.insn import Insn, Program
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import OPS
from pybpf.objfile.elf import (
    Binding,
    Elf,
    Relocation,
    RelocationType,
    Section,
    SymbolType,
    Visibility,
    between,
)
from pybpf.objfile.externs import Extern, ExternKind
from pybpf.objfile.maps import ObjectMap, Origin

_SLOT = 8
_LDDW, _CALL, _EXIT = OPS["lddw"].opcode, OPS["call_local"].opcode, OPS["exit"].opcode
_PSEUDO_CALL, _PSEUDO_KFUNC, _PSEUDO_FUNC = (
    OPS[name].src or 0 for name in ("call_local", "call_kfunc", "lddw_func")
)
_FUNCTIONS_AT_MOST = 30_000
_SLOTS_AT_MOST = 1_000_000
"""The most instructions that a kernel takes."""
_ALL_SLOTS_AT_MOST = 2_000_000
"""The most of all programs: each has its own copies of the functions that it calls."""


class Use(Enum):
    """What a relocated instruction refers to."""

    MAP = auto()
    DATA = auto()
    EXTERN = auto()
    KFUNC = auto()


@dataclass(frozen=True, slots=True)
class Reference:
    """What the instruction at ``slot`` refers to: a name, and an offset into what it names."""

    slot: int
    use: Use
    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """A function of an object as its section holds it; ``start`` in bytes within that section."""

    name: str
    section: Section = field(repr=False)
    start: int
    size: int
    is_global: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A function within a linked program, where it begins at ``slot``."""

    function: Function
    slot: int


@dataclass(frozen=True, slots=True)
class Linked:
    """A program and its subprograms, one after the other, and what their slots refer to."""

    program: Program
    pieces: tuple[Piece, ...]
    references: tuple[Reference, ...]


def functions(elf: Elf) -> tuple[Function, ...]:
    """Return the functions of all sections that hold instructions, by section and place.

    Raises ObjectError for one that is not wholly within its section or no whole instructions, and
    for more than any compiler makes.
    """
    found = []
    for section in elf.sections:
        if not section.executable or not section.size:
            continue
        own = [s for s in elf.symbols_of(section) if s.type == SymbolType.FUNC]
        if not own and section.name != ".text":
            own = [s for s in elf.symbols_of(section) if s.type == SymbolType.NOTYPE
                   and s.binding == Binding.GLOBAL]  # fmt: skip
        for symbol in sorted(own, key=lambda s: s.value):
            size = symbol.size or section.size - symbol.value
            if symbol.value % _SLOT or size % _SLOT or symbol.value + size > section.size:
                reason = f"{symbol.name} is {size} bytes of {section.size}, no whole instructions"
                raise ObjectError(elf.path, reason, section=section.name, offset=symbol.value)
            is_global = symbol.binding != Binding.LOCAL and symbol.visibility not in {
                Visibility.HIDDEN, Visibility.INTERNAL,
            }  # fmt: skip
            found.append(Function(symbol.name, section, symbol.value, size, is_global))
    if len(found) > _FUNCTIONS_AT_MOST:
        reason = f"{len(found)} functions are more than {_FUNCTIONS_AT_MOST}"
        raise ObjectError(elf.path, reason)
    return tuple(found)


class Linker:
    """Puts programs together; one serves all programs of an object."""

    def __init__(
        self,
        elf: Elf,
        functions: tuple[Function, ...],
        maps: tuple[ObjectMap, ...],
        externs: tuple[Extern, ...],
    ) -> None:
        self._elf = elf
        self._mark = "<" if elf.byteorder == "little" else ">"
        self._at = {(f.section.index, f.start): f for f in functions}
        self._declared = {(m.section, m.offset): m for m in maps if m.origin in _DECLARED}
        self._data = {m.section: m for m in maps if m.origin not in _DECLARED}
        self._externs: Mapping[str, Extern] = {extern.name: extern for extern in externs}
        self._room = _ALL_SLOTS_AT_MOST

    def link(self, function: Function, catches: Function | None = None) -> Linked:
        """Return a program that begins with ``function``.

        ``catches``: the function that its exceptions end in, which nobody need call. Raises
        ObjectError for instructions that are none, and for what refers to nothing.
        """
        self._begin()
        # The order of libbpf: what a function calls comes behind it and all that was placed before,
        # and is itself walked before the next instruction of its caller. Not by recursion, since a
        # chain of calls may be as long as a file.
        self._place_all(function)
        if catches is not None and (catches.section.index, catches.start) not in self._placed:
            self._place_all(catches)
        self._resolve_calls()
        return Linked(self._decode(function), tuple(self._pieces), tuple(self._references))

    def _place_all(self, function: Function) -> None:
        """Append a function, and all that are called from it and not there yet."""
        walks = [iter(self._place(function))]
        while walks:
            for called in walks[-1]:
                if (called.section.index, called.start) not in self._placed:
                    walks.append(iter(self._place(called)))
                    break
            else:
                walks.pop()

    def alone(self, function: Function) -> Linked:
        """Return a function without those that it calls, which its instructions only name.

        Raises ObjectError as ``link`` does.
        """
        self._begin()
        for called in self._place(function):
            if (called.section.index, called.start) not in self._placed:
                # Stands for it while distances are decoded.
                self._placed[called.section.index, called.start] = len(self._bytes) // _SLOT
                self._pieces.append(Piece(called, len(self._bytes) // _SLOT))
                self._bytes += bytes((_EXIT, *bytes(_SLOT - 1)))
        self._resolve_calls()
        whole = self._decode(function)
        count = len(whole.insns) - (len(self._pieces) - 1)
        labels = {name: index for name, index in whole.labels.items() if index < count}
        program = Program(whole.insns[:count], MappingProxyType(labels), function.name)
        return Linked(program, (self._pieces[0],), tuple(self._references))

    def _begin(self) -> None:
        self._bytes = bytearray()
        self._placed: dict[tuple[int, int], int] = {}
        self._pieces: list[Piece] = []
        self._calls: list[tuple[int, Function]] = []
        self._references: list[Reference] = []

    def _place(self, function: Function) -> list[Function]:
        """Append a function's instructions; return the functions these refer to, in order."""
        base = len(self._bytes) // _SLOT
        start, end = function.start, function.start + function.size
        if base + function.size // _SLOT > _SLOTS_AT_MOST:
            reason = f"{function.name} makes its program longer than {_SLOTS_AT_MOST} instructions"
            raise ObjectError(self._elf.path, reason, section=function.section.name)
        self._room -= function.size // _SLOT
        if self._room < 0:
            reason = f"its programs have more than {_ALL_SLOTS_AT_MOST} instructions together"
            raise ObjectError(self._elf.path, reason)
        self._placed[function.section.index, start] = base
        self._pieces.append(Piece(function, base))
        self._bytes += function.section.data[start:end]
        relocated = {r.offset: r for r in between(function.section.relocations, start, end)}
        offset = start
        called: list[Function] = []
        while offset < end:
            slot = base + (offset - start) // _SLOT
            relocation = relocated.get(offset)
            opcode = self._bytes[slot * _SLOT]
            target = None
            if opcode == _CALL:
                target = self._call(function, slot, offset, relocation)
            elif relocation is not None and opcode == _LDDW:
                target = self._load(function, slot, relocation)
            elif relocation is not None:
                raise self._refuse(function, offset, "it relocates neither a lddw nor a call")
            if target is not None:
                called.append(target)
                self._calls.append((slot, target))
            offset += 2 * _SLOT if opcode == _LDDW else _SLOT
        return called

    def _refuse(self, function: Function, offset: int, reason: str) -> ObjectError:
        section = function.section.name
        return ObjectError(self._elf.path, reason, section=section, offset=offset)

    def _call(
        self, function: Function, slot: int, offset: int, relocation: Relocation | None
    ) -> Function | None:
        """Return the function that a call goes to; None for a helper or a kfunc."""
        _, registers, _, imm = struct.unpack_from(f"{self._mark}BBhi", self._bytes, slot * _SLOT)
        source = registers >> 4 if self._mark == "<" else registers & 15
        if relocation is None:
            if source != _PSEUDO_CALL:
                return None
            place = (function.section.index, offset + _SLOT + imm * _SLOT)
        elif relocation.symbol.section is None:
            self._kfunc(function, slot, offset, relocation)
            return None
        else:
            symbol = relocation.symbol
            place = (relocation.symbol.section, symbol.value + (imm + 1) * _SLOT)
        target = self._at.get(place)
        if target is None:
            raise self._refuse(function, offset, "a call to where no function begins")
        return target

    def _kfunc(self, function: Function, slot: int, offset: int, relocation: Relocation) -> None:
        name = relocation.symbol.name
        extern = self._externs.get(name)
        if extern is None or extern.kind is not ExternKind.KFUNC:
            reason = f"{name or 'a function without a name'} is called, but defined nowhere"
            raise self._refuse(function, offset, reason)
        self._references.append(Reference(slot, Use.KFUNC, name))
        nibbles = _PSEUDO_KFUNC << 4 if self._mark == "<" else _PSEUDO_KFUNC
        struct.pack_into(f"{self._mark}BBhi", self._bytes, slot * _SLOT, _CALL, nibbles, 0, 0)

    def _load(self, function: Function, slot: int, relocation: Relocation) -> Function | None:
        """Note what a lddw loads the address of; return it where it is a function."""
        symbol, offset = relocation.symbol, relocation.offset
        if relocation.type not in {RelocationType.INSN_64, RelocationType.NONE}:
            raise self._refuse(function, offset, f"no relocation of a lddw: type {relocation.type}")
        if len(self._bytes) < (slot + 2) * _SLOT:
            raise self._refuse(function, offset, "the lddw lacks its second slot")
        (addend,) = struct.unpack_from(f"{self._mark}I", self._bytes, slot * _SLOT + 4)
        if symbol.section is None:
            self._references.append(self._extern(function, slot, relocation, addend))
            return None
        place = symbol.value + addend
        if (declared := self._declared.get((symbol.section, place))) is not None:
            self._references.append(Reference(slot, Use.MAP, declared.name))
        elif (data := self._data.get(symbol.section)) is not None:
            self._references.append(Reference(slot, Use.DATA, data.name, place))
        elif (target := self._at.get((symbol.section, place))) is not None:
            return target
        else:
            where = self._elf.sections[symbol.section].name
            reason = f"neither a map, nor data, nor a function is at {place:#x} of {where}"
            raise self._refuse(function, offset, reason)
        return None

    def _extern(
        self, function: Function, slot: int, relocation: Relocation, addend: int
    ) -> Reference:
        name = relocation.symbol.name
        extern = self._externs.get(name)
        if extern is None:
            reason = f"{name or 'a symbol without a name'} is defined nowhere"
            raise self._refuse(function, relocation.offset, reason)
        if extern.kind is ExternKind.KCONFIG:
            return Reference(slot, Use.DATA, Origin.KCONFIG.value, extern.offset + addend)
        return Reference(slot, Use.EXTERN, name, addend)

    def _resolve_calls(self) -> None:
        """Give calls, and addresses of functions, their distances within the program."""
        for slot, target in self._calls:
            distance = self._placed[target.section.index, target.start] - slot - 1
            at = slot * _SLOT
            opcode, registers = self._bytes[at], self._bytes[at + 1]
            pseudo = _PSEUDO_CALL if opcode == _CALL else _PSEUDO_FUNC
            if self._mark == "<":
                registers = registers & 0x0F | pseudo << 4
            else:
                registers = registers & 0xF0 | pseudo
            struct.pack_into(f"{self._mark}BBhi", self._bytes, at, opcode, registers, 0, distance)

    def _decode(self, function: Function) -> Program:
        try:
            plain = decode(bytes(self._bytes), self._elf.byteorder)
        except EncodingError as error:
            piece = next(p for p in reversed(self._pieces) if p.slot <= error.index)
            offset = piece.function.start + (error.index - piece.slot) * _SLOT
            raise self._refuse(piece.function, offset, error.reason) from None
        insns = list(plain.insns)
        index_of = {slot: index for index, slot in enumerate(slot_offsets(plain))}
        for reference in self._references:
            index = index_of[reference.slot]
            insns[index] = self._refer(insns[index], reference)
        names = self._labels(plain, index_of)
        for index, insn in enumerate(insns):
            if insn.symbol in names and insn.op in _CODE:
                insns[index] = Insn(
                    insn.op, insn.dst, insn.src, insn.off, insn.imm, names[insn.symbol]
                )
        labels = {names.get(name, name): index for name, index in plain.labels.items()}
        return Program(tuple(insns), MappingProxyType(labels), function.name)

    def _refer(self, insn: Insn, reference: Reference) -> Insn:
        name = reference.name
        match reference.use:
            case Use.MAP:
                return Insn(OPS["lddw_map_fd"], insn.dst, symbol=name)
            case Use.DATA:
                offset = (reference.offset ^ 1 << 31) - (1 << 31)
                return Insn(OPS["lddw_map_value"], insn.dst, imm=offset << 32, symbol=name)
            case Use.KFUNC:
                return Insn(OPS["call_kfunc"], symbol=name)
            case Use.EXTERN:
                typed = self._externs[name].kind is ExternKind.TYPED_KSYM
                op = OPS["lddw_btf_id" if typed else "lddw"]
                return Insn(op, insn.dst, imm=reference.offset, symbol=name)

    def _labels(self, plain: Program, index_of: Mapping[int, int]) -> dict[str, str]:
        """Return the names of functions for the labels that decoding made up for them."""
        at = {index_of[p.slot]: _STRANGE.sub("_", p.function.name) for p in self._pieces}
        names: dict[str, str] = {}
        taken = set(plain.labels)
        last: dict[str, int] = {}
        for label, index in plain.labels.items():
            if label.startswith("sub") and (wanted := at.get(index)):
                name, bare = wanted, wanted.lstrip("0123456789")
                while name in taken or name[0].isdigit():
                    last[bare] = number = last.get(bare, 0) + 1
                    name = f"{bare}.{number}"
                taken.add(name)
                names[label] = name
        return names


_DECLARED = frozenset({Origin.LEGACY, Origin.BTF})
_CODE = frozenset({OPS["call_local"], OPS["lddw_func"]})
_STRANGE = re.compile(r"[^A-Za-z0-9_.$@]")
