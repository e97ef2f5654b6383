"""Objects that a program allocates: pointers to them in; accesses checked, references changed, out.

Such a pointer is a BTF_ID whose ``extra`` is a ``Local``: a structure of the program's own types.
ALLOC: it is known to be one that was allocated; PERCPU: one for each CPU; NON_OWN_REF: another owns
it, and it lives as long as a lock is held. Source: check_ptr_to_btf_access, btf_struct_access,
ref_convert_owning_non_owning and invalidate_non_owning_refs in kernel/bpf/verifier.c and btf.c.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pybpf.btf.reader import Btf
from pybpf.verifier.env import Env
from pybpf.verifier.kerneltypes import KernelTypes
from pybpf.verifier.kinds import (
    ALLOC,
    BASE,
    BTF_ID,
    MAP_VALUE,
    MAYBE_NULL,
    NON_OWN_REF,
    PERCPU,
    RCU,
    UNTRUSTED,
)
from pybpf.verifier.packet import each_reg
from pybpf.verifier.pointers import only_privileged, prohibit, shown
from pybpf.verifier.records import Field, Fields
from pybpf.verifier.references import invalid
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import UNKNOWN_REG, Reg, State

NO_FIELDS: Fields = {}


class Local(NamedTuple):
    """A structure of the program's own types: its number there, and its name."""

    number: int
    name: str


def pointer_to(env: Env, number: int, flags: int = ALLOC) -> Reg:
    """Return a pointer to an object of a type, by its number in the program's types."""
    assert env.program.types is not None
    made = Reg(BTF_ID | flags)
    made.extra = Local(number, env.program.types.name(number))
    return made


def fields_of(env: Env, reg: Reg) -> Fields:
    """Return the special members of what a register points to (reg_btf_record)."""
    if reg.kind & BASE == MAP_VALUE and reg.map is not None:
        return reg.map.fields
    if reg.kind & ALLOC and isinstance(reg.extra, Local):
        return env.program.objects.get(reg.extra.number, NO_FIELDS)
    return NO_FIELDS


def field_at(env: Env, reg: Reg, kind: str) -> Field | None:
    """Return the special member of a kind that a register points to the start of."""
    found = fields_of(env, reg).get(reg.off + reg.val.smin)
    return found if found is not None and found.kind == kind else None


def is_object(kind: int) -> bool:
    """Whether a kind is that of pointers to allocated objects (type_is_ptr_alloc_obj)."""
    return kind & BASE == BTF_ID and bool(kind & ALLOC)


def in_rcu(env: Env, state: State) -> bool:
    """Whether what RCU protects cannot go away here (in_rcu_cs)."""
    return bool(state.rcu) or state.lock is not None or not env.sleepable


def access_object(env: Env, number: int, reg: Reg, off: int, size: int, *, write: bool) -> Reg:
    """Check a load or a store of ``size`` bytes at ``off`` of an object; return what it loads.

    ``off`` holds the pointer's fixed part.
    """
    local = reg.extra
    assert isinstance(local, Local)
    name, kind = local.name, reg.kind
    if not env.rules.allow_leaks:
        raise only_privileged(env, name)
    if off < 0:
        raise prohibit(number, f"is ptr_{name} invalid negative access: off={off}")
    if reg.val.const != 0:
        where = f"off={off}, var_off={shown(env, reg.val)}"
        raise prohibit(number, f"is ptr_{name} invalid variable offset: {where}")
    if kind & PERCPU:
        raise prohibit(number, f"is ptr_{name} access percpu memory: off={off}")
    if write and (kind & UNTRUSTED or not kind & ALLOC):
        raise Refusal("only read is supported", errno=EACCES)
    if kind & ALLOC:
        for start, field in env.program.objects.get(local.number, NO_FIELDS).items():
            if off < start + field.size and start < off + size:
                word = word_of(env, field)
                raise Refusal(f"direct access to {word} is disallowed", errno=EACCES)
    types = env.program.types
    assert types is not None
    if kind & ALLOC and off + size > (types.size(local.number) or 0):
        raise Refusal(f"access beyond struct {name} at off {off} size {size}", errno=EACCES)
    found = _walked(types).walk(local.number, off, size, env.rules.version)
    if write or kind & ALLOC or not found.struct:
        return UNKNOWN_REG
    return pointer_to(env, found.struct, UNTRUSTED)


@lru_cache(maxsize=1)
def _walked(types: Btf) -> KernelTypes:
    """Return a program's types as what walks through structures; it keeps what it has read."""
    return KernelTypes(lambda: types)


_WORDS = {
    "spin_lock": "bpf_spin_lock", "res_spin_lock": "bpf_res_spin_lock", "timer": "bpf_timer",
    "workqueue": "bpf_wq", "task_work": "bpf_task_work", "list_head": "bpf_list_head",
    "list_node": "bpf_list_node", "rb_root": "bpf_rb_root", "rb_node": "bpf_rb_node",
    "refcount": "bpf_refcount", "kptr": "kptr", "kptr_untrusted": "kptr",
    "percpu_kptr": "percpu_kptr", "uptr": "uptr",
}  # fmt: skip


def word_of(env: Env, field: Field) -> str:
    """Return what messages call a special member (btf_field_type_name)."""
    word = _WORDS[field.kind]
    return "kptr" if word == "percpu_kptr" and not env.rules.since(6, 13) else word


def share(state: State, ident: int) -> None:
    """Let another own what a reference was held of: pointers to it last while a lock is held."""

    def change(reg: Reg) -> Reg:
        if reg.ref != ident:
            return reg
        new = reg.copy()
        new.ref = 0
        new.kind |= NON_OWN_REF
        return new

    each_reg(state, change)
    state.drop(ident)


def forget_shared(env: Env, state: State) -> None:
    """Make pointers to objects that others own invalid, as a lock is given back."""
    gone = invalid(env)

    def change(reg: Reg) -> Reg:
        return gone if reg.kind & NON_OWN_REF and is_object(reg.kind) else reg

    each_reg(state, change)


def without_rcu(reg: Reg) -> Reg:
    """Return what a register is after the end of a section that protected it."""
    if not reg.kind & RCU:
        return reg
    new = reg.copy()
    new.kind = reg.kind & ~(RCU | MAYBE_NULL) | UNTRUSTED
    return new
