"""Spin locks in values of maps and objects: a register in; the lock taken or given back, out.

A lock is a ``Reference`` of one of the kinds LOCKS, with the id of the value or the object, and the
map or the program's types as ``owner``; ``State.lock`` is the owner of the lock that was taken last
(None: no lock is held). Source: process_spin_lock and kfunc_spin_allowed in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.helpers import HELPERS
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import MAP_VALUE
from pybpf.verifier.owned import fields_of, forget_shared
from pybpf.verifier.pointers import known_offset
from pybpf.verifier.program import MapInfo
from pybpf.verifier.records import LOCKS as LOCK_FIELDS
from pybpf.verifier.records import Fields, offset_of
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import LOCK, RES_LOCK, RES_LOCK_IRQ, Reference, Reg, State

LOCKS = frozenset({LOCK, RES_LOCK, RES_LOCK_IRQ})
_UNLOCK = HELPERS["bpf_spin_unlock"]
_KPTR_XCHG = HELPERS["bpf_kptr_xchg"]
_NO_LOCK = -22
_TREE = ("bpf_rbtree_add", "bpf_rbtree_remove", "bpf_rbtree_first", "bpf_rbtree_root",
         "bpf_rbtree_left", "bpf_rbtree_right")  # fmt: skip
_ALLOWED = (
    ("bpf_list_", (6, 2)), ("bpf_rbtree_", (6, 3)), ("bpf_refcount_acquire", (6, 4)),
    ("bpf_iter_num_", (6, 15)), ("bpf_res_spin_", (6, 15)),
)  # fmt: skip
_SPIN_ALLOWED = "bit_17"
"""The flag of functions that may be called under a lock, in the profiles of Linux 7.1 and later."""


def check_lock(env: Env, state: State, number: int, *, take: bool, kind: int = LOCK) -> None:
    """Take the lock that a register points to, or give it back; raises Refusal."""
    reg = state.frame.regs[number]
    field, word = ("spin_lock", "bpf_spin") if kind == LOCK else ("res_spin_lock", "bpf_res_spin")
    if kind == LOCK and in_tree_callback(env, state):
        raise Refusal("can't spin_{lock,unlock} in rbtree cb", errno=EACCES)
    off = known_offset(number, reg, f"{word}_lock")
    at = _offset(env, reg, field, f"{word}_lock")
    if at != off:
        where = f" that is at {at}" if env.rules.since(6, 2) else ""
        raise Refusal(f"off {off} doesn't point to 'struct {word}_lock'{where}")
    if take:
        _take(state, reg, kind, _owner(env, reg))
    else:
        _give_back(env, state, reg, kind, _owner(env, reg), word)


def _offset(env: Env, reg: Reg, field: str, word: str) -> int:
    if reg.kind == MAP_VALUE and reg.map is not None:
        return field_of(env, reg.map, field, word)
    at = offset_of(fields_of(env, reg), field)
    if at is None:
        raise Refusal(f"local 'kptr' has no valid {word}")
    return at


def _owner(env: Env, reg: Reg) -> object:
    return reg.map if reg.kind == MAP_VALUE else env.program.types


def _held(state: State) -> list[Reference]:
    return [ref for ref in state.refs if ref.kind in LOCKS]


def _take(state: State, reg: Reg, kind: int, owner: object) -> None:
    for ref in _held(state):
        if kind == LOCK == ref.kind:
            raise Refusal("Locking two bpf_spin_locks are not allowed")
        if LOCK not in {kind, ref.kind} and ref.id == reg.id and ref.owner is owner:
            raise Refusal("Acquiring the same lock again, AA deadlock detected")
    state.acquire(reg.id, state.at, kind, owner=owner)
    state.lock = owner


def _give_back(env: Env, state: State, reg: Reg, kind: int, owner: object, word: str) -> None:
    held = _held(state)
    if not held:
        raise Refusal(f"{word}_unlock without taking a lock")
    mine = [ref for ref in held if ref.kind == kind and ref.id == reg.id and ref.owner is owner]
    if not mine:
        raise Refusal(f"{word}_unlock of different lock")
    last = held[-1]
    if last.id != reg.id or last.owner is not owner:
        raise Refusal(f"{word}_unlock cannot be out of order")
    state.refs = tuple(ref for ref in state.refs if ref is not mine[-1])
    rest = _held(state)
    state.lock = rest[-1].owner if rest else None
    forget_shared(env, state)


def is_locked(env: Env, state: State, reg: Reg) -> bool:
    """Whether the lock beside what a register points to is held."""
    owner = _owner(env, reg)
    return any(ref.id == reg.id and ref.owner is owner for ref in _held(state))


def lock_offset(fields: Fields) -> int:
    """Return where the lock is among special members."""
    at = offset_of(fields, "spin_lock")
    return _NO_LOCK if at is None else at


def field_of(env: Env, known: MapInfo, kind: str, word: str) -> int:
    """Return where in a map's value its lock or timer is; raises Refusal where there is none."""
    if not known.btf_value:
        raise Refusal(f"map '{known.name}' has to have BTF in order to use {word}")
    at = offset_of(known.fields, kind)
    if at is not None:
        return at
    if env.rules.since(6, 2):
        raise Refusal(f"map '{known.name}' has no valid {word}")
    raise Refusal(f"map '{known.name}' doesn't have 'struct {word}'")


def in_tree_callback(env: Env, state: State) -> bool:
    """Whether a function that compares nodes of a tree is running (in_rbtree_lock_required_cb)."""
    names = env.program.kfuncs
    return any(
        frame.callback is not None and names.get(frame.site, "").startswith(_TREE)
        for frame in state.frames
    )


def check_may_call(env: Env, state: State, number: int) -> None:
    """Raise Refusal for a helper that is called while a lock is held."""
    allowed = {_UNLOCK, _KPTR_XCHG} if env.rules.since(6, 19) else {_UNLOCK}
    if state.lock is not None and number not in allowed:
        raise Refusal("function calls are not allowed while holding a lock")


def check_may_call_kfunc(env: Env, state: State, name: str, flags: frozenset[str]) -> None:
    """Raise Refusal for a function of the kernel that is called while a lock is held."""
    if state.lock is None or _SPIN_ALLOWED in flags:
        return
    if not any(name.startswith(start) and env.rules.since(*since) for start, since in _ALLOWED):
        raise Refusal("function calls are not allowed while holding a lock")


def may_lock(fields: Fields) -> bool:
    """Whether special members include a lock, so that each value needs an id of its own."""
    return any(one.kind in LOCK_FIELDS for one in fields.values())
