"""Values of maps behind a pointer: an access in; what a load makes of a register out.

Source: check_map_access_type, check_map_access and bpf_map_direct_read in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import MapType
from pybpf.verifier.env import Env
from pybpf.verifier.program import MapInfo
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import UNKNOWN_REG, Reg, State, known_reg

# BPF_F_RDONLY_PROG, BPF_F_WRONLY_PROG: what the flags of a map keep programs from.
_NO_WRITE, _NO_READ = 1 << 7, 1 << 8


def may_write(known: MapInfo) -> bool:
    """Whether programs may write into the map."""
    return not known.flags & _NO_WRITE


def may_read(known: MapInfo) -> bool:
    """Whether programs may read the map."""
    return not known.flags & _NO_READ


def check_rights(known: MapInfo, off: int, size: int, *, write: bool) -> None:
    """Raise Refusal where the map's flags forbid the access."""
    if write and not may_write(known):
        raise Refusal(
            f"write into map forbidden, value_size={known.value_size} off={off} size={size}",
            errno=EACCES,
        )
    if not write and not may_read(known):
        raise Refusal(
            f"read from map forbidden, value_size={known.value_size} off={off} size={size}",
            errno=EACCES,
        )


def check_value(
    env: Env, number: int, reg: Reg, off: int, size: int, *, zero_ok: bool = False
) -> None:
    """Raise Refusal where a value is left, or a special member of it touched."""
    from pybpf.verifier.access import check_region_access

    known = reg.map
    assert known is not None
    check_region_access(env, number, reg, off, size, known.value_size, zero_ok=zero_ok)
    if known.fields:
        _check_fields(known, reg, off, size)


_WORDS = {
    "spin_lock": "bpf_spin_lock", "res_spin_lock": "bpf_res_spin_lock", "timer": "bpf_timer",
    "workqueue": "bpf_wq", "task_work": "bpf_task_work",
}  # fmt: skip


def _check_fields(known: MapInfo, reg: Reg, off: int, size: int) -> None:
    """Raise Refusal where an access may touch a special member."""
    low, high = off + reg.val.smin, off + reg.val.umax + size
    for start, (kind, length) in known.fields.items():
        if low < start + length and start < high:
            word = _WORDS.get(kind)
            if word is None:
                raise Unmodelled(f"access to a {kind} in a map value")
            raise Refusal(f"{word} cannot be accessed directly by load/store", errno=EACCES)


def access_value(
    env: Env, state: State, number: int, reg: Reg, off: int, size: int, *, write: bool, loads: bool
) -> Reg:
    """Check a load or store; return what a load leaves in its register."""
    del state
    known = reg.map
    assert known is not None
    check_rights(known, off, size, write=write)
    check_value(env, number, reg, off, size)
    if write or not loads or reg.val.const is None:
        return UNKNOWN_REG
    if known.contents is not None and known.frozen and known.type == MapType.ARRAY and (
        known.flags & _NO_WRITE
    ):  # fmt: skip
        at = off + reg.val.smin
        return known_reg(int.from_bytes(known.contents[at : at + size], "little"))
    return UNKNOWN_REG
