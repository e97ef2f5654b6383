"""Arithmetic on circular ranges as kernels since 7.2 do it: scalars in; scalars and outcomes out.

Facts: scalar_min_max_*, adjust_scalar_min_max_vals, is_scalar_branch_taken and regs_refine_cond_op
in kernel/bpf/verifier.c.
"""

# A keyword costs a hot path more than it tells.
# ruff: noqa: FBT001, FBT002

from __future__ import annotations

from collections.abc import Callable

from pybpf.isa.table import Effect
from pybpf.verifier import circular, tnum
from pybpf.verifier.arcbounds import ArcBounds, Draft
from pybpf.verifier.circular import Arc
from pybpf.verifier.comparisons import FLIPPED, GREATER, NEGATED, SHIFTS
from pybpf.verifier.division import divide_signed, divide_unsigned, modulo_signed, modulo_unsigned
from pybpf.verifier.precision import Precision
from pybpf.verifier.scalar import Refined, Scalar


class Arcs(ArcBounds):
    """The arithmetic of kernels since 7.2."""

    __slots__ = ("_handlers",)

    def __init__(self, precision: Precision, bits: int = 64, sub: int = 32) -> None:
        super().__init__(precision, bits, sub)
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
            d = handler(a, b)
        elif effect is Effect.NEG:
            d = self._sub(self.constant(0), a)
        elif not self._known(b, is32=is32):
            return self.unknown
        elif effect in SHIFTS:
            if b.umax >= (self.sub if is32 else self.bits):
                return self.unknown
            shift = self._shift_low if is32 else self._shift_whole
            d = shift(effect, a, b.value)
        else:
            d = self._divided(effect, is32, a, b)
        return self.settle(self.extended(d) if is32 else d)

    def _add(self, a: Scalar, b: Scalar) -> Draft:
        x, y = self.draft(a), self.draft(b)
        return Draft(
            *tnum.add((a.value, a.mask), (b.value, b.mask), self.full),
            circular.add(x.whole, y.whole, self.full),
            circular.add(x.half, y.half, self.low),
        )

    def _sub(self, a: Scalar, b: Scalar) -> Draft:
        x, y = self.draft(a), self.draft(b)
        full, low = self.full, self.low
        return Draft(
            *tnum.sub((a.value, a.mask), (b.value, b.mask), full),
            circular.add(x.whole, circular.negate(y.whole, full), full),
            circular.add(x.half, circular.negate(y.half, low), low),
        )

    def _mul(self, a: Scalar, b: Scalar) -> Draft:
        x, y = a.bounds(), b.bounds()
        return Draft(
            *tnum.mul_long((a.value, a.mask), (b.value, b.mask), self.full),
            _product(x[2:6], y[2:6], self.full),
            _product(x[6:], y[6:], self.low),
        )

    def _and(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.and_((a.value, a.mask), (b.value, b.mask))
        whole = (value, min(a.umax, b.umax))
        return self._bitwise(a, b, value, mask, whole, (value, min(a.umax32, b.umax32)))

    def _or(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.or_((a.value, a.mask), (b.value, b.mask))
        whole = (max(a.umin, b.umin), value | mask)
        return self._bitwise(a, b, value, mask, whole, (max(a.umin32, b.umin32), value | mask))

    def _xor(self, a: Scalar, b: Scalar) -> Draft:
        value, mask = tnum.xor((a.value, a.mask), (b.value, b.mask))
        bounds = (value, value | mask)
        return self._bitwise(a, b, value, mask, bounds, bounds)

    def _bitwise(self, a: Scalar, b: Scalar, value: int, mask: int, whole: Arc, half: Arc) -> Draft:
        """Return the draft of unsigned bounds, those of the low half where it is not known."""
        low = self.low
        arc = circular.from_unsigned(half[0] & low, half[1] & low, low)
        if not (a.mask | b.mask) & low:
            arc = (value & low, 0)
        return Draft(value, mask, circular.from_unsigned(*whole, self.full), arc)

    def _shift_low(self, effect: Effect, a: Scalar, shift: int) -> Draft:
        """Return the draft of a shift of the low half, about to be zero-extended."""
        full = self.low
        bits = (a.value & full, a.mask & full)
        if effect is Effect.LSH:
            bits = tnum.lsh(bits, shift, full)
            half = self._shifted_left(a, shift)
        elif effect is Effect.RSH:
            bits = tnum.rsh(bits, shift)
            half = circular.from_unsigned(a.umin32 >> shift, a.umax32 >> shift, full)
        else:
            bits = tnum.arsh(bits, shift, full)
            half = circular.from_signed(a.smin32 >> shift, a.smax32 >> shift, full)
        return Draft(
            *bits, (0, self.full), circular.intersect(half, circular.from_bits(*bits, full), full)
        )

    def _shifted_left(self, a: Scalar, shift: int) -> Arc:
        """Return the arc of the low half after a shift that loses no bit; else that of all."""
        if shift >= self.sub or a.umax32 > 1 << (self.sub - 1 - shift):
            return (0, self.low)
        return circular.from_unsigned(
            a.umin32 << shift & self.low, a.umax32 << shift & self.low, self.low
        )

    def _shift_whole(self, effect: Effect, a: Scalar, shift: int) -> Draft:
        full = self.full
        bits = (a.value, a.mask)
        if effect is Effect.RSH:
            whole = circular.from_unsigned(a.umin >> shift, a.umax >> shift, full)
            return Draft(*tnum.rsh(bits, shift), whole, (0, self.low))
        if effect is Effect.ARSH:
            whole = circular.from_signed(a.smin >> shift, a.smax >> shift, full)
            return Draft(*tnum.arsh(bits, shift, full), whole, (0, self.low))
        whole = (0, full)
        if a.umax <= 1 << (self.bits - 1 - shift):
            whole = circular.from_unsigned(a.umin << shift, a.umax << shift, full)
        if shift == self.bits - self.sub:  # the low half moves up with its sign
            signed = circular.from_signed(a.smin32 << shift, a.smax32 << shift, full)
            whole = circular.intersect(whole, signed, full)
        return Draft(*tnum.lsh(bits, shift, full), whole, self._shifted_left(a, shift))

    def _divided(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Draft:
        full, at = (self.low, 6) if is32 else (self.full, 2)
        sign = (full >> 1) + 1
        of = a.bounds()
        divisor = b.value & full
        bounds: tuple[int, int] | None = None
        if not divisor:
            if effect is Effect.DIV or effect is Effect.SDIV:
                return Draft(0, 0, (0, 0), (0, 0))
        elif effect is Effect.DIV:
            bounds = divide_unsigned(of[at], of[at + 1], divisor)
        elif effect is Effect.MOD:
            bounds = modulo_unsigned(of[at + 1], divisor)
        elif effect is Effect.SDIV:
            bounds = divide_signed(of[at + 2], of[at + 3], (divisor ^ sign) - sign, sign)
        else:
            bounds = modulo_signed(of[at + 2], of[at + 3], (divisor ^ sign) - sign)
        if bounds is None:
            return self.draft(a)
        if effect is Effect.DIV or effect is Effect.MOD:
            arc = circular.from_unsigned(*bounds, full)
        else:
            arc = circular.from_signed(*bounds, full)
        if is32:
            return Draft(0, self.full, (0, self.full), arc)
        return Draft(0, self.full, arc, (0, self.low))

    def pointer_add(self, a: Scalar, b: Scalar) -> Scalar:
        """Return the variable part of a pointer after adding a scalar; its low half is unknown."""
        return self.scalar(self.deduce(self._add(a, b)._replace(half=(0, self.low))))

    def pointer_sub(self, a: Scalar, b: Scalar) -> Scalar:
        """Return the variable part of a pointer after subtracting a scalar."""
        return self.scalar(self.deduce(self._sub(a, b)._replace(half=(0, self.low))))

    def offset(self, a: Scalar, delta: int, is32: bool) -> Scalar:
        """Return ``a`` plus a constant, as for a register that is linked to it."""
        d = self._add(a, self.constant(delta))
        return self.scalar(self.deduce(self.extended(d) if is32 else d))

    def _with_low(self, a: Scalar, low: int) -> Scalar:
        """Return ``a`` with a known low half."""
        bits = tnum.const_subreg((a.value, a.mask), low, self.sub)
        return self.scalar(Draft(*bits, self.draft(a).whole, (low, 0)))

    def taken(
        self, effect: Effect, is32: bool, a: Scalar, b: Scalar, same: bool = False
    ) -> bool | None:
        """Return whether a branch is taken, or None if the kernel follows both ways."""
        if same:
            return self._reflexive(effect, is32, a)
        outcome = self._compared(effect, is32, a, b)
        if outcome is not None:
            return outcome
        for negated, narrowed in ((True, NEGATED[effect]), (False, effect)):
            if any(self._empty(self.deduce(d)) for d in self._narrowed(narrowed, is32, a, b)):
                return negated
        return None

    def refine(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Refined:
        """Return both operands where the branch is taken, then where it is not."""
        x, y = self._narrowed(effect, is32, a, b)
        u, v = self._narrowed(NEGATED[effect], is32, a, b)
        return self.settle(x), self.settle(y), self.settle(u), self.settle(v)

    def _narrowed(
        self, effect: Effect | None, is32: bool, a: Scalar, b: Scalar
    ) -> tuple[Draft, Draft]:
        """Return drafts of both operands, narrowed by a condition; None is "no bit is set"."""
        x, y = self.draft(a), self.draft(b)
        if effect is None or effect is Effect.JSET or effect is Effect.JNE:
            if self._known(b, is32=is32):
                return self._narrowed_by(effect, is32, x, b.value), y
            if self._known(a, is32=is32):
                return x, self._narrowed_by(effect, is32, y, a.value)
            return x, y
        if effect is Effect.JEQ:
            return self._equated(is32, x, y)
        if effect in GREATER:
            y, x = self._ordered(FLIPPED[effect], is32, y, x)
            return x, y
        return self._ordered(effect, is32, x, y)

    def _equated(self, is32: bool, x: Draft, y: Draft) -> tuple[Draft, Draft]:
        low = self.low
        if is32:
            half = circular.intersect(x.half, y.half, low)
            bits = tnum.intersect((x.value & low, x.mask & low), (y.value & low, y.mask & low))
            return (
                Draft(x.value & ~low | bits[0], x.mask & ~low | bits[1], x.whole, half),
                Draft(y.value & ~low | bits[0], y.mask & ~low | bits[1], y.whole, half),
            )
        whole = circular.intersect(x.whole, y.whole, self.full)
        bits = tnum.intersect((x.value, x.mask), (y.value, y.mask))
        return Draft(*bits, whole, x.half), Draft(*bits, whole, y.half)

    def _narrowed_by(self, effect: Effect | None, is32: bool, d: Draft, value: int) -> Draft:
        """Return a draft narrowed by "differs from", "has a bit of" or "has no bit of"."""
        full = self.low if is32 else self.full
        value &= full
        if effect is Effect.JNE:
            return self._cut(d, is32, (value + 1 & full, full - 1))
        if effect is Effect.JSET:
            if not value or value & (value - 1):
                return d
            return d._replace(value=d.value | value, mask=d.mask & ~value)
        return Draft(d.value & ~value, d.mask & ~value, (0, self.full), (0, self.low))

    def _cut(self, d: Draft, is32: bool, arc: Arc) -> Draft:
        """Return a draft narrowed by an arc of the width that is compared."""
        if is32:
            return d._replace(half=circular.intersect(d.half, arc, self.low))
        return d._replace(whole=circular.intersect(d.whole, arc, self.full))

    def _ordered(self, effect: Effect, is32: bool, x: Draft, y: Draft) -> tuple[Draft, Draft]:
        """Return two drafts narrowed by ``x < y`` or ``x <= y``."""
        full = self.low if is32 else self.full
        strict = effect is Effect.JLT or effect is Effect.JSLT
        top = y.half if is32 else y.whole
        if effect is Effect.JLT or effect is Effect.JLE:
            high = circular.unsigned(top, full)[1] - strict & full
            x = self._cut(x, is32, (0, high))
            low = circular.unsigned(x.half if is32 else x.whole, full)[0] + strict & full
            return x, self._cut(y, is32, (low, full - low))
        sign = (full >> 1) + 1
        high = circular.signed(top, full)[1] - strict
        x = self._cut(x, is32, circular.from_signed(-sign, high, full))
        low = circular.signed(x.half if is32 else x.whole, full)[0] + strict
        return x, self._cut(y, is32, circular.from_signed(low, sign - 1, full))


def _product(a: tuple[int, ...], b: tuple[int, ...], full: int) -> Arc:
    """Return the arc of products; each kind of bound is lost if one of its products overflows."""
    sign = (full >> 1) + 1
    low, high = a[0] * b[0], a[1] * b[1]
    if high > full or low > full:
        low, high = 0, full
    corners = (a[2] * b[2], a[2] * b[3], a[3] * b[2], a[3] * b[3])
    least, most = min(corners), max(corners)
    if least < -sign or most >= sign:
        least, most = -sign, sign - 1
    return circular.intersect((low, high - low), circular.from_signed(least, most, full), full)
