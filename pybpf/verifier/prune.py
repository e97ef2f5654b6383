"""Paths that need not be followed: a state at a pruning point in; whether one like it was safe out.

Source: is_state_visited and its heuristics in kernel/bpf/verifier.c. A checkpoint is kept where
none is like the state, and enough was executed since the last one.
"""

from __future__ import annotations

from pybpf.verifier import opcodes as op
from pybpf.verifier.backtrack import SLOTS, mark_masks, no_marks
from pybpf.verifier.env import Env
from pybpf.verifier.equal import EXACT, INEXACT, WITHIN, maybe_looping, states_equal
from pybpf.verifier.kinds import ITER_SLOT, SCALAR
from pybpf.verifier.reads import mark_read
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.state import UNINIT, UNKNOWN_REG, Reg, Slot, State


def visit(env: Env, state: State) -> bool:
    """Whether the path that ``state`` is on is known to be safe; else maybe keep a checkpoint.

    Raises Refusal for a loop that comes back to where it was.
    """
    at = state.at
    forced = at in env.program.forced
    jumps, processed = env.jumps - env.jumps_before, env.processed - env.processed_before
    add = forced or env.test_states or (jumps >= 2 and processed >= 8)
    if env.rules.forgets_dead:
        _forget_dead(env, state)
    known = env.explored.get(at)
    if known:
        evicted = False
        for old in known:
            if old.branches:
                level = _compare_ancestor(env, old, state, at)
                if level:
                    _close_loop(old, state)
                    _hit(env, old, state)
                    return True
                if not forced and not env.test_states and jumps < 20 and processed < 100:
                    add = False
            else:
                exact = WITHIN if old.in_loop else INEXACT
                if states_equal(env, old, state, exact):
                    _hit(env, old, state)
                    return True
            if add:
                old.misses += 1
            limit = 64 if forced and old.branches else 3
            if old.misses > old.hits * limit + limit:
                old.evicted = evicted = True
        count = len(known)
        if evicted:
            env.explored[at] = [old for old in known if not old.evicted]
        if not env.privileged and count > env.rules.limits.states:
            return False
    if add:
        _keep(env, state, at)
    return False


def _keep(env: Env, state: State, at: int) -> None:
    """Make a checkpoint of a state, which goes on from there."""
    env.total_states += 1
    if env.limits.states is not None and env.total_states > env.limits.states:
        raise Unmodelled(f"limit: {env.limits.states} states")
    env.jumps_before, env.processed_before = env.jumps, env.processed
    kept = state.copy()
    kept.parent = state.parent
    state.parent = kept
    state.trail = None
    state.dfs = kept.dfs + 1
    state.wrote = {}
    env.explored.setdefault(at, []).insert(0, kept)


def _compare_ancestor(env: Env, old: State, state: State, at: int) -> bool:
    """Whether a state that this path came from shows that a loop converges."""
    if at in env.program.iter_next:
        return states_equal(env, old, state, WITHIN) and env.iterates(state)
    slot = env.slots[at]
    if slot.code == op.MAY_GOTO and old.may_goto != state.may_goto and (
        states_equal(env, old, state, WITHIN)
    ):  # fmt: skip
        return True
    if slot.code == op.CALL and at in env.program.forced:
        return states_equal(env, old, state, WITHIN)
    if old.frame.is_async and old.frame.entry != state.frame.entry:
        return False
    if (
        maybe_looping(old, state)
        and states_equal(env, old, state, EXACT)
        and not _depths_differ(old, state)
        and old.may_goto == state.may_goto
        and old.unroll == state.unroll
    ):
        raise Refusal(f"infinite loop detected at insn {at}", at)
    return False


def _depths_differ(old: State, state: State) -> bool:
    """Whether an iterator was advanced in between; calls.py counts in ``Reg.size``."""
    for frame, other in zip(old.frames, state.frames, strict=True):
        for spi, slot in frame.stack.items():
            if slot.bytes[0] == ITER_SLOT and slot.reg is not None:
                now = other.stack.get(spi)
                if now is None or now.reg is None or now.reg.size != slot.reg.size:
                    return True
    return False


def _close_loop(old: State, state: State) -> None:
    """Note of all checkpoints from ``old`` on that what is known of them is not complete."""
    parent = state.parent
    while parent is not None:
        parent.in_loop = True
        if parent is old:
            return
        parent = parent.parent


def _hit(env: Env, old: State, state: State) -> None:
    old.hits += 1
    _propagate_reads(old, state)
    masks = no_marks()
    for frame, mask in old.precise.items():
        masks[frame] = mask
    if any(masks):
        mark_masks(env, state, masks)


def _propagate_reads(old: State, state: State) -> None:
    for frame, mask in old.read.items():
        rest = mask
        while rest:
            bit = rest & -rest
            rest ^= bit
            mark_read(state, frame, bit.bit_length() - 1)


def _forget_dead(env: Env, state: State) -> None:
    """Clear the registers that nobody will read, which makes states alike."""
    dead = env.program.dead
    frames = state.frames
    regs = state.frame.regs
    for number in dead[state.at]:
        regs[number] = UNINIT
    for index in range(len(frames) - 1):
        regs = frames[index].regs
        for number in dead[frames[index + 1].site]:
            regs[number] = UNINIT


def close_path(state: State) -> None:
    """Count that one path from each checkpoint behind is explored."""
    walk: State | None = state
    while walk is not None:
        walk.branches -= 1
        if walk.branches:
            return
        walk = walk.parent


def widen_imprecise(env: Env, old: State, state: State) -> None:
    """Forget the scalars that changed since ``old`` and that nothing depended on, to converge.

    (widen_imprecise_scalars)
    """
    del env
    for index, (frame, before) in enumerate(zip(state.frames, old.frames, strict=False)):
        precise = old.precise.get(index, 0)
        for number in range(10):
            was, reg = before.regs[number], frame.regs[number]
            if was.kind == SCALAR and reg.kind == SCALAR and not precise >> number & 1 and (
                not _alike(was, reg)
            ):  # fmt: skip
                frame.regs[number] = UNKNOWN_REG
        for spi, slot in before.stack.items():
            now = frame.stack.get(spi)
            if now is None or slot.reg is None or now.reg is None:
                continue
            if slot.reg.kind == SCALAR and now.reg.kind == SCALAR and (
                not precise >> SLOTS + spi & 1 and not _alike(slot.reg, now.reg)
            ):  # fmt: skip
                frame.stack[spi] = Slot(now.bytes, UNKNOWN_REG)


def _alike(was: Reg, reg: Reg) -> bool:
    return was.val == reg.val and (was.id != 0) == (reg.id != 0)
