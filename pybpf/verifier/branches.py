"""Conditional jumps: a slot in; the step that follows the paths it may take out.

Source: check_cond_jmp_op, is_branch_taken, try_match_pkt_pointers and mark_ptr_or_null_regs in
kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.table import Effect
from pybpf.verifier import opcodes as op
from pybpf.verifier.backtrack import SLOTS
from pybpf.verifier.env import Env, Step
from pybpf.verifier.kinds import (
    BASE,
    BTF_ID,
    MAP_KEY,
    MAP_PTR,
    MAP_VALUE,
    MAYBE_NULL,
    MEM,
    PACKET,
    PACKET_END,
    PACKET_META,
    SCALAR,
    SOCK_COMMON,
    SOCKET,
    TCP_SOCK,
    UNTRUSTED,
)  # fmt: skip
from pybpf.verifier.nulls import mark_nulls, not_null
from pybpf.verifier.packet import BEYOND_END, each_reg, find_good, mark_end
from pybpf.verifier.pointers import prohibit
from pybpf.verifier.program import Raw
from pybpf.verifier.registers import is_trusted, read
from pybpf.verifier.scalar import Scalar, constant
from pybpf.verifier.state import UNKNOWN_REG, Reg, State

_PACKETS = frozenset({PACKET, PACKET_META, PACKET_END})
_NEVER_NULL = frozenset({SOCKET, TCP_SOCK, MAP_VALUE, MAP_KEY, SOCK_COMMON})
_FLIPPED = {
    Effect.JGT: Effect.JLT, Effect.JLT: Effect.JGT, Effect.JGE: Effect.JLE, Effect.JLE: Effect.JGE,
}  # fmt: skip
_S32 = 0xFFFFFFFF


def make_branch(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a conditional jump."""
    dst, src, is32 = slot.dst, slot.src, slot.code & op.CLASS == op.JMP32
    effect = op.BRANCHES[slot.code & op.OP]
    by_reg = bool(slot.code & op.SOURCE)
    operand = Reg(SCALAR, constant(slot.imm))
    target, follow = at + 1 + slot.off, at + 1
    math = env.rules.math
    null_test = not by_reg and not is32 and slot.imm == 0 and effect in {Effect.JEQ, Effect.JNE}
    same = by_reg and dst == src

    def step(env: Env, state: State) -> int:
        env.jumps += 1
        regs = state.frame.regs
        # The kernel looks at the destination first only since Linux 6.8; both are refused alike.
        left = read(regs, dst)
        right = operand
        if by_reg:
            right = read(regs, src)
            if right.kind != SCALAR and not env.rules.allow_leaks and not (
                left.kind & BASE in _PACKETS and right.kind & BASE in _PACKETS
            ):  # fmt: skip
                raise prohibit(src, "pointer comparison prohibited")
        if left.kind == SCALAR and right.kind == SCALAR:
            taken = math.taken(effect, is32, left.val, right.val, same)
            if taken is not None:
                env.precise(state, dst)
                if by_reg:
                    env.precise(state, src)
                if not env.privileged:
                    _run_ahead(env, state, follow if taken else target, dst, src if by_reg else dst)
                return target if taken else follow
            _split_scalars(
                env, state, dst, src if by_reg else None, left, right, effect, target, is32=is32
            )
            return follow
        taken = _pointer_taken(env, left, right, effect, is32=is32)
        if taken is not None:
            if left.kind == SCALAR:
                env.precise(state, dst)
            if by_reg and right.kind == SCALAR:
                env.precise(state, src)
            if not env.privileged:
                _run_ahead(env, state, follow if taken else target, dst, src if by_reg else dst)
            return target if taken else follow
        _split_pointers(
            env, state, dst, src if by_reg else None, left, right, effect, target,
            is32=is32, null_test=null_test,
        )  # fmt: skip
        return follow

    return step


