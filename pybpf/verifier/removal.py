"""Code that no path reaches is removed; what becomes of the addresses of functions then.

The kernel moves what is behind a removed run of instructions, and the distances that lead across
it. An address within such a run stays the number it was. Where no function begins there any more,
the program cannot be compiled, and bpf(2) fails. Source: opt_remove_dead_code, bpf_adj_branches and
jit_subprogs in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.verifier import opcodes as op
from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Refusal

_EFAULT = 14


def check_addresses(env: Env) -> None:
    """Raise Refusal, without a message, where a function's address leads nowhere in the end."""
    slots, steps = env.slots, env.steps
    taken = [
        (at, at + 1 + slot.imm)
        for at, slot in enumerate(slots)
        if slot.code == op.LDDW and slot.src == op.FUNC and steps[at] is not None
    ]
    starts = [sub.start for sub in env.program.subprograms if steps[sub.start] is not None]
    # A program that is left with one function is compiled without looking for others.
    if len(starts) < 2 or all(target in starts for _, target in taken):
        return
    moved = 0
    for first, last in _dead_runs(env):
        start, end, length = first - moved, last - moved, last - first
        taken = [_shifted(at, target, start, end, length) for at, target in taken]
        starts = [s - length if s >= end else s for s in starts]
        moved += length
    if any(target not in starts for _, target in taken):
        raise Refusal("", errno=_EFAULT)


def check_calls(env: Env) -> None:
    """Raise Refusal where a call is left of a function that the kernel has not."""
    if env.calls_nothing:
        raise Refusal("invalid kernel function call not eliminated in verifier pass")


def _shifted(at: int, target: int, start: int, end: int, length: int) -> tuple[int, int]:
    """Return an instruction and the address it holds after slots ``start`` … are removed."""
    if at >= end:
        # The distance stays, unless the address is before what is removed.
        return at - length, target if target < start else target - length
    return at, target - length if target >= end else target


def _dead_runs(env: Env) -> Iterator[tuple[int, int]]:
    first = at = 0
    slots, steps = env.slots, env.steps
    while at < len(slots):
        if steps[at] is None:
            at += 1
            continue
        if first < at:
            yield first, at
        at += 2 if slots[at].code == op.LDDW else 1
        first = at
    if first < at:
        yield first, at
