"""Bounds of quotients and remainders by a known divisor: bounds in; bounds, or no change, out.

A remainder that does not change its dividend leaves everything known of that in place: None.
Divisors are not 0. Facts: scalar_min_max_udiv, sdiv, umod and smod in kernel/bpf/verifier.c.
"""

from __future__ import annotations


def divide_unsigned(low: int, high: int, divisor: int) -> tuple[int, int]:
    """Return the bounds of unsigned quotients."""
    return low // divisor, high // divisor


def modulo_unsigned(high: int, divisor: int) -> tuple[int, int] | None:
    """Return the bounds of unsigned remainders of dividends up to ``high``."""
    return None if high < divisor else (0, divisor - 1)


def divide_signed(low: int, high: int, divisor: int, sign: int) -> tuple[int, int]:
    """Return the bounds of signed quotients; the least value, ``-sign``, by -1 gives itself."""
    if low == -sign and divisor == -1:
        return (low, low) if high == low else (-sign, sign - 1)
    first, last = _quotient(low, divisor), _quotient(high, divisor)
    return min(first, last), max(first, last)


def _quotient(value: int, divisor: int) -> int:
    """Return the quotient rounded towards 0."""
    quotient = abs(value) // abs(divisor)
    return quotient if (value < 0) == (divisor < 0) else -quotient


def modulo_signed(low: int, high: int, divisor: int) -> tuple[int, int] | None:
    """Return the bounds of signed remainders, whose sign is that of the dividend."""
    most = abs(divisor) - 1
    if -most <= low and high <= most:
        return None
    if low >= 0:
        return 0, min(high, most)
    if high <= 0:
        return max(low, -most), 0
    return -most, most
