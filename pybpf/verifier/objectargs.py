"""Arguments of functions on objects of the program in; what the call gives back, or Refusal, out.

Source: check_kfunc_args and check_special_kfunc in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybpf.btf.reader import Btf, Kind
from pybpf.verifier.argtypes import check_offset
from pybpf.verifier.dynptrs import place
from pybpf.verifier.env import Env
from pybpf.verifier.graphs import check_node, check_root, node
from pybpf.verifier.kinds import ALLOC, BTF_ID, MAP_VALUE, NON_OWN_REF, PERCPU
from pybpf.verifier.locks import check_lock
from pybpf.verifier.owned import Local, fields_of, is_object, pointer_to
from pybpf.verifier.protos import Arg, Argument, TypeFlag
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import is_trusted
from pybpf.verifier.state import RES_LOCK, RES_LOCK_IRQ, Reg, State

if TYPE_CHECKING:
    from pybpf.verifier.kfuncargs import KfuncCall

_PERCPU_SIZE = 512
_DEEPEST = 4
_SCALARS = frozenset({Kind.INT, Kind.ENUM, Kind.ENUM64})


def check_object_argument(
    env: Env, state: State, call: KfuncCall, number: int, kind: str, rest: str
) -> None:
    """Check an argument of a kind that kfuncs_table names; raises Refusal."""
    reg = state.frame.regs[number]
    if kind == "object":
        _check_trusted(env, call, number, reg)
    flags = TypeFlag.RELEASE if "release" in call.flags and reg.ref else TypeFlag.NONE
    check_offset(env, number, reg, Argument(Arg.PTR_TO_BTF_ID, flags))
    match kind:
        case "object":
            _check_object(env, number, reg, PERCPU if rest else 0)
        case "counted":
            _check_counted(env, call, number, reg)
        case "root":
            call.member = check_root(env, state, number, rest)
        case "node" | "shared":
            assert call.member is not None
            shared = kind == "shared"
            check_node(env, state, number, rest, call.member, call.name, shared=shared)
            if not shared:
                call.given = reg.ref
        case _:
            if reg.kind not in {MAP_VALUE, BTF_ID | ALLOC}:
                place_ = place(env, number)
                raise Refusal(f"{place_} doesn't point to map value or allocated object")
            lock = RES_LOCK_IRQ if "irq" in call.name else RES_LOCK
            check_lock(env, state, number, take="unlock" not in call.name, kind=lock)


def check_released(env: Env, call: KfuncCall, number: int, reg: Reg) -> None:
    """Raise Refusal where a function is to give back what nobody holds."""
    if "release" in call.flags and not reg.ref and env.rules.since(7, 1):
        raise Refusal(
            f"release kfunc {call.name} expects referenced PTR_TO_BTF_ID passed to R{number}"
        )


def _check_trusted(env: Env, call: KfuncCall, number: int, reg: Reg) -> None:
    check_released(env, call, number, reg)
    if not is_trusted(reg):
        raise Refusal(f"R{number} must be referenced or trusted")


def _check_object(env: Env, number: int, reg: Reg, wanted: int) -> None:
    if reg.kind & ~PERCPU != BTF_ID | ALLOC:
        raise Refusal(f"{place(env, number)} expected pointer to allocated object")
    if reg.kind & PERCPU != wanted:
        name = "percpu_obj_drop" if reg.kind & PERCPU else "obj_drop"
        suffix = "" if env.rules.since(7, 1) else "_impl"
        raise Refusal(f"{place(env, number)} expected for bpf_{name}{suffix}()")
    if not reg.ref:
        raise Refusal("allocated object must be referenced")


def _check_counted(env: Env, call: KfuncCall, number: int, reg: Reg) -> None:
    if not is_object(reg.kind):
        raise Refusal(f"{place(env, number)} is neither owning or non-owning ref")
    call.owns = bool(reg.ref) and not reg.kind & NON_OWN_REF
    fields = fields_of(env, reg)
    if not fields:
        raise Refusal("verifier internal error: Couldn't find btf_record", errno=14)
    if not any(one.kind == "refcount" for one in fields.values()):
        raise Refusal(f"{place(env, number)} doesn't point to a type with bpf_refcount field")
    assert isinstance(reg.extra, Local)
    call.struct = reg.extra.number


def object_result(env: Env, call: KfuncCall, word: str, rest: str) -> Reg:
    """Return what a function gives back: a new object, another reference, or a member."""
    if word == "same":
        return pointer_to(env, call.struct)
    if word == "member":
        assert call.member is not None
        return node(env, call.member)
    number, types = call.size, env.program.types
    if number >> 32:
        raise Refusal("local type ID argument must be in range [0, U32_MAX]")
    if types is None:
        raise Refusal("bpf_obj_new/bpf_percpu_obj_new requires prog BTF")
    if types.kind(number) is not Kind.STRUCT:
        raise Refusal("bpf_obj_new/bpf_percpu_obj_new type ID argument must be of a struct")
    if not rest:
        return pointer_to(env, number)
    size = types.size(number) or 0
    if size > _PERCPU_SIZE:
        raise Refusal(f"bpf_percpu_obj_new type size ({size}) is greater than {_PERCPU_SIZE}")
    if not _is_scalar(types, number, 0):
        raise Refusal("bpf_percpu_obj_new type ID argument must be of a struct of scalars")
    if number in env.program.objects:
        raise Refusal("bpf_percpu_obj_new type ID argument must not contain special fields")
    return pointer_to(env, number, ALLOC | PERCPU)


def _is_scalar(types: Btf, number: int, depth: int) -> bool:
    """Whether a structure holds nothing but numbers (__btf_type_is_scalar_struct)."""
    if types.kind(number) is not Kind.STRUCT:
        return False
    for _, member in types.fields(number):
        inner = types.skip(member.type)
        if types.is_aggregate(inner):
            if depth >= _DEEPEST - 1 or not _is_scalar(types, inner, depth + 1):
                return False
            continue
        if types.kind(inner) is Kind.ARRAY:
            inner = types.element(inner)
        if types.kind(inner) not in _SCALARS:
            return False
    return True
