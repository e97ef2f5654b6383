"""A load or a store through a register: what it points to decides who judges it.

Source: check_mem_access, __check_mem_access, check_mem_region_access and check_ptr_alignment in
kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.verifier import tnum
from pybpf.verifier.btfaccess import (
    access_btf,
    access_map_struct,
    access_socket,
    access_trace_buffer,
)
from pybpf.verifier.context import access_context
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    ARENA,
    BASE,
    BTF_ID,
    BUF,
    CTX,
    FLOW_KEYS,
    MAP_KEY,
    MAP_PTR,
    MAP_VALUE,
    MAYBE_NULL,
    MEM,
    PACKETS,
    RDONLY,
    SCALAR,
    SOCK_COMMON,
    SOCKET,
    STACK,
    TCP_SOCK,
    TP_BUFFER,
    UNTRUSTED,
    XDP_SOCK,
)  # fmt: skip
from pybpf.verifier.packet import access_packet, may_write_packet
from pybpf.verifier.pointers import (
    MAX_VAR_OFF,
    before_start,
    prohibit,
    read_only,
    shown,
    shown_whole,
)  # fmt: skip
from pybpf.verifier.program import Raw
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES, leaks
from pybpf.verifier.stack import load, store
from pybpf.verifier.stackareas import check_bounds
from pybpf.verifier.state import UNKNOWN_REG, Reg, State, scalar_reg
from pybpf.verifier.values import access_value

_S32 = 1 << 31
_S64_MIN = -1 << 63
_NET_IP_ALIGN = 2
_FLOW_KEYS_SIZE = 56
_WORDS = {
    FLOW_KEYS: "flow keys ", MAP_KEY: "key ", MAP_VALUE: "value ", CTX: "context ",
    STACK: "stack ", SOCKET: "sock ", SOCK_COMMON: "sock_common ", TCP_SOCK: "tcp_sock ",
    XDP_SOCK: "xdp_sock ",
}  # fmt: skip


def check_access(
    env: Env, state: State, number: int, off: int, size: int, *,
    write: bool, value: int | None = None, insn: Raw | None = None, signed: bool = False,
    strict: bool = False,
) -> None:  # fmt: skip
    """Do what a load from, or a store to, ``r<number> + off`` of ``size`` bytes does.

    ``value``: the register that is filled or stored (None: nothing is filled; a constant, that of
    ``insn``, or anything is stored). ``signed``: a load that extends the sign. ``strict``: the
    access must be aligned wherever it goes. Raises Refusal.
    """
    regs = state.frame.regs
    reg = regs[number]
    kind = reg.kind
    base = kind & BASE
    check_alignment(env, reg, off, size, strict=strict or env.strict)
    whole = off + reg.off
    stored = None if not write or value is None else regs[value]
    if kind == STACK:
        check_bounds(env, state, number, reg, whole, size, write=write, call=False)
        if write:
            store(env, state, reg, whole, size, value, insn)
            return
        load(env, state, reg, whole, size, value)
    elif kind == MAP_VALUE:
        _check_leak(env, stored, value, "map")
        made = access_value(env, state, number, reg, whole, size, write=write, value=value)
        if value is not None and not write:
            regs[value] = made
    elif kind == CTX:
        _check_leak(env, stored, value, "ctx")
        made = access_context(env, state, number, reg, off, size, write=write, signed=signed)
        if value is not None and not write:
            regs[value] = made
    elif base in PACKETS and not kind & MAYBE_NULL:
        if write and not may_write_packet(env):
            raise Refusal("cannot write into packet", errno=EACCES)
        _check_leak(env, stored, value, "packet")
        check_packet(env, number, reg, whole, size)
        if value is not None and not write:
            regs[value] = UNKNOWN_REG
    else:
        _other(env, state, number, reg, whole, off, size, write=write, value=value)
    if size < 8 and value is not None and not write and regs[value].kind == SCALAR:
        _extend(env, regs, value, size, signed=signed)


def _check_leak(env: Env, stored: Reg | None, value: int | None, where: str) -> None:
    """Raise Refusal where what is stored, if it is a register, would tell an address."""
    if stored is not None and leaks(env, stored):
        raise prohibit(value or 0, f"leaks addr into {where}")


def _invalid(env: Env, number: int, kind: int) -> Refusal:
    return prohibit(number, f"invalid mem access '{env.words(kind)}'")


def _extend(env: Env, regs: list[Reg], value: int, size: int, *, signed: bool) -> None:
    """Make what was loaded what a load of that size leaves in the register."""
    old = regs[value]
    math = env.rules.math
    val = math.load_signed(size, old.val) if signed else math.load(size, old.val)
    if val is old.val:
        return
    if old is UNKNOWN_REG:
        regs[value] = scalar_reg(val)
        return
    made = old.copy()
    made.val = val
    if signed:
        made.id, made.delta = 0, None
    regs[value] = made


def _other(
    env: Env, state: State, number: int, reg: Reg, whole: int, off: int, size: int, *,
    write: bool, value: int | None,
) -> None:  # fmt: skip
    regs = state.frame.regs
    kind = reg.kind
    base = kind & BASE
    stored = None if not write or value is None else regs[value]
    made: Reg = UNKNOWN_REG
    if kind == MAP_KEY:
        if write:
            raise Refusal(f"write to change key R{number} not allowed", errno=EACCES)
        assert reg.map is not None
        check_region_access(env, number, reg, whole, size, reg.map.key_size)
    elif base == MEM:
        if kind & MAYBE_NULL:
            raise _invalid(env, number, kind)
        if write and kind & RDONLY:
            raise read_only(env, number, kind)
        _check_leak(env, stored, value, "mem")
        # What is not trusted is read in a way that survives faults.
        if not kind & UNTRUSTED:
            check_region_access(env, number, reg, whole, size, reg.size)
    elif kind == FLOW_KEYS:
        _check_leak(env, stored, value, "flow keys")
        if reg.val.const is None:
            raise Unmodelled("variable offset into flow keys")
        at = whole + reg.val.smin
        if size < 0 or at < 0 or at + size > _FLOW_KEYS_SIZE:
            raise Refusal(f"invalid access to flow keys off={at} size={size}", errno=EACCES)
    elif kind in {SOCKET, SOCK_COMMON, TCP_SOCK, XDP_SOCK}:
        if write:
            raise read_only(env, number, kind)
        made = access_socket(env, state, number, reg, off, size)
    elif kind == TP_BUFFER:
        access_trace_buffer(env, number, reg, whole, size)
    elif base == BTF_ID and not kind & MAYBE_NULL:
        made = access_btf(env, state, number, reg, whole, size, write=write)
    elif kind == MAP_PTR:
        made = access_map_struct(env, state, number, reg, whole, size, write=write)
    elif base == BUF:
        if kind & MAYBE_NULL:
            raise _invalid(env, number, kind)
        if write and kind & RDONLY:
            raise read_only(env, number, kind)
        access_trace_buffer(env, number, reg, whole, size)
    elif kind == ARENA:
        pass
    else:
        raise _invalid(env, number, kind)
    if value is not None and not write:
        regs[value] = made


def check_within(
    number: int, reg: Reg, off: int, size: int, limit: int, *, zero_ok: bool = False
) -> None:
    """Raise Refusal where ``off`` to ``off + size`` is not in an area of ``limit`` bytes."""
    if off >= 0 and (size > 0 or (size == 0 and zero_ok)) and off + size <= limit:
        return
    base = reg.kind & BASE
    if base == MAP_KEY:
        text = f"invalid access to map key, key_size={limit} off={off} size={size}"
    elif base == MAP_VALUE:
        text = f"invalid access to map value, value_size={limit} off={off} size={size}"
    elif base in PACKETS:
        text = (
            f"invalid access to packet, off={off} size={size}, "
            f"R{number}(id={reg.id},off={off},r={limit})"
        )
    else:
        text = f"invalid access to memory, mem_size={limit} off={off} size={size}"
    raise Refusal(text, errno=EACCES)


def check_region_access(
    env: Env, number: int, reg: Reg, off: int, size: int, limit: int, *, zero_ok: bool = False
) -> None:
    """Raise Refusal where the variable part may lead out of an area (check_mem_region_access).

    ``off`` holds the pointer's fixed part.
    """
    val = reg.val
    low = val.smin
    # Where offsets are folded, a fixed one is a part of what may be negative.
    start = low + reg.off if env.rules.folds_offsets else low
    if start < 0 and (low == _S64_MIN or not -_S32 <= off + low < _S32 or low + off < 0):
        raise before_start(number)
    # The kernel prints one line about the area and one about the bound; the last is the message.
    try:
        check_within(number, reg, low + off, size, limit, zero_ok=zero_ok)
    except Refusal as refusal:
        raise prohibit(number, "min value is outside of the allowed memory range") from refusal
    if val.umax >= MAX_VAR_OFF:
        raise prohibit(number, "unbounded memory access, make sure to bounds check any such access")
    try:
        check_within(number, reg, val.umax + off, size, limit, zero_ok=zero_ok)
    except Refusal as refusal:
        raise prohibit(number, "max value is outside of the allowed memory range") from refusal


def check_packet(
    env: Env, number: int, reg: Reg, off: int, size: int, *, zero_ok: bool = False
) -> None:
    """Raise Refusal where the packet may be too short.

    Where offsets are folded into the variable part, what is known to be there is, too.
    """
    if not env.rules.folds_offsets or reg.range < 0:
        access_packet(number, reg, off, size, zero_ok=zero_ok)
        return
    limit = reg.range + reg.val.umax if reg.range else 0
    check_region_access(env, number, reg, off, size, limit, zero_ok=zero_ok)


def check_alignment(env: Env, reg: Reg, off: int, size: int, *, strict: bool) -> None:
    """Raise Refusal for an access that is not aligned where it must be."""
    kind = reg.kind
    if kind == STACK:
        strict = True
    if size == 1 or not strict or kind == ARENA:
        return
    fixed = reg.off + off
    is_packet = kind in PACKETS
    known = (reg.val.value, reg.val.mask)
    start = tnum.add(known, tnum.const(fixed + (_NET_IP_ALIGN if is_packet else 0)))
    if tnum.is_aligned(start, size):
        return
    where = f"{shown(env, reg.val)}+{reg.off}+{off}"
    if env.rules.folds_offsets:
        where = f"{shown_whole(env, reg)}+{off}"
    if is_packet:
        text = f"misaligned packet access off {_NET_IP_ALIGN}+{where} size {size}"
    else:
        text = f"misaligned {_WORDS.get(kind & BASE, '')}access off {where} size {size}"
    raise Refusal(text, errno=EACCES)
