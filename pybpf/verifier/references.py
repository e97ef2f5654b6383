"""What a program must give back: a reference's id in; it, and all pointers to it, gone.

Source: release_reference and mark_reg_invalid in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.kinds import DYNPTR
from pybpf.verifier.packet import each_reg
from pybpf.verifier.state import UNINIT, UNKNOWN_REG, Reg, State


def release(env: Env, state: State, ident: int) -> bool:
    """Give a reference back; False where it is not held, or not this callback's own."""
    frame = state.frame
    if frame.callback is not None and not env.rules.since(6, 13):
        held = next((ref for ref in state.refs if ref.id == ident), None)
        if held is not None and held.frame != frame.index:
            return False
    if not state.drop(ident):
        return False
    gone = invalid(env)

    def change(reg: Reg) -> Reg:
        return gone if reg.ref == ident and reg.kind != DYNPTR else reg

    each_reg(state, change)
    return True


def forget_slices(env: Env, state: State, dynptr: int) -> None:
    """Make pointers into what a dynptr shows invalid."""
    gone = invalid(env)

    def change(reg: Reg) -> Reg:
        return gone if reg.root == dynptr and reg.kind != DYNPTR else reg

    each_reg(state, change)


def invalid(env: Env) -> Reg:
    """Return what is left of a pointer to what is no more."""
    return UNKNOWN_REG if env.rules.allow_leaks else UNINIT
