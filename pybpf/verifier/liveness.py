"""Which registers may still be read: a program in; ``Checked.live`` and ``dead`` by slot out.

A register that nobody reads any more need not be equal for two states to be. Source:
compute_live_registers in kernel/bpf/verifier.c (since Linux 6.16; before, the kernel found out by
executing).
"""

from __future__ import annotations

from functools import cache

from pybpf.isa.abi import ProgType
from pybpf.verifier import opcodes as op
from pybpf.verifier.program import Checked, Raw
from pybpf.verifier.protos import proto

_ARGS = 0x3E
_CLOBBERED = 0x3F


def find_live(program: Checked, version: tuple[int, int]) -> None:
    """Note for each slot which registers may be read before they are written, as bits.

    A helper reads as many as it has arguments, a subprogram those that it reads itself.
    """
    count = len(program.slots)
    effects = [_effects(slot, version) for slot in program.slots]
    starts = {
        at: at + 1 + slot.imm
        for at, slot in enumerate(program.slots)
        if slot.code == op.CALL and slot.src == op.CALL_LOCAL
    }
    # What a global function is passed is looked at whether it reads it or not.
    passed = {
        program.subprograms[number].start: (2 << len(function.args)) - 2
        for number, function in program.functions.items()
        if function.is_global
    }
    live = [0] * count
    # Slots come in an order in which those that follow are found first; few rounds are needed.
    changed = True
    while changed:
        changed = False
        for at in program.order:
            after = 0
            for successor in program.successors[at]:
                after |= live[successor]
            reads, writes = effects[at]
            if at in starts:
                reads = live[starts[at]] & _ARGS | passed.get(starts[at], 0)
            before = reads | (after & ~writes)
            if before != live[at]:
                live[at] = before
                changed = True
    program.live = [mask | 1 << 10 for mask in live]
    dead = {mask: tuple(n for n in range(10) if not mask >> n & 1) for mask in set(live)}
    program.dead = [dead[mask] for mask in live]


@cache
def _arguments(number: int, version: tuple[int, int]) -> int:
    """Return the registers that a helper reads, as bits."""
    most = 0
    for kind in ProgType:
        known = proto(number, version, kind)
        if known is None:
            return _ARGS
        most = max(most, len(known.args))
    return _ARGS & (2 << most) - 1


def _effects(slot: Raw, version: tuple[int, int]) -> tuple[int, int]:
    """Return the registers that an instruction reads, and those that it writes, as bits."""
    code, kind = slot.code, slot.code & op.CLASS
    dst, src = 1 << slot.dst, 1 << slot.src
    if kind in {op.ALU32, op.ALU64}:
        if code & op.OP == op.MOV:
            return (src if code & op.SOURCE else 0), dst
        return dst | (src if code & op.SOURCE else 0), dst
    if kind == op.LDX:
        return src, dst
    if kind == op.ST:
        return dst, 0
    if kind == op.STX:
        return _stx(slot, dst, src)
    if kind == op.LD:
        if code == op.LDDW:
            return 0, dst
        return 1 << 6 | (src if code & op.MODE == op.IND else 0), _CLOBBERED
    operation = code & op.OP
    if operation == op.OP_CALL:
        return (_arguments(slot.imm, version) if slot.src == 0 else _ARGS), _CLOBBERED
    if operation == op.OP_EXIT:
        return 1, 0
    if operation in {op.OP_JA, op.OP_MAY_GOTO}:
        return 0, 0
    return dst | (src if code & op.SOURCE else 0), 0


def _stx(slot: Raw, dst: int, src: int) -> tuple[int, int]:
    if slot.code & op.MODE != op.ATOMIC or slot.imm == op.STORE_RELEASE:
        return dst | src, 0
    if slot.imm == op.LOAD_ACQUIRE:
        return src, dst
    row = op.ATOMICS.get(slot.imm)
    if row is None or not row.fetch:
        return dst | src, 0
    if row.name.startswith("cmpxchg"):
        return dst | src | 1, 1
    return dst | src, src
