"""Reads and writes of the stack, byte by byte: offsets in; registers filled and slots changed.

Source: check_stack_read_* and check_stack_write_* in kernel/bpf/verifier.c. Offsets count bytes
from the frame pointer.
"""

from __future__ import annotations

from pybpf.verifier import dynslots
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    DYNPTR,
    INVALID,
    MISC,
    NOT_INIT,
    SCALAR,
    SPILL,
    STACK,
    TP_BUFFER,
    ZERO,
)  # fmt: skip
from pybpf.verifier.pointers import shown
from pybpf.verifier.program import Raw
from pybpf.verifier.reads import mark_read, mark_written
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES, assign_id
from pybpf.verifier.stackareas import EMPTY, frame_of, read_range
from pybpf.verifier.state import (
    UNKNOWN_REG,
    ZERO_REG,
    Frame,
    Reg,
    Slot,
    State,
    known_reg,
)  # fmt: skip

_UNSPILLABLE = frozenset({NOT_INIT, TP_BUFFER, DYNPTR})
_DATA = frozenset({MISC, ZERO})
_FULL = bytes([SPILL]) * 8


def load(env: Env, state: State, reg: Reg, off: int, size: int, into: int | None) -> None:
    """Read ``size`` bytes into register ``into`` (None: nowhere, but it must be allowed)."""
    val = reg.val
    if val.const is None:
        if into is None:
            raise Refusal(
                "variable offset stack pointer cannot be passed into helper function; "
                f"var_off={shown(env, val)} off={off} size={size}",
                errno=EACCES,
            )
        read_range(env, state, _register_number(state, reg), reg, off, size, call=False)
        _fill_bytes(state, frame_of(state, reg), val.smin + off, val.smax + off + size, into)
        return
    _load_fixed(env, state, frame_of(state, reg), off + val.smin, size, into)


def _register_number(state: State, reg: Reg) -> int:
    for number, other in enumerate(state.frame.regs):
        if other is reg:
            return number
    return 0


def _load_fixed(
    env: Env, state: State, frame: Frame, off: int, size: int, into: int | None
) -> None:
    spi = (-off - 1) >> 3
    slot = frame.stack.get(spi, EMPTY)
    kinds, reg = slot
    mark_read(state, frame.index, spi)
    if kinds[7] == SPILL:
        assert reg is not None
        if size == 8 and kinds[0] == SPILL:
            if into is not None:
                named = assign_id(env, reg) if env.rules.since(6, 8) else reg
                if named is not reg:
                    frame.stack[spi] = Slot(kinds, named)
                state.frame.regs[into] = named
            elif reg.kind != SCALAR and not env.rules.allow_leaks:
                raise Refusal(f"leaking pointer from stack off {off}", errno=EACCES)
            state.note = frame.index << 8 | spi
            return
        _fill_partly(env, state, frame, spi, off, size, into)
        return
    start = -off - 1
    for i in range(size):
        kind = kinds[(start - i) & 7]
        if kind in _DATA or (kind == INVALID and env.rules.allow_uninit_stack):
            continue
        raise Refusal(f"invalid read from stack off {off}+{i} size {size}", errno=EACCES)
    if into is not None:
        _fill_bytes(state, frame, off, off + size, into)


def _fill_partly(
    env: Env, state: State, frame: Frame, spi: int, off: int, size: int, into: int | None
) -> None:
    """Read a part of a spilled scalar, or what a narrow spill left beside it."""
    kinds, reg = frame.stack[spi]
    assert reg is not None
    spilled = 1
    while spilled < 8 and kinds[7 - spilled] == SPILL:
        spilled += 1
    if reg.kind != SCALAR:
        raise Refusal("invalid size of register fill", errno=EACCES)
    if into is None:
        return
    regs = state.frame.regs
    # Linux commit c1e6148cb4f8 ("bpf: Preserve boundaries and track scalars on narrowing fill")
    # (in v6.9)
    narrow = size <= spilled if env.rules.since(6, 9) else size == spilled
    if narrow and off % 8 == 0 and env.rules.since(5, 16):
        made = reg
        if reg.val.umax >> 8 * size:
            made = reg.copy()
            made.id, made.delta = 0, None
        regs[into] = made
        state.note = frame.index << 8 | spi
        return
    start, spills, zeros = -off - 1, 0, 0
    for i in range(size):
        kind = kinds[(start - i) & 7]
        if kind == SPILL:
            spills += 1
        elif kind == ZERO and env.rules.since(6, 8):
            zeros += 1
        elif kind != MISC and not (
            kind == ZERO and env.rules.since(5, 16)
        ) and not (kind == INVALID and env.rules.allow_uninit_stack):  # fmt: skip
            raise Refusal(f"invalid read from stack off {off}+{i} size {size}", errno=EACCES)
    known = env.rules.since(6, 8)
    if known and spills == size and reg.val.const == 0:
        regs[into] = ZERO_REG
        state.note = frame.index << 8 | spi
    elif known and zeros == size:
        regs[into] = ZERO_REG
    else:
        regs[into] = UNKNOWN_REG


