"""Loads from the context of a typed program: an offset in; what the register then holds, out.

The context holds the arguments of what a program is attached to, in eight bytes each. Source:
btf_ctx_access and btf_ctx_arg_idx in kernel/bpf/btf.c; the is_valid_access functions that call it.
"""

from __future__ import annotations

from pybpf.btf.reader import Kind
from pybpf.isa.abi import AttachType, ProgType
from pybpf.verifier import attach_table as table
from pybpf.verifier.attach import Target
from pybpf.verifier.env import Env
from pybpf.verifier.kerneltypes import KernelTypes
from pybpf.verifier.kinds import BTF_ID, BUF, MAYBE_NULL, RDONLY, TRUSTED
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.results import lsm_result_range
from pybpf.verifier.state import UNKNOWN_REG, Reg, scalar_reg

_SIZE = 8 * 12
_WITH_RESULT = frozenset(
    {
        AttachType.TRACE_FEXIT, AttachType.MODIFY_RETURN, AttachType.LSM_MAC,
        AttachType.LSM_CGROUP,
    }
)  # fmt: skip
_SMALL = frozenset({1, 2, 4, 8})
_STRUCT_SOCK, _TCP_SOCK = "sock", "tcp_sock"


def access_arguments(env: Env, off: int, size: int, *, write: bool) -> Reg:
    """Return what a load of ``size`` bytes at ``off`` of the context leaves; raises Refusal."""
    target = env.target
    assert target is not None
    made = None
    if env.prog_type == ProgType.LSM or (
        0 <= off < _SIZE and not write and off % size == 0
    ):  # fmt: skip
        made = _argument(env, target, off, size)
    if made is None:
        raise Refusal(f"invalid bpf_context access off={off} size={size}", errno=EACCES)
    return made


def _argument(env: Env, target: Target, off: int, size: int) -> Reg | None:
    """Return what an argument, or the result, is; None where it cannot be read."""
    place = None if off % 8 or off < 0 else _place(env, target, off)
    if place is None:
        return None
    index, name, number = place
    types = env.types
    number = types.btf.skip(number)
    if _is_number(types, number):
        return UNKNOWN_REG if index < len(target.params) else _result(env, target)
    if types.btf.kind(number) is not Kind.PTR or (size != 8 and env.rules.since(6, 12)):
        return None
    return _pointer(env, target, index, name, number)


def _place(env: Env, target: Target, off: int) -> tuple[int, str, int] | None:
    """Return the index, the name and the type of the argument at an offset.

    Behind the last one is the result, for those that see it.
    """
    types, end = env.types, 0
    for index, (name, number) in enumerate(target.params):
        end += _room(types, number)
        if off < end:
            return index, name, number
    attach = env.program.subject.expected_attach_type
    if env.prog_type == ProgType.STRUCT_OPS or attach not in _WITH_RESULT:
        return None
    returned = types.btf.skip(target.returns)
    if attach == AttachType.MODIFY_RETURN and types.btf.kind(returned) is not Kind.INT:
        return None
    return (len(target.params), "", returned) if off < end + _room(types, returned) else None


def _room(types: KernelTypes, number: int) -> int:
    """Return how many bytes of the context an argument takes."""
    number = types.btf.skip(number)
    return ((types.btf.size(number) or 0) + 7) // 8 * 8


def _is_number(types: KernelTypes, number: int) -> bool:
    btf = types.btf
    kind = btf.kind(number)
    if kind is Kind.INT:
        return btf.size(number) in _SMALL
    return kind in {Kind.ENUM, Kind.ENUM64, Kind.STRUCT, Kind.UNION}


def _result(env: Env, target: Target) -> Reg:
    """Return what the result of a hook of security modules is known to be."""
    if env.prog_type != ProgType.LSM:
        return UNKNOWN_REG
    if env.program.subject.expected_attach_type != AttachType.LSM_MAC:
        return UNKNOWN_REG
    known = lsm_result_range(
        env.rules.version,
        returns_bool=env.program.subject.attach_to in table.BOOL_HOOKS,
        returns_void=not target.returns,
    )
    if known is None:
        return UNKNOWN_REG
    return scalar_reg(env.rules.math.clamp(UNKNOWN_REG.val, *known))


def _pointer(env: Env, target: Target, index: int, name: str, number: int) -> Reg | None:
    types, rules, subject = env.types, env.rules, env.program.subject
    btf = types.btf
    iterates = subject.expected_attach_type == AttachType.TRACE_ITER
    iterates = iterates and env.prog_type == ProgType.TRACING
    special = table.iterator_argument(subject.attach_to, name) if iterates else None
    if special is not None and special.endswith("buf"):
        return _null(env, Reg(BUF | MAYBE_NULL | (RDONLY if special == "rdonly_buf" else 0)))
    if not types.is_struct_pointer(number):
        inner = btf.target(number)
        plain = not inner or btf.kind(btf.skip(inner)) is Kind.INT
        return UNKNOWN_REG if plain or rules.since(7, 0) else None
    struct, flags = types.pointed(number)
    made = Reg(BTF_ID)
    if special is not None:
        made.kind |= MAYBE_NULL
        if special != "-" and _trusts(env):
            made.kind |= TRUSTED
    else:
        made.kind |= flags | (TRUSTED if _trusts(env) else 0)
        unsure = _may_be_null(env, target, index, name)
        if unsure == "error":
            return UNKNOWN_REG
        if unsure:
            made.kind |= MAYBE_NULL
    if target.struct == "tcp_congestion_ops" and btf.name(struct) == _STRUCT_SOCK:
        struct = types.struct(_TCP_SOCK) or struct
    types.point(made, struct)
    return _null(env, made) if made.kind & MAYBE_NULL else made


def _null(env: Env, made: Reg) -> Reg:
    made.id = env.new_id()
    return made


def _trusts(env: Env) -> bool:
    """Whether arguments that point to structures are valid (prog_args_trusted)."""
    if not env.rules.since(6, 2):
        return False
    subject = env.program.subject
    match env.prog_type:
        case ProgType.TRACING:
            return subject.expected_attach_type in {AttachType.TRACE_RAW_TP, AttachType.TRACE_ITER}
        case ProgType.LSM:
            hook = subject.attach_to
            new = env.rules.since(7, 0) and hook in table.UNTRUSTED_HOOKS_SINCE_7
            return not new and hook not in table.UNTRUSTED_HOOKS
        case kind:
            return kind == ProgType.STRUCT_OPS


def _may_be_null(env: Env, target: Target, index: int, name: str) -> str:
    """Return ``null`` for an argument that may be NULL, ``error`` for one that may be an error."""
    rules = env.rules
    if env.prog_type == ProgType.STRUCT_OPS:
        stub = target.stub[index] if index < len(target.stub) else ""
        return "null" if stub.endswith("__nullable") else ""
    if name.endswith("__nullable") and rules.since(6, 12):
        return "null"
    raw = env.program.subject.expected_attach_type == AttachType.TRACE_RAW_TP
    if not raw or env.prog_type != ProgType.TRACING or not rules.since(6, 12):
        return ""
    bits = table.null_argument(target.name, index)
    return "error" if bits & 2 else "null" if bits else ""
