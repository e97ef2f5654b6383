"""Narrowing, widening and moving as kernels before 7.2 do it: a scalar in; a scalar out.

Facts: coerce_reg_to_size, coerce_reg_to_size_sx, coerce_subreg_to_size_sx, scalar_byte_swap,
adjust_ptr_min_max_vals, sync_linked_regs and regsafe in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.isa.table import Effect
from pybpf.verifier import tnum
from pybpf.verifier.bounds import S0, S1, T0, T1, U0, U1, W0, W1, Bounds, M, V
from pybpf.verifier.comparisons import extended_ends
from pybpf.verifier.scalar import Scalar


class Conversions(Bounds):
    """What the arithmetic of kernels before 7.2 does beyond operations on two operands."""

    __slots__ = ()

    def zero_extend(self, a: Scalar) -> Scalar:
        """Return the low half."""
        if a.const is not None:
            return self.constant(a.const & self.low)
        r = list(a.bounds())
        self._zero_extend(r)
        return self.settle(r)

    def truncate(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits."""
        r = list(a.bounds())
        keep = (1 << width) - 1
        r[V] &= keep
        r[M] &= keep
        if r[U0] & ~keep == r[U1] & ~keep:
            r[U0] &= keep
            r[U1] &= keep
        else:
            r[U0], r[U1] = 0, keep
        r[S0], r[S1] = r[U0], r[U1]
        if self.precision.modern:
            if width < self.sub:
                self._forget(r, W0)
            return self.settle(r)
        if width >= self.sub:
            return Scalar(*r)
        self._low_from_whole(r)
        return self.sync(r)

    def _low_from_whole(self, r: list[int]) -> None:
        """Take the bounds of the low half from those of the whole where these fit, else forget."""
        self._forget(r, W0)
        # Where the kernel follows an impossible branch, a bound may lie beyond the other one.
        sign = self.sign32
        if -sign <= min(r[S0], r[S1]) and max(r[S0], r[S1]) < sign:
            r[T0], r[T1] = r[S0], r[S1]
        if max(r[U0], r[U1]) <= self.low:
            r[W0], r[W1] = r[U0], r[U1]

    def extend(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits, sign-extended."""
        sign = 1 << (width - 1)
        if a.const is not None:
            return self.constant(((a.const & (2 * sign - 1)) ^ sign) - sign)
        ends = extended_ends(width, a.smin, a.smax)
        if ends is not None:
            low, high = ends
            full, half = self.full, self.low
            bits = tnum.make_range(low & full, high & full)
            return Scalar(
                *bits, low & full, high & full, low, high, low & half, high & half, low, high
            )
        none = self.unknown
        return Scalar(
            0, self.full, none.umin, none.umax, -sign, sign - 1,
            none.umin32, none.umax32, -sign, sign - 1,
        )  # fmt: skip

    def _extend_low(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits, sign-extended to the low half, whose whole is 0 above."""
        sign = 1 << (width - 1)
        if a.const is not None:
            value = ((a.const & (2 * sign - 1)) ^ sign) - sign
            return self.constant(value & self.low)
        r = list(self.unknown.bounds())
        r[M] = self.low
        r[T0], r[T1] = -sign, sign - 1
        half = self.low
        ends = extended_ends(width, a.smin32 & half, a.smax32 & half)
        if ends is not None:
            low, high = ends
            r[V], r[M] = tnum.make_range(low & half, high & half)
            r[W0], r[W1], r[T0], r[T1] = low & half, high & half, low, high
        self._zero_extend(r)
        return self.settle(r)

    def swap(self, effect: Effect, width: int, a: Scalar) -> Scalar:
        """Return ``a`` after a byte swap, or a truncation to the same width, of ``width`` bits."""
        if not self.precision.swaps:
            return self.unknown
        if effect is Effect.TO_LE:
            return a if width == self.bits else self.settle(list(self.truncate(width, a).bounds()))
        r = list(self.unknown.bounds())
        r[V], r[M] = tnum.swap((a.value, a.mask), width)
        swapped = Scalar(*r)
        if width < self.bits:
            swapped = self.truncate(width, swapped)
        return self.settle(list(swapped.bounds()))

    def pointer_add(self, a: Scalar, b: Scalar) -> Scalar:
        """Return the variable part of a pointer after adding a scalar; its low half is unknown."""
        return self._moved(
            tnum.add((a.value, a.mask), (b.value, b.mask), self.full),
            (a.umin + b.umin, a.umax + b.umax),
            (a.smin + b.smin, a.smax + b.smax),
        )

    def pointer_sub(self, a: Scalar, b: Scalar) -> Scalar:
        """Return the variable part of a pointer after subtracting a scalar."""
        return self._moved(
            tnum.sub((a.value, a.mask), (b.value, b.mask), self.full),
            (a.umin - b.umax, a.umax - b.umin),
            (a.smin - b.smax, a.smax - b.smin),
        )

    def _moved(
        self, bits: tuple[int, int], unsigned: tuple[int, int], signed: tuple[int, int]
    ) -> Scalar:
        r = list(self.unknown.bounds())
        r[V], r[M] = bits
        if unsigned[0] >= 0 and unsigned[1] <= self.full:
            r[U0], r[U1] = unsigned
        if signed[0] >= -self.sign and signed[1] < self.sign:
            r[S0], r[S1] = signed
        return self.sync(r)

    def clamp(self, a: Scalar, low: int, high: int) -> Scalar:
        """Return ``a``, known to be in a signed range that fits the low half."""
        r = list(a.bounds())
        r[S0], r[S1] = max(r[S0], low), min(r[S1], high)
        r[T0], r[T1] = max(r[T0], low), min(r[T1], high)
        return self.settle(r)

    def within(self, outer: Scalar, inner: Scalar) -> bool:
        """Return whether every value of ``inner`` is one of ``outer`` by bounds and by bits."""
        return outer is inner or (
            outer.umin <= inner.umin
            and outer.umax >= inner.umax
            and outer.smin <= inner.smin
            and outer.smax >= inner.smax
            and outer.umin32 <= inner.umin32
            and outer.umax32 >= inner.umax32
            and outer.smin32 <= inner.smin32
            and outer.smax32 >= inner.smax32
            and tnum.within((outer.value, outer.mask), (inner.value, inner.mask))
        )

    def _with_low(self, a: Scalar, low: int) -> Scalar:
        """Return ``a`` with a known low half."""
        r = list(a.bounds())
        r[V], r[M] = tnum.const_subreg((a.value, a.mask), low, self.sub)
        r[W0] = r[W1] = low
        r[T0] = r[T1] = self._signed32(low)
        return Scalar(*r)
