"""Rows as JSON lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from pybpf.output.jsonl import render
from pybpf.rows import Buckets, Cell, ExitRow, LostRow, MapRow, PrintfRow, PrintRow, Stack
from pybpf.script import Conversion, Text
from pybpf.testing.values import cells
from pybpf.types import (
    CHAR,
    INT,
    S8,
    S64,
    U32,
    U64,
    VOID,
    Array,
    DataLoc,
    Ptr,
    Show,
    Typedef,
    struct_of,
)

COMM = Array(CHAR, 16)
PID = Typedef("pid_t", U32, Show.PID)
TIME = Typedef("time_t", S64, Show.TIME)
WALLTIME = Typedef("walltime_t", S64, Show.WALLTIME)
SYMBOL = Typedef("symbol_t", U64, Show.SYMBOL)
STACK = Typedef("stack_t", U32, Show.STACK)
MEM = Typedef("mem", Array(CHAR, 4), Show.BYTES)
HISTOGRAM = Buckets((3, 0, 4) + (0,) * 4 + (9,))


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            PrintfRow((Text(b"n="), Conversion("", 3, None, "d"), Text(b"\n")), (Cell(1, INT),)),
            r'{"event":"printf","text":"n=  1\n"}',
        ),
        (
            PrintRow((Cell(5, PID), Cell(b"ply".ljust(16, b"\0"), COMM))),
            '{"event":"print","values":[5,"ply"]}',
        ),
        (
            PrintRow((MapRow("a", (INT,), INT, (((1,), 2),)),)),
            '{"event":"print","values":[{"name":"a","entries":[{"key":[1],"value":2}]}]}',
        ),
        (
            MapRow("@", (COMM, SYMBOL), U64, (((b"dd\0", 0xFFFFFFFF81000005), 6),)),
            '{"event":"map","name":"@","entries":[{"key":["dd","vfs_read+5"],"value":6}]}',
        ),
        (
            MapRow("", (), S8, (((), HISTOGRAM),)),
            '{"event":"map","name":"","entries":[{"key":[],"value":[[-128,-1,9],[0,1,3],[4,7,4]]}]}',
        ),
        (MapRow("a", (INT,), INT, ()), '{"event":"map","name":"a","entries":[]}'),
        (ExitRow(3), '{"event":"exit","code":3}'),
        (LostRow(1903), '{"event":"lost","records":1903}'),
        (LostRow(12, "@x"), '{"event":"lost","map":"@x","updates":12}'),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_render(row, line, symbols):
    assert render(row, symbols) == line + "\n"


@pytest.mark.parametrize(
    ("value", "t", "expected"),
    [
        (-5, INT, -5),
        ((1 << 64) - 1, U64, (1 << 64) - 1),
        (1024, TIME, 1024),
        (5, WALLTIME, 1005),
        (0xFFFF, Ptr(VOID), 0xFFFF),
        (0xFFFFFFFF81000000, SYMBOL, "vfs_read"),
        (0x10, SYMBOL, 0x10),
        (Stack(1, (0xFFFFFFFF8100106B, 0x10)), STACK, ["ksys_read+107", 0x10]),
        (Stack(-17, ()), STACK, []),
        (b"a\xff\x1b\0b", COMM, "a\\xff\x1b"),
        ("é".encode() + b"\0", COMM, "é"),
        (b"abc\0", MEM, "abc"),
        (b"a\0b\xff", MEM, "a\0b\\xff"),
        ((1, 2), Array(INT, 2), [1, 2]),
        ((1, b"x\0"), struct_of("pair", [("a", INT), ("b", COMM)]), {"a": 1, "b": "x"}),
        ((1, b"x\0"), struct_of("", [("a", INT), ("b", COMM)]), [1, "x"]),
        ((1, 2), VOID, [1, 2]),
        (0x00080014, DataLoc(CHAR), {"offset": 0x14, "length": 8}),
    ],
    ids=str,
)
def test_values(value, t, expected, symbols):
    line = render(PrintRow((Cell(value, t),)), symbols, walltime_offset=1000)
    assert json.loads(line) == {"event": "print", "values": [expected]}


@given(cells())
def test_any_value_of_any_type_is_one_printable_line_of_json(symbols, cell):
    line = render(PrintRow((cell, MapRow("@", (cell.type,), INT, (((cell.value,), 1),)))), symbols)
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert json.loads(line)["event"] == "print"


def test_delete_is_escaped(symbols):
    line = render(PrintRow((Cell(b"\x7f\0", COMM),)), symbols)
    assert line == '{"event":"print","values":["\\u007f"]}\n'
