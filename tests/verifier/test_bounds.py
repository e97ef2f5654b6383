"""Scalars against brute force at 5 bits: sound for every kernel, and exact where kernels are."""

# `is32` is positional wherever scalars are computed with.
# ruff: noqa: FBT003

from __future__ import annotations

import os
import random
from functools import cache, lru_cache
from itertools import islice, product

import pytest

from pybpf.isa.table import Effect
from pybpf.verifier.arithmetic import arithmetic
from pybpf.verifier.precision import precision_of

RELEASES = ((5, 10), (6, 6), (6, 12), (6, 18), (7, 1), (7, 3))
BITS, SUB = 5, 3
FULL, LOW = (1 << BITS) - 1, (1 << SUB) - 1

JUMPS = (
    Effect.JEQ, Effect.JNE, Effect.JSET, Effect.JGT, Effect.JGE, Effect.JLT, Effect.JLE,
    Effect.JSGT, Effect.JSGE, Effect.JSLT, Effect.JSLE,
)  # fmt: skip
ALU = (
    Effect.ADD, Effect.SUB, Effect.MUL, Effect.AND, Effect.OR, Effect.XOR, Effect.LSH, Effect.RSH,
    Effect.ARSH, Effect.DIV, Effect.SDIV, Effect.MOD, Effect.SMOD, Effect.NEG,
)  # fmt: skip


def small(release, bits=BITS, sub=SUB):
    """Return the arithmetic of a release on registers of a few bits."""
    return arithmetic(precision_of(release), bits, sub)


def signed(value, bits):
    sign = 1 << (bits - 1)
    return ((value & (2 * sign - 1)) ^ sign) - sign


PARTS = {
    "known": lambda x, value, mask: x & ~mask == value,
    "unsigned": lambda x, low, high: low <= x <= high,
    "signed": lambda x, low, high: low <= signed(x, BITS) <= high,
    "low": lambda x, low, high: low <= x & LOW <= high,
    "low signed": lambda x, low, high: low <= signed(x & LOW, SUB) <= high,
    "arc": lambda x, start, length: x - start & FULL <= length,
    "low arc": lambda x, start, length: (x & LOW) - start & LOW <= length,
}


@cache
def where(part, *bounds):
    """Return which of all values a part of a scalar leaves: a set, as bits."""
    return sum(1 << x for x in range(FULL + 1) if PARTS[part](x, *bounds))


def held(a):
    """Return the values that a scalar of 5 bits holds, as bits."""
    found = (
        where("known", a.value, a.mask)
        & where("unsigned", a.umin, a.umax)
        & where("signed", a.smin, a.smax)
        & where("low", a.umin32, a.umax32)
        & where("low signed", a.smin32, a.smax32)
    )
    if a.arcs is not None:
        found &= where("arc", *a.arcs[:2]) & where("low arc", *a.arcs[2:])
    return found


@cache
def members_of(found):
    """Return the values in a set."""
    return [x for x in range(FULL + 1) if found >> x & 1]


def members(a):
    """Return the values that a scalar of 5 bits holds."""
    return members_of(held(a))


def holds(a, x):
    return held(a) >> x & 1


def compute(effect, is32, x, y):
    """Return what an operation of registers of 5 bits, or of their low halves, gives."""
    bits = SUB if is32 else BITS
    full = (1 << bits) - 1
    x, y = x & full, y & full
    sx, sy = signed(x, bits), signed(y, bits)
    match effect:
        case Effect.ADD:
            result = x + y
        case Effect.SUB:
            result = x - y
        case Effect.MUL:
            result = x * y
        case Effect.AND:
            result = x & y
        case Effect.OR:
            result = x | y
        case Effect.XOR:
            result = x ^ y
        case Effect.LSH:
            result = x << y
        case Effect.RSH:
            result = x >> y
        case Effect.ARSH:
            result = sx >> y
        case Effect.DIV:
            result = x // y if y else 0
        case Effect.MOD:
            result = x % y if y else x
        case Effect.SDIV:
            result = int(sx / sy) if sy else 0
        case Effect.SMOD:
            result = sx - int(sx / sy) * sy if sy else sx
        case _:
            assert effect is Effect.NEG
            result = -x
    return result & full


