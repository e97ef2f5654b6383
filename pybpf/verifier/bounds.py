"""Bounds that inform each other: a draft of a scalar in; the scalar that a kernel makes of it out.

An operation first works out each kind of bound for itself; afterwards the kernel carries what one
kind knows over to the others (reg_bounds_sync). A draft is a list in the order of `Scalar`'s
constructor: known bits, then unsigned and signed bounds of the whole, then of the low half.
Kernels 6.1 to 7.1 keep scalars in this form; see `arcs` for later ones.
"""

from __future__ import annotations

from pybpf.verifier import tnum
from pybpf.verifier.comparisons import Comparisons
from pybpf.verifier.scalar import Scalar

Draft = list[int]

V, M, U0, U1, S0, S1, W0, W1, T0, T1 = range(10)


class Bounds(Comparisons):
    """The part of the arithmetic of kernels before 7.2 that makes scalars of drafts."""

    __slots__ = ()

    def sync(self, r: Draft) -> Scalar:
        """Return the scalar after the kernel's deductions."""
        p = self.precision
        if p.simulate and (r[U0] > r[U1] or r[S0] > r[S1] or r[W0] > r[W1] or r[T0] > r[T1]):
            return Scalar(*r)
        self._update(r)
        if p.modern:
            for _ in range(p.rounds):
                self._deduce_low(r)
                self._deduce_signs(r)
                self._deduce_whole(r)
        else:
            self._deduce_old(r, U0, self.sign, self.full)
            self._deduce_old(r, W0, self.sign32, self.low)
        self._bound_bits(r)
        self._update(r)
        return Scalar(*r)

    def settle(self, r: Draft) -> Scalar:
        """Return `sync` of a draft, without bounds if those contradict each other."""
        result = self.sync(r)
        if self.precision.modern and self._contradicts(result):
            none = self.unknown.bounds()
            return Scalar(result.value, result.mask, *none[U0:])
        return result

    def _contradicts(self, a: Scalar) -> bool:
        """Return whether the kernel would report a violation of its invariants."""
        if a.umin > a.umax or a.smin > a.smax or a.umin32 > a.umax32 or a.smin32 > a.smax32:
            return True
        value = a.value
        if not a.mask and not (
            value == a.umin == a.umax and a.smin == a.smax == self._signed(value)
        ):
            return True
        low = value & self.low
        return not a.mask & self.low and not (
            low == a.umin32 == a.umax32 and a.smin32 == a.smax32 == self._signed32(low)
        )

    def _update_low(self, r: Draft) -> None:
        """Take bounds of the low half from the known bits."""
        sign = self.sign32
        value, mask = r[V] & self.low, r[M] & self.low
        top = value | mask
        r[W0] = max(r[W0], value)
        r[W1] = min(r[W1], top)
        least = ((value | mask & sign) ^ sign) - sign
        r[T0] = max(r[T0], least)
        most = ((value | mask & ~sign) ^ sign) - sign
        r[T1] = min(r[T1], most)

    def _update(self, r: Draft) -> None:
        """Take bounds from the known bits."""
        self._update_low(r)
        sign = self.sign
        value, mask = r[V], r[M]
        r[U0] = max(r[U0], value)
        r[U1] = min(r[U1], value | mask)
        least = ((value | mask & sign) ^ sign) - sign
        r[S0] = max(r[S0], least)
        most = ((value | mask & ~sign) ^ sign) - sign
        r[S1] = min(r[S1], most)
        if self.precision.single_member:
            self._find_single(r)

    def _find_single(self, r: Draft) -> None:
        """Make a constant of a range that contains one member of the known bits only."""
        value, mask, low, high = r[V], r[M], r[U0], r[U1]
        following = tnum.step((value, mask), low)
        if low & ~mask == value:
            if following <= high:
                return
            only = low
        elif following == value | mask or (
            following <= high and tnum.step((value, mask), following) > high
        ):
            only = following
        else:
            return
        r[:] = self.constant(only).bounds()

    def _narrow_low(self, r: Draft, low: int, high: int) -> None:
        """Intersect the signed range of the low half with the one between two low halves."""
        low, high = self._signed32(low), self._signed32(high)
        if low <= high:
            r[T0] = max(r[T0], low)
            r[T1] = min(r[T1], high)

    def _deduce_low(self, r: Draft) -> None:
        """Narrow the bounds of the low half by those of the whole, then by each other."""
        half, mask, sign = self.sub, self.low, self.sign32
        top = (1 << (self.bits - half)) - 1
        for first in (U0, S0):
            begin, end = r[first], r[first + 1]
            low, high = begin & mask, end & mask
            if begin >> half == end >> half:
                if low <= high:
                    r[W0] = max(r[W0], low)
                    r[W1] = min(r[W1], high)
                self._narrow_low(r, low, high)
        for first in (U0, S0):
            begin, end = r[first], r[first + 1]
            if ((begin >> half) + 1 - (end >> half)) & top == 0:
                low, high = begin & mask, end & mask
                if low & sign and not high & sign:
                    self._narrow_low(r, low, high)
        self._narrow_low(r, r[W0], r[W1])
        low, high = r[T0] & mask, r[T1] & mask
        if low <= high:
            r[W0] = max(r[W0], low)
            r[W1] = min(r[W1], high)
        elif self.precision.crossing32:
            if r[W1] < low:
                r[T0] = self._signed32(r[W0])
                r[W1] = min(r[W1], high)
            elif high < r[W0]:
                r[T1] = self._signed32(r[W1])
                r[W0] = max(r[W0], low)

    def _deduce_signs(self, r: Draft) -> None:
        """Narrow the signed and unsigned bounds of the whole by each other."""
        low, high = self._signed(r[U0]), self._signed(r[U1])
        if low <= high:
            r[S0] = max(r[S0], low)
            r[S1] = min(r[S1], high)
        low, high = r[S0] & self.full, r[S1] & self.full
        if low <= high:
            r[U0] = max(r[U0], low)
            r[U1] = min(r[U1], high)
        elif self.precision.crossing:
            if r[U1] < low:
                r[S0] = self._signed(r[U0])
                r[U1] = min(r[U1], high)
            elif high < r[U0]:
                r[S1] = self._signed(r[U1])
                r[U0] = max(r[U0], low)

    def _deduce_whole(self, r: Draft) -> None:
        """Narrow the bounds of the whole by those of the low half."""
        high = ~self.low
        low0, low1 = r[W0], r[W1]
        r[U0] = max(r[U0], r[U0] & high | low0)
        r[U1] = min(r[U1], r[U1] & high | low1)
        r[S0] = max(r[S0], r[S0] & high | low0)
        r[S1] = min(r[S1], r[S1] & high | low1)
        sign = self.sign32
        if self.precision.extended_loads and r[T0] >= 0 and r[S0] >= -sign and r[S1] < sign:
            r[S0] = r[U0] = r[T0]
            r[S1] = r[U1] = r[T1]
            r[V], r[M] = tnum.intersect(
                (r[V], r[M]), tnum.make_range(r[S0] & self.full, r[S1] & self.full)
            )

    def _deduce_old(self, r: Draft, first: int, sign: int, full: int) -> None:
        """Narrow signed and unsigned bounds of one width by each other, as before 6.8."""
        low, high, smin, smax = r[first : first + 4]
        if smin >= 0 or smax < 0:
            low, high = max(low, smin & full), min(high, smax & full)
            smin, smax = low, high
        elif high < sign:
            smin = low
            smax = high = min(high, smax & full)
        elif low >= sign:
            smin = low = max(low, smin & full)
            smax = high
        else:
            return
        r[first : first + 4] = low, high, (smin ^ sign) - sign, (smax ^ sign) - sign

    def _bound_bits(self, r: Draft) -> None:
        """Learn bits that all values between the unsigned bounds have in common."""
        value, mask = tnum.intersect((r[V], r[M]), tnum.make_range(r[U0], r[U1]))
        half = self.low
        low = tnum.intersect((value & half, mask & half), tnum.make_range(r[W0], r[W1]))
        r[V], r[M] = value & ~half | low[0], mask & ~half | low[1]

    def _forget(self, r: Draft, first: int) -> None:
        """Forget the four bounds of a width: U0 for the whole, W0 for the low half."""
        r[first : first + 4] = self.unknown.bounds()[first : first + 4]

    def _zero_extend(self, r: Draft) -> None:
        """Take the whole from the low half, whose upper bits are 0."""
        r[V] &= self.low
        r[M] &= self.low
        r[U0], r[U1] = r[W0], r[W1]
        if r[T0] >= 0 and r[T1] >= 0:
            r[S0], r[S1] = r[T0], r[T1]
        else:
            r[S0], r[S1] = 0, self.low
