"""A program to its basic blocks: runs of instructions entered at the first and left at the last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pybpf.dataclass import dataclass
from pybpf.isa.insn import Insn, Program
from pybpf.isa.layout import targets
from pybpf.isa.table import ROWS, Form


@dataclass(frozen=True, slots=True)
class Block:
    """The instructions ``start`` (included) to ``end`` (excluded), counted as Insns.

    ``successors`` are indices of blocks: the next one in the text first where it can be reached,
    then the target of the jump. Calls end no block: control comes back behind them.
    """

    start: int
    end: int
    successors: tuple[int, ...] = ()


def blocks(program: Program) -> tuple[Block, ...]:
    """Return the basic blocks of a program in the order of its text, dead code included.

    Subprograms begin a block of their own. A block that runs off the end of the program has no
    successor there. Raises EncodingError for a jump to nowhere, as ``layout.targets`` does.
    """
    return divide(program.insns, targets(program))


def divide(insns: Sequence[Insn], goals: Sequence[int | None]) -> tuple[Block, ...]:
    """Return the basic blocks of instructions, of which ``goals`` tells where each one leads."""
    size = len(insns)
    leaders = {0, *(goal for goal in goals if goal is not None)}
    leaders |= {index + 1 for index, insn in enumerate(insns) if insn.op in _ENDS}
    starts = sorted(leader for leader in leaders if leader < size)
    number = {start: index for index, start in enumerate(starts)}
    found = []
    for start, end in pairwise((*starts, size)):
        op, goal = insns[end - 1].op, goals[end - 1]
        after: list[int] = []
        if op not in _LEAVES and end < size:
            after.append(number[end])
        if op in _ENDS and goal is not None and number[goal] not in after:
            after.append(number[goal])
        found.append(Block(start, end, tuple(after)))
    return tuple(found)


def entries(program: Program) -> tuple[int, ...]:
    """Return the first instructions of the main program and of every subprogram, in text order.

    A subprogram is what a ``call_local`` calls or a ``lddw_func`` takes the address of.
    """
    found = {0} if program.insns else set()
    for insn, goal in zip(program.insns, targets(program), strict=True):
        if goal is not None and insn.op not in _ENDS:
            found.add(goal)
    return tuple(sorted(found))


_LEAVES = frozenset(op for op in ROWS if op.form in {Form.JUMP, Form.JUMP_LONG, Form.EXIT})
"""The next instruction in the text does not follow on these."""
_ENDS = _LEAVES | {
    op for op in ROWS if op.form in {Form.BRANCH_IMM, Form.BRANCH_REG, Form.MAY_GOTO}
}
