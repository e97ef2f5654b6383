"""Programs of objects, raw bytes, loaded programs in; code that can be shown, with names, out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from pybpf.dataclass import dataclass, field
from pybpf.isa.cfg import Block, divide
from pybpf.isa.disassembler import format_insn
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import DISTANCE_FIELD, ROWS, Effect, Form
from pybpf.objfile.code import Use

if TYPE_CHECKING:
    from pybpf.inspect.names import Names
    from pybpf.isa.insn import ByteOrder, Insn, LineInfo, Program
    from pybpf.objfile.object import Object, ObjectProgram

CALLS = frozenset({Form.CALL_LOCAL, Form.LOAD_IMM64})
"""Forms that may name another function; all others of ``DISTANCE_FIELD`` jump within one."""
_JUMPS = frozenset(op for op in DISTANCE_FIELD if op.form not in CALLS)
_LOADS = frozenset(op for op in ROWS if op.form in {Form.LOAD, Form.LOAD_ACQUIRE})
_STORES = frozenset(
    op
    for op in ROWS
    if op.form in {Form.STORE_REG, Form.STORE_IMM, Form.ATOMIC, Form.STORE_RELEASE}
)
_MOVES = frozenset(
    op for op in ROWS if op.form is Form.ALU_REG and op.effect is Effect.MOV and op.width == 64
)
_CALLED = frozenset(
    op for op in ROWS if op.effect is Effect.CALL or op.form in {Form.PACKET_ABS, Form.PACKET_IND}
)
"""After these the first registers hold what they did not before."""
_CLOBBERED = frozenset(range(6))
_Result = TypeVar("_Result")


def kept(method: Callable[[Code], _Result]) -> Callable[[Code], _Result]:
    """Return a function of code that works its result out once; that is kept with the code."""

    @wraps(method)
    def once(code: Code) -> _Result:
        known = code.known
        if method not in known:
            known[method] = method(code)
        result: _Result = known[method]
        return result

    return once


@dataclass(frozen=True, slots=True)
class Part:
    """A function: the instructions of code from ``index`` on, and its C prototype if known."""

    name: str
    index: int
    prototype: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions to be shown. All mappings are by index, which counts instructions.

    ``parts`` are in the order of their instructions, and the first begins with the first of these.
    ``base`` is the number of the first slot, where code is a part of its section, and ``data`` its
    bytes as they are in a file, where that is where it is from. ``notes`` say of an instruction
    what its text does not, ``texts`` are shown in the place of what the disassembler would write,
    as a loaded program holds what is no instruction of any table. ``known`` is what ``kept`` keeps.
    """

    name: str
    section: str
    program: Program
    parts: tuple[Part, ...]
    base: int = 0
    data: bytes = field(default=b"", repr=False)
    notes: Mapping[int, str] = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict)
    known: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def text(self, index: int) -> str:
        """Return an instruction as text, with the names of what it refers to."""
        return self.texts.get(index) or named(self.program.insns[index])

    @kept
    def slots(self) -> tuple[int, ...]:
        """Return the number of the first slot of each instruction, and last where the code ends."""
        slots = slot_offsets(self.program)
        return tuple([self.base + slot for slot in slots]) if self.base else slots

    @kept
    def lines(self) -> Mapping[int, LineInfo]:
        """Return the source line of each instruction at which another one begins."""
        return {line.index: line for line in self.program.lines}

    @kept
    def tabled(self) -> tuple[Insn, ...]:
        """Return the instructions but for those that ``texts`` are in the place of."""
        if not self.texts:
            return self.program.insns
        return tuple(i for index, i in enumerate(self.program.insns) if index not in self.texts)

    def part_of(self, index: int) -> int:
        """Return the number of the part that an instruction is in."""
        return bisect_right(self.parts, index, key=attrgetter("index")) - 1

    @kept
    def jumps(self) -> tuple[tuple[int, int], ...]:
        """Return index and target of each jump within a function; not of one that leads nowhere."""
        found, count = [], len(self.program.insns)
        labels, slots = self.program.labels, slot_offsets(self.program)
        for index, insn in enumerate(self.program.insns):
            if insn.op in _JUMPS and index not in self.texts:
                target = labels.get(insn.symbol) if insn.symbol is not None else None
                if target is None:
                    distance = insn.off if DISTANCE_FIELD[insn.op] == "off" else insn.imm
                    slot = slots[index] + 1 + distance
                    target = bisect_left(slots, slot)
                    target = target if slots[target : target + 1] == (slot,) else count
                if target < count:
                    found.append((index, target))
        return tuple(found)

    @kept
    def blocks(self) -> tuple[Block, ...]:
        """Return the basic blocks; each function begins one."""
        goals: list[int | None] = [None] * len(self.program.insns)
        for index, target in self.jumps():
            goals[index] = target
        for index, target in self.calls():
            goals[index] = target
        return divide(self.program.insns, goals)

    @kept
    def blocks_of_parts(self) -> tuple[Sequence[int], ...]:
        """Return the numbers of the blocks of each part."""
        found: tuple[list[int], ...] = tuple([] for _ in self.parts)
        for number, block in enumerate(self.blocks()):
            found[self.part_of(block.start)].append(number)
        return found

    def calls(self) -> Iterator[tuple[int, int]]:
        """Yield index and target of each call, or address taken, of a function that is here."""
        labels = self.program.labels
        for index, insn in enumerate(self.program.insns):
            if insn.op in DISTANCE_FIELD and insn.op.form in CALLS:
                target = labels.get(insn.symbol or "")
                if target is not None:
                    yield index, target


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


