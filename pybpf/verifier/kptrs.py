"""Pointers that values of maps hold: loads, stores and exchanges in; registers, or Refusal, out.

What is loaded is not trusted, unless RCU protects it. Source: check_map_kptr_access,
map_kptr_match_type, btf_ld_kptr_type and process_kptr_func in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.verifier import opcodes as op
from pybpf.verifier.env import Env
from pybpf.verifier.kerneltypes import is_struct
from pybpf.verifier.kinds import (
    ALLOC,
    BASE,
    BTF_ID,
    MAP_VALUE,
    MAYBE_NULL,
    NON_OWN_REF,
    PERCPU,
    RCU,
    TRUSTED,
    UNTRUSTED,
)
from pybpf.verifier.owned import (
    NO_FIELDS,
    Local,
    fields_of,
    in_rcu,
    is_object,
    pointer_to,
    word_of,
)
from pybpf.verifier.packet import each_reg
from pybpf.verifier.pointers import check_ptr_off, known_offset
from pybpf.verifier.records import NODES, POINTERS, Field
from pybpf.verifier.references import invalid
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import UNKNOWN_REG, Reg, State

_OWNED = frozenset({"kptr", "percpu_kptr"})
_PROTECTED: Mapping[str, tuple[int, int]] = {
    "cgroup": (6, 4), "bpf_cpumask": (6, 4), "task_struct": (6, 4), "bpf_crypto_ctx": (6, 10),
    "prog_test_ref_kfunc": (6, 4),
}  # fmt: skip
"""Structures of the kernel that RCU protects, and since when that is known."""


def check_overlap(env: Env, reg: Reg, off: int, size: int, start: int, field: Field) -> None:
    """Raise Refusal where a load or a store through a map's value does not read a pointer whole."""
    word = word_of(env, field)
    if reg.val.const is None:
        raise Refusal(f"{word} access cannot have variable offset", errno=EACCES)
    at = off + reg.val.smin
    if start != at:
        raise Refusal(f"{word} access misaligned expected={start} off={at}", errno=EACCES)
    if size != field.size:
        raise Refusal(f"{word} access size must be BPF_DW", errno=EACCES)


def access_pointer(
    env: Env, state: State, off: int, field: Field, *, write: bool, value: int | None
) -> Reg:
    """Check a load or a store of a whole pointer of a map's value; return what a load leaves.

    ``value``: the register that is stored, None for a constant.
    """
    slot = env.slots[state.at]
    if slot.code & op.MODE != op.MEM:
        raise Refusal("kptr in map can only be accessed using BPF_MEM instruction mode",
                      errno=EACCES)  # fmt: skip
    if not write:
        if field.kind == "uptr":
            raise Unmodelled("a pointer to memory of user space in a map's value")
        return _loaded(env, state, field)
    if field.kind == "uptr":
        raise Refusal("store to uptr disallowed", errno=EACCES)
    if field.kind in _OWNED:
        raise Refusal("store to referenced kptr disallowed", errno=EACCES)
    if value is None:
        if slot.imm:
            raise Refusal(f"BPF_ST imm must be 0 when storing to kptr at off={off}", errno=EACCES)
        return UNKNOWN_REG
    reg = state.frame.regs[value]
    if reg.is_null:
        if env.rules.since(6, 12):
            env.precise(state, value)
        return UNKNOWN_REG
    check_match(env, value, reg, field, errno=EACCES)
    return UNKNOWN_REG


def _pointer(env: Env, target: int | str, flags: int) -> Reg:
    if isinstance(target, int):
        return pointer_to(env, target, flags)
    made = Reg(BTF_ID | flags)
    made.extra = target
    return made


def _loaded(env: Env, state: State, field: Field) -> Reg:
    flags, target, since = MAYBE_NULL, field.target, env.rules.since
    local = isinstance(target, int)
    safe = field.kind == "percpu_kptr" or (
        field.kind == "kptr"
        and since(*((6, 7) if isinstance(target, int) else _PROTECTED.get(target, (99, 0))))
    )
    if not safe or not in_rcu(env, state):
        flags |= UNTRUSTED
    else:
        flags |= RCU
        if field.kind == "percpu_kptr":
            flags |= PERCPU
        elif local:
            flags |= ALLOC
        inner = env.program.objects.get(target, NO_FIELDS) if isinstance(target, int) else NO_FIELDS
        if any(one.kind in NODES for one in inner.values()):
            flags |= NON_OWN_REF
    made = _pointer(env, target, flags)
    made.id = env.new_id()
    return made


