"""What registers may be handed to a helper: an argument's kind in; the kinds of registers out.

Source: check_reg_type, check_func_arg_reg_off and their tables in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from functools import cache

from pybpf.verifier.env import Env
from pybpf.verifier.kerneltypes import is_struct
from pybpf.verifier.kinds import (
    ALLOC,
    BASE,
    BTF_ID,
    BUF,
    CTX,
    DYNPTR,
    FUNC,
    MAP_KEY,
    MAP_PTR,
    MAP_VALUE,
    MAYBE_NULL,
    MEM,
    NON_OWN_REF,
    PACKET,
    PACKET_META,
    PERCPU,
    RCU,
    RDONLY,
    RINGBUF,
    SCALAR,
    SLICE,
    SOCK_COMMON,
    SOCKET,
    STACK,
    TCP_SOCK,
    TRUSTED,
    XDP_SOCK,
)  # fmt: skip
from pybpf.verifier.kptrs import check_match
from pybpf.verifier.pointers import check_ptr_off, prohibit
from pybpf.verifier.protos import Arg, Argument, TypeFlag
from pybpf.verifier.records import Field
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import Reg

_BYTES = (STACK, PACKET, PACKET_META, MAP_KEY, MAP_VALUE)
_SOCKS = (SOCK_COMMON, SOCKET, TCP_SOCK, XDP_SOCK)
_MOVABLE = frozenset(
    {
        SCALAR, STACK, PACKET, PACKET_META, MAP_KEY, MAP_VALUE, MEM, MEM | RDONLY, MEM | RINGBUF,
        BUF, BUF | RDONLY,
    }
)  # fmt: skip
_FIXED = frozenset(
    {
        BTF_ID, BTF_ID | ALLOC, BTF_ID | TRUSTED, BTF_ID | RCU, BTF_ID | ALLOC | NON_OWN_REF,
        BTF_ID | ALLOC | NON_OWN_REF | RCU,
    }
)  # fmt: skip
_ONE = {
    Arg.SCALAR: SCALAR, Arg.CONST_SIZE: SCALAR, Arg.CONST_SIZE_OR_ZERO: SCALAR,
    Arg.CONST_ALLOC_SIZE_OR_ZERO: SCALAR, Arg.CONST_MAP_PTR: MAP_PTR, Arg.PTR_TO_CTX: CTX,
    Arg.PTR_TO_SOCKET: SOCKET, Arg.PTR_TO_RINGBUF_MEM: MEM | RINGBUF, Arg.PTR_TO_FUNC: FUNC,
    Arg.PTR_TO_STACK: STACK, Arg.PTR_TO_CONST_STR: MAP_VALUE, Arg.PTR_TO_TIMER: MAP_VALUE,
}  # fmt: skip


@cache
def accepted(kind: Arg, version: tuple[int, int]) -> tuple[int, ...]:
    """Return the kinds of registers that an argument takes, in the order of the messages."""
    if kind in _ONE:
        return (_ONE[kind],)
    new = version >= (6, 2)
    match kind:
        case Arg.PTR_TO_MEM | Arg.PTR_TO_MAP_KEY | Arg.PTR_TO_MAP_VALUE:
            if not new and kind is not Arg.PTR_TO_MEM:
                return _BYTES
            trusted = (BTF_ID | TRUSTED,) if version >= (6, 4) else ()
            context = (CTX,) if version >= (7, 1) else ()
            return (*_BYTES, MEM, MEM | RINGBUF, BUF, *trusted, *context)
        case Arg.PTR_TO_SOCK_COMMON:
            return _SOCKS
        case Arg.PTR_TO_BTF_ID_SOCK_COMMON:
            return (*_SOCKS, BTF_ID, BTF_ID | TRUSTED) if new else (*_SOCKS, BTF_ID)
        case Arg.PTR_TO_SPIN_LOCK:
            return (MAP_VALUE, BTF_ID | ALLOC) if new else (MAP_VALUE,)
        case Arg.PTR_TO_BTF_ID:
            return (BTF_ID, BTF_ID | TRUSTED, BTF_ID | RCU) if new else (BTF_ID,)
        case Arg.PTR_TO_PERCPU_BTF_ID:
            more = (BTF_ID | PERCPU | RCU, BTF_ID | PERCPU | TRUSTED) if new else ()
            return (BTF_ID | PERCPU, *more)
        case Arg.KPTR_XCHG_DEST:
            return (MAP_VALUE, BTF_ID | ALLOC) if version >= (6, 12) else (MAP_VALUE,)
        case _:
            return (STACK, DYNPTR)


def check_type(
    env: Env, number: int, reg: Reg, arg: Argument, helper: str, pointer: Field | None = None
) -> None:
    """Raise Refusal where a register is not what an argument of ``helper`` takes.

    ``pointer``: of bpf_kptr_xchg, the one in a map's value that is exchanged.
    """
    kind = reg.kind
    if arg.flags & TypeFlag.RDONLY:
        kind &= ~RDONLY
    if arg.flags & TypeFlag.NULL:
        kind &= ~MAYBE_NULL
    if arg.kind is Arg.PTR_TO_MEM:
        kind &= ~SLICE
    if pointer is not None and kind & ALLOC and env.rules.since(6, 4):
        kind &= ~(ALLOC | PERCPU)
    kinds = accepted(arg.kind, env.rules.version)
    if kind not in kinds:
        wanted = ", ".join(env.words(one) for one in kinds)
        raise prohibit(number, f"type={env.words(reg.kind)} expected={wanted}")
    if pointer is not None:
        _check_exchanged(env, number, reg, pointer)
    elif kind & BASE == BTF_ID and not _takes_objects(arg.kind):
        _check_struct(env, number, reg, arg, helper)


def _takes_objects(kind: Arg) -> bool:
    return kind in {Arg.PTR_TO_SPIN_LOCK, Arg.KPTR_XCHG_DEST, Arg.PTR_TO_PERCPU_BTF_ID}


def _check_exchanged(env: Env, number: int, reg: Reg, pointer: Field) -> None:
    if reg.kind & MAYBE_NULL and reg.kind & ALLOC:
        bug = "verifier bug" if env.rules.since(6, 16) else "verifier internal error"
        raise Refusal(f"{bug}: invalid PTR_TO_BTF_ID register for type match", errno=14)
    if reg.kind & MAYBE_NULL:
        word = f"R{number}" if env.rules.since(7, 1) else f"arg{number}"
        raise Refusal(f"Possibly NULL pointer passed to helper {word}", errno=EACCES)
    check_match(env, number, reg, pointer, errno=EACCES)


def _check_struct(env: Env, number: int, reg: Reg, arg: Argument, helper: str) -> None:
    if arg.kind in {Arg.PTR_TO_MEM, Arg.PTR_TO_MAP_KEY, Arg.PTR_TO_MAP_VALUE}:
        if not arg.flags & TypeFlag.RDONLY:
            word = env.words(reg.kind)
            raise Refusal(
                f"bpf_{helper}() may write into memory pointed by R{number} type={word}",
                errno=EACCES,
            )
        return
    if reg.kind & ALLOC:
        raise Unmodelled(f"an argument that is a {env.words(reg.kind)}")
    if reg.kind & MAYBE_NULL and (
        not arg.flags & TypeFlag.NULL or arg.flags & TypeFlag.RELEASE
    ):  # fmt: skip
        raise Refusal(f"Possibly NULL pointer passed to helper arg{number}", errno=EACCES)
    check_ptr_off(env, reg, number, fixed_ok=True)
    name = reg.extra
    wanted = arg.btf if arg.kind is Arg.PTR_TO_BTF_ID else "sock_common"
    strict = bool(arg.flags & TypeFlag.RELEASE) and helper != "sk_release"
    if not is_struct(env, reg, wanted, strict=strict):
        raise Refusal(f"R{number} is of type {name} but {wanted} is expected", errno=EACCES)


def check_offset(env: Env, number: int, reg: Reg, arg: Argument) -> None:
    """Raise Refusal where a pointer was moved that may not be."""
    kind = reg.kind
    if env.rules.since(6, 3):
        if arg.flags & TypeFlag.RELEASE:
            if arg.kind is Arg.PTR_TO_DYNPTR and kind == STACK:
                return
            moved = reg.off or (env.rules.since(7, 0) and reg.val.const != 0)
            if moved and kind != SCALAR:
                raise Refusal(
                    f"R{number} must have zero offset when passed to release func or trusted arg "
                    "to kfunc"
                )
            if kind != SCALAR:
                check_ptr_off(env, reg, number)
            return
        if kind & ~SLICE in _MOVABLE:
            return
        check_ptr_off(env, reg, number, fixed_ok=kind in _FIXED)
        return
    if kind == STACK and arg.kind is Arg.PTR_TO_DYNPTR and reg.off % 8:
        raise Refusal("cannot pass in dynptr at an offset")
    if kind in _MOVABLE and arg.kind is not Arg.PTR_TO_RINGBUF_MEM:
        return
    if kind in _FIXED and arg.flags & TypeFlag.RELEASE and reg.off:
        raise Refusal(f"R{number} must have zero offset when passed to release func")
    check_ptr_off(env, reg, number, fixed_ok=kind in _FIXED)
