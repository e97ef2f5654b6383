"""Arithmetic on bounds as kernels before 7.2 do it: two scalars in; what their result may be out.

Facts: scalar_min_max_*, adjust_scalar_min_max_vals and coerce_*_to_size in kernel/bpf/verifier.c.
"""

# A keyword costs a hot path more than it tells.
# ruff: noqa: FBT001

from __future__ import annotations

from collections.abc import Callable

from pybpf.isa.table import Effect
from pybpf.verifier import tnum
from pybpf.verifier.bounds import S0, S1, T0, T1, U0, U1, W0, W1, Draft, M, V
from pybpf.verifier.comparisons import SHIFTS
from pybpf.verifier.conditions import Conditions
from pybpf.verifier.division import divide_signed, divide_unsigned, modulo_signed, modulo_unsigned
from pybpf.verifier.precision import Precision
from pybpf.verifier.scalar import Scalar

# What kernels before 6.10 compute without a known second operand.
_ALWAYS = frozenset((Effect.ADD, Effect.SUB, Effect.AND))


class Ranges(Conditions):
    """The arithmetic of kernels before 7.2."""

    __slots__ = ("_handlers", "_multiply_bits")

    def __init__(self, precision: Precision, bits: int = 64, sub: int = 32) -> None:
        super().__init__(precision, bits, sub)
        self._multiply_bits = (
            tnum.mul_long
            if precision.long_products
            else tnum.mul
            if precision.one_sum
            else tnum.mul_sums
        )
        self._handlers: dict[Effect, Callable[[Scalar, Scalar], Draft]] = {
            Effect.ADD: self._add,
            Effect.SUB: self._sub,
            Effect.MUL: self._mul,
            Effect.AND: self._and,
            Effect.OR: self._or,
            Effect.XOR: self._xor,
        }

    def _computed(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Scalar:
        """Return the result of an operation that is neither a move nor one on constants."""
        handler = self._handlers.get(effect)
        if handler is not None:
            p = self.precision
            if not (p.unknown_operands or effect in _ALWAYS or self._known(b, is32=is32)):
                return self.unknown
            r = handler(a, b)
        elif effect in SHIFTS:
            return self._shifted(effect, is32, a, b)
        elif effect is Effect.NEG:
            if not self.precision.negation:
                return self.unknown
            r = self._sub(self.constant(0), a)
        else:
            return self._divided(effect, is32, a, b)
        if is32:
            self._zero_extend(r)
        return self.settle(r)

    def offset(self, a: Scalar, delta: int, is32: bool) -> Scalar:
        """Return ``a`` plus a constant, as for a register that is linked to it."""
        if a.const is not None:
            return self.constant(a.const + delta & (self.low if is32 else self.full))
        r = self._add(a, self.constant(delta))
        if is32:
            self._zero_extend(r)
        return self.sync(r) if self.precision.linked_sync else Scalar(*r)

    def _lost(self, *, is32: bool) -> Scalar:
        """Return the result of an operation that is not tracked, its operand being known."""
        if is32 and not self.precision.unknown_operands:
            return self.zero_extend(self.unknown)
        return self.unknown

    # Sums, differences and products.

    def _add(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.add((a.value, a.mask), (b.value, b.mask), self.full)
        return [
            value,
            mask,
            *self._unsigned(a.umin + b.umin, a.umax + b.umax, self.full),
            *_signed(a.smin + b.smin, a.smax + b.smax, self.sign),
            *self._unsigned(a.umin32 + b.umin32, a.umax32 + b.umax32, self.low),
            *_signed(a.smin32 + b.smin32, a.smax32 + b.smax32, self.sign32),
        ]

    def _sub(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.sub((a.value, a.mask), (b.value, b.mask), self.full)
        return [
            value,
            mask,
            *self._unsigned(a.umin - b.umax, a.umax - b.umin, self.full),
            *_signed(a.smin - b.smax, a.smax - b.smin, self.sign),
            *self._unsigned(a.umin32 - b.umax32, a.umax32 - b.umin32, self.low),
            *_signed(a.smin32 - b.smax32, a.smax32 - b.smin32, self.sign32),
        ]

    def _unsigned(self, low: int, high: int, full: int) -> tuple[int, int]:
        """Return bounds modulo the width, or none if only some of the results wrap around."""
        if low >= 0 and high <= full:
            # On a branch that cannot be taken, the upper bound may be the lower one.
            return low, high & full
        if self.precision.overflow and (high < 0 or low > full):
            return low & full, high & full
        return 0, full

    def _mul(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = self._multiply_bits((a.value, a.mask), (b.value, b.mask), self.full)
        if self.precision.signed_products:
            bounds = _product(a.bounds()[U0:W0], b.bounds()[U0:W0], self.sign)
            low = _product(a.bounds()[W0:], b.bounds()[W0:], self.sign32)
        else:
            bounds = _old_product(a.bounds()[U0:W0], b.bounds()[U0:W0], self.bits)
            low = _old_product(a.bounds()[W0:], b.bounds()[W0:], self.sub)
        return [value, mask, *bounds, *low]

    # Bitwise operations.

    def _and(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.and_((a.value, a.mask), (b.value, b.mask))
        low = value & self.low
        return self._bitwise_draft(
            a, b, value, mask, (value, min(a.umax, b.umax)), (low, min(a.umax32, b.umax32))
        )

    def _or(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.or_((a.value, a.mask), (b.value, b.mask))
        low, top = max(a.umin32, b.umin32), (value | mask) & self.low
        return self._bitwise_draft(
            a, b, value, mask, (max(a.umin, b.umin), value | mask), (low, top)
        )

    def _xor(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.xor((a.value, a.mask), (b.value, b.mask))
        top = value | mask
        return self._bitwise_draft(
            a, b, value, mask, (value, top), (value & self.low, top & self.low)
        )

    def _bitwise_draft(
        self,
        a: Scalar,
        b: Scalar,
        value: int,
        mask: int,
        whole: tuple[int, int],
        low: tuple[int, int],
    ) -> Draft:
        """Return a draft whose signed bounds are the unsigned ones, where the kernel says so."""
        if not (a.mask | b.mask) & self.low:
            low = (value & self.low, value & self.low)
        cast = self.precision.cast_signed
        signed = (-self.sign, self.sign - 1)
        if cast or not (a.smin < 0 or b.smin < 0):
            first, last = self._signed(whole[0]), self._signed(whole[1])
            if first <= last or not cast:
                signed = (first, last)
        signed32 = (-self.sign32, self.sign32 - 1)
        if not (a.mask | b.mask) & self.low:
            signed32 = (self._signed32(low[0]), self._signed32(low[0]))
        elif cast or not (a.smin32 < 0 or b.smin32 < 0):
            first, last = self._signed32(low[0]), self._signed32(low[1])
            if first <= last or not cast:
                signed32 = (first, last)
        return [value, mask, *whole, *signed, *low, *signed32]

    # Shifts.

    def _shifted(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Scalar:
        if not self._known(b, is32=is32):
            return self.unknown
        if b.umax >= (self.sub if is32 else self.bits):
            return self._lost(is32=is32)
        shift = b.value
        if is32:
            r = self._shift_low(effect, a, shift)
            self._forget(r, U0)
            self._update_low(r)
            self._zero_extend(r)
        else:
            r = self._shift_whole(effect, a, shift)
        return self.settle(r)

    def _shift_low(self, effect: Effect, a: Scalar, shift: int) -> Draft:
        """Return the draft of a shift of the low half, without bounds of the whole."""
        value, mask = a.value & self.low, a.mask & self.low
        r = list(self.unknown.bounds())
        if effect is Effect.LSH:
            r[V], r[M] = tnum.lsh((value, mask), shift, self.low)
            if a.umax32 <= 1 << (self.sub - 1 - shift):
                r[W0], r[W1] = a.umin32 << shift, a.umax32 << shift
        elif effect is Effect.RSH:
            r[V], r[M] = value >> shift, mask >> shift
            r[W0], r[W1] = a.umin32 >> shift, a.umax32 >> shift
        else:
            r[V], r[M] = tnum.arsh((value, mask), shift, self.low)
            r[T0], r[T1] = a.smin32 >> shift, a.smax32 >> shift
        return r

    def _shift_whole(self, effect: Effect, a: Scalar, shift: int) -> Draft:
        """Return the draft of a 64-bit shift; the low half is known by its bits only."""
        r = list(self.unknown.bounds())
        if effect is Effect.RSH:
            r[V], r[M] = a.value >> shift, a.mask >> shift
            r[U0], r[U1] = a.umin >> shift, a.umax >> shift
        elif effect is Effect.ARSH:
            r[V], r[M] = tnum.arsh((a.value, a.mask), shift, self.full)
            r[S0], r[S1] = a.smin >> shift, a.smax >> shift
        else:
            r[V], r[M] = tnum.lsh((a.value, a.mask), shift, self.full)
            # A shift by 32 starts a sign extension: the low half moves up with its sign.
            if shift == self.bits - self.sub:
                if a.smax32 >= 0 or self.precision.signed_shift:
                    r[S1] = a.smax32 << shift
                if a.smin32 >= 0 or self.precision.signed_shift:
                    r[S0] = a.smin32 << shift
            if a.umax <= 1 << (self.bits - 1 - shift):
                r[U0], r[U1] = a.umin << shift, a.umax << shift
            if shift < self.sub and a.umax32 <= 1 << (self.sub - 1 - shift):
                r[W0], r[W1] = a.umin32 << shift, a.umax32 << shift
        return r

    # Division.

    def _divided(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Scalar:
        if not self._known(b, is32=is32):
            return self.unknown
        if not self.precision.division:
            return self._lost(is32=is32)
        first, sign, full = (W0, self.sign32, self.low) if is32 else (U0, self.sign, self.full)
        divisor = b.value & full
        if not divisor:
            if effect is Effect.DIV or effect is Effect.SDIV:
                return self.constant(0)
            return self.zero_extend(a) if is32 else self.settle(list(a.bounds()))
        of = a.bounds()
        bounds: tuple[int, int] | None
        if effect is Effect.DIV:
            bounds = divide_unsigned(of[first], of[first + 1], divisor)
        elif effect is Effect.MOD:
            bounds = modulo_unsigned(of[first + 1], divisor)
        else:
            first += 2
            divisor = (divisor ^ sign) - sign
            if effect is Effect.SDIV:
                bounds = divide_signed(of[first], of[first + 1], divisor, sign)
            else:
                bounds = modulo_signed(of[first], of[first + 1], divisor)
        if bounds is None:
            r = list(of)
        else:
            r = list(self.unknown.bounds())
            r[first : first + 2] = bounds
        if is32:
            self._zero_extend(r)
        return self.settle(r)


def _signed(low: int, high: int, sign: int) -> tuple[int, int]:
    """Return signed bounds, or none if one of them overflows."""
    if -sign <= low and high < sign and low < sign and -sign <= high:
        return low, high
    return -sign, sign - 1


def _old_product(a: tuple[int, ...], b: tuple[int, ...], bits: int) -> tuple[int, int, int, int]:
    """Return unsigned and signed bounds of products; none with a negative or large factor."""
    full, sign = (1 << bits) - 1, 1 << (bits - 1)
    half = (1 << bits // 2) - 1
    if a[2] < 0 or b[2] < 0 or a[1] > half or b[1] > half:
        return 0, full, -sign, sign - 1
    low, high = a[0] * b[0], a[1] * b[1]
    if high >= sign:
        return low, high, -sign, sign - 1
    return low, high, low, high


def _product(a: tuple[int, ...], b: tuple[int, ...], sign: int) -> tuple[int, int, int, int]:
    """Return unsigned and signed bounds of products, each none if one of its products overflows."""
    full = 2 * sign - 1
    low, high = a[0] * b[0], a[1] * b[1]
    if high > full or low > full:
        low, high = 0, full
    corners = (a[2] * b[2], a[2] * b[3], a[3] * b[2], a[3] * b[3])
    least, most = min(corners), max(corners)
    if least < -sign or most >= sign:
        least, most = -sign, sign - 1
    return low, high, least, most
