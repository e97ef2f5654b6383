"""Branches on scalars as kernels before 7.2 see them: operands in; the outcome, or operands, out.

Facts: is_branch_taken, regs_refine_cond_op, reg_set_min_max and reg_combine_min_max in
kernel/bpf/verifier.c of 6.1 and 6.12.
"""

from __future__ import annotations

from pybpf.isa.table import Effect
from pybpf.verifier import tnum
from pybpf.verifier.bounds import S0, S1, T0, T1, U0, U1, W0, W1, Draft, M, V
from pybpf.verifier.conversions import Conversions
from pybpf.verifier.scalar import Scalar

# (a op b) is (b FLIPPED[op] a), and its negation is (a NEGATED[op] b).
FLIPPED = {
    Effect.JEQ: Effect.JEQ,
    Effect.JNE: Effect.JNE,
    Effect.JSET: Effect.JSET,
    Effect.JGT: Effect.JLT,
    Effect.JGE: Effect.JLE,
    Effect.JLT: Effect.JGT,
    Effect.JLE: Effect.JGE,
    Effect.JSGT: Effect.JSLT,
    Effect.JSGE: Effect.JSLE,
    Effect.JSLT: Effect.JSGT,
    Effect.JSLE: Effect.JSGE,
}
NEGATED: dict[Effect, Effect | None] = {
    Effect.JEQ: Effect.JNE,
    Effect.JNE: Effect.JEQ,
    Effect.JSET: None,  # "no bit is set" is no operation of its own
    Effect.JGT: Effect.JLE,
    Effect.JGE: Effect.JLT,
    Effect.JLT: Effect.JGE,
    Effect.JLE: Effect.JGT,
    Effect.JSGT: Effect.JSLE,
    Effect.JSGE: Effect.JSLT,
    Effect.JSLT: Effect.JSGE,
    Effect.JSLE: Effect.JSGT,
}
_REFLEXIVE = frozenset((Effect.JEQ, Effect.JGE, Effect.JLE, Effect.JSGE, Effect.JSLE))
_UNSIGNED = frozenset((Effect.JGT, Effect.JGE, Effect.JLT, Effect.JLE))
_GREATER = frozenset((Effect.JGT, Effect.JGE, Effect.JSGT, Effect.JSGE))

Refined = tuple[Scalar, Scalar, Scalar, Scalar]


def ordered(effect: Effect, a: tuple[int, int], b: tuple[int, int]) -> bool | None:
    """Return the outcome of a comparison by order of two ranges, or None if both may come out."""
    match effect:
        case Effect.JGT | Effect.JSGT:
            return True if a[0] > b[1] else False if a[1] <= b[0] else None
        case Effect.JGE | Effect.JSGE:
            return True if a[0] >= b[1] else False if a[1] < b[0] else None
        case Effect.JLT | Effect.JSLT:
            return True if a[1] < b[0] else False if a[0] >= b[1] else None
        case _:
            return True if a[1] <= b[0] else False if a[0] > b[1] else None


