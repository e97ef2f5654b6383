"""What instructions may do with registers: check_reg_arg and its kin."""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    ALLOC,
    BASE,
    MAP_PTR,
    NON_OWN_REF,
    NOT_INIT,
    SCALAR,
    SOCK_COMMON,
    SOCKET,
    TCP_SOCK,
    TRUSTED,
)
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.state import Reg

EACCES = 13
FRAME_POINTER = 10
_TRUSTED_FLAGS = TRUSTED | ALLOC | NON_OWN_REF
_ALWAYS_TRUSTED = frozenset({SOCKET, SOCK_COMMON, TCP_SOCK, MAP_PTR})


def read(regs: Sequence[Reg], number: int) -> Reg:
    """Return a register that an instruction reads; raises Refusal where nothing was written."""
    if number > FRAME_POINTER:
        raise Refusal(f"R{number} is invalid")
    reg = regs[number]
    if reg.kind == NOT_INIT:
        raise Refusal(f"R{number} !read_ok", errno=EACCES)
    return reg


def check_written(number: int) -> None:
    """Raise Refusal where an instruction may not write a register."""
    if number > FRAME_POINTER:
        raise Refusal(f"R{number} is invalid")
    if number == FRAME_POINTER:
        raise Refusal("frame pointer is read only", errno=EACCES)


def leaks(env: Env, reg: Reg) -> bool:
    """Whether a register holds a pointer whose value the program may not learn."""
    return reg.kind != SCALAR and not env.rules.allow_leaks


def is_trusted(reg: Reg) -> bool:
    """Whether a pointer to a structure is known to be valid (kernel: is_trusted_reg)."""
    if reg.ref:
        return True
    flags = reg.kind & ~BASE
    if flags & ~_TRUSTED_FLAGS:
        return False
    return bool(flags) or reg.kind in _ALWAYS_TRUSTED


def assign_id(env: Env, reg: Reg) -> Reg:
    """Return a scalar with an id, before it is copied, so that copies are known to be equal.

    The caller puts it back where it came from. Constants need none.
    """
    if reg.kind != SCALAR:
        return reg
    if reg.delta is not None:
        reg = reg.copy()
        reg.id, reg.delta = 0, None
    elif reg.id:
        return reg
    if reg.val.const is not None:
        return reg
    reg = reg.copy()
    reg.id = env.new_id()
    return reg
