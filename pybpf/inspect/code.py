"""Programs of objects, raw bytes, loaded programs in; code that can be shown, with names, out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass, field, replace
from pybpf.isa.cfg import Block, divide
from pybpf.isa.disassembler import format_insn
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import DISTANCE_FIELD, Effect, Form
from pybpf.objfile.code import Use

if TYPE_CHECKING:
    from pybpf.inspect.names import Names
    from pybpf.isa.insn import ByteOrder, Insn, LineInfo, Program
    from pybpf.objfile.object import Object, ObjectProgram

CALLS = frozenset({Form.CALL_LOCAL, Form.LOAD_IMM64})
"""Forms that may name another function; all others of ``DISTANCE_FIELD`` jump within one."""
_LOADS = frozenset({Form.LOAD, Form.LOAD_ACQUIRE})
_STORES = frozenset({Form.STORE_REG, Form.STORE_IMM, Form.ATOMIC, Form.STORE_RELEASE})
_CLOBBERED = frozenset(range(6))


@dataclass(frozen=True, slots=True)
class Part:
    """A function: the instructions of code from ``index`` on, and its C prototype if known."""

    name: str
    index: int
    prototype: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions to be shown. All mappings are by index, which counts instructions.

    ``base`` is the number of the first slot, where code is a part of its section, and ``data`` its
    bytes as they are in a file, where that is where it is from. ``notes`` say of
    an instruction what its text does not, ``texts`` are shown in the place of what the disassembler
    would write, as a loaded program holds what is no instruction of any table.
    """

    name: str
    section: str
    program: Program
    parts: tuple[Part, ...]
    base: int = 0
    data: bytes = field(default=b"", repr=False)
    notes: Mapping[int, str] = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict)

    def text(self, index: int) -> str:
        """Return an instruction as text, with the names of what it refers to."""
        return self.texts.get(index) or named(self.program.insns[index])

    def slots(self) -> tuple[int, ...]:
        """Return the number of the first slot of each instruction, and last where the code ends."""
        return tuple(self.base + slot for slot in slot_offsets(self.program))

    def line(self, index: int) -> LineInfo | None:
        """Return the source line that an instruction is from; None where it is not known."""
        lines = self.program.lines
        found = bisect_right(lines, index, key=lambda line: line.index)
        return lines[found - 1] if found else None

    def jumps(self) -> Iterator[tuple[int, int]]:
        """Yield index and target of each jump within a function; not of one that leads nowhere."""
        labels, slots = self.program.labels, slot_offsets(self.program)
        index_of = {slot: index for index, slot in enumerate(slots[:-1])}
        for index, insn in enumerate(self.program.insns):
            if insn.op in DISTANCE_FIELD and insn.op.form not in CALLS and index not in self.texts:
                distance = insn.off if DISTANCE_FIELD[insn.op] == "off" else insn.imm
                named = labels.get(insn.symbol) if insn.symbol is not None else None
                target = index_of.get(slots[index] + 1 + distance) if named is None else named
                if target is not None and target < len(self.program.insns):
                    yield index, target

    def blocks(self) -> tuple[Block, ...]:
        """Return the basic blocks; each function begins one."""
        goals: list[int | None] = [None] * len(self.program.insns)
        for index, target in self.jumps():
            goals[index] = target
        for index, target in self.calls():
            goals[index] = target
        return divide(self.program.insns, goals)

    def calls(self) -> Iterator[tuple[int, int]]:
        """Yield index and target of each call, or address taken, of a function that is here."""
        labels = self.program.labels
        for index, insn in enumerate(self.program.insns):
            symbol = insn.symbol or ""
            if symbol in labels and insn.op in DISTANCE_FIELD and insn.op.form in CALLS:
                yield index, labels[symbol]


def named(insn: Insn) -> str:
    """Return an instruction as the disassembler writes it, externs by their names."""
    if insn.symbol is not None:
        if insn.op.form is Form.CALL_KFUNC:
            return f"call {insn.symbol}"
        if insn.op.name in {"lddw", "lddw_btf_id"}:
            return f"r{insn.dst} = &{insn.symbol} ll"
    return format_insn(insn)


