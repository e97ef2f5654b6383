"""Maps look as ply prints them."""

from __future__ import annotations

import pytest

from pybpf.output.table import table
from pybpf.rows import Buckets, MapRow, Stack
from pybpf.types import CHAR, INT, U32, U64, Array, Show, Typedef, struct_of

COMM = Array(CHAR, 16)
PID = Typedef("pid_t", U32, Show.PID)
SYMBOL = Typedef("symbol_t", U64, Show.SYMBOL)
STACK = Typedef("stack_t", U32, Show.STACK)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            MapRow(
                "a",
                (INT, Array(CHAR, 8)),
                INT,
                (
                    ((1, b"w".ljust(8, b"\0")), 3),
                    ((1, b"x".ljust(8, b"\0")), 3),
                    ((0, b"z".ljust(8, b"\0")), 9),
                ),
            ),
            "\na:\n{ 1, w       }: 3\n{ 1, x       }: 3\n{ 0, z       }: 9\n",
        ),
        (
            MapRow(
                "@",
                (COMM, SYMBOL),
                U64,
                (((b"dd".ljust(16, b"\0"), 0xFFFFFFFF81000005), 6),),
            ),
            "\n@:\n{ dd             , vfs_read+5 }: 6\n",
        ),
        (MapRow("@", (), U64, (((), 7),)), "\n@: 7\n"),
        (
            MapRow("@q", (), INT, (((), Buckets((1,) + (0,) * 31)),)),
            f"\n@q: \n\t[   0,    1]\t       1 ┤{'█' * 32}│\n\n",
        ),
        (
            MapRow("p", (PID,), Array(CHAR, 16), (((220,), b"/lib/libc.so.6\0\0"),)),
            "\np:\n{   220 }: /lib/libc.so.6 \n",
        ),
        (
            MapRow(
                "@s",
                (STACK,),
                U64,
                (((Stack(1, (0xFFFFFFFF81000005, 0xFFFFFFFF8100106B)),), 2),),
            ),
            "\n@s:\n{ \n\tvfs_read+5\n\tksys_read+107\n }: 2\n",
        ),
        (
            MapRow("@q", (INT,), INT, (((1,), Buckets((1,) + (0,) * 31)),)),
            f"\n@q:\n{{ 1 }}: \n\t[   0,    1]\t       1 ┤{'█' * 32}│\n\n",
        ),
        (
            MapRow("x", (INT,), struct_of("pair", [("a", INT), ("b", INT)]), (((1,), (2, 3)),)),
            "\nx:\n{ 1 }: {\n\ta = 2,\n\tb = 3\n}\n",
        ),
        (MapRow("empty", (INT,), INT, ()), ""),
    ],
    ids=[
        "two keys",
        "caller",
        "no key",
        "no key, histogram",
        "string value",
        "stack key",
        "histogram",
        "struct",
        "empty",
    ],
)
def test_table(row, text, style):
    assert table(row, style) == text