def _run_ahead(env: Env, state: State, target: int, dst: int, src: int) -> None:
    """Put off a path that only a processor takes which guesses wrong; it knows no operand.

    (sanitize_speculative_path)
    """
    other = env.push(state, target, speculative=True)
    other.frame.regs[dst] = other.frame.regs[src] = UNKNOWN_REG


def _split_scalars(
    env: Env, state: State, dst: int, src: int | None, left: Reg, right: Reg, effect: Effect,
    target: int, *, is32: bool,
) -> None:  # fmt: skip
    """Put off the jump, and give both paths what the comparison tells about its operands."""
    linked: list[tuple[int, int]] = []
    if src is not None and right.id:
        _collect(state, right.id, linked)
    if left.id:
        _collect(state, left.id, linked)
    if len(linked) > 1:
        state.note = tuple(linked)
    other = env.push(state, target)
    yes_left, yes_right, no_left, no_right = env.rules.math.refine(
        effect, is32, left.val, right.val
    )
    for path, left_val, right_val in (
        (other, yes_left, yes_right), (state, no_left, no_right),
    ):  # fmt: skip
        regs = path.frame.regs
        if left_val is not left.val:
            regs[dst] = _with(left, left_val)
        if src is not None and right_val is not right.val and src != dst:
            regs[src] = _with(right, right_val)
        if linked:
            if src is not None and right.id:
                _sync(env, path, regs[src], linked)
            if left.id:
                _sync(env, path, regs[dst], linked)


def _with(reg: Reg, val: Scalar) -> Reg:
    new = reg.copy()
    new.val = val
    return new


def _collect(state: State, ident: int, linked: list[tuple[int, int]]) -> None:
    """Find registers and spilled ones that are known to equal one, as (frame, index)."""
    found = linked
    for frame in state.frames:
        for number, reg in enumerate(frame.regs):
            if reg.id == ident and reg.kind == SCALAR and (frame.index, number) not in found:
                found.append((frame.index, number))
        for spi, slot in frame.stack.items():
            reg2 = slot.reg
            if reg2 is not None and reg2.id == ident and reg2.kind == SCALAR:
                place = (frame.index, SLOTS + spi)
                if place not in found:
                    found.append(place)


def _sync(env: Env, state: State, known: Reg, linked: list[tuple[int, int]]) -> None:
    """Give registers linked to ``known`` what is now known of it (sync_linked_regs)."""
    ident = known.id
    math = env.rules.math
    if len(linked) < 2:
        return

    def change(reg: Reg) -> Reg:
        if reg is known or reg.id != ident or reg.kind != SCALAR:
            return reg
        if reg.delta == known.delta:
            if reg.val == known.val:
                return reg
            new = reg.copy()
            new.val = known.val
            return new
        if known.extra == "32":
            return reg
        delta = (reg.delta or 0) - (known.delta or 0)
        new = reg.copy()
        new.val = math.offset(known.val, delta, reg.extra == "32")
        return new

    each_reg(state, change)


def _pointer_taken(env: Env, left: Reg, right: Reg, effect: Effect, *, is32: bool) -> bool | None:
    """Say which way a comparison with a pointer goes, if it can go only one (is_branch_taken)."""
    if left.kind & BASE in _PACKETS and right.kind & BASE in _PACKETS and not is32:
        return _packet_taken(env, left, right, effect)
    ptr, other = left, right
    if other.kind != SCALAR:
        ptr, other = right, left
        if not env.rules.since(6, 4):
            return None
    if other.kind != SCALAR or ptr.kind == SCALAR or not _never_null(env, ptr):
        return None
    const = other.val.const
    if const is None:
        if not is32 or other.val.mask & _S32:
            return None
        const = other.val.value & _S32
    if is32:
        const &= _S32
    if const != 0:
        return None
    return {Effect.JEQ: False, Effect.JNE: True}.get(effect)


