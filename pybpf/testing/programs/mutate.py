"""Mutations of programs: a program in; one that differs a little out, valid or not.

Slots are changed, dropped, doubled and swapped, as they are encoded. Where slots come or go, jumps
across them are mended, mostly, and with them the places of maps, subprograms and names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from pybpf.corpus import CorpusProgram, Fixup
from pybpf.dataclass import replace
from pybpf.isa.table import BY_OPCODE, DISTANCE_FIELD, OPS, ROWS
from pybpf.testing.programs.code import SLOT, with_insns
from pybpf.testing.programs.writer import EDGES

_LDDW = OPS["lddw"].opcode
_OPCODES = sorted({row.opcode for row in ROWS})
_JUMPS = frozenset(row.opcode for row, field in DISTANCE_FIELD.items() if field == "off")
_LONG = OPS["gotol"].opcode
_CALL = OPS["call_local"].opcode
_EXIT = OPS["exit"].opcode
_KFUNC = 2
_BRANCHES = sorted(_JUMPS - {OPS["ja"].opcode, OPS["may_goto"].opcode})
_CLASS = 0x07
_U32 = 0xFFFFFFFF
_SIZE = 0x18

Slots = list[bytes]
Change = Callable[[Random, Slots, int], None]


def mutate(rng: Random, program: CorpusProgram, changes: int = 0) -> CorpusProgram:
    """Return the program with some ``changes`` (0: one to three); map fixups follow their slots."""
    for _ in range(changes or rng.choice((1, 1, 1, 2, 3))):
        if not program.insns:
            break
        roll = rng.random()
        if roll < 0.72:
            program = _in_place(rng, program)
        elif roll < 0.86:
            program = drop(program, rng.randrange(program.slots), mend=rng.random() < 0.9)
        elif roll < 0.94:
            at = rng.randrange(program.slots)
            program = insert(program, rng.randrange(program.slots), slots_of(program)[at])
        else:
            program = _swapped(rng, program)
    return _named(program)


def _named(program: CorpusProgram) -> CorpusProgram:
    """Return the program without names of slots that call, or load, nothing by name any more."""
    slots = slots_of(program)

    def calls(at: int) -> bool:
        return at < len(slots) and slots[at][0] == _CALL and slots[at][1] >> 4 == _KFUNC

    def loads(at: int) -> bool:
        return at + 1 < len(slots) and slots[at][0] == _LDDW and slots[at + 1][0] == 0

    return replace(
        program,
        kfuncs=tuple((at, name) for at, name in program.kfuncs if calls(at)),
        ksyms=tuple(one for one in program.ksyms if loads(one.insn)),
    )


def slots_of(program: CorpusProgram) -> Slots:
    """Return the slots of a program."""
    return [program.insns[at : at + 8] for at in range(0, len(program.insns), 8)]


def _in_place(rng: Random, program: CorpusProgram) -> CorpusProgram:
    slots = slots_of(program)
    held = {fixup.insn for fixup in program.fixups} | {one.insn for one in program.ksyms}
    at = rng.randrange(len(slots))
    if at in held:
        # A descriptor must stay in a lddw, or it would be a number that nobody knows.
        if rng.random() < 0.7:
            _register(rng, slots, at)
        elif rng.random() < 0.5 and at + 1 < len(slots):
            _bit(rng, slots, at + 1)
    else:
        (change,) = rng.choices(_CHANGES, _WEIGHTS)
        change(rng, slots, at)
    return replace(program, insns=b"".join(slots))


def _register(rng: Random, slots: Slots, at: int) -> None:
    code, regs, off, imm = SLOT.unpack(slots[at])
    number = rng.randrange(11)
    low = rng.random() < 0.5 or code == _LDDW
    regs = regs & 0xF0 | number if low else regs & 0x0F | number << 4
    slots[at] = SLOT.pack(code, regs, off, imm)


def _imm(rng: Random, slots: Slots, at: int) -> None:
    code, regs, off, imm = SLOT.unpack(slots[at])
    roll = rng.random()
    if roll < 0.45:
        imm += rng.choice((1, -1, 2, -2, 4, -4, 8, -8))
    elif roll < 0.6:
        imm = imm << 1 if rng.random() < 0.5 else imm >> 1
    elif roll < 0.95:
        imm = rng.choice(EDGES)
    else:
        imm = rng.getrandbits(32)
    slots[at] = SLOT.pack(code, regs, off, imm & _U32)


def _off(rng: Random, slots: Slots, at: int) -> None:
    code, regs, off, imm = SLOT.unpack(slots[at])
    off += rng.choice((1, -1, 1, -1, 2, 3, 4, -4, 8, -8, 16, -16, 64, -64, 256, -512))
    slots[at] = SLOT.pack(code, regs, (off + 0x8000 & 0xFFFF) - 0x8000, imm)


def _opcode(rng: Random, slots: Slots, at: int) -> None:
    """Another operation of the same class, mostly; the rest of it may then be reserved."""
    code, regs, off, imm = SLOT.unpack(slots[at])
    alike = [c for c in _OPCODES if c & _CLASS == code & _CLASS]
    code = rng.choice(alike if alike and rng.random() < 0.8 else _OPCODES)
    slots[at] = SLOT.pack(code, regs, off, imm)


def _size(rng: Random, slots: Slots, at: int) -> None:
    """Another size of an access, or another condition of a jump."""
    code, regs, off, imm = SLOT.unpack(slots[at])
    if code & _CLASS <= 3:
        code = code & ~_SIZE | rng.choice((0, 8, 16, 24))
    elif code in _JUMPS:
        code = rng.choice([c for c in _BRANCHES if c & 0x08 == code & 0x08])
    else:
        code ^= 0x03  # the other width of arithmetic
    slots[at] = SLOT.pack(code & 0xFF, regs, off, imm)


def _bit(rng: Random, slots: Slots, at: int) -> None:
    word = int.from_bytes(slots[at], "little") ^ 1 << rng.randrange(64)
    slots[at] = word.to_bytes(8, "little")


_CHANGES: Sequence[Change] = (_register, _imm, _off, _opcode, _size, _bit)
_WEIGHTS = (26, 24, 18, 10, 12, 10)


def _swapped(rng: Random, program: CorpusProgram) -> CorpusProgram:
    """Swap two neighbours, if neither is a part of a lddw."""
    slots = slots_of(program)
    if len(slots) < 2:
        return program
    at = rng.randrange(len(slots) - 1)
    if any(slot[0] in {_LDDW, 0} for slot in slots[at : at + 2]):
        return program
    slots[at], slots[at + 1] = slots[at + 1], slots[at]
    other = {at: at + 1, at + 1: at}
    kfuncs = [(other.get(slot, slot), name) for slot, name in program.kfuncs]
    return with_insns(program, b"".join(slots), program.fixups, kfuncs)


def drop(program: CorpusProgram, at: int, count: int = 1, *, mend: bool = True) -> CorpusProgram:
    """Return the program without ``count`` slots, or more where the last one begins a lddw."""
    slots = slots_of(program)
    if slots[at][0] == 0 and at and slots[at - 1][0] == _LDDW:
        at, count = at - 1, count + 1
    if slots[min(at + count, len(slots)) - 1][0] == _LDDW:
        count += 1
    return _spliced(program, at, min(count, len(slots) - at), [], mend=mend)


def insert(program: CorpusProgram, at: int, slot: bytes) -> CorpusProgram:
    """Return the program with another slot before that at ``at``, and jumps mended."""
    return _spliced(program, at, 0, [slot], mend=True)


def _spliced(
    program: CorpusProgram, at: int, removed: int, added: Slots, *, mend: bool
) -> CorpusProgram:
    old = slots_of(program)
    grown = len(added) - removed

    def moved(slot: int) -> int:
        return slot + grown if slot >= at + removed else min(slot, at)

    new = []
    for index, slot in enumerate(old):
        if at <= index < at + removed:
            continue
        new.append(_mended(slot, index, old, moved) if mend else slot)
    new[at:at] = added
    fixups = tuple(
        Fixup(moved(f.insn), f.kind, f.map)
        for f in program.fixups
        if not at <= f.insn < at + removed
    )
    kfuncs = [(moved(slot), name) for slot, name in program.kfuncs if not at <= slot < at + removed]
    shorter = replace(
        with_insns(program, b"".join(new), fixups, kfuncs),
        ksyms=tuple(
            replace(one, insn=moved(one.insn))
            for one in program.ksyms
            if not at <= one.insn < at + removed
        ),
    )
    if not program.func_info or not mend:
        return shorter
    records = [
        (int.from_bytes(program.func_info[i : i + 4], "little"), program.func_info[i + 4 : i + 8])
        for i in range(0, len(program.func_info), 8)
    ]
    info = b"".join(moved(slot).to_bytes(4, "little") + rest for slot, rest in records)
    return replace(shorter, func_info=info)


def _mended(slot: bytes, index: int, old: Slots, moved: Callable[[int], int]) -> bytes:
    """Return a jump or a call that leads to where it led, when slots have moved."""
    code, regs, off, imm = SLOT.unpack(slot)
    if index and old[index - 1][0] == _LDDW and code == 0:
        return slot
    if code in _JUMPS and code in BY_OPCODE:
        off = moved(index + 1 + off) - moved(index) - 1
        return SLOT.pack(code, regs, (off + 0x8000 & 0xFFFF) - 0x8000, imm)
    local = code == _CALL and regs >> 4 == 1
    if code == _LONG or local or (code == _LDDW and regs >> 4 == 4):
        distance = (imm ^ 0x80000000) - 0x80000000
        imm = moved(index + 1 + distance) - moved(index) - 1
        return SLOT.pack(code, regs, off, imm & _U32)
    return slot
