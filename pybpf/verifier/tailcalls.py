"""Tail calls: what may not be held then, and how the path goes on.

Source: check_helper_call, record_func_key and check_resource_leak in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import MapType
from pybpf.verifier.callmeta import Call
from pybpf.verifier.env import Env
from pybpf.verifier.frames import LEFT, LEFT_CALLBACK
from pybpf.verifier.packet import forget
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.returns import check_references
from pybpf.verifier.sections import check_leftovers
from pybpf.verifier.state import UNKNOWN_REG, State


def check_tail_call(env: Env, state: State, call: Call) -> None:
    """Raise Refusal where the program still holds something, or jumps by no table of programs."""
    known = call.map
    if known is None or known.type != MapType.PROG_ARRAY:
        if env.rules.since(6, 16):
            raise Refusal("expected prog array map for tail call")
        raise Refusal("kernel subsystem misconfigured verifier")
    index = state.frame.regs[3].val.const
    if index is not None and index < known.max_entries:
        env.precise(state, 3)
    new = env.rules.since(6, 13)
    if new and state.lock is not None:
        check_leftovers(env, state, "tail_call")
    check_references(env, state, "tail_call")
    if new:
        check_leftovers(env, state, "tail_call")
        return
    if env.rules.since(6, 12):
        if state.preempt:
            raise Refusal("tail_call cannot be used inside bpf_preempt_disable-ed region")
        if state.rcu:
            raise Refusal("tail_call cannot be used inside bpf_rcu_read_lock-ed region")


def tail_call(env: Env, state: State) -> int:
    """Go on after a tail call: it may have failed, or ended its function; return the slot."""
    if not env.rules.since(6, 19):
        if env.rules.since(6, 6):
            forget(env, state)
        return state.at + 1
    if len(state.frames) == 1:
        return state.at + 1
    env.push(state, state.at + 1)
    forget(env, state)
    frame = state.frames.pop()
    state.frame = state.frames[-1]
    frame.regs[0] = UNKNOWN_REG
    if frame.callback is not None:
        from pybpf.verifier.callbacks import leave

        state.note = LEFT_CALLBACK
        return leave(env, state, frame)
    state.frame.regs[0] = UNKNOWN_REG
    state.note = LEFT
    return frame.site + 1