def _fill_bytes(state: State, frame: Frame, low: int, high: int, into: int) -> None:
    """Make a register 0 where all bytes are, else unknown."""
    for off in range(low, high):
        start = -off - 1
        if frame.stack.get(start >> 3, EMPTY).bytes[start & 7] != ZERO:
            state.frame.regs[into] = UNKNOWN_REG
            return
    state.frame.regs[into] = ZERO_REG


def store(
    env: Env, state: State, reg: Reg, off: int, size: int, value: int | None, insn: Raw | None
) -> None:
    """Write register ``value``, or the constant of ``insn``, or anything (both None)."""
    frame = frame_of(state, reg)
    if reg.val.const is None:
        _store_variable(env, state, frame, reg, off, size, value, insn)
    else:
        _store_fixed(env, state, frame, off + reg.val.smin, size, value, insn)


def _store_fixed(
    env: Env, state: State, frame: Frame, off: int, size: int, value: int | None, insn: Raw | None
) -> None:
    spi, start = (-off - 1) >> 3, -off - 1
    old = frame.stack.get(spi, EMPTY)
    regs = state.frame.regs
    reg = None if value is None else regs[value]
    if not env.rules.allow_leaks and size != 8 and old.bytes[7] == SPILL and (
        old.reg is not None and old.reg.kind != SCALAR
    ):  # fmt: skip
        raise Refusal("attempt to corrupt spilled pointer on stack", errno=EACCES)
    if old.bytes[7] > ZERO:
        dynslots.overwrite(env, state, frame, spi)
        old = frame.stack.get(spi, EMPTY)
    made: Reg | None = None
    if off % 8 == 0 and env.privileged:
        if reg is not None and reg.kind == SCALAR:
            made = _spilled_scalar(env, regs, value or 0, size)
        elif reg is None and insn is not None and env.rules.since(6, 1):
            made = known_reg(insn.imm)
    if made is None and reg is not None and reg.kind & 0xFF not in _UNSPILLABLE and (
        reg.kind != SCALAR
    ):  # fmt: skip
        if size != 8:
            raise Refusal("invalid size of register spill", errno=EACCES)
        if frame is not state.frame and reg.kind == STACK:
            raise Refusal("cannot spill pointers to stack into stack frame of the caller")
        made = reg
    if made is not None:
        rest = old.bytes[: 8 - size]
        kept = _misc(env, rest)
        frame.stack[spi] = Slot(kept + _FULL[:size], made)
        if size == 8:
            mark_written(state, frame.index, spi)
        state.note = frame.index << 8 | spi
        return
    _store_bytes(env, state, frame, spi, start, size, old, reg, value, insn)


def _misc(env: Env, kinds: bytes) -> bytes:
    """Return what the bytes beside a narrow spill become."""
    if not kinds:
        return b""
    if not env.rules.since(5, 16):
        return bytes([MISC]) * len(kinds)
    leaks = env.rules.allow_leaks and env.rules.since(6, 8)
    return bytes(
        kind if (kind == INVALID and leaks) or (kind == ZERO and env.rules.since(6, 8)) else
        INVALID if kind == INVALID and not env.rules.since(6, 3) else MISC
        for kind in kinds
    )  # fmt: skip