def compare(effect, is32, x, y):
    """Return whether a branch is taken."""
    bits = SUB if is32 else BITS
    full = (1 << bits) - 1
    x, y = x & full, y & full
    sx, sy = signed(x, bits), signed(y, bits)
    return {
        Effect.JEQ: x == y, Effect.JNE: x != y, Effect.JSET: bool(x & y), Effect.JGT: x > y,
        Effect.JGE: x >= y, Effect.JLT: x < y, Effect.JLE: x <= y, Effect.JSGT: sx > sy,
        Effect.JSGE: sx >= sy, Effect.JSLT: sx < sy, Effect.JSLE: sx <= sy,
    }[effect]  # fmt: skip


def narrowed(arith, a, *conditions):
    """Return a scalar after branches: effect, is32, constant, taken; None if none is left."""
    for effect, is32, constant, wanted in conditions:
        b = arith.constant(constant)
        outcome = arith.taken(effect, is32, a, b)
        if outcome is None:
            refined = arith.refine(effect, is32, a, b)
            a = refined[0] if wanted else refined[2]
        elif outcome is not wanted:
            return None
    return a


def between(arith, low, high, *, sign=False, is32=False):
    """Return what is left of an unknown scalar between two bounds."""
    least, most = (Effect.JSGE, Effect.JSLE) if sign else (Effect.JGE, Effect.JLE)
    return narrowed(arith, arith.unknown, (least, is32, low, True), (most, is32, high, True))


@lru_cache
def unsigned_ranges(release):
    """Return a scalar for every unsigned range."""
    arith = small(release)
    return [between(arith, low, high) for low in range(FULL + 1) for high in range(low, FULL + 1)]


@lru_cache
def every_kind(release):
    """Return scalars of ranges of all kinds, of known bits, and of mixtures of these."""
    arith = small(release)
    found = list(unsigned_ranges(release))
    top = 1 << (BITS - 1)
    found += [between(arith, x, y, sign=True) for x in range(-top, top) for y in range(x, top)]
    for is32, sign, start in ((True, False, 0), (True, True, -(1 << (SUB - 1)))):
        ends = range(start, start + LOW + 1)
        found += [between(arith, x, y, sign=sign, is32=is32) for x in ends for y in ends if x <= y]
    for mask in range(FULL + 1):
        known = arith.alu(Effect.AND, False, arith.unknown, arith.constant(mask))
        found += [
            arith.alu(Effect.OR, False, known, arith.constant(value))
            for value in range(FULL + 1)
            if not value & mask
        ]
    choose = random.Random(5)
    for _ in range(600):
        a = choose.choice(found)
        conditions = [
            (choose.choice(JUMPS), choose.random() < 0.4, choose.randrange(FULL + 1), True)
            for _ in range(choose.randrange(1, 4))
        ]
        found.append(narrowed(arith, a, *conditions) if a is not None else None)
    return list(dict.fromkeys(a for a in found if a is not None and members(a)))


SHIFTS = {Effect.LSH, Effect.RSH, Effect.ARSH}

releases = pytest.mark.parametrize("release", RELEASES, ids=lambda r: f"{r[0]}.{r[1]}")


def pairs(release, count):
    """Return pairs of scalars; every other one has a constant on the right."""
    found = every_kind(release)
    arith = small(release)
    choose = random.Random(f"{release}")
    for i in range(count):
        right = arith.constant(choose.randrange(FULL + 1)) if i % 2 else choose.choice(found)
        yield choose.choice(found), right


@cache
def results(effect, is32, left, y):
    """Return what an operation of each value of a set with ``y`` gives, as bits."""
    width = SUB if is32 else BITS
    if effect in SHIFTS and y & (LOW if is32 else FULL) >= width:
        return 0  # masked by the machine; the kernel refuses such constants
    values = {compute(effect, is32, x, y) for x in members_of(left)}
    return sum(1 << value for value in values)


@cache
def takers(effect, is32, y):
    """Return the values for which a comparison with ``y`` is true, as bits."""
    return sum(1 << x for x in range(FULL + 1) if compare(effect, is32, x, y))


def check_alu(release, effect, is32, a, b):
    """Hold the result of an operation to those of all pairs of values."""
    wanted, left = 0, held(a)
    for y in members(b):
        wanted |= results(effect, is32, left, y)
    result = small(release).alu(effect, is32, a, b)
    assert not wanted & ~held(result), (effect, is32, a, b, result)


