"""Saved interrupt flags: a stack slot in; interrupts off from there, or on again, out.

The slot holds a register whose ``ref`` is the reference of kind IRQ; ``State.irq`` is that of the
flags saved last. Source: process_irq_flag and release_irq_state in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.verifier.access import check_access
from pybpf.verifier.dynptrs import place, slot_of
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import IRQ_SLOT, STACK
from pybpf.verifier.reads import mark_read, mark_written
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.stackareas import EMPTY
from pybpf.verifier.state import IRQ, Reg, Slot, State

_BYTES = bytes([IRQ_SLOT]) * 8


def check_flags(env: Env, state: State, number: int, *, save: bool, family: str = "native") -> None:
    """Save the flags where an argument points to, or restore them from there; raises Refusal.

    ``family``: of functions; those of one (``native``, ``lock``) undo what another of it did.
    """
    reg = state.frame.regs[number]
    if reg.kind != STACK:
        raise Refusal(f"{place(env, number)} doesn't point to an irq flag on stack")
    spi = slot_of(state, reg, 8)
    frame = state.frames[reg.frame]
    slot = EMPTY if spi is None else frame.stack.get(spi, EMPTY)
    if save:
        if spi is None or slot.bytes[0] == IRQ_SLOT:
            raise Refusal(f"expected uninitialized irq flag as {place(env, number)}")
        check_access(env, state, number, 0, 8, write=True)
        made = Reg(STACK)
        made.extra = family
        made.ref = state.irq = env.new_id()
        state.acquire(made.ref, state.at, IRQ)
        frame.stack[spi] = Slot(_BYTES, made)
    else:
        if spi is None or slot.bytes != _BYTES or slot.reg is None:
            raise Refusal(f"expected an initialized irq flag as {place(env, number)}")
        mark_read(state, frame.index, spi)
        if slot.reg.extra != family:
            raise Refusal(
                f"irq flag acquired by {slot.reg.extra} kfuncs cannot be restored with {family} "
                "kfuncs"
            )
        _restore(state, slot.reg.ref)
        frame.stack[spi] = EMPTY
    mark_written(state, frame.index, spi)


def _restore(state: State, ident: int) -> None:
    if ident != state.irq:
        last = next((ref for ref in state.refs if ref.id == state.irq), None)
        raise Refusal(
            f"cannot restore irq state out of order, expected id={state.irq} acquired at "
            f"insn_idx={last.insn if last else 0}",
            errno=EACCES,
        )
    state.drop(ident, IRQ)
    held = [ref.id for ref in state.refs if ref.kind == IRQ]
    state.irq = held[-1] if held else 0
