"""Tristate numbers: what is known of the bits of values in; what is known of a result's bits out.

A tristate number (the kernel's "tnum") is a tuple ``(value, mask)`` of unsigned integers: a bit set
in ``mask`` is unknown, any other is that of ``value``, so ``value & mask`` is 0. It stands for all
``x`` with ``x & ~mask == value``. Every operation is sound: its result holds every value that the
operation can give for members of its operands. ``const``, ``make_range``, ``union``, bitwise
operations, shifts by a known amount, ``add``, ``sub`` and ``neg`` are exact (no smaller tristate
number would do); the three kinds of ``mul`` are not.

Functions that can carry into a bit beyond the width take ``full``, the mask of the width, which
is 64 bits unless told otherwise. Facts: kernel/bpf/tnum.c. Kernels up to 5.13 multiply as
``mul_sums`` does, up to 6.17 as ``mul``, later ones as ``mul_long``; ``union`` and ``overlap`` came
with 6.18, ``swap`` and ``step`` with 7.0. Nothing raises.
"""

from __future__ import annotations

Tnum = tuple[int, int]

U64 = 0xFFFFFFFFFFFFFFFF
UNKNOWN: Tnum = (0, U64)


def const(value: int) -> Tnum:
    """Return the number whose one member is ``value``."""
    return (value, 0)


def unknown(full: int = U64) -> Tnum:
    """Return the number that holds every value of the width."""
    return (0, full)


def make_range(low: int, high: int) -> Tnum:
    """Return the smallest number that holds both bounds; it also holds all values between them."""
    delta = (1 << (low ^ high).bit_length()) - 1
    return (low & ~delta, delta)


def is_const(a: Tnum) -> bool:
    """Return whether every bit is known."""
    return not a[1]


def contains(a: Tnum, value: int) -> bool:
    """Return whether ``value`` is a member of ``a``."""
    return value & ~a[1] == a[0]


def add(a: Tnum, b: Tnum, full: int = U64) -> Tnum:
    """Return the sums."""
    low = a[0] + b[0]
    mask = ((low + a[1] + b[1]) ^ low | a[1] | b[1]) & full
    return (low & full & ~mask, mask)


def sub(a: Tnum, b: Tnum, full: int = U64) -> Tnum:
    """Return the differences."""
    middle = a[0] - b[0]
    mask = ((middle + a[1]) ^ (middle - b[1]) | a[1] | b[1]) & full
    return (middle & full & ~mask, mask)


def neg(a: Tnum, full: int = U64) -> Tnum:
    """Return the negated values."""
    return sub((0, 0), a, full)


def and_(a: Tnum, b: Tnum) -> Tnum:
    """Return the bitwise conjunctions."""
    value = a[0] & b[0]
    return (value, (a[0] | a[1]) & (b[0] | b[1]) & ~value)


def or_(a: Tnum, b: Tnum) -> Tnum:
    """Return the bitwise disjunctions."""
    value = a[0] | b[0]
    return (value, (a[1] | b[1]) & ~value)


def xor(a: Tnum, b: Tnum) -> Tnum:
    """Return the exclusive disjunctions."""
    mask = a[1] | b[1]
    return ((a[0] ^ b[0]) & ~mask, mask)


def lsh(a: Tnum, shift: int, full: int = U64) -> Tnum:
    """Return the values shifted to the left."""
    return (a[0] << shift & full, a[1] << shift & full)


def rsh(a: Tnum, shift: int) -> Tnum:
    """Return the values shifted to the right, zeros coming in."""
    return (a[0] >> shift, a[1] >> shift)


def arsh(a: Tnum, shift: int, full: int = U64) -> Tnum:
    """Return the values shifted to the right, copies of the sign bit coming in."""
    sign = (full >> 1) + 1
    value = ((a[0] ^ sign) - sign) >> shift
    mask = ((a[1] ^ sign) - sign) >> shift
    return (value & full, mask & full)


def mul_sums(a: Tnum, b: Tnum, full: int = U64) -> Tnum:
    """Return the products as kernels before 5.14 see them: sums over unknown bits."""
    total = (a[0] * b[0] & full, 0)
    total = _add_multiples(total, a[1], b[0] | b[1], full)
    return _add_multiples(total, b[1], a[0], full)


