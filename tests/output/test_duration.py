"""Time spans in six columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.output.duration import duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "   0ns"),
        (-28, " -28ns"),
        (-5_000_000_000, "-5000000000ns"),
        (256, " 256ns"),
        (999, " 999ns"),
        (1000, "1.00us"),
        (1024, "1.02us"),
        (2047, "2.04us"),
        (9_999, "9.99us"),
        (10_000, "10.0us"),
        (99_999, "99.9us"),
        (100_000, " 100us"),
        (999_999, " 999us"),
        (1_000_000, "1.00ms"),
        (12_345_678, "12.3ms"),
        (999_999_999, " 999ms"),
        (SECOND, "1.00 s"),
        (12 * SECOND, "12.0 s"),
        (886 * SECOND, " 886 s"),
        (999 * SECOND, " 999 s"),
        (1000 * SECOND, "  16 M"),
        (27 * 60 * SECOND, "  27 M"),
        (1 << 40, "  18 M"),
        ((1 << 41) - 1, "  36 M"),
        (999 * 60 * SECOND, " 999 M"),
        (1000 * 60 * SECOND, "  16 H"),
        (1000 * 3600 * SECOND, "  41 D"),
        (1000 * 86400 * SECOND, "   2 Y"),
        ((1 << 63) - 1, " 292 Y"),
        ((1 << 64) - 1, " 584 Y"),
    ],
)
def test_duration(ns, text):
    assert duration(ns) == text


@given(st.integers(-999, (1 << 64) - 1))
def test_six_columns_always(ns):
    assert len(duration(ns)) == 6
