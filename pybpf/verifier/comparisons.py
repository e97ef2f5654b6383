"""What all kernels agree on: constants and scalars in; constants, or the outcome of a branch, out.

Facts: is_scalar_branch_taken in kernel/bpf/verifier.c.
"""

# A keyword costs a hot path more than it tells.
# ruff: noqa: FBT001

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from pybpf.isa.table import Effect
from pybpf.verifier.precision import Precision
from pybpf.verifier.scalar import UNKNOWN, Scalar

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
GREATER = frozenset((Effect.JGT, Effect.JGE, Effect.JSGT, Effect.JSGE))


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


def extended_ends(width: int, first: int, last: int) -> tuple[int, int] | None:
    """Return the signed bounds of the low ``width`` bits of a range; None if they may be any.

    They are known where the bits above do not change in the range, nor the sign below them.
    """
    if first >> width != last >> width:
        return None
    sign = 1 << (width - 1)
    low = ((first & (2 * sign - 1)) ^ sign) - sign
    high = ((last & (2 * sign - 1)) ^ sign) - sign
    if (low < 0) != (high < 0):
        return None
    return (low, high) if low <= high else (high, low)


# Operations whose result is known in every kernel if both operands are.
_FOLDED: dict[Effect, Callable[[int, int, int], int]] = {
    Effect.ADD: lambda x, y, _: x + y,
    Effect.SUB: lambda x, y, _: x - y,
    Effect.MUL: lambda x, y, _: x * y,
    Effect.AND: lambda x, y, _: x & y,
    Effect.OR: lambda x, y, _: x | y,
    Effect.XOR: lambda x, y, _: x ^ y,
    Effect.LSH: lambda x, y, _: x << y,
    Effect.RSH: lambda x, y, _: x >> y,
    Effect.ARSH: lambda x, y, sign: ((x ^ sign) - sign) >> y,
}

SHIFTS = frozenset((Effect.LSH, Effect.RSH, Effect.ARSH))


class Comparisons(ABC):
    """What every arithmetic knows: its widths, constants, and the outcome of comparisons.

    ``bits`` and ``sub`` are the widths of a register and of its low part: 64 and 32 but in tests.
    """

    __slots__ = (
        "bits", "full", "low", "precision", "sign", "sign32", "sub", "unknown",
    )  # fmt: skip

    def __init__(self, precision: Precision, bits: int = 64, sub: int = 32) -> None:
        self.precision = precision
        self.bits = bits
        self.sub = sub
        self.full = (1 << bits) - 1
        self.low = (1 << sub) - 1
        self.sign = 1 << (bits - 1)
        self.sign32 = 1 << (sub - 1)
        self.unknown = UNKNOWN
        if (bits, sub) != (64, 32):
            sign, sign32 = self.sign, self.sign32
            self.unknown = Scalar(
                0, self.full, 0, self.full, -sign, sign - 1, 0, self.low, -sign32, sign32 - 1
            )

    def constant(self, value: int) -> Scalar:
        """Return the scalar known to be ``value``."""
        value &= self.full
        low = value & self.low
        signed = (value ^ self.sign) - self.sign
        signed32 = (low ^ self.sign32) - self.sign32
        return Scalar(value, 0, value, value, signed, signed, low, low, signed32, signed32)

    def _folded(self, effect: Effect, *, is32: bool, x: int, y: int) -> Scalar | None:
        """Return the result of an operation on constants where no kernel forgets it."""
        compute = _FOLDED.get(effect)
        if compute is None or (effect in SHIFTS and y >= (self.sub if is32 else self.bits)):
            return None
        if is32:
            return self.constant(compute(x & self.low, y & self.low, self.sign32) & self.low)
        return self.constant(compute(x, y, self.sign))

    def _signed(self, value: int) -> int:
        return (value ^ self.sign) - self.sign

    def _signed32(self, value: int) -> int:
        return (value ^ self.sign32) - self.sign32

    def _known(self, b: Scalar, *, is32: bool) -> bool:
        """Return whether the kernel takes the operand for a constant."""
        return not b.mask & (self.low if is32 else self.full)

    def _reflexive(self, effect: Effect, is32: bool, a: Scalar) -> bool | None:
        """Return the outcome of a comparison of a register with itself."""
        if effect is not Effect.JSET:
            return effect in _REFLEXIVE
        if not a.mask & (self.low if is32 else self.full):
            return a.value & (self.low if is32 else self.full) != 0
        low, high = (a.smin32, a.smax32) if is32 else (a.smin, a.smax)
        return None if low <= 0 <= high else True

    def _compared(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> bool | None:
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

    def _equal(self, is32: bool, a: Scalar, b: Scalar) -> bool | None:
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

    def _any_set(self, is32: bool, a: Scalar, b: Scalar) -> bool | None:
        keep = self.low if is32 else self.full
        if b.mask & keep:
            a, b = b, a
            if b.mask & keep:
                return None
        wanted = b.value & keep
        if a.value & ~a.mask & wanted:
            return True
        return None if (a.value | a.mask) & wanted else False

    @abstractmethod
    def _computed(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Scalar:
        """Return the result of an operation that is neither a move nor one on constants."""

    @abstractmethod
    def zero_extend(self, a: Scalar) -> Scalar:
        """Return the low half."""

    @abstractmethod
    def truncate(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits."""

    @abstractmethod
    def extend(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits, sign-extended."""

    @abstractmethod
    def _extend_low(self, width: int, a: Scalar) -> Scalar:
        """Return the low ``width`` bits, sign-extended to the low half; the high half is 0."""

    @abstractmethod
    def _with_low(self, a: Scalar, low: int) -> Scalar:
        """Return ``a`` with a known low half."""

    def alu(self, effect: Effect, is32: bool, a: Scalar, b: Scalar) -> Scalar:
        """Return what ``a`` is after ``a op= b``; ``b`` does not matter to neg."""
        if effect is Effect.MOV:
            return self.zero_extend(b) if is32 else b
        if a.const is not None and b.const is not None:
            folded = self._folded(effect, is32=is32, x=a.const, y=b.const)
            if folded is not None:
                return folded
        return self._computed(effect, is32, a, b)

    def load(self, size: int, a: Scalar) -> Scalar:
        """Return what a load of ``size`` bytes keeps of a scalar."""
        return a if 8 * size >= self.bits else self.truncate(8 * size, a)

    def load_signed(self, size: int, a: Scalar) -> Scalar:
        """Return what a sign-extending load of ``size`` bytes keeps of a scalar."""
        return self.extend(8 * size, a)

    def move_extended(self, width: int, is32: bool, a: Scalar) -> Scalar:
        """Return the low ``width`` bits, sign-extended to the whole or to the low half."""
        return self._extend_low(width, a) if is32 else self.extend(width, a)

    def fork(self, effect: Effect, a: Scalar, b: Scalar) -> tuple[Scalar, Scalar] | None:
        """Return what the kernel takes ``a`` for in the next two states, or None if it needs one.

        Before "and" and "or" with a constant, a mask that is -1 or 0 is split: first the value with
        which the kernel goes on, then the one that it returns to.
        """
        if not self.precision.fork_masks or b.const is None:
            return None
        if effect is not Effect.AND and effect is not Effect.OR:
            return None
        if a.smin == -1 and a.smax == 0:
            return self.constant(-1), self.constant(0)
        if a.smin32 == -1 and a.smax32 == 0:
            return self._with_low(a, self.low), self._with_low(a, 0)
        return None