def check_branch(release, effect, is32, a, b):
    """Hold what a branch leaves of its operands to all pairs of values."""
    arith, left = small(release), held(a)
    taken, fallen = [0, 0], [0, 0]
    for y in members(b):
        true = takers(effect, is32, y)
        for sets, some in ((taken, left & true), (fallen, left & ~true)):
            sets[0] |= some
            sets[1] |= bool(some) << y
    outcome = arith.taken(effect, is32, a, b)
    if outcome is not None:
        assert not (fallen if outcome else taken)[0], (effect, is32, a, b, outcome)
        return
    refined = arith.refine(effect, is32, a, b)
    for wanted, result in zip((*taken, *fallen), refined, strict=True):
        assert not wanted & ~held(result), (effect, is32, a, b, refined)


@releases
def test_operations_hold_every_result(release):
    for a, b in pairs(release, 120):
        for effect in ALU:
            check_alu(release, effect, False, a, b)
            check_alu(release, effect, True, a, b)


@releases
def test_branches_hold_every_operand(release):
    for a, b in pairs(release, 120):
        for effect in JUMPS:
            check_branch(release, effect, False, a, b)
            check_branch(release, effect, True, a, b)


STEP = 1 if os.environ.get("PYBPF_EXHAUSTIVE") else 211
"""Every so-manieth pair of ranges is tried: all of them take some ten minutes a release."""


@lru_cache
def ranges(release):
    """Return a scalar for every unsigned and every signed range, of 5 bits."""
    arith = small(release)
    top = 1 << (BITS - 1)
    signs = [between(arith, x, y, sign=True) for x in range(-top, top) for y in range(x, top)]
    return list(dict.fromkeys(unsigned_ranges(release) + signs))


@lru_cache
def low_ranges(release):
    """Return a scalar for every unsigned and signed range of the low half, then constants.

    Of the former the high half is unknown, so kernels do not shift by them.
    """
    arith = small(release)
    top = 1 << (SUB - 1)
    found = [between(arith, x, y, is32=True) for x in range(2 * top) for y in range(x, 2 * top)]
    found += [
        between(arith, x, y, sign=True, is32=True) for x in range(-top, top) for y in range(x, top)
    ]
    return list(dict.fromkeys([*found, *(arith.constant(x) for x in range(LOW + 1))]))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is32", [False, True], ids=["64", "32"])
@releases
def test_all_pairs_of_ranges(release, is32):
    """All pairs with PYBPF_EXHAUSTIVE in the environment, else a part of those of 64 bits."""
    found, step = (low_ranges(release), 1) if is32 else (ranges(release), STEP)
    for a, b in islice(product(found, repeat=2), 0, None, step):
        for effect in ALU:
            check_alu(release, effect, is32, a, b)
        for effect in JUMPS:
            check_branch(release, effect, is32, a, b)


@releases
def test_narrowing_and_widening(release):
    arith = small(release)
    for a in every_kind(release):
        cases = [(arith.zero_extend(a), lambda x: x & LOW)]
        for width in (1, 2, SUB):
            cases += [
                (arith.truncate(width, a), lambda x, w=width: x & (1 << w) - 1),
                (arith.extend(width, a), lambda x, w=width: signed(x, w) & FULL),
                (
                    arith.move_extended(width, True, a),
                    lambda x, w=width: signed(x, w) & LOW,
                ),
            ]
        for result, real in cases:
            for x in members(a):
                assert holds(result, real(x)), (a, result, x)


@releases
def test_offsets_of_pointers(release):
    arith = small(release)
    for a, b in pairs(release, 400):
        total, difference = arith.pointer_add(a, b), arith.pointer_sub(a, b)
        for x in members(a):
            for y in members(b):
                assert holds(total, x + y & FULL), (a, b, total, x, y)
                assert holds(difference, x - y & FULL), (a, b, difference, x, y)


@releases
def test_links_and_clamps(release):
    arith = small(release)
    top = 1 << (SUB - 1)
    for a in every_kind(release)[::3]:
        for delta in range(-4, 5):
            moved = arith.offset(a, delta, False)
            assert all(holds(moved, x + delta & FULL) for x in members(a)), (a, delta, moved)
        for low in range(-top, top):
            clamped = arith.clamp(a, low, top - 1)
            assert all(holds(clamped, x) for x in members(a) if low <= signed(x, BITS) < top), (
                a,
                low,
                clamped,
            )


