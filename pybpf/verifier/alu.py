"""Arithmetic and moves: a slot in; the step that changes the destination register out.

Source: check_alu_op and adjust_reg_min_max_vals in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.table import BY_OPCODE, Effect, OpSpec
from pybpf.verifier import opcodes as op
from pybpf.verifier.env import Env, Step
from pybpf.verifier.kinds import ARENA, SCALAR
from pybpf.verifier.masking import Move, note_scalars
from pybpf.verifier.pointers import add_to_pointer, prohibit, symbol
from pybpf.verifier.program import Raw
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES, assign_id, check_written, leaks, read
from pybpf.verifier.scalar import Scalar, constant
from pybpf.verifier.state import UNKNOWN_REG, Reg, State, scalar_reg

_SHIFTS = frozenset({op.LSH, op.RSH, op.ARSH})
_S32_MAX = (1 << 31) - 1
_LINKED = frozenset({Effect.ADD, Effect.SUB})


def make_alu(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of an arithmetic instruction or a move."""
    operation = slot.code & op.OP
    is32 = slot.code & op.CLASS == op.ALU32
    if operation in {op.NEG, op.END}:
        return _make_unary(env, at, slot, is32=is32)
    if operation == op.MOV:
        if slot.code & op.SOURCE:
            return _make_move(env, at, slot, is32=is32)
        return _make_constant(at, slot, is32=is32)
    return _make_binary(env, at, slot, operation, is32=is32)


def _row(slot: Raw) -> OpSpec:
    """Return the row of an opcode whose meaning ``off`` or ``imm`` decides."""
    rows = BY_OPCODE[slot.code]
    for row in rows:
        if (row.off is None or row.off == slot.off) and (row.imm is None or row.imm == slot.imm):
            return row
    return rows[0]


def _make_unary(env: Env, at: int, slot: Raw, *, is32: bool) -> Step:
    dst, row, math = slot.dst, _row(slot), env.rules.math
    is_swap = slot.code & op.OP == op.END

    def step(env: Env, state: State) -> int:
        regs = state.frame.regs
        reg = read(regs, dst)
        if leaks(env, reg):
            raise Refusal(f"R{dst} pointer arithmetic prohibited", errno=EACCES)
        check_written(dst)
        if reg.kind != SCALAR:
            regs[dst] = UNKNOWN_REG
        elif is_swap:
            regs[dst] = scalar_reg(math.swap(row.effect, row.narrow, reg.val))
        else:
            regs[dst] = scalar_reg(math.alu(Effect.NEG, is32, reg.val, reg.val))
        return at + 1

    return step


def _make_constant(at: int, slot: Raw, *, is32: bool) -> Step:
    dst = slot.dst
    made = Reg(SCALAR, constant(slot.imm & 0xFFFFFFFF if is32 else slot.imm))

    def step(_env: Env, state: State) -> int:
        if dst > 9:
            check_written(dst)
        state.frame.regs[dst] = made
        return at + 1

    return step


def _make_move(env: Env, at: int, slot: Raw, *, is32: bool) -> Step:
    dst, src, off = slot.dst, slot.src, slot.off
    if slot.imm:
        return _make_cast(env, at, slot)
    if is32 or off:
        return _make_narrow_move(env, at, slot, is32=is32)

    def step(env: Env, state: State) -> int:
        regs = state.frame.regs
        reg = read(regs, src)
        if dst > 9:
            check_written(dst)
        if reg.kind == SCALAR:
            reg = regs[src] = assign_id(env, reg)
        regs[dst] = reg
        return at + 1

    return step


