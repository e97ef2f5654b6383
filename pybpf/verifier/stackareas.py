"""Areas of the stack: where they may lie, and whether all of one is initialised.

Source: check_stack_access_within_bounds, grow_stack_state and check_stack_range_initialized in
kernel/bpf/verifier.c. Offsets count bytes from the frame pointer.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.kinds import DYNPTR_SLOT, INVALID, MISC, SCALAR, SPILL, ZERO
from pybpf.verifier.pointers import MAX_VAR_OFF, shown, shown_whole
from pybpf.verifier.reads import mark_read
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import Frame, Reg, Slot, State

STACK_SIZE = 512
EMPTY = Slot(bytes(8))


def frame_of(state: State, reg: Reg) -> Frame:
    """Return the frame whose stack a pointer points into."""
    return state.frames[reg.frame]


def check_bounds(
    env: Env, state: State, number: int, reg: Reg, off: int, size: int, *, write: bool, call: bool
) -> None:
    """Raise Refusal where an access leaves the stack; grow the stack to where it reaches.

    ``off`` holds the pointer's fixed part; ``call``: by a helper, which may do both.
    """
    what = " indirect access to" if call else " write to" if write else " read from"
    if call and env.rules.since(6, 14):
        what = " write to" if write else " read from"
    val = reg.val
    if val.const is not None:
        low = val.smin + off
        high = low + size
    else:
        if val.smax >= MAX_VAR_OFF or val.smin <= -MAX_VAR_OFF:
            raise Refusal(f"invalid unbounded variable-offset{what} stack R{number}", errno=EACCES)
        low, high = val.smin + off, val.smax + off + size
    frame = frame_of(state, reg)
    free = write or call or env.rules.allow_uninit_stack
    floor = -STACK_SIZE if free else -frame.depth
    if low < floor or low > -1 or high > 0:
        if val.const is not None:
            raise Refusal(f"invalid{what} stack R{number} off={low} size={size}", errno=EACCES)
        where = f"{shown(env, val)} off={off}" if env.rules.since(6, 3) else shown(env, val)
        if env.rules.folds_offsets:
            where = f"{shown_whole(env, reg)} off={off - reg.off}"
        raise Refusal(
            f"invalid variable-offset{what} stack R{number} var_off={where} size={size}",
            errno=EACCES,
        )
    grow(env, frame, -low)


def grow(env: Env, frame: Frame, depth: int) -> None:
    """Note that a frame uses so many bytes of stack."""
    if depth > frame.depth:
        frame.depth = (depth + 7) & -8
    subprogram = env.program.subprograms[frame.subprog]
    subprogram.depth = max(subprogram.depth, depth)


def read_range(
    env: Env, state: State, number: int, reg: Reg, off: int, size: int, *, call: bool,
    uninit: bool = False, zero_ok: bool = False, write: bool = False,
) -> tuple[int, int] | None:  # fmt: skip
    """Raise Refusal unless all bytes that may be read are initialised.

    ``call``: by a helper. ``uninit``: it fills the area, whatever was there; then the result is
    where (offset, size), for ``scrub``, which the caller calls once the arguments are checked.
    """
    if size == 0 and not zero_ok:
        raise Refusal("invalid zero-sized read", errno=EACCES)
    check_bounds(env, state, number, reg, off, size, write=write, call=call)
    val = reg.val
    frame = frame_of(state, reg)
    low = high = val.smin + off
    if val.const is None:
        uninit = False
        high = val.smax + off
    if uninit:
        # Linux 6.3 began to keep dynptrs from it; since 7.0 they are lost as by any other write.
        kept = env.rules.since(6, 3) and not env.rules.since(7, 0)
        end = high + size if kept else low
        for at in range(low, end):
            if frame.stack.get((-at - 1) >> 3, EMPTY).bytes[(-at - 1) & 7] == DYNPTR_SLOT:
                raise Refusal(f"potential write to dynptr at off={at} disallowed", errno=EACCES)
        return low, size
    clobber = write or (call and not env.rules.since(6, 14))
    for at in range(low, high + size):
        _check_byte(env, frame, number, reg, low, at, size, call=call, clobber=clobber)
        mark_read(state, frame.index, (-at - 1) >> 3)
    return None


def _check_byte(
    env: Env, frame: Frame, number: int, reg: Reg, low: int, at: int, size: int, *,
    call: bool, clobber: bool,
) -> None:  # fmt: skip
    start = -at - 1
    spi, i = start >> 3, start & 7
    kinds, spilled = frame.stack.get(spi, EMPTY)
    kind = kinds[i]
    if kind == MISC:
        return
    if kind == ZERO or (kind == INVALID and env.rules.allow_uninit_stack):
        if clobber:
            frame.stack[spi] = Slot(kinds[:i] + bytes([MISC]) + kinds[i + 1 :], spilled)
        return
    if kinds[7] == SPILL and spilled is not None and (
        spilled.kind == SCALAR or env.rules.allow_leaks
    ):  # fmt: skip
        if clobber:
            frame.stack[spi] = Slot(bytes(MISC if k == SPILL else k for k in kinds))
        return
    what = " indirect" if call and not env.rules.since(6, 14) else ""
    if reg.val.const is not None:
        raise Refusal(
            f"invalid{what} read from stack R{number} off {low}+{at - low} size {size}",
            errno=EACCES,
        )
    raise Refusal(
        f"invalid{what} read from stack R{number} var_off {shown(env, reg.val)}+{at - low} "
        f"size {size}",
        errno=EACCES,
    )
