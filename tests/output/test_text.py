"""Rows as text."""

from __future__ import annotations

import pytest

from pybpf.output.text import render, render_lost
from pybpf.rows import Buckets, Cell, ExitRow, LostRow, MapRow, PrintfRow, PrintRow
from pybpf.script import Conversion, Text
from pybpf.types import CHAR, INT, S64, U32, Array, Show, Typedef

COMM = Array(CHAR, 16)
PID = Typedef("pid_t", U32, Show.PID)
MEM = Typedef("mem", Array(CHAR, 3), Show.BYTES)
WALLTIME = Typedef("walltime_t", S64, Show.WALLTIME)
NAME = Cell(b"m".ljust(8, b"\0"), Array(CHAR, 8))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (PrintRow((Cell(5, PID), Cell(b"ply", COMM))), "    5, ply            \n"),
        (PrintRow(()), "\n"),
        (
            PrintRow((NAME, MapRow("a", (INT,), INT, (((1,), 1),)), Cell(29013, PID))),
            "m      , \na:\n{ 1 }: 1\n, 29013\n",
        ),
        (PrintRow((NAME, MapRow("a", (INT,), INT, ()))), "m      , \n"),
        (
            PrintRow((Cell(1, INT), Cell(b"a\tb", MEM), Cell(2, INT))),
            "1, \n000:  61 09 62                                           a.b\n, 2\n",
        ),
        (
            PrintfRow((Text(b"n="), Conversion("", None, None, "d")), (Cell(1, INT),)),
            "n=1",
        ),
        (MapRow("a", (INT,), INT, (((1,), 2),)), "\na:\n{ 1 }: 2\n"),
        (MapRow("a", (INT,), INT, ()), ""),
        (ExitRow(3), ""),
        (LostRow(1903), "warning: 1903 records lost; a bigger --buffer may help\n"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_render(row, text, symbols):
    assert render(row, symbols) == text


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (LostRow(1), "warning: 1 record lost; a bigger --buffer may help"),
        (LostRow(12, "@x"), "warning: 12 updates of @x lost: the map is full (--map-size)"),
        (LostRow(1, "m"), "warning: 1 update of m lost: the map is full (--map-size)"),
    ],
)
def test_render_lost(row, text):
    assert render_lost(row) == text


@pytest.mark.usefixtures("utc")
def test_the_offset_of_the_wall_clock_is_added(symbols):
    row = PrintRow((Cell(5, WALLTIME),))
    assert render(row, symbols, walltime_offset=3600 * 10**9) == "01:00:00.000000005\n"


def test_bars_in_ascii(symbols):
    row = MapRow("@", (INT,), INT, (((1,), Buckets((1,) + (0,) * 31)),))
    assert render(row, symbols, unicode=False).isascii()
