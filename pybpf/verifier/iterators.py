"""Iterators that a program steps by itself: stack slots in; the same made, advanced or gone, out.

The slots of one hold registers: ``extra`` is an ``Iterator``, ``size`` how often it was advanced,
``ref`` of the first the reference that must be given back. Source: process_iter_arg,
mark_stack_slots_iter and process_iter_next_call in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from typing import NamedTuple

from pybpf.verifier.access import check_access
from pybpf.verifier.callbacks import last_checkpoint
from pybpf.verifier.dynptrs import place, place_on_stack, slot_of
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import ITER_SLOT, STACK
from pybpf.verifier.nulls import not_null
from pybpf.verifier.prune import widen_imprecise
from pybpf.verifier.reads import mark_read, mark_written
from pybpf.verifier.references import release
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.stackareas import EMPTY
from pybpf.verifier.state import ZERO_REG, Reg, Slot, State

_BYTES = bytes([ITER_SLOT]) * 8


class Iterator(NamedTuple):
    """What an iterator goes through (``num``), and whether it may have more."""

    kind: str
    active: bool = True


def _slots(env: Env, state: State, number: int, count: int) -> int:
    """Return the number of the first slot that an argument points to; raises Refusal."""
    reg = state.frame.regs[number]
    if reg.kind != STACK:
        raise Refusal(f"{place(env, number)} expected pointer to an iterator on stack")
    spi = slot_of(state, reg, count * 8)
    return -1 if spi is None else spi


def make(env: Env, state: State, number: int, kind: str, count: int) -> None:
    """Make an iterator of ``count`` slots where an argument points to."""
    reg = state.frame.regs[number]
    spi = _slots(env, state, number, count)
    frame = state.frames[reg.frame]
    word = place_on_stack(env, number)
    taken = any(
        frame.stack.get(at, EMPTY).bytes[0] == ITER_SLOT for at in range(spi - count + 1, spi + 1)
    )
    if spi < 0 or taken:
        raise Refusal(f"expected uninitialized iter_{kind} as {word}")
    for off in range(0, 8 * count, 8):
        check_access(env, state, number, off, 8, write=True)
    ident = env.new_id()
    state.acquire(ident, state.at)
    for at in range(spi, spi - count, -1):
        made = Reg(STACK)
        made.extra = Iterator(kind)
        made.ref = ident if at == spi else 0
        frame.stack[at] = Slot(_BYTES, made)
        mark_written(state, frame.index, at)


def check(env: Env, state: State, number: int, kind: str, count: int) -> int:
    """Return the first slot of the iterator that an argument points to; raises Refusal."""
    reg = state.frame.regs[number]
    spi = _slots(env, state, number, count)
    frame = state.frames[reg.frame]
    for at in range(spi, spi - count, -1):
        found = frame.stack.get(at, EMPTY)
        ok = (
            spi >= 0
            and found.bytes == _BYTES
            and found.reg is not None
            and bool(found.reg.ref) is (at == spi)
            and isinstance(found.reg.extra, Iterator)
            and found.reg.extra.kind == kind
        )
        if not ok:
            raise Refusal(f"expected an initialized iter_{kind} as {place_on_stack(env, number)}")
        mark_read(state, frame.index, at)
    return spi


def destroy(env: Env, state: State, number: int, spi: int, count: int) -> None:
    """Give the iterator at a slot back."""
    frame = state.frames[state.frame.regs[number].frame]
    found = frame.stack[spi].reg
    assert found is not None
    for at in range(spi, spi - count, -1):
        frame.stack[at] = EMPTY
        mark_written(state, frame.index, at)
    release(env, state, found.ref)


def advance(env: Env, state: State, index: int, spi: int, result: Reg) -> int:
    """Step the iterator at a slot of frame ``index``; return the slot to go on with.

    Another path gets ``result``, which is not NULL there; this one is at the end, with NULL.
    """
    slot = state.frames[index].stack[spi]
    found = slot.reg
    assert found is not None
    assert isinstance(found.extra, Iterator)
    regs = state.frame.regs
    if found.extra.active:
        regs[0] = result
        other = env.push(state, state.at + 1)
        more = found.copy()
        more.size += 1
        other.frames[index].stack[spi] = Slot(slot.bytes, more)
        # But for the checkpoint that was just made here.
        before = state.parent and last_checkpoint(env, state.parent, state.at)
        if before is not None:
            widen_imprecise(env, before, other)
        other.frame.regs[0] = not_null(result)
        drained = found.copy()
        drained.extra = Iterator(found.extra.kind, active=False)
        state.frames[index].stack[spi] = Slot(slot.bytes, drained)
    regs[0] = ZERO_REG
    return state.at + 1


def is_active(env: Env, state: State) -> bool:
    """Whether the iterator that r1 points to is not at its end."""
    del env
    reg = state.frame.regs[1]
    if reg.kind != STACK or reg.val.const is None:
        return False
    found = state.frames[reg.frame].stack.get((-(reg.off + reg.val.smin) - 1) >> 3, EMPTY).reg
    return found is not None and isinstance(found.extra, Iterator) and found.extra.active
