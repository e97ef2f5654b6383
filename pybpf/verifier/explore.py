"""The loop over all paths: a run and its first state in; nothing out, or Refusal or Unmodelled.

Depth first: the path that falls through is followed, the others wait in ``env.pending``.
"""

from __future__ import annotations

from time import process_time

from pybpf.verifier.dispatch import make_step
from pybpf.verifier.env import END, Env
from pybpf.verifier.prune import close_path, visit
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.state import State

_CLOCK_EVERY = 1 << 10
_RECOVERABLE = frozenset({1, 13, 22})


def explore(env: Env, first: State) -> None:
    """Follow every path from ``first``; returns when all are found safe.

    Raises Refusal where the kernel would reject the program, and Unmodelled where the model cannot
    say or a limit is reached; ``env.at`` is then the slot.
    """
    steps, pruning, log = env.steps, env.program.pruning, env.log
    kernel_limit = env.rules.limits.processed
    limit = min(kernel_limit, env.limits.insns or kernel_limit)
    deadline = None if env.limits.seconds is None else process_time() + env.limits.seconds
    check_clock_at = env.processed + _CLOCK_EVERY
    state, count = first, len(steps)
    processed = env.processed
    while True:
        at = env.at = state.at
        if not 0 <= at < count:
            raise Refusal(f"invalid insn idx {at} insn_cnt {count}", errno=14)
        processed += 1
        env.processed = processed
        if processed > limit:
            _over(processed, kernel_limit)
        if processed >= check_clock_at:
            check_clock_at = processed + _CLOCK_EVERY
            if deadline is not None and process_time() > deadline:
                raise Unmodelled(f"limit: {env.limits.seconds} s of processor time")
        if at in pruning and visit(env, state):
            if log is not None:
                log.note(f"{at}: safe")
            target = END
        else:
            if log is not None:
                log.insn(env, state)
            step = steps[at]
            if step is None:
                step = steps[at] = make_step(env, at)
            try:
                target = step(env, state)
            except Refusal as refusal:
                if not (state.speculative and _can_be_barred(env, refusal)):
                    raise
                target = END
            if log is not None:
                log.done(env, state)
        if target != END:
            state.trail = (at, state.note, state.trail)
            state.note = None
            state.at = target
            continue
        close_path(state)
        if not env.pending:
            return
        state = env.pending.pop()
        if log is not None:
            log.note(f"from {state.came_from} to {state.at}:")


def _can_be_barred(env: Env, refusal: Refusal) -> bool:
    """Whether a barrier keeps the processor from running ahead into what is refused.

    Linux commit d6f1c85f2253 ("bpf: Fall back to nospec for Spectre v1") (in v6.17)
    """
    return env.rules.since(6, 17) and refusal.errno in _RECOVERABLE


def _over(processed: int, kernel_limit: int) -> None:
    if processed > kernel_limit:
        raise Refusal(f"BPF program is too large. Processed {processed} insn", errno=7)
    raise Unmodelled(f"limit: {processed - 1} instructions")
