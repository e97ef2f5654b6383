"""Memory that a call reads or writes behind a register: check_helper_mem_access and its kin.

``write``: the callee stores there. ``uninit``: a stack area need not be initialised, as it is
filled; the result is then where it is (offset from the frame pointer, size), for ``stack.scrub``,
which the caller calls once all arguments are checked; None for everything else. ``zero_ok``: a size
of 0 is allowed, also of nothing. Sizes in bytes. All raise Refusal with the kernel's message.
"""

from __future__ import annotations

from pybpf.isa.abi import ProgType
from pybpf.verifier.access import check_access, check_packet, check_region_access
from pybpf.verifier.btfaccess import access_btf, access_trace_buffer
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    BASE,
    BTF_ID,
    BUF,
    CTX,
    MAP_KEY,
    MAP_VALUE,
    MAYBE_NULL,
    MEM,
    PACKETS,
    RDONLY,
    SCALAR,
    STACK,
)  # fmt: skip
from pybpf.verifier.pointers import prohibit, read_only
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.stackareas import read_range
from pybpf.verifier.state import State
from pybpf.verifier.values import check_rights, check_value

MAX_SIZE = 1 << 29


def check_region(
    env: Env, state: State, number: int, size: int, *, write: bool = False, uninit: bool = False,
    zero_ok: bool = False,
) -> tuple[int, int] | None:  # fmt: skip
    """Check ``size`` bytes behind ``r<number>``."""
    reg = state.frame.regs[number]
    kind, base = reg.kind, reg.kind & BASE
    off = reg.off
    if kind & MAYBE_NULL:
        base = SCALAR
    if base in PACKETS:
        check_packet(env, number, reg, off, size, zero_ok=zero_ok)
    elif base == MAP_KEY:
        if write:
            raise read_only(env, number, kind)
        assert reg.map is not None
        check_region_access(env, number, reg, off, size, reg.map.key_size)
    elif base == MAP_VALUE:
        assert reg.map is not None
        check_rights(reg.map, off, size, write=write)
        check_value(env, number, reg, off, size, zero_ok=zero_ok)
    elif base == MEM:
        if write and kind & RDONLY:
            raise read_only(env, number, kind)
        check_region_access(env, number, reg, off, size, reg.size, zero_ok=zero_ok)
    elif base == BUF:
        if write and kind & RDONLY:
            raise read_only(env, number, kind)
        access_trace_buffer(env, number, reg, off, size)
    elif base == STACK:
        return read_range(
            env, state, number, reg, off, size, call=True, uninit=uninit, zero_ok=zero_ok,
            write=write,
        )  # fmt: skip
    elif base == BTF_ID:
        access_btf(env, state, number, reg, off, size, write=False)
    elif base == CTX and env.prog_type == ProgType.SYSCALL:
        if size == 0 and not zero_ok:
            raise Refusal("", errno=EACCES)
        if size:
            check_access(env, state, number, size - 1, 1, write=write)
    elif not (zero_ok and size == 0 and reg.is_null):
        raise prohibit(number, f"type={env.words(kind)} expected={env.words(STACK)}")
    return None


def check_size_pair(
    env: Env, state: State, number: int, *, write: bool = False, uninit: bool = False,
    zero_ok: bool = False,
) -> tuple[int, int] | None:  # fmt: skip
    """Check the bytes behind the register before ``r<number>``, which holds how many they are."""
    val = state.frame.regs[number].val
    if val.const is None:
        uninit = False
    if val.smin < 0:
        raise prohibit(number, "min value is negative, either use unsigned or 'var &= const'")
    if val.umin == 0:
        if env.rules.since(6, 8):
            if not zero_ok:
                raise prohibit(number, f"invalid zero-sized read: u64=[{val.umin},{val.umax}]")
        else:
            check_region(env, state, number - 1, 0, write=write, uninit=uninit, zero_ok=zero_ok)
    if val.umax >= MAX_SIZE:
        raise prohibit(number, "unbounded memory access, use 'var &= const' or 'if (var < const)'")
    where = check_region(
        env, state, number - 1, val.umax, write=write, uninit=uninit, zero_ok=zero_ok
    )
    env.precise(state, number)
    return where