def of_bytes(data: bytes, byteorder: ByteOrder, name: str) -> Code:
    """Return raw instructions as code; raises EncodingError where they are none."""
    from pybpf.isa.encoding import decode

    program = decode(data, byteorder)
    whole = Code(name, "", program, ())
    label = {index: text for text, index in program.labels.items()}
    called = sorted({target for _, target in whole.calls()} - {0})
    return Code(
        name, "", program, (Part(name, 0), *(Part(label[at], at) for at in called)), data=data
    )


def of_program(program: ObjectProgram, names: Names) -> Code:
    """Return a program of an object, or one of its functions (``Object.functions``), as code."""
    index_of = {slot: index for index, slot in enumerate(slot_offsets(program.program))}
    parts = tuple(
        Part(info.name, index_of[info.slot], names.function(info.type))
        for info in program.functions
        if info.slot in index_of
    )
    code = Code(program.name, program.section, program.program, parts)
    notes = _contexts(code, [names.context(info.type) for info in program.functions], names)
    for reference in program.references:
        if reference.use is Use.DATA and reference.slot in index_of:
            notes[index_of[reference.slot]] = names.variable(reference.name, reference.offset)
    for at in program.relocations:
        if at.slot in index_of:
            notes[index_of[at.slot]] = names.core(at.relocation)
    notes = {index: text for index, text in notes.items() if text}
    return replace(code, notes=notes)


def of_sections(found: Object, names: Names) -> Iterator[Code]:
    """Yield each function of an object as its section has it; raises ObjectError."""
    for program, function in found.functions():
        data = function.section.data[function.start : function.start + function.size]
        yield replace(of_program(program, names), base=function.start // 8, data=data)


def _contexts(code: Code, structs: Sequence[int], names: Names) -> dict[int, str]:
    """Return the members of their context that instructions read and write: ``ctx->data``.

    ``structs``: the type of each function's context, 0 for none. A register holds the context where
    it does on every way to an instruction.
    """
    if not any(structs):
        return {}
    notes: dict[int, str] = {}
    found = code.blocks()
    number = {block.start: n for n, block in enumerate(found)}
    starts = [part.index for part in code.parts]
    holds: dict[int, frozenset[int]] = {
        number[start]: frozenset({1})
        for start, struct in zip(starts, structs, strict=True)
        if struct
    }
    waiting = [*holds]
    while waiting:
        block = waiting.pop()
        struct = structs[bisect_right(starts, found[block].start) - 1]
        held = set(holds[block])
        for index in range(found[block].start, found[block].end):
            insn = code.program.insns[index]
            notes.pop(index, None)
            if _base(insn) in held and (member := names.at(struct, insn.off)):
                notes[index] = f"ctx->{member[1:]}"
            _step(insn, held)
        for after in found[block].successors:
            now = holds.get(after, frozenset(held)) & held
            if now != holds.get(after):
                holds[after] = now
                waiting.append(after)
    return notes


def _base(insn: Insn) -> int | None:
    """Return the register that a load or store takes its address from."""
    form = insn.op.form
    return insn.src if form in _LOADS else insn.dst if form in _STORES else None


def _step(insn: Insn, held: set[int]) -> None:
    """Change which registers hold the context as an instruction does."""
    form = insn.op.form
    if insn.op.effect is Effect.CALL:
        held -= _CLOBBERED
    elif form is Form.ALU_REG and insn.op.effect is Effect.MOV and insn.op.width == 64:
        (held.add if insn.src in held else held.discard)(insn.dst)
    elif form in {Form.PACKET_ABS, Form.PACKET_IND}:
        held -= _CLOBBERED
    elif insn.op.fetch:
        held.discard(0 if insn.op.effect is Effect.CMPXCHG else insn.src)
    elif form not in _STORES and insn.op not in DISTANCE_FIELD:
        held.discard(insn.dst)
