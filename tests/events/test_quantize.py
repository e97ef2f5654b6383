"""Which values a bucket of quantize counts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pybpf.events.quantize import bounds
from pybpf.testing.values import INTS
from pybpf.types import S8, S32, S64, U32, U64, Show, Typedef


@pytest.mark.parametrize(
    ("index", "t", "low", "high"),
    [
        (0, U32, 0, 1),
        (1, U32, 2, 3),
        (9, U64, 512, 1023),
        (31, U32, 1 << 31, (1 << 32) - 1),
        (63, U64, 1 << 63, (1 << 64) - 1),
        (30, S32, 1 << 30, (1 << 31) - 1),
        (31, S32, -(1 << 31), -1),
        (63, S64, -(1 << 63), -1),
        (31, S8, -128, -1),
        (63, Typedef("time_t", S64, Show.TIME), -(1 << 63), -1),
    ],
)
def test_bounds(index, t, low, high):
    assert bounds(index, t) == (low, high)


@pytest.mark.parametrize("t", INTS, ids=str)
def test_the_buckets_cover_every_value_of_the_type_once(t):
    ranges = sorted(bounds(index, t) for index in range(t.bits))
    assert all(low == high + 1 for (_, high), (low, _) in pairwise(ranges))
    smallest = -(1 << (t.bits - 1)) if t.signed else 0
    assert (ranges[0][0], ranges[-1][1]) == (smallest, smallest + (1 << t.bits) - 1)
