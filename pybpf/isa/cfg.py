"""A program to its basic blocks: runs of instructions entered at the first and left at the last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pybpf.dataclass import dataclass
from pybpf.isa.insn import Insn, Program
from pybpf.isa.layout import targets
from pybpf.isa.table import Effect, Form, OpSpec


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
    leaders |= {index + 1 for index, insn in enumerate(insns) if _ends_block(insn.op)}
    starts = sorted(leader for leader in leaders if leader < size)
    number = {start: index for index, start in enumerate(starts)}
    found = []
    for start, end in pairwise((*starts, size)):
        op, goal = insns[end - 1].op, goals[end - 1]
        after: list[int] = []
        if _falls_through(op) and end < size:
            after.append(number[end])
        if _ends_block(op) and goal is not None and number[goal] not in after:
            after.append(number[goal])
        found.append(Block(start, end, tuple(after)))
    return tuple(found)


def entries(program: Program) -> tuple[int, ...]:
    """Return the first instructions of the main program and of every subprogram, in text order.

    A subprogram is what a ``call_local`` calls or a ``lddw_func`` takes the address of.
    """
    found = {0} if program.insns else set()
    for insn, goal in zip(program.insns, targets(program), strict=True):
        if goal is not None and not _ends_block(insn.op):
            found.add(goal)
    return tuple(sorted(found))


_JUMPS = frozenset(
    {Form.JUMP, Form.JUMP_LONG, Form.BRANCH_IMM, Form.BRANCH_REG, Form.MAY_GOTO, Form.EXIT}
)


def _ends_block(op: OpSpec) -> bool:
    return op.form in _JUMPS


def _falls_through(op: OpSpec) -> bool:
    return op.effect is not Effect.EXIT and op.form not in {Form.JUMP, Form.JUMP_LONG}
