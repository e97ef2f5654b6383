"""How much stack chains of calls need: depths of subprograms in; nothing out, or Refusal.

Source: check_max_stack_depth in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import ProgType
from pybpf.verifier.env import Env
from pybpf.verifier.program import Subprogram
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES

_PRIVATE_FROM = 64
_PRIVATE = frozenset(
    {ProgType.KPROBE, ProgType.TRACEPOINT, ProgType.PERF_EVENT, ProgType.RAW_TRACEPOINT}
)


def check_stack_depth(env: Env) -> None:
    """Raise Refusal where some chain of calls needs too much stack, or is too long."""
    subprograms = env.program.subprograms
    private = (
        env.rules.since(6, 13)
        and env.prog_type in _PRIVATE
        and not any(sub.has_tail_call for sub in subprograms)
    )
    seen: set[tuple[int, int, int]] = set()
    _descend(env, subprograms[0], 0, 0, seen, private=private)
    for sub in subprograms[1:]:
        if sub.is_async:
            _descend(env, sub, 0, 0, set(), private=False)


def _descend(
    env: Env, sub: Subprogram, depth: int, frame: int, seen: set[tuple[int, int, int]], *,
    private: bool,
) -> None:  # fmt: skip
    if (sub.index, depth, frame) in seen:
        return
    seen.add((sub.index, depth, frame))
    limits = env.rules.limits
    if sub.index and sub.has_tail_call and depth >= limits.stack_tail_call:
        raise Refusal(
            f"tail_calls are not allowed when call stack of previous frames is {depth} bytes. "
            "Too large",
            errno=EACCES,
        )
    # Linux commit 1a3dbd3a1e7e ("bpf: Allow ... stack rounding of 16 with a JIT") (in v6.8)
    unit = 16 if env.rules.since(6, 8) else 32
    least = sub.depth if unit == 16 else max(sub.depth, 1)
    own = (least + unit - 1) // unit * unit
    if private and own >= _PRIVATE_FROM:
        if own > limits.stack:
            raise Refusal(f"stack size of subprog {sub.index} is {own}. Too large", errno=EACCES)
    else:
        depth += own
        if depth > limits.stack:
            raise Refusal(
                f"combined stack size of {frame + 1} calls is {depth}. Too large", errno=EACCES
            )
    subprograms = env.program.subprograms
    takes = [(at, index) for at, index in sub.takes if not subprograms[index].is_async]
    for _, index in sorted(sub.calls + takes):
        if frame + 1 >= limits.frames:
            raise Refusal(f"the call stack of {frame + 1} frames is too deep !", errno=7)
        _descend(env, subprograms[index], depth, frame + 1, seen, private=private)
