"""Branches on scalars as kernels before 7.2 see them: operands in; the outcome, or operands, out.

Facts: is_branch_taken, regs_refine_cond_op, reg_set_min_max and reg_combine_min_max in
kernel/bpf/verifier.c of 6.1 and 6.12.
"""

# A keyword costs a hot path more than it tells.
# ruff: noqa: FBT001, FBT002, FBT003

from __future__ import annotations

from pybpf.isa.table import Effect
from pybpf.verifier import tnum
from pybpf.verifier.bounds import S0, S1, T0, T1, U0, U1, W0, W1, Draft, M, V
from pybpf.verifier.comparisons import FLIPPED, GREATER, NEGATED
from pybpf.verifier.conversions import Conversions
from pybpf.verifier.scalar import Refined, Scalar


class Conditions(Conversions):
    """The conditional jumps of kernels before 7.2."""

    __slots__ = ()

    def taken(
        self,
        effect: Effect,
        is32: bool,
        a: Scalar,
        b: Scalar,
        same: bool = False,
    ) -> bool | None:
        """Return whether a branch is taken, or None if the kernel follows both ways."""
        p = self.precision
        if same and p.same_register:
            return self._reflexive(effect, is32, a)
        if not p.modern:
            return self._old_taken(effect, is32, a, b)
        outcome = self._compared(effect, is32, a, b)
        if outcome is None and p.simulate:
            return self._simulated(effect, is32, a, b)
        return outcome

    def _simulated(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> bool | None:
        """Return the outcome that is left if refining shows the other one to be impossible."""
        for outcome in (False, True):
            x, y = self._drafts(effect if outcome else NEGATED[effect], is32, a, b)
            if _empty(self.sync(x)) or _empty(self.sync(y)):
                return not outcome
        return None

    def refine(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Refined:
        """Return both operands where the branch is taken, then where it is not."""
        if not self.precision.modern:
            return self._old_refine(effect, is32, a, b)
        x, y = self._drafts(effect, is32, a, b)
        u, v = self._drafts(NEGATED[effect], is32, a, b)
        return self.settle(x), self.settle(y), self.settle(u), self.settle(v)

    def _drafts(
        self,
        effect: Effect | None,
        is32: bool,
        a: Scalar,
        b: Scalar,
    ) -> tuple[Draft, Draft]:
        """Return drafts of both operands, narrowed by a condition; None is "no bit is set"."""
        x, y = list(a.bounds()), list(b.bounds())
        if effect is None or effect is Effect.JSET or effect is Effect.JNE:
            if not b.mask & (self.low if is32 else self.full):
                self._narrow_by_constant(effect, is32, x, b.value)
            elif not a.mask & (self.low if is32 else self.full):
                self._narrow_by_constant(effect, is32, y, a.value)
        elif effect is Effect.JEQ:
            self._equate(is32, x, y)
        elif effect in GREATER:
            self._order(FLIPPED[effect], is32, y, x)
        else:
            self._order(effect, is32, x, y)
        return x, y

    def _equate(self, is32: bool, x: Draft, y: Draft) -> None:
        first = W0 if is32 else U0
        for i in range(first, first + 4, 2):
            x[i] = y[i] = max(x[i], y[i])
            x[i + 1] = y[i + 1] = min(x[i + 1], y[i + 1])
        if not is32:
            x[V], x[M] = y[V], y[M] = tnum.intersect((x[V], x[M]), (y[V], y[M]))
            return
        low = tnum.intersect((x[V] & self.low, x[M] & self.low), (y[V] & self.low, y[M] & self.low))
        for r in (x, y):
            r[V] = r[V] & ~self.low | low[0]
            r[M] = r[M] & ~self.low | low[1]

    def _narrow_by_constant(
        self,
        effect: Effect | None,
        is32: bool,
        r: Draft,
        value: int,
    ) -> None:
        """Narrow a draft by "differs from", "has a bit of" or "has no bit of" a constant."""
        keep, first = (self.low, W0) if is32 else (self.full, U0)
        value &= keep
        if effect is Effect.JNE:
            signed = self._signed32(value) if is32 else self._signed(value)
            for i, edge in ((first, value), (first + 2, signed)):
                r[i] += r[i] == edge
                r[i + 1] -= r[i + 1] == edge
        elif effect is Effect.JSET:
            if value and not value & (value - 1):
                r[V] |= value
                r[M] &= ~value
        else:
            if self.precision.forget_unset:
                self._forget(r, U0)
                self._forget(r, W0)
            r[V] &= ~value
            r[M] &= ~value

    def _order(self, effect: Effect, is32: bool, x: Draft, y: Draft) -> None:
        """Narrow two drafts by ``x < y`` or ``x <= y``."""
        strict = effect is Effect.JLT or effect is Effect.JSLT
        if effect is Effect.JLT or effect is Effect.JLE:
            first, last = (W0, W1) if is32 else (U0, U1)
        else:
            first, last = (T0, T1) if is32 else (S0, S1)
        most = self.unknown.bounds()[last]
        least = self.unknown.bounds()[first]
        below, above = y[last] - strict, x[first] + strict
        # A bound that wraps around, on a branch that cannot be taken, narrows nothing.
        if below >= least:
            x[last] = min(x[last], below)
        if above <= most:
            y[first] = max(y[first], above)

    # Kernels before 6.8: only comparisons with constants narrow bounds, except for equality.

    def _old_taken(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> bool | None:
        keep = self.low if is32 else self.full
        if b.mask & keep:
            if not self.precision.const_left or a.mask & keep:
                return None
            a, b, effect = b, a, FLIPPED[effect]
        if effect is not Effect.JEQ and effect is not Effect.JNE:
            return self._compared(effect, is32, a, self.constant(b.value & keep))
        equal: bool | None = None
        value = b.value & keep
        if not a.mask & keep:
            equal = a.value & keep == value
        elif self.precision.equal_ranges:
            low, high = (a.umin32, a.umax32) if is32 else (a.umin, a.umax)
            equal = None if low <= value <= high else False
        return equal if equal is None or effect is Effect.JEQ else not equal

    def _old_refine(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Refined:
        keep = self.low if is32 else self.full
        if not b.mask & keep:
            x, u = self._old_narrow(effect, is32, a, b)
            return x, b, u, b
        if not a.mask & keep:
            y, v = self._old_narrow(FLIPPED[effect], is32, b, a)
            return a, y, a, v
        if not is32 and (effect is Effect.JEQ or effect is Effect.JNE):
            x, y = self._old_equate(a, b)
            return (x, y, a, b) if effect is Effect.JEQ else (a, b, x, y)
        return a, b, a, b

    def _old_equate(self, a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
        x, y = list(a.bounds()), list(b.bounds())
        self._equate(False, x, y)
        return self.sync(x), self.sync(y)

    def _old_narrow(
        self,
        effect: Effect,
        is32: bool,
        a: Scalar,
        b: Scalar,
    ) -> tuple[Scalar, Scalar]:
        """Return ``a`` where its comparison with a constant holds, and where it does not."""
        results = []
        for wanted in (effect, NEGATED[effect]):
            r = list(a.bounds())
            constant = list(self.constant(b.value & (self.low if is32 else self.full)).bounds())
            if wanted is Effect.JEQ:
                first = W0 if is32 else U0
                r[first : first + 4] = constant[first : first + 4]
                low = self.low if is32 else self.full
                r[V] = r[V] & ~low | constant[V]
                r[M] &= ~low
                if not is32:
                    r[W0:] = constant[W0:]
            elif wanted is None or wanted is Effect.JSET:
                self._narrow_by_constant(wanted, is32, r, b.value)
            elif wanted in GREATER:
                self._order(FLIPPED[wanted], is32, constant, r)
            elif wanted is not Effect.JNE:
                self._order(wanted, is32, r, constant)
            results.append(self._old_combine(is32, r))
        return results[0], results[1]

    def _old_combine(self, is32: bool, r: Draft) -> Scalar:
        """Carry the bounds of the width that was compared over to the other, and deduce."""
        if is32:
            if (r[V] | r[M]) & ~self.low:
                self._forget(r, U0)
            else:
                self._zero_extend(r)
        else:
            self._low_from_whole(r)
        return self.sync(r)


def _empty(a: Scalar) -> bool:
    """Return whether bounds contradict each other."""
    return a.umin > a.umax or a.smin > a.smax or a.umin32 > a.umax32 or a.smin32 > a.smax32