def _add_multiples(total: Tnum, bits: int, unknown_bits: int, full: int) -> Tnum:
    """Return ``total`` plus, for each bit of ``bits``, a shifted number of those unknown bits."""
    while bits:
        low = bits & -bits
        total = add(total, (0, unknown_bits * low & full), full)
        bits ^= low
    return total


def mul(a: Tnum, b: Tnum, full: int = U64) -> Tnum:
    """Return the products as kernels since 5.14 see them: known bits, then one unknown sum."""
    product = (a[0] * b[0] & full, 0)
    total = (0, 0)
    value, mask = a
    while value or mask:
        if value & 1:
            total = add(total, (0, b[1]), full)
        elif mask & 1:
            total = add(total, (0, b[0] | b[1]), full)
        value >>= 1
        mask >>= 1
        b = (b[0] << 1 & full, b[1] << 1 & full)
    return add(product, total, full)


def mul_long(a: Tnum, b: Tnum, full: int = U64) -> Tnum:
    """Return the products as kernels since 6.18 see them: long multiplication with ``union``."""
    total = (0, 0)
    value, mask = a
    while value or mask:
        if value & 1:
            total = add(total, b, full)
        elif mask & 1:
            total = union(total, add(total, b, full))
        value >>= 1
        mask >>= 1
        b = (b[0] << 1 & full, b[1] << 1 & full)
    return total


def overlap(a: Tnum, b: Tnum) -> bool:
    """Return whether the two may have a member in common."""
    return not (a[0] ^ b[0]) & ~(a[1] | b[1])


def intersect(a: Tnum, b: Tnum) -> Tnum:
    """Return the common members; a bit on which the two disagree is taken to be 1."""
    mask = a[1] & b[1]
    return ((a[0] | b[0]) & ~mask, mask)


def union(a: Tnum, b: Tnum) -> Tnum:
    """Return the smallest number that holds all members of both."""
    mask = a[0] ^ b[0] | a[1] | b[1]
    return (a[0] & b[0] & ~mask, mask)


def within(outer: Tnum, inner: Tnum) -> bool:
    """Return whether every member of ``inner`` is one of ``outer``."""
    return not inner[1] & ~outer[1] and inner[0] & ~outer[1] == outer[0]


def cast(a: Tnum, size: int) -> Tnum:
    """Return the low ``size`` bytes, zero-extended."""
    low = (1 << 8 * size) - 1
    return (a[0] & low, a[1] & low)


def subreg(a: Tnum, bits: int = 32) -> Tnum:
    """Return the low ``bits``, zero-extended."""
    low = (1 << bits) - 1
    return (a[0] & low, a[1] & low)


def clear_subreg(a: Tnum, bits: int = 32) -> Tnum:
    """Return ``a`` with its low ``bits`` known to be 0."""
    high = -1 << bits
    return (a[0] & high, a[1] & high)


def with_subreg(a: Tnum, low: Tnum, bits: int = 32) -> Tnum:
    """Return the high part of ``a`` and, as the low part, that of ``low``."""
    return or_(clear_subreg(a, bits), subreg(low, bits))


def const_subreg(a: Tnum, value: int, bits: int = 32) -> Tnum:
    """Return the high part of ``a`` over a known low part."""
    return with_subreg(a, (value, 0), bits)


def is_aligned(a: Tnum, size: int) -> bool:
    """Return whether all members are multiples of ``size``, a power of two; of 0, they all are."""
    return not size or not (a[0] | a[1]) & (size - 1)


def swap(a: Tnum, bits: int) -> Tnum:
    """Return the low 16, 32 or 64 bits with their bytes in reverse."""
    size = bits // 8
    low = (1 << bits) - 1
    return (
        int.from_bytes((a[0] & low).to_bytes(size, "little"), "big"),
        int.from_bytes((a[1] & low).to_bytes(size, "little"), "big"),
    )


def step(a: Tnum, after: int) -> int:
    """Return the smallest member greater than ``after``; the greatest member if none is."""
    value, mask = a
    if after >= value | mask:
        return value | mask
    if after < value:
        return value
    # Count upwards in the unknown bits alone: ones everywhere else pass a carry on, and ones below
    # the highest bit that `after` has outside of them round up.
    delta = after - value
    ones = (1 << (delta & ~mask).bit_length()) - 1
    return value | ((delta | ones | ~mask) + 1) & mask
