"""A function -> where in its linear order each register is live.

Every operation and terminator has a number n and three points in time:

    3n       operands are read
    3n + 1   a helper call destroys r0 to r5
    3n + 2   the result is written

A live range is the half-open [start, end): from the write of a value to just after its last read.
Registers that no path needs at the same time have ranges that do not overlap, even where the
function is written in between: ranges have holes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pybpf.compiler.ir import (
    CTX,
    Bin,
    BinOp,
    Block,
    CallHelper,
    Copy,
    Function,
    Label,
    Load,
    Op,
    Slot,
    SlotRef,
    Store,
    VReg,
)
from pybpf.compiler.operands import COMMUTATIVE, defined, slots, successors, used
from pybpf.dataclass import dataclass

Range = tuple[int, int]
ENTRY = -1
"""The point at which CTX is written."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """``ranges``: sorted, apart, for every register mentioned; ``calls``: points in time."""

    ranges: Mapping[VReg, tuple[Range, ...]]
    calls: tuple[int, ...]


def analyze(function: Function) -> Liveness:
    """Return where each register is live and when helper calls destroy registers."""
    ranges: dict[VReg, list[Range]] = defaultdict(list)
    calls: list[int] = []
    live_in: dict[Label, set[VReg]] = {}
    for start, block in reversed(list(_numbered(function))):
        live_in[block.label] = _analyze_block(start, block, live_in, ranges, calls)
    if CTX in live_in[function.blocks[0].label]:
        ranges[CTX].append((ENTRY, 0))
    return Liveness(
        {register: _merged(pieces) for register, pieces in ranges.items()},
        tuple(reversed(calls)),
    )


def _numbered(function: Function) -> Iterator[tuple[int, Block]]:
    """Yield each block with the number of its first operation."""
    number = 0
    for block in function.blocks:
        yield number, block
        number += len(block.instrs) + 1


def _analyze_block(
    start: int,
    block: Block,
    live_in: Mapping[Label, set[VReg]],
    ranges: dict[VReg, list[Range]],
    calls: list[int],
) -> set[VReg]:
    """Add the ranges of one block, from its end up, and return what is live at its start."""
    number = start + len(block.instrs)
    after = 3 * (number + 1)
    live: dict[VReg, int] = {}
    for label in successors(block.terminator):
        live.update(dict.fromkeys(live_in[label], after))
    for register in used(block.terminator):
        live.setdefault(register, 3 * number + 1)
    for instr in reversed(block.instrs):
        number -= 1
        op = instr.op
        dst = defined(op)
        written = 3 * number + 2
        if dst is not None:
            ranges[dst].append((written, live.pop(dst, written + 1)))
        if isinstance(op, CallHelper):
            calls.append(3 * number + 1)
        beyond = outlives_write(op)
        for register in used(op):
            live.setdefault(register, written + 1 if register == beyond else written - 1)
    for register, end in live.items():
        ranges[register].append((3 * start, end))
    return set(live)


def outlives_write(op: Op) -> VReg | None:
    """Return the operand that must not share a register with the result.

    ``dst = left - right`` becomes ``dst = left; dst -= right``, so ``right`` is read after ``dst``
    is written, unless the operands can be swapped.
    """
    match op:
        case Bin(left=left, right=VReg() as right) if right != left:
            swappable = op.op in COMMUTATIVE and isinstance(left, VReg)
            return None if swappable else right
        case _:
            return None


def _merged(pieces: list[Range]) -> tuple[Range, ...]:
    """Return ranges sorted, with those that touch made one."""
    found: list[Range] = []
    for start, end in sorted(pieces):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def slot_lives(function: Function) -> dict[Slot, Range]:
    """Return for each slot the points from its first mention to its last use.

    A use is also one of a register that holds the slot's address or was computed from it. A life
    has no holes: what a slot holds must survive every path from its first to its last mention.
    """
    lives: dict[Slot, Range] = {}
    holders: dict[VReg | Slot, set[Slot]] = defaultdict(set)
    for start, block in _numbered(function):
        for number, instr in enumerate(block.instrs, start):
            op = instr.op
            mentioned = set(slots(op))
            for register in used(op):
                mentioned |= holders[register]
            for slot in mentioned:
                first = lives[slot][0] if slot in lives else 3 * number
                lives[slot] = (first, 3 * number + 3)
            _follow_addresses(op, holders)
    return lives


def _follow_addresses(op: Op, holders: dict[VReg | Slot, set[Slot]]) -> None:
    """Note where an operation puts the addresses of slots; a spilled address lies in a slot."""
    match op:
        case Copy(dst=dst, src=SlotRef(slot=slot)):
            holders[dst].add(slot)
        case Copy(dst=dst, src=VReg() as src):
            holders[dst] |= holders[src]
        case Bin(op=BinOp.ADD | BinOp.SUB, dst=dst):
            for register in used(op):
                holders[dst] |= holders[register]
        case Store(base=SlotRef(slot=slot), src=VReg() as src):
            holders[slot] |= holders[src]
        case Load(dst=dst, base=SlotRef(slot=slot)):
            holders[dst] |= holders[slot]
        case _:
            pass