def _never_null(env: Env, ptr: Reg) -> bool:
    kind, base = ptr.kind, ptr.kind & BASE
    if kind & MAYBE_NULL:
        return False
    if base in _NEVER_NULL:
        return True
    if base == BTF_ID and env.rules.since(6, 3):
        return is_trusted(ptr)
    if base == MEM and env.rules.since(6, 4):
        return not kind & UNTRUSTED
    return base == MAP_PTR and env.rules.since(6, 16)


def _packet_taken(env: Env, left: Reg, right: Reg, effect: Effect) -> bool | None:
    if right.kind == PACKET_END:
        packet = left
    elif left.kind == PACKET_END:
        packet, effect = right, _FLIPPED.get(effect, effect)
    else:
        return None
    if packet.range >= 0 or not env.rules.since(5, 11):
        return None
    if effect in {Effect.JLE, Effect.JGT} and packet.range == BEYOND_END:
        return effect is Effect.JGT
    if effect in {Effect.JLT, Effect.JGE}:
        return effect is Effect.JGE
    return None


def _split_pointers(
    env: Env, state: State, dst: int, src: int | None, left: Reg, right: Reg, effect: Effect,
    target: int, *, is32: bool, null_test: bool,
) -> None:  # fmt: skip
    other = env.push(state, target)
    if null_test and left.kind & MAYBE_NULL:
        mark_nulls(env, state, left, is_null=effect is Effect.JNE)
        mark_nulls(env, other, left, is_null=effect is Effect.JEQ)
        return
    if src is not None and not is32:
        _compare_pointers(env, state, other, dst, src, left, right, effect)
        if _match_packets(state, other, dst, src, left, right, effect):
            return
    if left.kind != SCALAR and not env.rules.allow_leaks:
        raise prohibit(dst, "pointer comparison prohibited")


def _compare_pointers(
    env: Env, state: State, other: State, dst: int, src: int, left: Reg, right: Reg, effect: Effect
) -> None:
    """Learn that a pointer is not null from its being equal to one that is not.

    Linux commit befae75856ab ("bpf: propagate nullness information for reg to reg comparisons")
    (in v6.2)
    """
    if SCALAR in {left.kind, right.kind} or not env.rules.since(6, 2):
        return
    if bool(left.kind & MAYBE_NULL) == bool(right.kind & MAYBE_NULL):
        return
    if BTF_ID in {left.kind & BASE, right.kind & BASE}:
        return
    path = {Effect.JEQ: other, Effect.JNE: state}.get(effect)
    if path is not None:
        number = src if right.kind & MAYBE_NULL else dst
        path.frame.regs[number] = not_null(path.frame.regs[number])


def _match_packets(
    state: State, other: State, dst: int, src: int, left: Reg, right: Reg, effect: Effect
) -> bool:
    """Learn how far a packet reaches; False where the operands are not such a comparison."""
    if _measures(left, right):
        ptr, number, compared = left, dst, effect
    elif _measures(right, left):
        ptr, number, compared = right, src, _FLIPPED.get(effect, effect)
    else:
        return False
    # Of the pointer on the left: beyond the end where the jump is taken, or where it is not.
    if compared is Effect.JGT:
        find_good(state, ptr, right_open=False)
        mark_end(other, number, beyond=True)
    elif compared is Effect.JLT:
        find_good(other, ptr, right_open=True)
        mark_end(state, number, beyond=False)
    elif compared is Effect.JGE:
        find_good(state, ptr, right_open=True)
        mark_end(other, number, beyond=False)
    elif compared is Effect.JLE:
        find_good(other, ptr, right_open=False)
        mark_end(state, number, beyond=True)
    else:
        return False
    return True


def _measures(ptr: Reg, end: Reg) -> bool:
    """Whether ``end`` is where what ``ptr`` points into ends."""
    if ptr.kind == PACKET:
        return end.kind == PACKET_END
    start = end.kind == PACKET and end.off == 0 and end.val.const == 0 and end.id == 0
    return ptr.kind == PACKET_META and start
