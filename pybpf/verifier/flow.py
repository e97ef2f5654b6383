"""Jumps without a condition, calls and exits: a slot in; its step out."""

from __future__ import annotations

from functools import partial

from pybpf.verifier import opcodes as op
from pybpf.verifier.calls import check_leftovers, helper_call, kfunc_call, leave_callback
from pybpf.verifier.env import END, Env, Step
from pybpf.verifier.exceptions import check_unwound
from pybpf.verifier.frames import ENTERED, LEFT, LEFT_CALLBACK, enter
from pybpf.verifier.globalargs import check_passed
from pybpf.verifier.kinds import STACK
from pybpf.verifier.packet import forget
from pybpf.verifier.progbtf import Function
from pybpf.verifier.program import Raw
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.returns import check_references, check_return
from pybpf.verifier.state import UNINIT, UNKNOWN_REG, State


def make_goto(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a jump."""
    del env
    target = at + 1 + (slot.imm if slot.code == op.GOTOL else slot.off)

    def step(env: Env, state: State) -> int:
        del state
        env.jumps += 1
        return target

    return step


def make_may_goto(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a jump that is taken some time."""
    del env
    target = at + 1 + slot.off

    def step(env: Env, state: State) -> int:
        from pybpf.verifier.prune import widen_imprecise

        env.jumps += 1
        # The loop is left first; what another turn of it changes, and nothing needed, is forgotten.
        again = env.push(state, at + 1)
        again.may_goto += 1
        before = _last_checkpoint(state, at)
        if before is not None:
            widen_imprecise(env, before, again)
        return target

    return step


def _last_checkpoint(state: State, at: int) -> State | None:
    """Return the last checkpoint of this path at a slot before the newest one there."""
    parent = state.parent
    if parent is not None and parent.at == at:
        parent = parent.parent
    sites = [frame.site for frame in state.frames]
    while parent is not None and (
        parent.at != at or [frame.site for frame in parent.frames] != sites
    ):
        parent = parent.parent
    return parent


def make_call(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a call of a helper, a function of the kernel, or a subprogram."""
    if slot.src == 0:
        number = slot.imm

        def step(env: Env, state: State) -> int:
            env.jumps += 1
            return helper_call(env, state, number)

        return step
    if slot.src == op.CALL_LOCAL:
        return _make_local(env, at, slot)

    def step_kfunc(env: Env, state: State) -> int:
        env.jumps += 1
        return kfunc_call(env, state, slot.imm, slot.off)

    return step_kfunc


def _make_local(env: Env, at: int, slot: Raw) -> Step:
    start = at + 1 + slot.imm
    subprog = env.program.subprogram_at[start]

    function = env.program.functions.get(subprog)
    if function is not None and function.is_global:
        return partial(_call_global, subprog, function)

    def step(env: Env, state: State) -> int:
        env.jumps += 1
        check_leftovers(env, state, "call")
        caller = state.frame
        frame = enter(env, state, subprog, at)
        frame.regs[1:6] = caller.regs[1:6]
        caller.regs[0:6] = [UNINIT] * 6
        state.note = ENTERED
        return start

    return step


def _call_global(subprog: int, function: Function, env: Env, state: State) -> int:
    """Call a function that is verified by itself: its arguments must be what its types say."""
    env.jumps += 1
    check_leftovers(env, state, "global call")
    regs = state.frame.regs
    check_passed(env, state, subprog, function)
    # Linux 6.14 began to, and the stable releases of 6.6 and 6.12.
    if subprog in env.program.changes_packet and env.rules.since(6, 6):
        forget(env, state)
    env.called.add(subprog)
    if subprog in env.program.throwing and env.rules.since(7, 0):
        check_unwound(env, state)
    regs[0:6] = [UNKNOWN_REG if function.returns_scalar else UNINIT, *[UNINIT] * 5]
    return state.at + 1


def make_exit(env: Env, at: int) -> Step:
    """Return the step of the end of a subprogram, a callback or the program."""
    del env, at

    def step(env: Env, state: State) -> int:
        env.jumps += 1
        frames = state.frames
        frame = state.frame
        check_leftovers(env, state, "BPF_EXIT")
        check_references(env, state, "BPF_EXIT")
        if len(frames) == 1:
            check_return(env, state)
            return END
        result = frame.regs[0]
        if result.kind == STACK:
            raise Refusal("cannot return stack pointer to the caller")
        frames.pop()
        caller = state.frame = frames[-1]
        if frame.callback is not None:
            state.note = LEFT_CALLBACK
            return leave_callback(env, state, frame)
        caller.regs[0] = result
        state.note = LEFT
        return frame.site + 1

    return step
