"""How precisely a kernel tracks scalars: its version in; a record of switches out.

The verifier's arithmetic has been refined in nearly every release, and a program may load only
because of one of the refinements. Each field names one, the release that brought it stands beside
it, and `precision_of` turns a version into the record. Facts: kernel/bpf/verifier.c and tnum.c of
the releases named, and, for what Debian's kernels carry from later ones, their logs.
"""

from __future__ import annotations

from typing import Any

from pybpf.dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Precision:
    """What a kernel can conclude about scalars; the defaults are those of the oldest, 5.10.

    ``rounds`` is how often bounds are deduced from each other. A comment names the release that
    made a switch true.
    """

    rounds: int = 1
    one_sum: bool = False  # 5.14: tnum.mul instead of tnum.mul_sums
    unknown_operands: bool = False  # 6.10: mul, or, xor without a known operand
    cast_signed: bool = False  # 6.10: signed bounds of and, or, xor are the unsigned ones, cast
    equal_ranges: bool = False  # 6.4: == and != are decided by 64-bit unsigned ranges
    const_left: bool = False  # 6.4: a comparison is also decided when its left side is known
    modern: bool = False  # 6.8: one deduction for all pairs of bounds, comparisons of ranges
    extended_loads: bool = False  # 6.10: 64-bit bounds of a non-negative, sign-extended low half
    signed_products: bool = False  # 6.14: products of signed bounds
    overflow: bool = False  # 6.17: sums and differences that all wrap around keep their bounds
    crossing: bool = False  # 6.17: 64-bit signed and unsigned ranges that meet on one side
    crossing32: bool = False  # 7.0: the same for the low half
    forget_unset: bool = False  # 6.17: "no bit is set" forgets the ranges
    long_products: bool = False  # 6.18: tnum.mul_long instead of tnum.mul
    disjoint_bits: bool = False  # 6.18: == and != are decided by known bits
    negation: bool = False  # 6.18: neg is tracked
    same_register: bool = False  # 6.19: a register compared with itself
    signed_shift: bool = False  # 6.19, 6.1.y: << 32 keeps the signed bounds of the low half
    fork_masks: bool = False  # 6.19: [-1, 0] is split in two states before and, or with a constant
    division: bool = False  # 7.0: division and modulo by a constant
    single_member: bool = False  # 7.0: one value in both the range and the known bits is the value
    swaps: bool = False  # 7.0: byte swaps keep their known bits
    linked_sync: bool = False  # 7.0: bounds of linked registers are deduced from each other
    simulate: bool = False  # 7.1: a branch whose refinement leaves no value is not taken
    arcs: bool = False  # 7.2: one circular range for each width instead of a signed and an unsigned


_BY_RELEASE: tuple[tuple[tuple[int, int], dict[str, Any]], ...] = (
    ((5, 14), {"one_sum": True}),
    ((6, 4), {"equal_ranges": True, "const_left": True}),
    ((6, 8), {"modern": True, "rounds": 2}),
    ((6, 10), {"unknown_operands": True, "cast_signed": True, "extended_loads": True}),
    ((6, 14), {"signed_products": True}),
    ((6, 17), {"overflow": True, "crossing": True, "forget_unset": True}),
    ((6, 18), {"rounds": 3, "long_products": True, "disjoint_bits": True, "negation": True}),
    ((6, 19), {"same_register": True, "signed_shift": True, "fork_masks": True}),
    (
        (7, 0),
        {
            "crossing32": True,
            "division": True,
            "single_member": True,
            "swaps": True,
            "linked_sync": True,
        },
    ),
    ((7, 1), {"simulate": True}),
    ((7, 2), {"arcs": True}),
)

# What the stable releases of a long-term kernel got from later ones.
_BACKPORTED: dict[tuple[int, int], dict[str, Any]] = {
    (6, 1): {"signed_shift": True},
    (6, 6): {"signed_shift": True},
    (6, 12): {
        "crossing": True,
        "crossing32": True,
        "disjoint_bits": True,
        "fork_masks": True,
        "signed_shift": True,
    },
    (6, 18): {"crossing32": True, "fork_masks": True, "signed_shift": True},
}


def precision_of(version: tuple[int, int]) -> Precision:
    """Return the record of a release, as ``(6, 12)``: of the last of its stable releases."""
    changes: dict[str, Any] = {}
    for release, switches in _BY_RELEASE:
        if version >= release:
            changes.update(switches)
    changes.update(_BACKPORTED.get(version, {}))
    return replace(Precision(), **changes)
