"""Histograms look as ply draws them."""

from __future__ import annotations

import pytest

from pybpf.output.histogram import histogram
from pybpf.types import INT, S64, U32, U64, Show, Typedef

TIME = Typedef("time_t", S64, Show.TIME)


def counts(bits, **buckets):
    """Return bucket counts from ``bINDEX=COUNT``."""
    return tuple(buckets.get(f"b{i}", 0) for i in range(bits))


def draw(bits, t, *, unicode=True, **buckets):
    return histogram(counts(bits, **buckets), t, unicode=unicode).splitlines()


def test_negative_values_gaps_and_suffixes():
    assert histogram(
        counts(32, b31=2, b0=2, b1=2, b9=1, b10=1, b16=1, b30=1), INT, unicode=True
    ) == (
        "\n"
        "\t         < 0\t       2 ┤██████▍                         │\n"
        "\t[   0,    1]\t       2 ┤██████▍                         │\n"
        "\t[   2,    3]\t       2 ┤██████▍                         │\n"
        "\t...\n"
        "\t[ 512,   1k)\t       1 ┤███▎                            │\n"
        "\t[  1k,   2k)\t       1 ┤███▎                            │\n"
        "\t...\n"
        "\t[ 64k, 128k)\t       1 ┤███▎                            │\n"
        "\t...\n"
        "\t[  1G,   2G)\t       1 ┤███▎                            │\n"
    )


@pytest.mark.parametrize(
    ("index", "label"),
    [
        (0, "[   0,    1]"),
        (1, "[   2,    3]"),
        (3, "[   8,   15]"),
        (8, "[ 256,  511]"),
        (9, "[ 512,   1k)"),
        (10, "[  1k,   2k)"),
        (19, "[512k,   1M)"),
        (29, "[512M,   1G)"),
        (39, "[512G,   1T)"),
        (49, "[512T,   1P)"),
        (59, "[512P,   1E)"),
        (62, "[  4E,   8E)"),
        (63, "[  8E,  16E)"),
    ],
)
def test_labels(index, label):
    (_, row) = draw(64, U64, **{f"b{index}": 1})
    assert row == f"\t{label}\t       1 ┤{'█' * 32}│"


@pytest.mark.parametrize(
    ("index", "label"),
    [
        (0, "[   0ns,    1ns]"),
        (8, "[ 256ns,  511ns]"),
        (10, "[1.02us, 2.04us]"),
        (40, "[  18 M,   36 M]"),
        (44, "[ 293 M,  586 M]"),
        (62, "[ 146 Y,  292 Y]"),
    ],
)
def test_a_time_has_time_labels(index, label):
    (_, row) = draw(64, TIME, **{f"b{index}": 1})
    assert row == f"\t{label}\t       1 ┤{'█' * 32}│"


def test_the_top_bucket_of_an_unsigned_type_is_an_ordinary_one():
    assert [line.split("\t")[1] for line in draw(32, U32, b31=1)[1:]] == ["[  2G,   4G)"]


@pytest.mark.parametrize(
    ("buckets", "labels"),
    [
        ({"b31": 1}, ["         < 0", "..."]),
        ({"b31": 1, "b0": 1}, ["         < 0", "[   0,    1]"]),
        ({"b31": 1, "b1": 1}, ["         < 0", "...", "[   2,    3]"]),
        ({"b3": 1}, ["[   8,   15]"]),
        ({"b3": 1, "b4": 1}, ["[   8,   15]", "[  16,   31]"]),
        ({"b3": 1, "b5": 1}, ["[   8,   15]", "...", "[  32,   63]"]),
    ],
)
def test_dots_mark_gaps(buckets, labels):
    assert [line.split("\t")[1] for line in draw(32, INT, **buckets)[1:]] == labels


@pytest.mark.parametrize(
    ("count", "bar"),
    [
        (1, "                                "),
        (2, "▏                               "),
        (4, "▏                               "),
        (500, "████████████████                "),
        (502, "████████████████▏               "),
        (996, "███████████████████████████████▉"),
        (998, "███████████████████████████████▉"),
        (999, "████████████████████████████████"),
    ],
)
def test_bars_are_in_eighths_of_a_cell(count, bar):
    assert draw(32, INT, b0=count, b1=1000 - count)[1] == f"\t[   0,    1]\t{count:8} ┤{bar}│"


def test_ascii_bars():
    assert draw(32, INT, unicode=False, b0=3, b1=1)[1:] == [
        "\t[   0,    1]\t       3 |########################        |",
        "\t[   2,    3]\t       1 |########                        |",
    ]


def test_counts_wider_than_their_column_and_an_empty_histogram():
    assert draw(32, INT, b0=1 << 60)[1] == f"\t[   0,    1]\t{1 << 60} ┤{'█' * 32}│"
    assert histogram((0,) * 32, INT, unicode=True) == "\n"
