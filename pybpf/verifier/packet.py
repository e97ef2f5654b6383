"""Pointers into packets: what is known to be there, and when that is forgotten.

Source: check_packet_access, find_good_pkt_pointers, mark_pkt_end and clear_all_pkt_pointers in
kernel/bpf/verifier.c; may_access_direct_pkt_data for who may write.
"""

from __future__ import annotations

from collections.abc import Callable

from pybpf.isa.abi import ProgType
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import BASE, PACKET, PACKET_END, PACKET_META, SLICE
from pybpf.verifier.pointers import before_start, prohibit
from pybpf.verifier.state import UNKNOWN_REG, Reg, Slot, State

AT_END, BEYOND_END = -1, -2
MAX_OFF = 0xFFFF
_READ_ONLY = frozenset(
    {
        ProgType.LWT_IN, ProgType.LWT_OUT, ProgType.LWT_SEG6LOCAL, ProgType.SK_REUSEPORT,
        ProgType.FLOW_DISSECTOR, ProgType.CGROUP_SKB,
    }
)  # fmt: skip
_READ_WRITE = frozenset(
    {
        ProgType.SCHED_CLS, ProgType.SCHED_ACT, ProgType.XDP, ProgType.LWT_XMIT, ProgType.SK_SKB,
        ProgType.SK_MSG,
    }
)  # fmt: skip


def may_write_packet(env: Env) -> bool:
    """Whether programs of this type may store into packets."""
    return env.prog_type in _READ_WRITE


def may_read_packet(env: Env) -> bool:
    """Whether packets may be passed to helpers that only read."""
    return env.prog_type in _READ_ONLY or env.prog_type in _READ_WRITE


def access_packet(number: int, reg: Reg, off: int, size: int, *, zero_ok: bool = False) -> None:
    """Raise Refusal where the packet may be too short."""
    if reg.val.smin < 0:
        raise before_start(number)
    known = reg.range
    inside = off >= 0 and (size > 0 or (size == 0 and zero_ok)) and off + size <= known
    if known < 0 or not inside:
        raise prohibit(number, "offset is outside of the packet")


def each_reg(state: State, change: Callable[[Reg], Reg]) -> None:
    """Replace every register and spilled register of all frames by what ``change`` returns."""
    for frame in state.frames:
        regs = frame.regs
        for number, reg in enumerate(regs):
            new = change(reg)
            if new is not reg:
                regs[number] = new
        for spi, slot in frame.stack.items():
            if slot.reg is not None:
                new = change(slot.reg)
                if new is not slot.reg:
                    frame.stack[spi] = Slot(slot.bytes, new)


def find_good(state: State, ptr: Reg, *, right_open: bool) -> None:
    """Note that the packet reaches as far as ``ptr`` (one byte further if ``right_open``)."""
    off, high = ptr.off, ptr.val.umax
    if off < 0 or (off == 0 and right_open) or high > MAX_OFF or high + off > MAX_OFF:
        return
    known, kind, ident = off + 1 if right_open else off, ptr.kind, ptr.id

    def change(reg: Reg) -> Reg:
        if reg.kind != kind or reg.id != ident or reg.range >= known:
            return reg
        new = reg.copy()
        new.range = known
        return new

    each_reg(state, change)


def mark_end(state: State, number: int, *, beyond: bool) -> None:
    """Note that a packet pointer is at or beyond the packet's end."""
    reg = state.frame.regs[number]
    if reg.kind == PACKET:
        new = reg.copy()
        new.range = BEYOND_END if beyond else AT_END
        state.frame.regs[number] = new


def forget(env: Env, state: State) -> None:
    """Make every packet pointer an unknown number, after the packet may have moved."""
    del env

    def change(reg: Reg) -> Reg:
        gone = reg.kind & BASE in {PACKET, PACKET_META, PACKET_END} or reg.kind & SLICE
        return UNKNOWN_REG if gone else reg

    each_reg(state, change)
