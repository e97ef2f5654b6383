"""Atomic operations: a slot in; its step out.

Source: check_atomic, check_atomic_rmw, check_atomic_load and check_atomic_store in
kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.table import Effect
from pybpf.verifier import opcodes as op
from pybpf.verifier.access import check_access
from pybpf.verifier.env import Env, Step
from pybpf.verifier.kinds import (
    ARENA,
    BASE,
    CTX,
    FLOW_KEYS,
    PACKET,
    PACKET_META,
    SOCK_COMMON,
    SOCKET,
    TCP_SOCK,
    XDP_SOCK,
)  # fmt: skip
from pybpf.verifier.loads import check_same
from pybpf.verifier.pointers import prohibit
from pybpf.verifier.program import Raw
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import check_written, leaks, read
from pybpf.verifier.state import UNKNOWN_REG, State

_REFUSED = frozenset({CTX, PACKET, PACKET_META, FLOW_KEYS, SOCKET, SOCK_COMMON, TCP_SOCK, XDP_SOCK})
_FETCH = 1
_NOT_IN_ARENAS = frozenset({op.AND | _FETCH, op.OR | _FETCH, op.XOR | _FETCH})
"""Operations that the JIT of x86 makes loops of."""


def make_atomic(env: Env, at: int, slot: Raw) -> Step:
    """Return the step of an atomic operation; of one that there is none, one that refuses."""
    row = op.ATOMICS.get(slot.imm)
    size = op.BYTES[slot.code & op.SIZE]
    if not env.rules.has_atomics and slot.imm:
        return _refusing("BPF_XADD uses reserved fields")
    if slot.imm in {op.LOAD_ACQUIRE, op.STORE_RELEASE} and env.rules.has_load_acquire:
        return _make_ordered(at, slot, size)
    if row is None:
        return _refusing(f"BPF_ATOMIC uses invalid atomic opcode {slot.imm & 0xFFFFFFFF:02x}")
    if size < 4:
        return _refusing("invalid atomic operand size")
    return _make_rmw(at, slot, size, fetch=row.fetch, exchange=row.effect is Effect.CMPXCHG)


def _refusing(message: str) -> Step:
    def step(_env: Env, _state: State) -> int:
        raise Refusal(message)

    return step


def _make_rmw(at: int, slot: Raw, size: int, *, fetch: bool, exchange: bool) -> Step:
    dst, src, off = slot.dst, slot.src, slot.off
    into = (0 if exchange else src) if fetch else None

    def step(env: Env, state: State) -> int:
        regs = state.frame.regs
        value = read(regs, src)
        ptr = read(regs, dst)
        if exchange and leaks(env, read(regs, 0)):
            raise prohibit(0, "leaks addr into mem")
        if leaks(env, value):
            raise prohibit(src, "leaks addr into mem")
        _check_target(env, dst, ptr.kind, slot.imm)
        if into is not None:
            # Before the memory is looked at, even where this is the pointer to it.
            check_written(into)
            regs[into] = UNKNOWN_REG
        check_access(env, state, dst, off, size, write=False, strict=True)
        if into is not None:
            check_access(env, state, dst, off, size, write=False, value=into, strict=True)
        check_access(env, state, dst, off, size, write=True, strict=True)
        check_same(env, state, ptr.kind)
        return at + 1

    return step


def _check_target(env: Env, number: int, kind: int, imm: int) -> None:
    # An arena is accessed with a way out of faults, which processors have for some operations only.
    arena = kind & BASE == ARENA and (imm in _NOT_IN_ARENAS or not env.rules.since(6, 10))
    if arena or kind & BASE in _REFUSED:
        raise _stores_into(env, number, kind)


def _stores_into(env: Env, number: int, kind: int) -> Refusal:
    return Refusal(f"BPF_ATOMIC stores into R{number} {env.words(kind)} is not allowed", errno=13)


def _make_ordered(at: int, slot: Raw, size: int) -> Step:
    """Return the step of a load that acquires, or a store that releases."""
    dst, src, off = slot.dst, slot.src, slot.off
    is_load = slot.imm == op.LOAD_ACQUIRE

    def step(env: Env, state: State) -> int:
        regs = state.frame.regs
        if is_load:
            ptr = read(regs, src)
            if dst > 9:
                check_written(dst)
            kind = ptr.kind
            check_access(env, state, src, off, size, write=False, value=dst, strict=True)
            if kind & BASE in _REFUSED:
                raise Refusal(
                    f"BPF_ATOMIC loads from R{src} {env.words(kind)} is not allowed", errno=13
                )
        else:
            read(regs, src)
            ptr = read(regs, dst)
            kind = ptr.kind
            check_access(env, state, dst, off, size, write=True, value=src, strict=True)
            if kind & BASE in _REFUSED:
                raise _stores_into(env, dst, kind)
        check_same(env, state, kind)
        return at + 1

    return step
