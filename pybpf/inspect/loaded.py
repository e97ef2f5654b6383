"""A program as the kernel holds it in; code that can be shown, and its maps, out.

The verifier rewrites what it accepts: helpers become calls by distance, lookups are written out,
and some of what it inserts is in no table of instructions. As the kernel shows it:

    call (src 0, 2)   imm: how far the function is from __bpf_call_base
    call (src 1)      where compiled: off is the distance in slots, imm the number of the subprogram
    lddw (src 1, 2)   imm: the id of the map; of a value the second imm is the offset
    lddw (src 4)      the second imm is the number of the subprogram

Source: bpf_insn_prepare_dump in kernel/bpf/syscall.c, jit_subprogs in kernel/bpf/verifier.c.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pybpf.btf.abi import line_column
from pybpf.btf.reader import Btf
from pybpf.dataclass import replace
from pybpf.errors import EncodingError, TargetError
from pybpf.inspect.code import Code, Part, of_bytes
from pybpf.inspect.facts import MapFacts
from pybpf.inspect.names import Names
from pybpf.isa.abi import MapType, name_of
from pybpf.isa.encoding import decode_one
from pybpf.isa.helpers import HELPERS
from pybpf.isa.insn import Insn, LineInfo, Program
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import OPS, Form

if TYPE_CHECKING:
    from pybpf.kernel.loaded import Loaded, LoadedMap

_SLOT = 8
_CALL, _LDDW = OPS["call_local"].opcode, OPS["lddw"].opcode
_HELPER, _LOCAL, _KFUNC = 0, 1, 2
_MAP_FD, _MAP_VALUE, _FUNC = 1, 2, 4
_NOTHING = struct.pack("<BBhi", OPS["ja"].opcode, 0, 0, 0)
"""Goes on with the next instruction, as all do that the kernel made and that we do not know."""
_PERCPU_MOV, _NOSPEC = 0xBF, 0xC2


def types(loaded: Loaded | LoadedMap) -> Btf | None:
    """Return the types of what is loaded; None where it was loaded without, or they are odd."""
    try:
        return Btf(loaded.btf) if loaded.btf else None
    except TargetError:
        return None


def map_facts(row: LoadedMap) -> MapFacts:
    """Return the facts of a map of a loaded program."""
    names = Names(types(row))
    return MapFacts(
        row.name or f"map#{row.id}", name_of(MapType, row.type), row.key_size,
        row.value_size, row.max_entries, row.flags,
        names.declared(row.key_type), names.declared(row.value_type), origin=f"id {row.id}",
    )  # fmt: skip


def of_loaded(loaded: Loaded) -> Code:
    """Return a loaded program as code; raises EncodingError where its jumps lead nowhere."""
    btf = types(loaded)
    names = Names(btf)
    name = loaded.info.name or f"prog:{loaded.info.id}"
    data, strange = _tabled(loaded.code, loaded.calls)
    plain = of_bytes(data, "little", name)
    index_of = {slot: index for index, slot in enumerate(slot_offsets(plain.program))}
    texts = {index_of[slot]: text for slot, text in strange.items() if slot in index_of}
    maps = {row.id: row.name or f"map#{row.id}" for row in loaded.maps}
    insns = tuple(_mapped(insn, maps) for insn in plain.program.insns)
    parts = {part.index: part for part in plain.parts}
    for slot, number in loaded.functions:
        if btf is not None and slot in index_of:
            index = index_of[slot]
            parts[index] = Part(btf.name(number) or f"sub{index}", index, names.function(number))
    lines = tuple(
        LineInfo(index_of[slot], btf.text(file), *line_column(word), btf.text(text).rstrip())
        for slot, file, text, word in loaded.lines
        if btf is not None and slot in index_of
    )
    program = Program(
        insns, plain.program.labels, name, loaded.info.prog_type, licence="", lines=lines
    )
    code = Code(name, "", program, tuple(parts[index] for index in sorted(parts)), texts=texts)
    return _called(code)


def _called(code: Code) -> Code:
    """Return code whose calls of its own functions have their names."""
    names = {part.index: part.name for part in code.parts}
    texts = dict(code.texts)
    for index, target in code.calls():
        form = code.program.insns[index].op.form
        if target in names and form is Form.CALL_LOCAL:
            texts[index] = f"call {names[target]}"
        elif target in names:
            texts[index] = f"r{code.program.insns[index].dst} = subprog:{names[target]} ll"
    return replace(code, texts=texts)


def _tabled(code: bytes, calls: Mapping[int, str]) -> tuple[bytes, dict[int, str]]:
    """Return instructions of the table, and by slot the text of what stands for something else."""
    data, texts, slot = bytearray(code), dict[int, str](), 0
    while slot < len(data) // _SLOT:
        at = slot * _SLOT
        opcode, registers, off, imm = struct.unpack_from("<BBhi", data, at)
        source = registers >> 4
        if opcode == _CALL and source == _LOCAL and off:
            struct.pack_into("<hi", data, at + 2, 0, off)
        elif opcode == _CALL and source in {_HELPER, _KFUNC} and (name := calls.get(slot)):
            if name in HELPERS and source == _HELPER:
                struct.pack_into("<i", data, at + 4, HELPERS[name])
            else:
                texts[slot] = f"call {name}"
        elif opcode == _LDDW and source == _FUNC:
            data[at + _SLOT : at + 2 * _SLOT] = bytes(_SLOT)
        try:
            slot += decode_one(bytes(data[at : at + 2 * _SLOT]), 0).op.slots
        except EncodingError:
            texts[slot] = _unknown(opcode, registers, off, imm)
            data[at : at + _SLOT] = _NOTHING
            slot += 1
    return bytes(data), texts


def _unknown(opcode: int, registers: int, off: int, imm: int) -> str:
    """Return the text of an instruction that only the kernel makes, or its fields."""
    dst, src = registers & 15, registers >> 4
    if opcode == _PERCPU_MOV and off == -1:
        return f"r{dst} = this_cpu(r{src})"
    if opcode == _NOSPEC:
        return "nospec"
    return f".insn {opcode:#04x}, {dst}, {src}, {off}, {imm}"


def _mapped(insn: Insn, maps: Mapping[int, str]) -> Insn:
    """Return an instruction that loads a map with the map's name."""
    loads = insn.op.form is Form.LOAD_IMM64 and insn.op.src in {_MAP_FD, _MAP_VALUE}
    name = maps.get(insn.imm & 0xFFFFFFFF) if loads else None
    return replace(insn, symbol=name, imm=insn.imm >> 32 << 32) if name else insn
