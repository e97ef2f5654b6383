"""Values of maps behind a pointer: an access in; what a load makes of a register out.

Source: check_map_access_type, check_map_access and bpf_map_direct_read in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.abi import MapFlag, MapType
from pybpf.verifier.env import Env
from pybpf.verifier.kptrs import access_pointer, check_overlap
from pybpf.verifier.owned import word_of
from pybpf.verifier.program import MapInfo
from pybpf.verifier.records import POINTERS
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import UNKNOWN_REG, Reg, State, known_reg


def may_write(known: MapInfo) -> bool:
    """Whether programs may write into the map."""
    return not known.flags & MapFlag.RDONLY_PROG


def may_read(known: MapInfo) -> bool:
    """Whether programs may read the map."""
    return not known.flags & MapFlag.WRONLY_PROG


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
    env: Env, number: int, reg: Reg, off: int, size: int, *, zero_ok: bool = False,
    direct: bool = False,
) -> None:  # fmt: skip
    """Raise Refusal where a value is left, or a special member of it touched.

    ``direct``: by a load or a store of the program, which may be of a whole pointer.
    """
    from pybpf.verifier.access import check_region_access

    known = reg.map
    assert known is not None
    check_region_access(env, number, reg, off, size, known.value_size, zero_ok=zero_ok)
    if known.fields:
        _check_fields(env, known, reg, off, size, direct=direct)


def _check_fields(env: Env, known: MapInfo, reg: Reg, off: int, size: int, *, direct: bool) -> None:
    """Raise Refusal where an access may touch a special member, but for a pointer as a whole."""
    low, high = off + reg.val.smin, off + reg.val.umax + size
    for start, field in known.fields.items():
        if low < start + field.size and start < high:
            word = word_of(env, field)
            if field.kind not in POINTERS:
                raise Refusal(f"{word} cannot be accessed directly by load/store", errno=EACCES)
            if not direct:
                raise Refusal(f"{word} cannot be accessed indirectly by helper", errno=EACCES)
            check_overlap(env, reg, off, size, start, field)


def access_value(
    env: Env, state: State, number: int, reg: Reg, off: int, size: int, *, write: bool,
    value: int | None,
) -> Reg:  # fmt: skip
    """Check a load or store; return what a load leaves in its register.

    ``value``: the register that is filled or stored, None for none.
    """
    known = reg.map
    assert known is not None
    check_rights(known, off, size, write=write)
    check_value(env, number, reg, off, size, direct=True)
    if reg.val.const is not None and known.fields:
        field = known.fields.get(off + reg.val.smin)
        if field is not None and field.kind in POINTERS:
            return access_pointer(env, state, off + reg.val.smin, field, write=write, value=value)
    if write or value is None or reg.val.const is None:
        return UNKNOWN_REG
    constant = known.frozen and known.type == MapType.ARRAY and not may_write(known)
    if known.contents is not None and constant:
        at = off + reg.val.smin
        return known_reg(int.from_bytes(known.contents[at : at + size], "little"))
    return UNKNOWN_REG
