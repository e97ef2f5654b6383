"""ir.Function -> a cheaper ir.Function that does the same.

What the passes rely on is the shape of the IR: no loops, blocks in topological order. Calls with
side effects and the order of memory accesses stay as they are. The passes run twice, because jumps
that were threaded leave constants to fold, and lowering nests nothing that would need a third time.
"""

from __future__ import annotations

from pybpf.compiler.flow import drop_unreachable, thread_jumps, tidy
from pybpf.compiler.ir import (
    AtomicAdd,
    Block,
    CallHelper,
    Comment,
    Function,
    Instr,
    Label,
    Op,
    Slot,
    SlotRef,
    Store,
    VReg,
)
from pybpf.compiler.operands import defined, operations, slots, successors, used, with_op
from pybpf.compiler.values import PER_EVENT, fold_values
from pybpf.dataclass import replace

_WITHOUT_EFFECT = PER_EVENT | {
    "bpf_map_lookup_elem",
    "bpf_ktime_get_ns",
    "bpf_ktime_get_boot_ns",
    "bpf_ktime_get_coarse_ns",
}
"""Helpers whose call may go when nobody reads the result."""

_ROUNDS = 2


def optimize(function: Function) -> Function:
    """Return a function with the same effects and the same exits."""
    function = drop_unreachable(function)
    for _ in range(_ROUNDS):
        function = thread_jumps(fold_values(function))
        function = tidy(drop_dead(function))
    return function


def drop_dead(function: Function) -> Function:
    """Return the function without operations whose results nobody reads.

    One walk from the end is exact, as there are no loops. Stores to a slot that is never read go
    as well.
    """
    read = _slots_read(function)
    live_in: dict[Label, set[VReg]] = {}
    blocks: list[Block] = []
    for block in reversed(function.blocks):
        live: set[VReg] = set(used(block.terminator))
        for label in successors(block.terminator):
            live |= live_in[label]
        kept: list[Instr] = []
        for instr in reversed(block.instrs):
            op = _needed(instr.op, live, read)
            if op is None:
                continue
            dst = defined(op)
            if dst is not None:
                live.discard(dst)
            live.update(used(op))
            kept.append(with_op(instr, op))
        live_in[block.label] = live
        blocks.append(replace(block, instrs=tuple(reversed(kept))))
    return replace(function, blocks=tuple(reversed(blocks)))


def _needed(op: Op, live: set[VReg], read: set[Slot]) -> Op | None:
    """Return what is left of ``op`` where only the registers of ``live`` are read after it."""
    match op:
        case Store(base=SlotRef(slot=slot)):
            return op if slot in read else None
        case Store() | AtomicAdd() | Comment():
            return op
        case CallHelper(dst=dst, helper=helper):
            if dst in live:
                return op
            return None if helper in _WITHOUT_EFFECT else replace(op, dst=None)
        case _:
            return op if op.dst in live else None


def _slots_read(function: Function) -> set[Slot]:
    """Return the slots that something other than a store mentions."""
    return {slot for op in operations(function) if not isinstance(op, Store) for slot in slots(op)}
