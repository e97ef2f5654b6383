"""Tristate numbers against brute force: every one, and every pair, of 5 bits."""

from __future__ import annotations

import operator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.verifier import tnum

BITS = 5
FULL = (1 << BITS) - 1
SIGN = 1 << (BITS - 1)

ALL = [(value, mask) for value, mask in product(range(FULL + 1), repeat=2) if not value & mask]
MEMBERS = {t: [x for x in range(FULL + 1) if x & ~t[1] == t[0]] for t in ALL}


def smallest(values):
    """Return the smallest tristate number that holds all values."""
    both, either = FULL, 0
    for value in values:
        both &= value
        either |= value
    return (both, both ^ either)


def wrapped(compute):
    return lambda a, b: compute(a, b) & FULL


EXACT = {
    "add": (lambda a, b: tnum.add(a, b, FULL), wrapped(operator.add)),
    "sub": (lambda a, b: tnum.sub(a, b, FULL), wrapped(operator.sub)),
    "and": (tnum.and_, operator.and_),
    "or": (tnum.or_, operator.or_),
    "xor": (tnum.xor, operator.xor),
}
SOUND = {
    "mul_sums": lambda a, b: tnum.mul_sums(a, b, FULL),
    "mul": lambda a, b: tnum.mul(a, b, FULL),
    "mul_long": lambda a, b: tnum.mul_long(a, b, FULL),
}


def test_there_are_three_states_for_every_bit():
    assert len(ALL) == 3**BITS


@pytest.mark.parametrize("name", EXACT)
def test_is_the_smallest_number_around_all_results(name):
    abstract, concrete = EXACT[name]
    for a, b in product(ALL, repeat=2):
        results = [concrete(x, y) for x in MEMBERS[a] for y in MEMBERS[b]]
        assert abstract(a, b) == smallest(results), (a, b)


@pytest.mark.parametrize("name", SOUND)
def test_products_hold_every_result(name):
    multiply = SOUND[name]
    for a, b in product(ALL, repeat=2):
        value, mask = multiply(a, b)
        assert not value & mask
        assert all((x * y & FULL) & ~mask == value for x in MEMBERS[a] for y in MEMBERS[b]), (a, b)


def test_products_of_known_numbers_are_known():
    for multiply, x, y in product(SOUND.values(), range(FULL + 1), range(FULL + 1)):
        assert multiply((x, 0), (y, 0)) == (x * y & FULL, 0)


@pytest.mark.parametrize("shift", range(BITS))
def test_shifts_are_exact(shift):
    for a in ALL:
        values = MEMBERS[a]
        assert tnum.lsh(a, shift, FULL) == smallest(x << shift & FULL for x in values)
        assert tnum.rsh(a, shift) == smallest(x >> shift for x in values)
        signed = (((x ^ SIGN) - SIGN) >> shift & FULL for x in values)
        assert tnum.arsh(a, shift, FULL) == smallest(signed)


def test_negation_is_exact():
    for a in ALL:
        assert tnum.neg(a, FULL) == smallest(-x & FULL for x in MEMBERS[a])


def test_ranges_are_exact():
    for low in range(FULL + 1):
        for high in range(low, FULL + 1):
            assert tnum.make_range(low, high) == smallest(range(low, high + 1))


def test_sets_of_members():
    for a, b in product(ALL, repeat=2):
        x, y = set(MEMBERS[a]), set(MEMBERS[b])
        assert tnum.union(a, b) == smallest(x | y)
        assert tnum.overlap(a, b) == bool(x & y)
        assert tnum.within(a, b) == (y <= x)
        if x & y:
            assert set(MEMBERS[tnum.intersect(a, b)]) == x & y


def test_step_is_the_next_member():
    for a in ALL:
        for after in range(FULL + 1):
            later = [x for x in MEMBERS[a] if x > after]
            assert tnum.step(a, after) == (later or MEMBERS[a][-1:])[0]


def test_parts():
    for a in ALL:
        values = MEMBERS[a]
        assert tnum.subreg(a, 3) == smallest(x & 7 for x in values)
        assert tnum.clear_subreg(a, 3) == smallest(x & ~7 for x in values)
        assert tnum.const_subreg(a, 5, 3) == smallest(x & ~7 | 5 for x in values)
        for size in (0, 1, 2, 4, 8):
            assert tnum.is_aligned(a, size) == all(not size or x % size == 0 for x in values)
        assert tnum.is_const(a) == (len(values) == 1)
        assert [x for x in range(FULL + 1) if tnum.contains(a, x)] == values
    for a, b in product(ALL[::3], ALL[::5]):
        mixed = smallest(x & ~7 | y & 7 for x in MEMBERS[a] for y in MEMBERS[b])
        assert tnum.with_subreg(a, b, 3) == mixed


def test_cast_keeps_bytes():
    assert tnum.cast((0x1234, 0xF0000), 1) == (0x34, 0)
    assert tnum.cast((0x1234, 0xF00C0), 2) == (0x1234, 0xC0)


def test_constants():
    assert tnum.const(5) == (5, 0)
    assert tnum.unknown() == tnum.UNKNOWN == (0, 2**64 - 1)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.sampled_from((16, 32, 64)))
def test_swap_reverses_bytes(value, mask, bits):
    low = (1 << bits) - 1
    swapped = tnum.swap((value & ~mask, mask), bits)
    size = bits // 8
    member = int.from_bytes((value & low).to_bytes(size, "little"), "big")
    assert tnum.contains(swapped, member)
    assert tnum.swap(swapped, bits) == (value & ~mask & low, mask & low)
