"""Spin locks in the values of maps: a register that points to one in; it is taken or given back.

``State.lock`` is the map whose value is locked (None: no lock is held), and a ``Reference`` of kind
LOCK has the id of the value. Source: process_spin_lock in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.helpers import HELPERS
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import MAP_VALUE
from pybpf.verifier.program import MapInfo
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.state import LOCK, Reg, State

_UNLOCK = HELPERS["bpf_spin_unlock"]
_KPTR_XCHG = HELPERS["bpf_kptr_xchg"]


def check_lock(env: Env, state: State, number: int, *, take: bool) -> None:
    """Take the lock that a register points to, or give it back; raises Refusal."""
    reg = state.frame.regs[number]
    if reg.kind != MAP_VALUE:
        raise Unmodelled("a lock in an object that the program allocated")
    known = reg.map
    assert known is not None
    if reg.val.const is None:
        raise Refusal(
            f"R{number} doesn't have constant offset. bpf_spin_lock has to be at the constant "
            "offset"
        )
    at = field_of(env, known, "spin_lock", "bpf_spin_lock")
    off = reg.off + reg.val.smin
    if at != off:
        where = f" that is at {at}" if env.rules.since(6, 2) else ""
        raise Refusal(f"off {off} doesn't point to 'struct bpf_spin_lock'{where}")
    if take:
        if state.lock is not None:
            raise Refusal("Locking two bpf_spin_locks are not allowed")
        state.lock = known
        state.acquire(reg.id, state.at, LOCK)
        return
    _unlock(state, known, reg)


def _unlock(state: State, known: MapInfo, reg: Reg) -> None:
    if state.lock is None:
        raise Refusal("bpf_spin_unlock without taking a lock")
    if state.lock is not known or not state.drop(reg.id, LOCK):
        raise Refusal("bpf_spin_unlock of different lock")
    state.lock = None


def field_of(env: Env, known: MapInfo, kind: str, word: str) -> int:
    """Return where in a map's value its lock or timer is; raises Refusal where there is none."""
    if not known.btf_value:
        raise Refusal(f"map '{known.name}' has to have BTF in order to use {word}")
    for off, (found, _) in known.fields.items():
        if found == kind:
            return off
    if env.rules.since(6, 2):
        raise Refusal(f"map '{known.name}' has no valid {word}")
    raise Refusal(f"map '{known.name}' doesn't have 'struct {word}'")


def check_may_call(state: State, number: int) -> None:
    """Raise Refusal for a helper that is called while a lock is held."""
    if state.lock is not None and number not in {_UNLOCK, _KPTR_XCHG}:
        raise Refusal("function calls are not allowed while holding a lock")


def may_lock(known: MapInfo | None) -> bool:
    """Whether the values of a map have a lock, so that each needs an id of its own."""
    return known is not None and any("spin_lock" in kind for kind, _ in known.fields.values())