class Conditions(Conversions):
    """The conditional jumps of kernels before 7.2."""

    __slots__ = ()

    def taken(
        self,
        effect: Effect,
        is32: bool,  # noqa: FBT001
        a: Scalar,
        b: Scalar,
        same: bool = False,  # noqa: FBT001, FBT002
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

    def _reflexive(self, effect: Effect, is32: bool, a: Scalar) -> bool | None:  # noqa: FBT001
        """Return the outcome of a comparison of a register with itself."""
        if effect is not Effect.JSET:
            return effect in _REFLEXIVE
        if not a.mask & (self.low if is32 else self.full):
            return a.value & (self.low if is32 else self.full) != 0
        low, high = (a.smin32, a.smax32) if is32 else (a.smin, a.smax)
        return None if low <= 0 <= high else True

    def _compared(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> bool | None:  # noqa: FBT001
        """Return the outcome as bounds and known bits tell it."""
        if effect is Effect.JEQ:
            return self._equal(is32, a, b)
        if effect is Effect.JNE:
            equal = self._equal(is32, a, b)
            return None if equal is None else not equal
        if effect is Effect.JSET:
            return self._any_set(is32, a, b)
        if effect in _UNSIGNED:
            if is32:
                return ordered(effect, (a.umin32, a.umax32), (b.umin32, b.umax32))
            return ordered(effect, (a.umin, a.umax), (b.umin, b.umax))
        if is32:
            return ordered(effect, (a.smin32, a.smax32), (b.smin32, b.smax32))
        return ordered(effect, (a.smin, a.smax), (b.smin, b.smax))

    def _equal(self, is32: bool, a: Scalar, b: Scalar) -> bool | None:  # noqa: FBT001
        keep = self.low if is32 else self.full
        if not (a.mask | b.mask) & keep:
            return not (a.value ^ b.value) & keep
        if self.precision.disjoint_bits and (a.value ^ b.value) & ~(a.mask | b.mask) & keep:
            return False
        if not is32 and (a.umin > b.umax or a.umax < b.umin or a.smin > b.smax or a.smax < b.smin):
            return False
        if a.umin32 > b.umax32 or a.umax32 < b.umin32:
            return False
        if a.smin32 > b.smax32 or a.smax32 < b.smin32:
            return False
        return None

    def _any_set(self, is32: bool, a: Scalar, b: Scalar) -> bool | None:  # noqa: FBT001
        keep = self.low if is32 else self.full
        if b.mask & keep:
            a, b = b, a
            if b.mask & keep:
                return None
        wanted = b.value & keep
        if a.value & ~a.mask & wanted:
            return True
        return None if (a.value | a.mask) & wanted else False

    def _simulated(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> bool | None:  # noqa: FBT001
        """Return the outcome that is left if refining shows the other one to be impossible."""
        for outcome in (False, True):
            x, y = self._drafts(effect if outcome else NEGATED[effect], is32, a, b)
            if _empty(self.sync(x)) or _empty(self.sync(y)):
                return not outcome
        return None

    def refine(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Refined:  # noqa: FBT001
        """Return both operands where the branch is taken, then where it is not."""
        if not self.precision.modern:
            return self._old_refine(effect, is32, a, b)
        x, y = self._drafts(effect, is32, a, b)
        u, v = self._drafts(NEGATED[effect], is32, a, b)
        return self.settle(x), self.settle(y), self.settle(u), self.settle(v)

    def _drafts(
        self,
        effect: Effect | None,
        is32: bool,  # noqa: FBT001
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
        elif effect in _GREATER:
            self._order(FLIPPED[effect], is32, y, x)
        else:
            self._order(effect, is32, x, y)
        return x, y

    def _equate(self, is32: bool, x: Draft, y: Draft) -> None:  # noqa: FBT001
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
        is32: bool,  # noqa: FBT001
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

    def _order(self, effect: Effect, is32: bool, x: Draft, y: Draft) -> None:  # noqa: FBT001
        """Narrow two drafts by ``x < y`` or ``x <= y``."""
        strict = effect is Effect.JLT or effect is Effect.JSLT
        if effect is Effect.JLT or effect is Effect.JLE:
            first, last = (W0, W1) if is32 else (U0, U1)
        else:
            first, last = (T0, T1) if is32 else (S0, S1)
        x[last] = min(x[last], y[last] - strict)
        y[first] = max(x[first] + strict, y[first])

    # Kernels before 6.8: only comparisons with constants narrow bounds, except for equality.

    def _old_taken(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> bool | None:  # noqa: FBT001
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

    def _old_refine(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Refined:  # noqa: FBT001
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
        self._equate(False, x, y)  # noqa: FBT003
        return self.sync(x), self.sync(y)

    def _old_narrow(
        self,
        effect: Effect,
        is32: bool,  # noqa: FBT001
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
            elif wanted in _GREATER:
                self._order(FLIPPED[wanted], is32, constant, r)
            elif wanted is not Effect.JNE:
                self._order(wanted, is32, r, constant)
            results.append(self._old_combine(is32, r))
        return results[0], results[1]

    def _old_combine(self, is32: bool, r: Draft) -> Scalar:  # noqa: FBT001
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