def of_program(program: ObjectProgram, names: Names, base: int = 0, data: bytes = b"") -> Code:
    """Return a program of an object, or one of its functions (``Object.functions``), as code."""
    index_of = {slot: index for index, slot in enumerate(slot_offsets(program.program))}
    parts = tuple(
        Part(info.name, index_of[info.slot], names.function(info.type))
        for info in program.functions
        if info.slot in index_of
    )
    notes: dict[int, str] = {}
    code = Code(program.name, program.section, program.program, parts, base, data, notes)
    found = _contexts(code, [names.context(info.type) for info in program.functions], names)
    for reference in program.references:
        if reference.use is Use.DATA and reference.slot in index_of:
            found[index_of[reference.slot]] = names.variable(reference.name, reference.offset)
    for at in program.relocations:
        if at.slot in index_of:
            found[index_of[at.slot]] = names.core(at.relocation)
    notes |= {index: text for index, text in found.items() if text}
    return code


def of_sections(found: Object, names: Names) -> Iterator[Code]:
    """Yield each function of an object as its section has it; raises ObjectError."""
    for program, function in found.functions():
        data = function.section.data[function.start : function.start + function.size]
        yield of_program(program, names, function.start // 8, data)


def _contexts(code: Code, structs: Sequence[tuple[int, str]], names: Names) -> dict[int, str]:
    """Return the members of their context that instructions read and write: ``ctx->data``.

    ``structs``: of each function what its first parameter points to, 0 for nothing, and what that
    is called. A register holds it where it does on every way to an instruction.
    """
    if not any(number for number, _ in structs):
        return {}
    notes: dict[int, Mapping[int, str]] = {}
    found = code.blocks()
    number = {block.start: n for n, block in enumerate(found)}
    holds: dict[int, frozenset[int]] = {
        number[part.index]: frozenset({1})
        for part, (struct, _) in zip(code.parts, structs, strict=True)
        if struct
    }
    waiting = [*holds]
    while waiting:
        block = waiting.pop()
        struct, called = structs[code.part_of(found[block].start)]
        held = set(holds[block])
        notes[block] = _members(
            code.program.insns, found[block], held, called, partial(names.at, struct)
        )
        for after in found[block].successors:
            now = holds.get(after, frozenset(held)) & held
            if now != holds.get(after):
                holds[after] = now
                waiting.append(after)
    return {index: text for rows in notes.values() for index, text in rows.items()}


def _members(
    insns: Sequence[Insn],
    block: Block,
    held: set[int],
    called: str,
    member_at: Callable[[int], str],
) -> Mapping[int, str]:
    """Return the members that a block reads and writes.

    ``held`` are the registers that hold the context, which is ``called`` so; it is left as it is
    behind the block.
    """
    notes: dict[int, str] = {}
    for index in range(block.start, block.end):
        if not held:
            break
        insn = insns[index]
        op, dst, src = insn.op, insn.dst, insn.src
        base = src if op in _LOADS else dst if op in _STORES else None
        if base in held and (member := member_at(insn.off)):
            notes[index] = f"{called}->{member[1:]}"
        if op in _CALLED:
            held -= _CLOBBERED
        elif op in _MOVES:
            (held.add if src in held else held.discard)(dst)
        elif op.fetch:
            held.discard(0 if op.effect is Effect.CMPXCHG else src)
        elif op not in _STORES and op not in DISTANCE_FIELD:
            held.discard(dst)
    return notes
