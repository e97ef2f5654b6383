"""Sections in which a program must not be left: locks, rcu, and preemption switched off.

Source: do_check and check_resource_leak in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.state import State

_GLOBAL = "use static function instead"


def check_may_sleep(state: State, word: str, *, sleeps: bool) -> None:
    """Raise Refusal for a helper that may sleep where nothing may."""
    if sleeps and (region := sleepless(state)):
        raise Refusal(f"sleepable helper {word} in {region} region")


def sleepless(state: State) -> str | None:
    """Return what messages call the section in which nothing may sleep; None outside of any."""
    if state.rcu:
        return "rcu_read_lock"
    if state.preempt:
        return "non-preemptible"
    return "IRQ-disabled" if state.irq else None


def check_leftovers(env: Env, state: State, what: str) -> None:
    """Raise Refusal where a lock or such a section is open that must not be at ``what``.

    That is a "call" of a static or a "global call" of a global function, "BPF_EXIT",
    "BPF_LD_[ABS|IND]", or "tail_call".
    """
    if state.lock is None and not (state.rcu or state.preempt or state.irq):
        return
    since = env.rules.since
    if what == "call":
        if state.lock is not None and not since(6, 9):
            raise Refusal("function calls are not allowed while holding a lock")
        return
    if what == "global call":
        if state.lock is not None:
            if since(6, 9):
                raise Refusal(_GLOBAL)
            raise Refusal("function calls are not allowed while holding a lock")
        if state.preempt and not since(6, 14):
            raise Refusal(_GLOBAL)
        return
    if what == "BPF_EXIT":
        _check_exit(env, state)
        return
    if state.lock is not None:
        raise Refusal(f"{what} cannot be used inside bpf_spin_lock-ed region")
    if state.irq:
        raise Refusal(f"{what} cannot be used inside bpf_local_irq_save-ed region")
    if state.rcu:
        raise Refusal(f"{what} cannot be used inside bpf_rcu_read_lock-ed region")
    if state.preempt:
        raise Refusal(f"{what} cannot be used inside bpf_preempt_disable-ed region")


def _check_exit(env: Env, state: State) -> None:
    inner = len(state.frames) > 1
    if env.rules.since(6, 13):
        if not inner:
            check_leftovers(env, state, "BPF_EXIT instruction in main prog")
        return
    if inner and env.rules.since(6, 9):
        return
    if state.lock is not None:
        raise Refusal("bpf_spin_unlock is missing")
    if state.rcu:
        raise Refusal("bpf_rcu_read_unlock is missing")
    if state.preempt:
        plural = "(s) are" if state.preempt > 1 else " is"
        raise Refusal(f"{state.preempt} bpf_preempt_enable{plural} missing")
