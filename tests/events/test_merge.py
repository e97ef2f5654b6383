"""Per-CPU counters add up; entries come in ply's order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.events.merge import add, order
from pybpf.types import S64, U64

WORDS = st.integers(0, (1 << 64) - 1)
HISTOGRAMS = st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("counters", "t", "sums"),
    [
        ([(3,), (4,)], U64, (7,)),
        ([((1 << 64) - 1,), (2,)], U64, (1,)),
        ([(5,), (-7,)], S64, (-2,)),
        ([((1 << 63) - 1,), (1,)], S64, (-(1 << 63),)),
        ([(1, 0, 2), (0, 0, 3)], U64, (1, 0, 5)),
    ],
)
def test_add(counters, t, sums):
    assert add(counters, t) == sums


@given(HISTOGRAMS)
def test_the_order_of_cpus_does_not_matter(counters):
    assert add(counters, U64) == add(counters[::-1], U64)


@given(HISTOGRAMS, HISTOGRAMS)
def test_adding_in_two_steps_is_adding_in_one(some, others):
    assert add([add(some, U64), add(others, U64)], U64) == add(some + others, U64)


@given(HISTOGRAMS)
def test_a_cpu_that_counted_nothing_changes_nothing(counters):
    assert add([*counters, (0, 0, 0)], U64) == add(counters, U64)


@pytest.mark.parametrize(
    "entries",
    [
        [((9,), 1), ((2,), 3)],
        [((-5,), 1), ((5,), 1)],
        [((-2147483647,), 4), ((-5,), 4), ((5,), 4), ((2147483647,), 4)],
        [((0,), -(1 << 63)), ((0,), 0), ((0,), (1 << 64) - 1)],
        [((1, b"w\0"), 3), ((1, b"x\0"), 3), ((0, b"z\0"), 9)],
        [((b"Z\0",), 1), ((b"a\0",), 1), ((b"\xc3\xa9\0",), 1)],
        [(((1, 2),), 1), (((1, 3),), 1)],
        [((1,), (0, 5, 0)), ((2,), (1, 0, 0)), ((0,), (1, 0, 9))],
    ],
    ids=[
        "value first",
        "then key",
        "keys far apart",
        "values far apart",
        "key fields in order",
        "strings bytewise",
        "arrays elementwise",
        "histograms from bucket 0 up",
    ],
)
def test_order(entries):
    assert order(entries[::-1]) == entries
    assert order(entries) == entries