def _spilled_scalar(env: Env, regs: list[Reg], value: int, size: int) -> Reg | None:
    """Return what a spill remembers of a scalar; None: nothing, the bytes are plain data."""
    reg = regs[value]
    rules = env.rules
    if not rules.since(6, 8):
        # Only what is known in some way, and not 0, which is remembered as zero bytes.
        whole = size == 8 or rules.since(5, 16)
        if not whole or reg.is_null or not _bounded(reg):
            return None
    fits = not reg.val.umax >> 8 * size
    if fits or not rules.since(6, 2):
        if rules.since(6, 8):
            reg = regs[value] = assign_id(env, reg)
        if fits:
            return reg
    made = reg.copy()
    made.id, made.delta = 0, None
    return made


def _bounded(reg: Reg) -> bool:
    """Whether anything is known of a scalar (register_is_bounded: not __reg_is_unbounded)."""
    val = reg.val
    return (
        val.smin != -1 << 63
        or val.smax != (1 << 63) - 1
        or val.umin != 0
        or val.umax != (1 << 64) - 1
        or val.smin32 != -1 << 31
        or val.smax32 != (1 << 31) - 1
        or val.umin32 != 0
        or val.umax32 != (1 << 32) - 1
    )


def _store_bytes(
    env: Env, state: State, frame: Frame, spi: int, start: int, size: int, old: Slot,
    reg: Reg | None, value: int | None, insn: Raw | None,
) -> None:  # fmt: skip
    kinds = bytearray(old.bytes)
    if SPILL in kinds or kinds[7] > ZERO:
        for i in range(8):
            if kinds[i] == SPILL or kinds[i] > ZERO:
                kinds[i] = MISC
    kind = MISC
    if reg is not None and reg.is_null:
        if value is not None:
            env.precise(state, value)
        kind = ZERO
    elif reg is None and insn is not None and insn.imm == 0 and env.rules.since(6, 1):
        kind = ZERO
    for i in range(size):
        kinds[(start - i) & 7] = kind
    frame.stack[spi] = Slot(bytes(kinds))
    if size == 8:
        mark_written(state, frame.index, spi)


def _store_variable(
    env: Env, state: State, frame: Frame, ptr: Reg, off: int, size: int, value: int | None,
    insn: Raw | None,
) -> None:  # fmt: skip
    low, high = ptr.val.smin + off, ptr.val.smax + off + size
    reg = None if value is None else state.frame.regs[value]
    zero = (reg is not None and reg.is_null) or (
        reg is None and insn is not None and insn.imm == 0 and env.rules.since(6, 1)
    )
    for at in range(low, high):
        spi = (-at - 1) >> 3
        if frame.stack.get(spi, EMPTY).bytes[7] > ZERO:
            dynslots.overwrite(env, state, frame, spi)
    zero_used = False
    for at in range(low, high):
        start = -at - 1
        spi, i = start >> 3, start & 7
        kinds, spilled = frame.stack.get(spi, EMPTY)
        kind = kinds[i]
        if not env.rules.allow_leaks and kind not in {MISC, ZERO}:
            raise Refusal(
                f"spilled ptr in range of var-offset stack write; insn {state.at}, ptr off: {at}"
            )
        if zero and kind == SPILL and spilled is not None and spilled.is_null and (
            env.rules.since(6, 8)
        ):  # fmt: skip
            zero_used = True
            continue
        new = MISC
        if zero and kind == ZERO:
            new, zero_used = ZERO, True
        if kind == INVALID and not (
            env.rules.allow_uninit_stack or (env.rules.allow_leaks and env.rules.since(5, 12))
        ):
            raise Refusal(
                "uninit stack in range of var-offset write prohibited for !root; "
                f"insn {state.at}, off: {at}"
            )
        # All of a spilled register is lost with one byte: Linux since 7.0, and stable releases.
        rest = bytes(MISC if other == SPILL else other for other in kinds)
        frame.stack[spi] = Slot(rest[:i] + bytes([new]) + rest[i + 1 :])
    if zero_used and value is not None:
        env.precise(state, value)


def scrub(env: Env, state: State, reg: Reg, low: int, size: int) -> None:
    """Make ``size`` bytes from offset ``low`` what a helper may have written there."""
    for at in range(low, low + size):
        _store_fixed(env, state, frame_of(state, reg), at, 1, None, None)
