"""Arithmetic on pointers: a pointer and a scalar in; the pointer moved, or Refusal, out.

Source: adjust_ptr_min_max_vals, check_reg_sane_offset and __check_ptr_off_reg in
kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.table import Effect
from pybpf.verifier import tnum
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    BASE,
    BTF_ID,
    BUF,
    CTX,
    DYNPTR,
    FLOW_KEYS,
    FUNC,
    MAP_KEY,
    MAP_PTR,
    MAP_VALUE,
    MAYBE_NULL,
    MEM,
    PACKET,
    PACKET_META,
    PACKETS,
    STACK,
    TP_BUFFER,
    UNTRUSTED,
)  # fmt: skip
from pybpf.verifier.masking import Move, close_window, open_window
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.scalar import Scalar, constant
from pybpf.verifier.state import UNKNOWN_REG, Reg, State

MAX_VAR_OFF = 1 << 29
_S32 = 1 << 31
_S64_MIN = -1 << 63
_MOVABLE = frozenset(
    {CTX, MAP_VALUE, MAP_KEY, STACK, PACKET_META, PACKET, TP_BUFFER, BTF_ID, MEM, BUF, FUNC, DYNPTR}
)
_SIGNED_SYMBOLS = {Effect.SDIV: "/", Effect.SMOD: "%"}
_BITWISE = frozenset({Effect.AND, Effect.OR, Effect.XOR})


def prohibit(number: int, what: str) -> Refusal:
    """Return the refusal of something done to a pointer in a register."""
    return Refusal(f"R{number} {what}", errno=EACCES)


def before_start(number: int) -> Refusal:
    """Return the refusal of an access through a pointer that may lie before what it points to."""
    return prohibit(
        number, "min value is negative, either use unsigned index or do a if (index >=0) check."
    )


def read_only(env: Env, number: int, kind: int) -> Refusal:
    """Return the refusal of a store through a pointer of a kind that allows none."""
    return prohibit(number, f"cannot write into {env.words(kind)}")


def only_privileged(env: Env, name: str) -> Refusal:
    """Return the refusal of an access to a structure by who may not see the kernel's memory."""
    return Refusal(
        f"'struct {name}' access is allowed only to CAP_PERFMON and CAP_SYS_ADMIN",
        errno=1 if env.rules.since(5, 15) else EACCES,
    )


def known_offset(number: int, reg: Reg, word: str) -> int:
    """Return how far behind the start of a value or an object a register points.

    Raises Refusal where that is not known. ``word``: what messages call that which must be there.
    """
    if reg.val.const is None:
        raise Refusal(
            f"R{number} doesn't have constant offset. {word} has to be at the constant offset"
        )
    return reg.off + reg.val.smin


def symbol(effect: Effect) -> str:
    """Return an operator as the kernel's messages spell it."""
    return _SIGNED_SYMBOLS.get(effect, effect.value)


def add_to_pointer(
    env: Env,
    state: State,
    dst: int,
    ptr: Reg,
    scalar: Reg,
    effect: Effect,
    *,
    is32: bool,
    reverse: bool,
    move: Move | None = None,
) -> Reg:
    """Return the pointer moved by a scalar; ``reverse``: the destination was the scalar.

    ``move``: what the instruction says, where a distance in a register must be masked.
    """
    val = scalar.val
    known = val.const is not None
    if val.smin > val.smax or val.umin > val.umax or (
        known and (val.smin != val.smax or val.umin != val.umax)
    ):  # fmt: skip
        return UNKNOWN_REG
    if is32:
        if effect is Effect.SUB and env.rules.allow_leaks:
            return UNKNOWN_REG
        raise prohibit(dst, "32-bit pointer arithmetic prohibited")
    _check_movable(env, dst, ptr, val, effect)
    if ptr.kind & BASE == MEM and ptr.kind & UNTRUSTED:
        return ptr
    word = env.words(ptr.kind)
    check_sane(val, 0, word)
    check_sane(ptr.val, ptr.off, word)
    window = None
    if move is not None and effect in {Effect.ADD, Effect.SUB}:
        window = open_window(env, state, move, ptr, scalar)
    if effect is Effect.ADD:
        moved = _moved(env, ptr, val, subtract=False)
    elif effect is Effect.SUB:
        if reverse:
            raise prohibit(dst, "tried to subtract pointer from scalar")
        if ptr.kind == STACK:
            raise prohibit(dst, "subtraction from stack pointer prohibited")
        moved = _moved(env, ptr, val, subtract=True)
    elif effect in _BITWISE:
        raise prohibit(dst, f"bitwise operator {effect.value}= on pointer prohibited")
    else:
        raise prohibit(dst, f"pointer arithmetic with {symbol(effect)}= operator prohibited")
    check_sane(moved.val, moved.off, word)
    if not env.privileged:
        _check_reach(env, dst, moved)
    if window is not None and move is not None:
        close_window(env, state, move, window, moved)
    return moved


