"""Pointers that may be null, once it is known which they are.

Source: mark_ptr_or_null_regs and mark_ptr_not_null_reg in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import MapType
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    ALLOC,
    MAP_PTR,
    MAP_VALUE,
    MAYBE_NULL,
    NON_OWN_REF,
    SOCKET,
    XDP_SOCK,
)  # fmt: skip
from pybpf.verifier.packet import each_reg
from pybpf.verifier.program import MapInfo
from pybpf.verifier.state import ZERO_REG, Reg, State

_STARTED = frozenset({"timer", "workqueue", "task_work"})
_SOCKS = frozenset({MapType.SOCKMAP, MapType.SOCKHASH})


def not_null(reg: Reg) -> Reg:
    """Return the register once it is known not to be null.

    A value of a map of maps is a map, of sockets a socket.
    """
    new = reg.copy()
    new.kind = reg.kind & ~MAYBE_NULL
    known = reg.map
    if new.kind == MAP_VALUE and known is not None:
        if known.inner is not None:
            new.kind = MAP_PTR
            new.map = known.inner
            new.uid = inner_uid(known.inner, reg.id)
        elif known.type == MapType.XSKMAP:
            new.kind = XDP_SOCK
        elif known.type in _SOCKS:
            new.kind = SOCKET
    return new


def inner_uid(inner: MapInfo, ident: int) -> int:
    """Return what tells a map in a map from others: only where its values hold what is started."""
    return ident if any(one.kind in _STARTED for one in inner.fields.values()) else 0


def mark_nulls(env: Env, state: State, tested: Reg, *, is_null: bool) -> None:
    """Replace all copies of a pointer that was tested: by 0 where it is null.

    A reference that it would have held is not held then.
    """
    ident, held = tested.id, tested.ref
    if held and held == ident and is_null:
        state.drop(held)
    del env
    keeps = bool(held) or (tested.map is not None and bool(tested.map.fields))

    def change(reg: Reg) -> Reg:
        if not reg.kind & MAYBE_NULL or reg.id != ident:
            return reg
        # What was moved before it was tested may be neither (only members of lists are moved so).
        if (reg.off or reg.val.const != 0) and not reg.kind & (NON_OWN_REF | ALLOC):
            return reg
        if is_null:
            return ZERO_REG
        new = not_null(reg)
        if not keeps:
            new.id = 0
        return new

    each_reg(state, change)
