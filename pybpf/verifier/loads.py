"""Loads, stores, constants of 64 bits and loads of packet bytes: a slot in; its step out."""

from __future__ import annotations

from pybpf.isa.abi import MapType, ProgType
from pybpf.verifier import opcodes as op
from pybpf.verifier.access import check_access
from pybpf.verifier.calls import check_leftovers
from pybpf.verifier.env import Env, Step
from pybpf.verifier.kinds import (
    ARENA,
    BASE,
    BTF_ID,
    CTX,
    FUNC,
    MAP_PTR,
    MAP_VALUE,
    MEM,
    SOCK_COMMON,
    SOCKET,
    TCP_SOCK,
    UNTRUSTED,
    XDP_SOCK,
)  # fmt: skip
from pybpf.verifier.locks import may_lock
from pybpf.verifier.pointers import check_ptr_off
from pybpf.verifier.program import Raw
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import check_written, read
from pybpf.verifier.reserved import refuse_fields
from pybpf.verifier.returns import check_references
from pybpf.verifier.state import UNINIT, UNKNOWN_REG, Reg, State, known_reg

_READ_BY_LD_ABS = frozenset({ProgType.SOCKET_FILTER, ProgType.SCHED_CLS, ProgType.SCHED_ACT})
_SPECIAL = frozenset({CTX, SOCKET, SOCK_COMMON, TCP_SOCK, XDP_SOCK, BTF_ID, ARENA})
_CTX_REG = 6
_SAME = "same insn cannot be used with different pointers"


def check_same(env: Env, state: State, kind: int, *, load: bool = False) -> None:
    """Raise Refusal where an instruction gets pointers that cannot share code (save_aux_ptr_type).

    What it was used with first is remembered by slot.
    """
    at = state.at
    before = env.pointer_kinds.setdefault(at, kind)
    if before != kind and (_is_special(kind) or _is_special(before)):
        # Loads from valid structures and others differ in how faults are caught: kernels take the
        # safer way, since 6.17 also where it is no structure.
        alike = {BTF_ID, MEM} if env.rules.since(6, 17) else {BTF_ID}
        if load and env.rules.since(6, 4) and {kind & BASE, before & BASE} <= alike:
            env.pointer_kinds[at] = BTF_ID | UNTRUSTED
            return
        raise Refusal(_SAME)


def _is_special(kind: int) -> bool:
    """Whether accesses through such a pointer are rewritten (reg_type_mismatch_ok is false)."""
    return kind & BASE in _SPECIAL or (kind & BASE == MEM and bool(kind & UNTRUSTED))


def make_load(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a load into a register."""
    del env
    size, signed = op.BYTES[slot.code & op.SIZE], slot.code & op.MODE == op.MEMSX
    dst, src, off = slot.dst, slot.src, slot.off

    def step(env: Env, state: State) -> int:
        kind = read(state.frame.regs, src).kind
        if dst > 9:
            check_written(dst)
        if signed and kind == ARENA and not env.rules.since(6, 18):
            raise Refusal("sign extending loads from arena are not supported yet", errno=95)
        check_access(env, state, src, off, size, write=False, value=dst, signed=signed)
        check_same(env, state, kind, load=True)
        return at + 1

    return step


def make_store(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a store of a register or a constant."""
    del env
    size = op.BYTES[slot.code & op.SIZE]
    dst, src, off = slot.dst, slot.src, slot.off
    by_reg = slot.code & op.CLASS == op.STX

    def step(env: Env, state: State) -> int:
        regs = state.frame.regs
        if by_reg:
            read(regs, src)
        kind = read(regs, dst).kind
        if kind == CTX and not by_reg and not env.rules.since(6, 3):
            raise Refusal(f"BPF_ST stores into R{dst} ctx is not allowed", errno=13)
        check_access(
            env, state, dst, off, size, write=True, value=src if by_reg else None, insn=slot
        )
        check_same(env, state, kind)
        return at + 1

    return step


def make_lddw(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a constant of 64 bits, of a map, of its value, or of a subprogram."""
    dst = slot.dst
    known = env.program.map_at.get(at)
    high = env.slots[at + 1].imm
    if slot.src == op.FUNC and slot.src:
        made = Reg(FUNC)
        made.btf = env.program.subprogram_at[at + 1 + slot.imm]
    elif at in env.program.ksyms:
        made = env.program.ksyms[at]
    elif known is None:
        made = known_reg((high & 0xFFFFFFFF) << 32 | slot.imm & 0xFFFFFFFF)
    elif slot.src == op.MAP_FD:
        made = Reg(MAP_PTR)
        made.map = known
    elif known.type == MapType.ARENA:
        made = UNKNOWN_REG
    else:
        made = Reg(MAP_VALUE, off=high & 0xFFFFFFFF)
        made.map = known

    message = _refuse_callback(env, made.btf) if made.kind == FUNC else None
    # Before Linux 6.2 each address of a value with a lock was another value.
    locked = known is not None and made.kind == MAP_VALUE and may_lock(known.fields)
    locked = locked and not env.rules.since(6, 2)

    def step(env: Env, state: State) -> int:
        if dst > 9:
            check_written(dst)
        if message is not None:
            raise Refusal(message)
        if locked:
            own = made.copy()
            own.id = env.new_id()
            state.frame.regs[dst] = own
            return at + 2
        state.frame.regs[dst] = made
        return at + 2

    return step


def _refuse_callback(env: Env, subprog: int) -> str | None:
    """Return why a subprogram's address cannot be taken; None where it can."""
    functions = env.program.functions
    if not functions:
        return "missing btf func_info"
    return "callback function not static" if functions[subprog].is_global else None


def make_packet_load(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of a load of packet bytes by offset (``ldabs``, ``ldind``)."""
    allowed = env.prog_type in _READ_BY_LD_ABS
    message = refuse_fields(slot, env.rules)
    indirect = slot.code & op.MODE == op.IND

    def step(env: Env, state: State) -> int:
        if not allowed:
            raise Refusal("BPF_LD_[ABS|IND] instructions not allowed for this program type")
        if message is not None:
            raise Refusal(message)
        regs = state.frame.regs
        ctx = read(regs, _CTX_REG)
        check_references(env, state, "BPF_LD_[ABS|IND]")
        check_leftovers(env, state, "BPF_LD_[ABS|IND]")
        if ctx.kind != CTX:
            raise Refusal("at the time of BPF_LD_ABS|IND R6 != pointer to skb")
        if indirect:
            read(regs, slot.src)
        check_ptr_off(env, ctx, _CTX_REG)
        if state.frame.index and env.rules.since(7, 0):
            raise Unmodelled("ldabs in a subprogram")
        regs[0:6] = [UNKNOWN_REG, UNINIT, UNINIT, UNINIT, UNINIT, UNINIT]
        return at + 1

    return step