def _check_reach(env: Env, dst: int, moved: Reg) -> None:
    """Raise Refusal where a pointer without privileges leaves what it points into.

    (sanitize_check_bounds)
    """
    if moved.kind == STACK:
        value = moved.val.value
        off = moved.off + (value - (1 << 64) if value >> 63 else value)
        if moved.val.const is None:
            raise prohibit(
                dst,
                "variable stack access prohibited for !root, "
                f"var_off={shown(env, moved.val)} off={off}",
            )
        if not -512 <= off < 0:
            raise prohibit(
                dst, f"stack pointer arithmetic goes out of range, prohibited for !root; off={off}"
            )
    elif moved.kind == MAP_VALUE:
        from pybpf.verifier.values import check_value

        try:
            check_value(env, dst, moved, moved.off, 1)
        except Refusal:
            raise prohibit(
                dst,
                "pointer arithmetic of map value goes out of range, prohibited for !root",
            ) from None


def _check_movable(env: Env, dst: int, ptr: Reg, val: Scalar, effect: Effect) -> None:
    kind = ptr.kind
    if kind & MAYBE_NULL:
        raise prohibit(
            dst, f"pointer arithmetic on {env.words(kind)} prohibited, null-check it first"
        )
    base = kind & BASE
    if base in _MOVABLE or (base == FLOW_KEYS and val.const is not None):
        return
    if base in {MAP_PTR, FLOW_KEYS} and val.const == 0 and effect is Effect.ADD:
        return
    raise prohibit(dst, f"pointer arithmetic on {env.words(kind)} prohibited")


def _moved(env: Env, ptr: Reg, val: Scalar, *, subtract: bool) -> Reg:
    """Return a pointer ``val`` bytes on, or back."""
    moved = ptr.copy()
    if val.const is not None:
        off = ptr.off - val.smin if subtract else ptr.off + val.smin
        if -_S32 <= off < _S32:
            moved.off = off
            return moved
    math = env.rules.math
    moved.val = (math.pointer_sub if subtract else math.pointer_add)(ptr.val, val)
    if ptr.kind & BASE in PACKETS:
        moved.id = env.new_id()
        if not subtract or val.smin < 0:
            moved.range = 0
    return moved


def check_sane(val: Scalar, off: int, word: str) -> None:
    """Raise Refusal where an offset is too far from anything a pointer may point to."""
    const = val.const
    if const is not None:
        signed = val.smin
        if not -MAX_VAR_OFF < signed < MAX_VAR_OFF:
            raise Refusal(f"math between {word} pointer and {signed} is not allowed")
    if not -MAX_VAR_OFF < off < MAX_VAR_OFF:
        raise Refusal(f"{word} pointer offset {off} is not allowed")
    if val.smin == _S64_MIN:
        raise Refusal(
            f"math between {word} pointer and register with unbounded min value is not allowed"
        )
    if not -MAX_VAR_OFF < val.smin < MAX_VAR_OFF:
        raise Refusal(f"value {val.smin} makes {word} pointer be out of bounds")


def check_ptr_off(env: Env, reg: Reg, number: int, *, fixed_ok: bool = False) -> None:
    """Raise Refusal where a pointer that must not be moved has been (__check_ptr_off_reg).

    ``fixed_ok``: a known distance is allowed.
    """
    word = env.words(reg.kind)
    if reg.off < 0:
        raise Refusal(f"negative offset {word} ptr R{number} off={reg.off} disallowed",
                      errno=EACCES)  # fmt: skip
    if not fixed_ok and reg.off:
        raise Refusal(f"dereference of modified {word} ptr R{number} off={reg.off} disallowed",
                      errno=EACCES)  # fmt: skip
    if reg.val.const != 0:
        text = f"variable {word} access var_off={shown(env, reg.val)} disallowed"
        raise Refusal(text, errno=EACCES)


def shown(env: Env, val: Scalar) -> str:
    """Return known bits as the kernel prints them: ``(value; mask)``, or the value if known.

    Linux commit 1db747d75b1d ("bpf: omit default off=0 and imm=0 in register state log") (in v6.8)
    """
    if val.mask or not env.rules.since(6, 8):
        return f"({val.value:#x}; {val.mask:#x})"
    return str(val.smin) if abs(val.smin) < 1 << 16 else f"{val.value:#x}"


def shown_whole(env: Env, reg: Reg) -> str:
    """Return known bits of a whole offset, as kernels since 7.0 keep it."""
    value, mask = tnum.add((reg.val.value, reg.val.mask), tnum.const(reg.off))
    if mask:
        return f"({value:#x}; {mask:#x})"
    return shown(env, constant(value))
