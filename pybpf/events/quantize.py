"""The buckets of quantize(): index and argument type -> the values a bucket counts."""

from __future__ import annotations

from pybpf.types import Int, Type, strip


#   index    0      1      2      3     ...  bits - 1
#   values   0..1   2..3   4..7   8..15 ...  unsigned: the upper half; signed: all below zero
def bounds(index: int, t: Type) -> tuple[int, int]:
    """Return the (lowest, highest) value, both included, that bucket ``index`` counts."""
    base = strip(t)
    if isinstance(base, Int) and base.signed and index >= base.bits - 1:
        return -(1 << (base.bits - 1)), -1
    return (1 << index if index else 0), (2 << index) - 1
