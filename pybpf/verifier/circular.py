"""Circular ranges: arcs of the integers modulo a power of two in; arcs, or bounds, out.

An arc is a tuple ``(base, size)``: the values from ``base`` to ``base + size``, which may pass from
the greatest one to 0, so that one arc is at once an unsigned and a signed range. ``full`` is the
greatest value of the width. The arc of all values is ``(0, full)``, that of none ``(full, full)``.
Kernels since 7.2 keep scalars in this form. Facts: kernel/bpf/cnum.c and cnum_defs.h. Nothing
raises.
"""

from __future__ import annotations

Arc = tuple[int, int]


def from_unsigned(low: int, high: int, full: int) -> Arc:
    """Return the arc from one unsigned value up to another."""
    return (low, high - low & full)


def from_signed(low: int, high: int, full: int) -> Arc:
    """Return the arc from one signed value up to another."""
    size = high - low & full
    return (0 if size == full else low & full, size)


def from_bits(value: int, mask: int, full: int) -> Arc:
    """Return the arc around the members of a tristate number."""
    sign = (full >> 1) + 1
    if (value | mask) & sign:
        low, high = value | mask & sign, value | mask & ~sign
        return from_signed((low ^ sign) - sign, (high ^ sign) - sign, full)
    return (value, mask)


def unsigned(arc: Arc, full: int) -> tuple[int, int]:
    """Return the least and the greatest value, read as unsigned."""
    base, size = arc
    return (0, full) if size > full - base else (base, base + size)


def signed(arc: Arc, full: int) -> tuple[int, int]:
    """Return the least and the greatest value, read as signed."""
    sign = (full >> 1) + 1
    if contains(arc, sign - 1, full) and contains(arc, sign, full):
        return (-sign, sign - 1)
    low = (arc[0] ^ sign) - sign
    high = ((arc[0] + arc[1] & full) ^ sign) - sign
    return (low, high) if low <= high else (high, low)


def contains(arc: Arc, value: int, full: int) -> bool:
    """Return whether a value lies on the arc."""
    return arc != (full, full) and (value - arc[0] & full) <= arc[1]


def is_subset(outer: Arc, inner: Arc, full: int) -> bool:
    """Return whether every value of ``inner`` is one of ``outer``."""
    if inner == (full, full):
        return True
    if outer == (full, full):
        return False
    start = inner[0] - outer[0] & full
    if inner[1] > full - start and outer[1] < full:
        return False
    return (start + inner[1] & full) <= outer[1]


def intersect(a: Arc, b: Arc, full: int) -> Arc:
    """Return the common values; of two arcs that meet at both ends, the smaller one."""
    if a == (full, full) or b == (full, full):
        return (full, full)
    if a[0] > b[0]:
        a, b = b, a
    distance = b[0] - a[0]
    if b[1] > full - distance:  # b reaches beyond where a begins
        if distance <= a[1]:
            return a if a[1] <= b[1] else b
        return (a[0], min(a[1], distance + b[1] & full))
    if a[1] >= distance:
        return (b[0], min(a[1] - distance, b[1]))
    return (full, full)


def _normal(base: int, size: int, full: int) -> Arc:
    """Return an arc of all values in its usual form."""
    if size == full and base not in {0, full >> 1}:
        base = 0
    return (base, size)


def add(a: Arc, b: Arc, full: int) -> Arc:
    """Return the arc of the sums."""
    if a == (full, full) or b == (full, full):
        return (full, full)
    if a[1] > full - b[1]:
        return (0, full)
    return _normal(a[0] + b[0] & full, a[1] + b[1], full)


def negate(a: Arc, full: int) -> Arc:
    """Return the arc of the negated values."""
    if a == (full, full):
        return a
    return _normal(-(a[0] + a[1]) & full, a[1], full)


def low_half(arc: Arc, full: int, low: int) -> Arc:
    """Return the arc of the low halves, whose greatest value is ``low``."""
    if arc == (full, full):
        return (low, low)
    if arc[1] >= low:
        return (0, low)
    return (arc[0] & low, arc[1])


def intersect_low(a: Arc, b: Arc, full: int, low: int) -> Arc:
    """Return the smallest arc around those values of ``a`` whose low half lies on ``b``.

    Seen from where ``a`` begins, ``b`` is repeated every ``low + 1`` values; both ends of ``a``
    move inwards to the next repetition.
    """
    empty = (full, full)
    if a == empty or b == (low, low):
        return empty
    start = b[0] - a[0] & low
    rest = a[1] & low
    if b[1] > low - start:  # a begins within a repetition of b
        stop = start + b[1] & low
        return (a[0], a[1] - (rest - stop)) if stop < rest < start else a
    if a[1] < start:
        return empty
    stop = start + b[1]
    if rest < start:
        excess = rest + low + 1 - stop
    elif rest >= stop:
        excess = rest - stop
    else:
        excess = 0
    if a[1] - start < excess:
        return empty
    return (a[0] + start & full, a[1] - start - excess)