@releases
def test_within_is_about_members(release):
    arith = small(release)
    for a, b in pairs(release, 1500):
        if arith.within(a, b):
            assert set(members(b)) <= set(members(a)), (a, b)
        assert arith.within(a, a)
        assert arith.within(arith.unknown, a)


@releases
def test_constants_stay_constants(release):
    arith = small(release)
    for x in range(FULL + 1):
        for y in range(FULL + 1):
            a, b = arith.constant(x), arith.constant(y)
            for effect in (Effect.ADD, Effect.SUB, Effect.MUL, Effect.AND, Effect.OR, Effect.XOR):
                for is32 in (False, True):
                    result = arith.alu(effect, is32, a, b)
                    assert result.const == compute(effect, is32, x, y)
            for effect in JUMPS:
                assert arith.taken(effect, False, a, b) is compare(effect, False, x, y)


@releases
def test_sums_without_overflow_are_exact(release):
    arith = small(release)
    ranges = unsigned_ranges(release)[::3]
    for a in ranges:
        for b in ranges:
            if a.umax + b.umax <= FULL:
                total = arith.alu(Effect.ADD, False, a, b)
                assert (total.umin, total.umax) == (a.umin + b.umin, a.umax + b.umax)
            if a.umin >= b.umax:
                rest = arith.alu(Effect.SUB, False, a, b)
                assert (rest.umin, rest.umax) == (a.umin - b.umax, a.umax - b.umin)


@pytest.mark.parametrize("release", [r for r in RELEASES if r >= (6, 8)])
@pytest.mark.parametrize("effect", [e for e in JUMPS if e is not Effect.JSET])
def test_comparisons_of_ranges_with_constants_are_exact(release, effect):
    """A range that a constant cuts in two, or ends at, is cut there."""
    arith = small(release)
    for a in unsigned_ranges(release)[::9]:
        for y in range(FULL + 1):
            b = arith.constant(y)
            if arith.taken(effect, False, a, b) is not None:
                continue
            both = arith.refine(effect, False, a, b)
            for wanted, result in ((True, both[0]), (False, both[2])):
                left = [x for x in members(a) if compare(effect, False, x, y) is wanted]
                if effect in {Effect.JEQ, Effect.JNE} and len(left) > 1:
                    continue  # all but one value: most kernels cut at the ends only
                if effect in {Effect.JGT, Effect.JGE, Effect.JLT, Effect.JLE}:
                    assert (result.umin, result.umax) == (min(left), max(left)), (a, y, result)
                signs = [signed(x, BITS) for x in left]
                if min(signs) >= 0 or max(signs) < 0:
                    assert (result.smin, result.smax) == (min(signs), max(signs)), (a, y, result)


@pytest.mark.parametrize("release", [r for r in RELEASES if r >= (6, 8)])
def test_another_value_than_an_end_of_a_range_cuts_it(release):
    arith = small(release)
    for a in unsigned_ranges(release):
        if a.const is None:
            result = arith.refine(Effect.JNE, False, a, arith.constant(a.umax))[0]
            assert (result.umin, result.umax) == (a.umin, a.umax - 1)
            result = arith.refine(Effect.JEQ, False, a, arith.constant(a.umin))[2]
            assert (result.umin, result.umax) == (a.umin + 1, a.umax)


@pytest.mark.parametrize("release", [r for r in RELEASES if r >= (7, 0)])
def test_quotients_by_constants_are_exact(release):
    arith = small(release)
    for a in unsigned_ranges(release):
        for y in range(1, FULL + 1):
            result = arith.alu(Effect.DIV, False, a, arith.constant(y))
            assert (result.umin, result.umax) == (a.umin // y, a.umax // y)


@pytest.mark.parametrize("release", [r for r in RELEASES if r >= (6, 12)])
def test_masks_are_tried_one_by_one(release):
    arith = small(release)
    for a in every_kind(release):
        for effect in (Effect.AND, Effect.OR, Effect.XOR):
            forked = arith.fork(effect, a, arith.constant(3))
            if forked is not None:
                assert all(any(holds(f, x) for f in forked) for x in members(a)), (a, forked)
    mask = arith.alu(Effect.ARSH, False, arith.unknown, arith.constant(BITS - 1))
    if arith.precision.fork_masks:
        assert arith.fork(Effect.AND, mask, arith.constant(3)) == (
            arith.constant(-1),
            arith.constant(0),
        )
