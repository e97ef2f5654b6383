"""Scalars as kernels since 7.2 keep them: known bits and two arcs in; the scalar made of them out.

A draft is a list: known bits (value, mask), the arc of the whole and the arc of the low half (see
`circular`). Facts: reg_bounds_sync and what it calls, coerce_*_to_size and the moves of
check_alu_op in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from typing import NamedTuple

from pybpf.isa.table import Effect
from pybpf.verifier import circular, tnum
from pybpf.verifier.circular import Arc
from pybpf.verifier.comparisons import Comparisons, extended_ends
from pybpf.verifier.scalar import Scalar


class Draft(NamedTuple):
    """Known bits, the arc of the whole and the arc of the low half, not yet deduced."""

    value: int
    mask: int
    whole: Arc
    half: Arc


class ArcBounds(Comparisons):
    """The part of the arithmetic of kernels since 7.2 that makes scalars of drafts."""

    __slots__ = ()

    def draft(self, a: Scalar) -> Draft:
        """Return the draft of what is known of a scalar."""
        arcs = a.arcs
        if arcs is not None:
            return Draft(a.value, a.mask, arcs[:2], arcs[2:])
        if a.const is not None:
            return Draft(a.const, 0, (a.const, 0), (a.const & self.low, 0))
        full, low = self.full, self.low
        return Draft(
            a.value,
            a.mask,
            circular.intersect(
                circular.from_unsigned(a.umin, a.umax, full),
                circular.from_signed(a.smin, a.smax, full),
                full,
            ),
            circular.intersect(
                circular.from_unsigned(a.umin32, a.umax32, low),
                circular.from_signed(a.smin32, a.smax32, low),
                low,
            ),
        )

    def scalar(self, d: Draft) -> Scalar:
        """Return a draft as a scalar, with the bounds that its arcs mean."""
        value, mask, whole, half = d
        if not mask and whole == (value, 0) and half == (value & self.low, 0):
            return self.constant(value)
        full, low = self.full, self.low
        if mask == full and whole == (0, full) and half == (0, low):
            return self.unknown
        result = Scalar(
            value,
            mask,
            *circular.unsigned(whole, full),
            *circular.signed(whole, full),
            *circular.unsigned(half, low),
            *circular.signed(half, low),
        )
        result.arcs = (*whole, *half)
        return result

    def _empty(self, d: Draft) -> bool:
        """Return whether no value is left."""
        return d.whole == (self.full, self.full) or d.half == (self.low, self.low)

    def deduce(self, d: Draft) -> Draft:
        """Return a draft after the kernel's deductions."""
        if self._empty(d):
            return d
        full, low = self.full, self.low
        value, mask, whole, half = self._update(*d)
        for _ in range(2):
            half = circular.intersect(half, circular.low_half(whole, full, low), low)
            whole = circular.intersect_low(whole, half, full, low)
        value, mask = tnum.intersect(
            (value, mask), tnum.make_range(*circular.unsigned(whole, full))
        )
        bits = tnum.intersect(
            (value & low, mask & low), tnum.make_range(*circular.unsigned(half, low))
        )
        return self._update(value & ~low | bits[0], mask & ~low | bits[1], whole, half)

    def _update(self, value: int, mask: int, whole: Arc, half: Arc) -> Draft:
        """Narrow arcs by the known bits, and find a value that alone satisfies both."""
        full, low = self.full, self.low
        half = circular.intersect(half, circular.from_bits(value & low, mask & low, low), low)
        whole = circular.intersect(whole, circular.from_bits(value, mask, full), full)
        least, most = circular.unsigned(whole, full)
        following = tnum.step((value, mask), least)
        if least & ~mask == value:
            if following <= most:
                return Draft(value, mask, whole, half)
            only = least
        elif following == value | mask or (following <= most < tnum.step((value, mask), following)):
            only = following
        else:
            return Draft(value, mask, whole, half)
        return Draft(only, 0, (only, 0), (only & low, 0))

    def settle(self, d: Draft) -> Scalar:
        """Return the scalar of a draft, without bounds if what is known contradicts itself."""
        d = self.deduce(d)
        value, mask, whole, half = d
        if (
            self._empty(d)
            or (not mask and whole != (value, 0))
            or (not mask & self.low and half != (value & self.low, 0))
        ):
            d = Draft(value, mask, (0, self.full), (0, self.low))
        return self.scalar(d)

    def extended(self, d: Draft) -> Draft:
        """Return a draft of the low half, zero-extended."""
        low, high = circular.unsigned(d.half, self.low)
        return Draft(d.value & self.low, d.mask & self.low, (low, high - low), d.half)

    def zero_extend(self, a: Scalar) -> Scalar:
        """Return the low half."""
        if a.const is not None:
            return self.constant(a.const & self.low)
        return self.settle(self.extended(self.draft(a)))

    def truncate(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits."""
        return self.settle(self._truncated(width, self.draft(a)))

    def _truncated(self, width: int, d: Draft) -> Draft:
        keep = (1 << width) - 1
        low, high = circular.unsigned(d.whole, self.full)
        whole = (low & keep, high - low) if low & ~keep == high & ~keep else (0, keep)
        half = d.half if width >= self.sub else (0, self.low)
        return self.deduce(Draft(d.value & keep, d.mask & keep, whole, half))

    def extend(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits, sign-extended."""
        sign = 1 << (width - 1)
        if a.const is not None:
            return self.constant(((a.const & (2 * sign - 1)) ^ sign) - sign)
        full, half = self.full, self.low
        low, high, bits = -sign, sign - 1, (0, full)
        ends = extended_ends(width, a.smin, a.smax)
        if ends is not None:
            low, high = ends
            bits = tnum.make_range(low & full, high & full)
        return self.scalar(
            Draft(
                *bits, circular.from_signed(low, high, full), circular.from_signed(low, high, half)
            )
        )

    def _extend_low(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits, sign-extended to the low half, whose whole is 0 above."""
        sign = 1 << (width - 1)
        if a.const is not None:
            value = ((a.const & (2 * sign - 1)) ^ sign) - sign
            return self.constant(value & self.low)
        half = self.low
        low, high, bits = -sign, sign - 1, (0, half)
        ends = extended_ends(width, a.smin32 & half, a.smax32 & half)
        if ends is not None:
            low, high = ends
            bits = tnum.make_range(low & half, high & half)
        arc = circular.from_signed(low, high, half)
        return self.settle(self.extended(Draft(*bits, (0, self.full), arc)))

    def swap(self, effect: Effect, width: int, a: Scalar) -> Scalar:
        """Return ``a`` after a byte swap, or a truncation to the same width, of ``width`` bits."""
        d = self.draft(a)
        if effect is not Effect.TO_LE:
            bits = tnum.swap((a.value, a.mask), width)
            d = Draft(*bits, (0, self.full), (0, self.low))
        if width < self.bits:
            d = self._truncated(width, d)
        return self.settle(d)

    def clamp(self, a: Scalar, low: int, high: int) -> Scalar:
        """Return ``a``, known to be in a signed range that fits the low half."""
        first, last = max(a.smin, low), min(a.smax, high)
        first32, last32 = max(a.smin32, low), min(a.smax32, high)
        return self.settle(
            Draft(
                a.value,
                a.mask,
                circular.from_signed(first, last, self.full),
                circular.from_signed(first32, last32, self.low),
            )
        )

    def within(self, outer: Scalar, inner: Scalar) -> bool:
        """Return whether every value of ``inner`` is one of ``outer`` by arcs and by bits."""
        if outer is inner:
            return True
        a, b = self.draft(outer), self.draft(inner)
        return (
            circular.is_subset(a.whole, b.whole, self.full)
            and circular.is_subset(a.half, b.half, self.low)
            and tnum.within((a.value, a.mask), (b.value, b.mask))
        )
