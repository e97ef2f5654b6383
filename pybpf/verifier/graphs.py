"""Arguments of functions on lists and trees of objects in; roots and nodes, or Refusal, out.

A root lies in a map's value or in an object beside the lock that guards it; nodes are members of
objects. Source: __process_kf_arg_ptr_to_graph_root and _node, set_rbtree_add_callback_state and
check_reg_allocation_locked in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.verifier.dynptrs import place
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import ALLOC, BTF_ID, MAP_VALUE, MAYBE_NULL, NON_OWN_REF
from pybpf.verifier.locks import in_tree_callback, is_locked, lock_offset
from pybpf.verifier.owned import Local, field_at, fields_of, is_object, pointer_to
from pybpf.verifier.pointers import known_offset
from pybpf.verifier.records import Field
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.state import Reg, State

_ADDS = frozenset({"bpf_rbtree_add", "bpf_rbtree_add_impl"})


def check_root(env: Env, state: State, number: int, kind: str) -> Field:
    """Return the root of that kind that a register points to, whose lock is held."""
    reg = state.frame.regs[number]
    if reg.kind not in {MAP_VALUE, BTF_ID | ALLOC}:
        raise Refusal(f"{place(env, number)} expected pointer to map value or allocated object")
    if reg.kind != MAP_VALUE and not reg.ref:
        raise Refusal("allocated object must be referenced")
    word = f"bpf_{kind}"
    off = known_offset(number, reg, word)
    found = field_at(env, reg, kind)
    if found is None:
        raise Refusal(f"{word} not found at offset={off}")
    if not is_locked(env, state, reg):
        at = lock_offset(fields_of(env, reg))
        raise Refusal(f"bpf_spin_lock at off={at} must be held for {word}")
    return found


def check_node(
    env: Env, state: State, number: int, kind: str, root: Field, name: str, *, shared: bool
) -> None:
    """Check the node of an object that is put into, or looked for in, a list or a tree.

    ``shared``: others may own it; otherwise the program must.
    """
    reg = state.frame.regs[number]
    if shared:
        _check_shared(env, state, reg, name, kind)
    else:
        if reg.kind != BTF_ID | ALLOC:
            raise Refusal(f"{place(env, number)} expected pointer to allocated object")
        if not reg.ref:
            raise Refusal("allocated object must be referenced")
    word = f"bpf_{kind}"
    off = known_offset(number, reg, word)
    if field_at(env, reg, kind) is None:
        raise Refusal(f"{word} not found at offset={off}")
    types, local = env.program.types, reg.extra
    assert types is not None
    assert isinstance(local, Local)
    assert isinstance(root.target, int)
    wanted = types.name(root.target)
    if local.number != root.target:
        raise Refusal(
            f"operation on bpf_{root.kind} expects arg#1 {word} at offset={root.node} in struct "
            f"{wanted}, but arg is at offset={off} in struct {local.name}"
        )
    if off != root.node:
        raise Refusal(
            f"arg#1 offset={off}, but expected {word} at offset={root.node} in struct {wanted}"
        )


def _check_shared(env: Env, state: State, reg: Reg, name: str, kind: str) -> None:
    new = env.rules.since(6, 16)
    non_owning = is_object(reg.kind) and bool(reg.kind & NON_OWN_REF)
    if new and not non_owning and not reg.ref:
        raise Refusal(f"{name} can only take non-owning or refcounted bpf_{kind} pointer")
    if not new and (not non_owning or reg.ref):
        raise Refusal("rbtree_remove node input must be non-owning ref")
    if kind == "rb_node" and in_tree_callback(env, state):
        raise Refusal(f"{name if new else 'rbtree_remove'} not allowed in rbtree cb")


def node(env: Env, root: Field, flags: int = ALLOC | MAYBE_NULL) -> Reg:
    """Return a pointer to the node of an object that a root holds (mark_reg_graph_node)."""
    assert isinstance(root.target, int)
    made = pointer_to(env, root.target, flags)
    made.off = root.node
    return made


def compared(env: Env, root: Field) -> list[Reg]:
    """Return what a function that compares two nodes of a tree is handed."""
    return [node(env, root, ALLOC | NON_OWN_REF) for _ in range(2)]


def adds_to_tree(name: str) -> bool:
    """Whether a function calls back to compare nodes."""
    return name in _ADDS