def check_match(env: Env, number: int, reg: Reg, field: Field, *, errno: int = 22) -> None:
    """Raise Refusal unless a register holds what a pointer of a map's value may point to."""
    name = _checked_name(env, number, reg, field)
    if name is not None and _same(env, reg, field):
        return
    types, target = env.program.types, field.target
    if isinstance(target, int):
        assert types is not None
        target = types.name(target)
    text = f"invalid kptr access, R{number} type={env.words(reg.kind)}{name or ''} "
    text += f"expected=ptr_{target}"
    if field.kind == "kptr_untrusted":
        text += f" or untrusted_ptr_{target}"
    raise Refusal(text, errno=errno)


def _checked_name(env: Env, number: int, reg: Reg, field: Field) -> str | None:
    """Return the name of the structure that a register points to; None for a wrong pointer."""
    since = env.rules.since
    if reg.kind & BASE != BTF_ID:
        return None
    local = isinstance(reg.extra, Local)
    allowed = MAYBE_NULL
    if not local:
        if since(6, 2):
            allowed |= TRUSTED
        if since(6, 4):
            allowed |= RCU
        if field.kind == "kptr_untrusted":
            allowed |= UNTRUSTED
    else:
        allowed |= ALLOC
        if field.kind == "percpu_kptr":
            allowed |= PERCPU
    if reg.kind & ~BASE & ~allowed:
        return None
    # Linux 7, and stable releases of 6.12 (6.18.44 not yet).
    strict = since(7, 0) or not since(6, 13)
    if strict and (field.kind == "percpu_kptr") != bool(reg.kind & PERCPU):
        return None
    check_ptr_off(env, reg, number, fixed_ok=True)
    return reg.extra.name if isinstance(reg.extra, Local) else str(reg.extra)


def _same(env: Env, reg: Reg, field: Field) -> bool:
    if isinstance(reg.extra, Local):
        return reg.extra.number == field.target and not reg.off
    if isinstance(field.target, int):
        return False
    return is_struct(env, reg, field.target, strict=field.kind != "kptr_untrusted")


def check_place(env: Env, number: int, reg: Reg) -> Field:
    """Return the pointer that is exchanged where a register points to; raises Refusal."""
    new = env.rules.since(6, 2)
    if reg.kind == MAP_VALUE and new and not (reg.map and reg.map.btf_value):
        _refuse_untyped(reg)
    off = known_offset(number, reg, "kptr")
    fields = fields_of(env, reg)
    if not new and not (reg.map and reg.map.btf_value):
        _refuse_untyped(reg)
    if not any(one.kind in POINTERS for one in fields.values()):
        assert new or reg.map is not None
        name = f"R{number}" if new else f"map '{reg.map.name if reg.map else ''}'"
        raise Refusal(f"{name} has no valid kptr")
    found = fields.get(off)
    if found is None or found.kind not in POINTERS:
        raise Refusal(f"off={off} doesn't point to kptr", errno=EACCES)
    if found.kind not in _OWNED:
        raise Refusal(f"off={off} kptr isn't referenced kptr", errno=EACCES)
    return found


def _refuse_untyped(reg: Reg) -> None:
    name = reg.map.name if reg.map else ""
    raise Refusal(f"map '{name}' has to have BTF in order to use bpf_kptr_xchg")


def exchanged(env: Env, field: Field) -> Reg:
    """Return what an exchange gives back."""
    flags = MAYBE_NULL
    if isinstance(field.target, int):
        flags |= ALLOC | (PERCPU if field.kind == "percpu_kptr" else 0)
    return _pointer(env, field.target, flags)


def give_away(env: Env, state: State, ident: int) -> bool:
    """Forget a reference that a map's value holds from now on; False where it is not held.

    An object for each CPU may be used until RCU's section ends.
    """
    if not state.drop(ident):
        return False
    protected, gone = in_rcu(env, state), invalid(env)

    def change(reg: Reg) -> Reg:
        if reg.ref != ident:
            return reg
        if not (protected and is_object(reg.kind) and reg.kind & PERCPU):
            return gone
        new = reg.copy()
        new.ref = 0
        new.kind = reg.kind & ~ALLOC | RCU
        return new

    each_reg(state, change)
    return True


def of_this_cpu(env: Env, reg: Reg) -> Reg:
    """Return what bpf_per_cpu_ptr and bpf_this_cpu_ptr give of an object for each CPU."""
    if not isinstance(reg.extra, Local) or not reg.kind & RCU:
        raise Unmodelled("a variable of the kernel for each CPU")
    return pointer_to(env, reg.extra.number, ALLOC | RCU)
