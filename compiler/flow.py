"""A function -> the same with fewer jumps.

``thread_jumps`` sends a block that decides a later branch straight to where that branch goes;
``tidy`` drops what cannot be reached, skips empty blocks and joins what runs in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.compiler.ir import (
    Bin,
    Block,
    Branch,
    Comment,
    Copy,
    Exit,
    Extend,
    Function,
    Goto,
    Instr,
    Label,
    Neg,
    Op,
    Terminator,
    VReg,
)
from pybpf.compiler.known import KnownConstants
from pybpf.compiler.operands import defined, predecessors, retarget, substitute, successors
from pybpf.compiler.simplify import holds, simplify
from pybpf.dataclass import dataclass, replace

_COPIED = 4
"""How many operations of a skipped block are copied into each block that skips it."""

Constants = dict[VReg, int]


def thread_jumps(function: Function) -> Function:
    """Return the function with jumps to a branch replaced where the way there decides it.

    That is how ``&&`` and ``||`` end up as plain jumps: the block that sets a truth value and
    goes to test it then goes where the test would.
    """
    blocks = {block.label: block for block in function.blocks}
    before = predecessors(function.blocks)
    ends: dict[Label, Constants] = {}
    found: list[Block] = []
    for block in function.blocks:
        known = _meet([ends[label] for label in before[block.label] if label in ends])
        for instr in block.instrs:
            _learn(instr.op, known)
        ends[block.label] = known
        found.append(_threaded(block, known, blocks))
    return replace(function, blocks=tuple(found))


def _threaded(block: Block, known: Constants, blocks: dict[Label, Block]) -> Block:
    match block.terminator:
        case Goto(target=target):
            way = _follow(target, known, blocks)
            if way:
                terminator = Goto(way.target)
                return replace(block, instrs=(*block.instrs, *way.instrs), terminator=terminator)
        case Branch() as branch:
            ways = {label: _follow(label, known, blocks) for label in successors(branch)}
            # The copied operations would need a block of their own on this edge.
            labels = {label: way.target for label, way in ways.items() if way and not way.instrs}
            return replace(block, terminator=retarget(branch, labels))
        case Exit():
            pass
    return block


@dataclass(frozen=True, slots=True)
class _Way:
    """Where a jump ends up, and the operations it passes."""

    target: Label
    instrs: tuple[Instr, ...]


def _follow(label: Label, known: Constants, blocks: dict[Label, Block]) -> _Way | None:
    """Return the way from the start of a block to behind the last branch that is decided."""
    known = dict(known)
    passed: list[Instr] = []
    best: _Way | None = None
    while True:
        block = blocks[label]
        instrs = [instr for instr in block.instrs if not isinstance(instr.op, Comment)]
        if len(passed) + len(instrs) > _COPIED or not all(_is_cheap(i.op) for i in instrs):
            return best
        for instr in instrs:
            _learn(instr.op, known)
        passed += instrs
        match block.terminator:
            case Goto(target=target):
                label = target
            case Branch() as branch:
                left = known.get(branch.left)
                right = branch.right if isinstance(branch.right, int) else known.get(branch.right)
                if left is None or right is None:
                    return best
                truth = holds(branch.cmp, branch.width, left, right)
                label = branch.then if truth else branch.otherwise
                best = _Way(label, tuple(passed))
            case Exit():
                return best


def _is_cheap(op: Op) -> bool:
    return isinstance(op, Copy | Bin | Neg | Extend)


def _meet(ends: Sequence[Constants]) -> Constants:
    if not ends:
        return {}
    first, *others = ends
    return {r: c for r, c in first.items() if all(other.get(r) == c for other in others)}


def _learn(op: Op, known: Constants) -> None:
    """Take note of what ``op`` does to the constants."""
    dst = defined(op)
    if dst is None:
        return
    if _is_cheap(op):
        op = simplify(substitute(op, known), KnownConstants(known))
    known.pop(dst, None)
    if isinstance(op, Copy) and isinstance(op.src, int):
        known[dst] = op.src


def tidy(function: Function) -> Function:
    """Return the function without unreachable and empty blocks, straight runs in one block."""
    blocks = _without_detours(function.blocks)
    blocks = _reachable(blocks)
    return replace(function, blocks=_joined(blocks))


def drop_unreachable(function: Function) -> Function:
    """Return the function without the blocks that nothing leads to."""
    return replace(function, blocks=_reachable(function.blocks))


def _is_empty(block: Block) -> bool:
    return all(isinstance(instr.op, Comment) for instr in block.instrs)


def _without_detours(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Skip blocks that only jump on, and let all that only exit alike be one."""
    entry = blocks[0].label
    labels: dict[Label, Label] = {}
    exits: dict[Terminator, Label] = {}
    # Backwards, so that where a detour leads is already known when it is met.
    for block in reversed(blocks):
        if not _is_empty(block) or block.label == entry:
            continue
        match block.terminator:
            case Goto(target=target):
                labels[block.label] = labels.get(target, target)
            case Exit() as leave:
                labels[block.label] = exits.setdefault(leave, block.label)
            case Branch():
                pass
    return tuple(
        replace(block, terminator=_plain(retarget(block.terminator, labels))) for block in blocks
    )


def _plain(terminator: Terminator) -> Terminator:
    if isinstance(terminator, Branch) and terminator.then == terminator.otherwise:
        return Goto(terminator.then)
    return terminator


def _reachable(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    reached = {blocks[0].label}
    for block in blocks:
        if block.label in reached:
            reached.update(successors(block.terminator))
    return tuple(block for block in blocks if block.label in reached)


def _joined(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Append to each block the one it goes to, if nothing else goes there."""
    before = predecessors(blocks)
    by_label = {block.label: block for block in blocks}
    joined: set[Label] = set()
    found: list[Block] = []
    for block in blocks:
        if block.label in joined:
            continue
        whole = block
        while isinstance(whole.terminator, Goto) and len(before[whole.terminator.target]) == 1:
            tail = by_label[whole.terminator.target]
            joined.add(tail.label)
            whole = replace(
                whole,
                instrs=whole.instrs + tail.instrs,
                terminator=tail.terminator,
                span=tail.span,
            )
        found.append(whole)
    return tuple(found)
