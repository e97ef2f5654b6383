"""Which registers a probe reads: a Function in, whether a link to many functions has them out."""

from __future__ import annotations

from pybpf.compiler import ir
from pybpf.compiler.operands import operations, used
from pybpf.target.arch import Arch

_TAKES_CONTEXT = frozenset({"bpf_get_stackid", "bpf_perf_event_output"})
"""Helpers that want the context itself; at its address others would read any register."""


def reads_traced_only(function: ir.Function, arch: Arch, *, on_return: bool) -> bool:
    """Whether all registers that a k(ret)probe reads are those that ftrace saves for everyone."""
    traced = arch.traced(on_return=on_return)
    starts = [f.offset for f in arch.regs.fields if f.name in traced]
    for op in operations(function):
        match op:
            case ir.Load(base=ir.CTX, offset=offset, size=size):
                if not any(start <= offset and offset + size <= start + 8 for start in starts):
                    return False
            case ir.CallHelper(helper=helper) if helper in _TAKES_CONTEXT:
                pass
            case _ if ir.CTX in used(op):
                return False
            case _:
                pass
    return True
