"""A function to the parts that become Python: blocks in, trees of blocks and what is read out.

A *root* is a block that more than one edge leads to, or the function's first. Every other block
has one way in and stands in the text of its predecessor, so that only roots are dispatched on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pybpf.dataclass import dataclass
from pybpf.isa.cfg import Block, blocks, entries
from pybpf.isa.insn import R0, R1, R6, R10, Insn, Program
from pybpf.isa.layout import targets
from pybpf.isa.table import FREE_FIELDS, Effect, Form

_DEPTH = 16
"""How deep trees may be: Python's parser counts levels of indentation."""

_CALLS = frozenset({Form.CALL_HELPER, Form.CALL_LOCAL, Form.CALL_KFUNC, Form.CALL_REG})
_PACKET = frozenset({Form.PACKET_ABS, Form.PACKET_IND})


@dataclass(frozen=True, slots=True)
class Graph:
    """A program's blocks by their first instruction, where its jumps go, where functions begin."""

    program: Program
    blocks: dict[int, Block]
    starts: tuple[int, ...]
    goals: tuple[int | None, ...]
    entries: tuple[int, ...]

    def after(self, block: Block) -> tuple[int, ...]:
        """Return the first instructions of the blocks that follow: the next, then the target."""
        return tuple(self.starts[successor] for successor in block.successors)


def graph(program: Program) -> Graph:
    """Return the blocks of a program; raises EncodingError for a jump to nowhere."""
    found = blocks(program)
    return Graph(
        program,
        {block.start: block for block in found},
        tuple(block.start for block in found),
        targets(program),
        entries(program),
    )


def roots(code: Graph, entry: int) -> list[int] | None:
    """Return the roots of the function at ``entry``, itself first; None if it runs off its end."""
    ways: dict[int, int] = {entry: 2}
    depth = {entry: 0}
    order = [entry]
    for start in order:
        block = code.blocks[start]
        last = code.program.insns[block.end - 1].op
        following = code.after(block)
        if not following and last.form is not Form.EXIT:
            return None
        for index, successor in enumerate(following):
            ways[successor] = ways.get(successor, 0) + 1
            if successor not in depth:
                depth[successor] = depth[start] + index
                if depth[successor] > _DEPTH:
                    ways[successor] += 1
                    depth[successor] = 0
                order.append(successor)
    return [start for start in order if ways[start] > 1]


@dataclass(slots=True)
class Summary:
    """What a function takes and gives: r1 to r``arguments``, and whether r0 is set when it exits.

    ``calls`` has for its calls the registers that are set there on all ways.
    """

    arguments: int
    returns: bool
    calls: dict[int, frozenset[int]]


def summaries(code: Graph, arguments: Callable[[Insn], int]) -> dict[int, Summary] | None:
    """Return a summary of every function; None if one may read a register that nothing has set.

    ``arguments`` says how many a call of a helper or kernel function has. No program that the
    kernel accepts is among those that give None.
    """
    found = {entry: Summary(0, returns=True, calls={}) for entry in code.entries}
    while True:
        again = {}
        for entry in code.entries:
            fits = (_summary(code, entry, n, found, arguments) for n in range(6))
            summary = next((fit for fit in fits if fit is not None), None)
            if summary is None:
                return None
            again[entry] = summary
        if again == found:
            return found
        found = again


def _summary(
    code: Graph,
    entry: int,
    count: int,
    others: Mapping[int, Summary],
    arguments: Callable[[Insn], int],
) -> Summary | None:
    """Return the summary of a function if it does with ``count`` arguments."""
    at: dict[int, frozenset[int]] = {entry: frozenset({R10, *range(R1, R1 + count)})}
    summary = Summary(count, returns=True, calls={})
    work = [entry]
    while work:
        block = code.blocks[work.pop()]
        known = at[block.start]
        for pc in range(block.start, block.end):
            insn = code.program.insns[pc]
            need, give = reads(insn), sets(insn)
            if insn.op.form in _CALLS:
                summary.calls[pc] = known
                goal = code.goals[pc]
                callee = None if goal is None else others[goal]
                passed = arguments(insn) if callee is None else callee.arguments
                need |= set(range(R1, R1 + passed))
                if callee is not None and not callee.returns:
                    give = frozenset()
            if not need <= known:
                return None
            if insn.op.form is Form.EXIT and R0 not in known:
                summary.returns = False
            known = (known - clobbers(insn)) | give
        for successor in code.after(block):
            before = at.get(successor)
            now = known if before is None else known & before
            if now != before:
                at[successor] = now
                work.append(successor)
    return summary


def reads(insn: Insn) -> frozenset[int]:
    """Return the registers that an instruction needs, but for the arguments of its call."""
    op, free = insn.op, FREE_FIELDS[insn.op.form]
    found = set()
    if "src" in free:
        found.add(insn.src)
    if "dst" in free and not (
        op.form in {Form.MOVSX, Form.LOAD, Form.LOAD_ACQUIRE, Form.LOAD_IMM64, Form.ADDR_SPACE_CAST}
        or (op.effect is Effect.MOV)
    ):
        found.add(insn.dst)
    if op.effect is Effect.CMPXCHG:
        found.add(R0)
    if op.form in _PACKET:
        found.add(R6)
    return frozenset(found)


def sets(insn: Insn) -> frozenset[int]:
    """Return the registers that hold something behind an instruction."""
    op = insn.op
    if op.form in _CALLS or op.form in _PACKET or op.effect is Effect.CMPXCHG:
        return frozenset({R0})
    if op.form is Form.ATOMIC:
        return frozenset({insn.src}) if op.fetch else frozenset()
    if "dst" in FREE_FIELDS[op.form] and op.form not in {
        Form.STORE_REG, Form.STORE_IMM, Form.STORE_RELEASE, Form.BRANCH_IMM, Form.BRANCH_REG,
    }:  # fmt: skip
        return frozenset({insn.dst})
    return frozenset()


def clobbers(insn: Insn) -> frozenset[int]:
    """Return the registers that hold nothing behind an instruction."""
    form = insn.op.form
    if form in _CALLS:
        return frozenset(range(R0, R6))
    return frozenset(range(R1, R6)) if form in _PACKET else frozenset()