def _make_cast(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a cast between a number and a pointer into the program's arena."""
    dst, src = slot.dst, slot.src
    made = Reg(ARENA) if slot.imm == 1 else UNKNOWN_REG
    has_arena = env.program.arena is not None

    def step(_env: Env, state: State) -> int:
        if not has_arena:
            raise Refusal(
                "addr_space_cast insn can only be used in a program that has an associated arena"
            )
        read(state.frame.regs, src)
        if dst > 9:
            check_written(dst)
        state.frame.regs[dst] = made
        return at + 1

    return step


def _make_narrow_move(env: Env, at: int, slot: Raw, *, is32: bool) -> Step:
    """Return the step of ``w1 = w2`` and of ``r1 = (s8)r2``."""
    dst, src, bits = slot.dst, slot.src, slot.off
    math = env.rules.math
    # Linux commit 3be49f79555e ("bpf: Improve verifier u32 scalar equality checking") (in v6.5)
    keeps_id = env.rules.since(6, 5)
    what = "partial copy" if is32 else "sign-extension part"

    def step(env: Env, state: State) -> int:
        regs = state.frame.regs
        reg = read(regs, src)
        if dst > 9:
            check_written(dst)
        if reg.kind != SCALAR:
            if not env.rules.allow_leaks:
                raise Refusal(f"R{src} {what} of pointer", errno=EACCES)
            made = UNKNOWN_REG
            regs[dst] = scalar_reg(math.zero_extend(made.val)) if is32 else made
            return at + 1
        fits = reg.val.umax < (1 << bits - 1 if bits else 1 << 32) and keeps_id
        if fits:
            reg = regs[src] = assign_id(env, reg)
        made = reg.copy()
        if not fits:
            made.id, made.delta = 0, None
        made.val = (
            math.move_extended(bits, is32, reg.val) if bits else math.zero_extend(reg.val)
        )  # fmt: skip
        regs[dst] = made
        return at + 1

    return step


_MASKS = frozenset({Effect.AND, Effect.OR})
"""Before these a value that is known to be -1 or 0 is split in two."""


def _make_binary(env: Env, at: int, slot: Raw, operation: int, *, is32: bool) -> Step:
    dst, src, math = slot.dst, slot.src, env.rules.math
    by_reg = bool(slot.code & op.SOURCE)
    effect = _row(slot).effect
    refused = None if by_reg else _refuse_constant(operation, slot.imm, is32=is32)
    operand = Reg(SCALAR, constant(slot.imm))
    alu = math.alu
    follow = at + 1
    # A distance to the register that a copy was made of is remembered since Linux 6.11; for
    # subtractions and 32 bits since 7.0.
    signed = env.rules.since(7, 0)
    linked = (
        env.privileged
        and env.rules.since(6, 11)
        and ((effect is Effect.ADD and not is32) or (effect in _LINKED and signed))
    )

    def step(env: Env, state: State) -> int:
        regs = state.frame.regs
        source = read(regs, src) if by_reg else operand
        target = read(regs, dst)
        if refused is not None:
            raise Refusal(refused)
        if dst > 9:
            check_written(dst)
        if target.kind != SCALAR or source.kind != SCALAR:
            regs[dst] = _with_pointer(
                env, state, dst, src if by_reg else None, target, source, effect, is32=is32
            )
            return follow
        if effect in _MASKS and (forked := math.fork(effect, target.val, source.val)):
            other = env.push(state, at)
            other.frame.regs[dst] = Reg(SCALAR, forked[1])
            target = Reg(SCALAR, forked[0])
        if not env.privileged and by_reg and effect in _LINKED:
            note_scalars(env, state, dst, effect)
        made = Reg(SCALAR, alu(effect, is32, target.val, source.val))
        if linked and target.id:
            _link(made, target, source.val, effect, is32=is32, signed=signed)
        regs[dst] = made
        return follow

    return step


def _refuse_constant(operation: int, imm: int, *, is32: bool) -> str | None:
    if operation in op.DIVISIONS and imm == 0:
        return "div by zero"
    if operation in _SHIFTS and not 0 <= imm < (32 if is32 else 64):
        return f"invalid shift {imm}"
    return None


def _link(made: Reg, target: Reg, by: Scalar, effect: Effect, *, is32: bool, signed: bool) -> None:
    """Remember that a copy is now a constant away from what it is a copy of."""
    if by.const is None or target.delta is not None or made.val.const is not None:
        return
    delta = by.smin32 if is32 else by.smin
    if effect is Effect.SUB:
        delta = -delta
    if (-_S32_MAX - 1 if signed else 0) <= delta <= _S32_MAX:
        made.id, made.delta = target.id, delta
        made.extra = "32" if is32 else None


def _with_pointer(
    env: Env,
    state: State,
    dst: int,
    src: int | None,
    target: Reg,
    source: Reg,
    effect: Effect,
    *,
    is32: bool,
) -> Reg:
    if ARENA in {target.kind, source.kind}:
        return target if target.kind == ARENA else source
    if source.kind == SCALAR:
        if src is not None:
            env.precise(state, src)
        move = None
        if src is not None and not env.privileged:
            move = Move(dst, src, effect, reverse=False)
        return add_to_pointer(
            env, state, dst, target, source, effect, is32=is32, reverse=False, move=move
        )
    if target.kind == SCALAR:
        env.precise(state, dst)
        move = None
        if src is not None and not env.privileged:
            move = Move(dst, src, effect, reverse=True)
        return add_to_pointer(
            env, state, dst, source, target, effect, is32=is32, reverse=True, move=move
        )
    if effect is Effect.SUB and env.rules.allow_leaks:
        return UNKNOWN_REG
    raise prohibit(dst, f"pointer {symbol(effect)}= pointer prohibited")
