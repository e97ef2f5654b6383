"""A function -> the registers that hold addresses, as the kernel's verifier sees it.

The verifier follows a pointer through registers and through 8-byte pieces of stack, and nowhere
else: one that is stored to a map comes back as a plain number. So a pointer must not be cut to
pieces, nor be spilled to anything but the stack.
"""

from __future__ import annotations

from pybpf.compiler.ir import (
    CTX,
    AtomicAdd,
    Bin,
    BinOp,
    CallHelper,
    Copy,
    Function,
    Load,
    MapRef,
    MapValueAddr,
    Op,
    SlotRef,
    Store,
    VReg,
)
from pybpf.compiler.operands import operations

_RETURN_POINTERS = frozenset(
    {
        "bpf_map_lookup_elem",
        "bpf_map_lookup_percpu_elem",
        "bpf_ringbuf_reserve",
        "bpf_get_local_storage",
        "bpf_get_current_task_btf",
        "bpf_task_pt_regs",
        "bpf_task_storage_get",
        "bpf_per_cpu_ptr",
        "bpf_this_cpu_ptr",
    }
)


def find_pointers(function: Function) -> frozenset[VReg]:
    """Return every register that holds, or may hold, an address the verifier keeps track of."""
    ops = list(operations(function))
    found = {CTX}
    for op in ops:
        match op:
            case Load(base=VReg() as base) | Store(base=VReg() as base):
                found.add(base)
            case AtomicAdd(base=VReg() as base):
                found.add(base)
            case _:
                pass
    # What a pointer is made of is one; definitions come before uses, so one pass each way does.
    for op in reversed(ops):
        match op:
            case Copy(dst=dst, src=VReg() as src) if dst in found:
                found.add(src)
            case Bin(op=BinOp.ADD | BinOp.SUB, dst=dst, left=VReg() as left) if dst in found:
                found.add(left)
            case _:
                pass
    for op in ops:
        _follow(op, found)
    return frozenset(found)


def _follow(op: Op, found: set[VReg]) -> None:
    """Add what ``op`` makes of pointers."""
    match op:
        case Copy(dst=dst, src=src) if isinstance(src, SlotRef | MapRef) or src in found:
            found.add(dst)
        case Bin(dst=dst, op=BinOp.ADD | BinOp.SUB, width=64, left=left, right=right) if (
            left in found or right in found
        ):
            found.add(dst)
        case MapValueAddr(dst=dst):
            found.add(dst)
        case CallHelper(dst=VReg() as dst, helper=helper) if helper in _RETURN_POINTERS:
            found.add(dst)
        case _:
            pass
