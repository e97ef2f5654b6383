"""What verifiers learnt when: the name of a set of instructions in, a release out.

A recorded profile holds what its kernel was seen to do; a documented one, and what no probe can
see, comes from these tables. Source: the sources of those releases; each release is that of the
first kernel, not of what was brought back to older stable series.
"""

from __future__ import annotations

from collections.abc import Mapping

Version = tuple[int, int]

INSTRUCTIONS: Mapping[str, Version] = {
    "v1": (3, 18),
    "ld_abs": (3, 19),
    "v2": (4, 14),  # jlt, jle, jslt, jsle
    "v3": (5, 1),  # 32-bit jumps
    "atomic_add": (3, 18),
    "atomic_fetch": (5, 12),  # fetch, or, and, xor, xchg, cmpxchg
    "call_local": (4, 16),
    "call_kfunc": (5, 13),
    "map_fd": (3, 18),
    "map_value": (5, 2),
    "btf_id": (5, 10),
    "func": (5, 13),
    "map_idx": (5, 14),
    "map_idx_value": (5, 14),
    "sdiv": (6, 6),
    "smod": (6, 6),
    "movsx": (6, 6),
    "ldsx": (6, 6),
    "bswap": (6, 6),
    "gotol": (6, 6),
    "may_goto": (6, 9),
    "addr_space_cast": (6, 9),
    "load_acquire": (6, 15),
    "store_release": (6, 15),
    "gotox": (6, 19),
    "tail_call_in_subprogram": (5, 10),
}
"""Instructions, and what lddw and calls may refer to."""


def known(version: Version) -> frozenset[str]:
    """Return the names of INSTRUCTIONS that a release knows."""
    return frozenset(name for name, since in INSTRUCTIONS.items() if since <= version)
