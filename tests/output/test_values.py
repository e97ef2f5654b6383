"""Values in the default format of their type, as ply prints them."""

from __future__ import annotations

import pytest
from hypothesis import given

from pybpf.output.values import Style, show
from pybpf.rows import Buckets, Stack
from pybpf.testing.values import cells
from pybpf.types import (
    CHAR,
    INT,
    S64,
    U8,
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
STACK = Typedef("stack_t", U32, Show.STACK)


def shown(show_as, size=U64):
    return Typedef("t", size, show_as)


def mem(size):
    return Typedef("mem", Array(CHAR, size), Show.BYTES)


@pytest.mark.parametrize(
    ("value", "t", "text"),
    [
        (-5, INT, "-5"),
        ((1 << 64) - 1, U64, "18446744073709551615"),
        (220, shown(Show.PID, U32), "  220"),
        (1234567, shown(Show.PID, U32), "1234567"),
        (0, shown(Show.UID, U32), "   0"),
        (1, shown(Show.CPU, U32), " 1"),
        (-28, shown(Show.TIME, S64), " -28ns"),
        (0xFFFF, shown(Show.HEX), "0xffff"),
        (0, shown(Show.HEX), "0"),
        (-1, shown(Show.HEX, S64), "0xffffffffffffffff"),
        (-1, shown(Show.HEX, INT), "0xffffffff"),
        (0xFFFFFFFF81000005, shown(Show.SYMBOL), "vfs_read+5"),
        (0xFFFFFFFF81000000, shown(Show.SYMBOL), "vfs_read"),
        (0x1234, shown(Show.SYMBOL), "<            1234>"),
        (0xFFFFE8FFFFD21DF8, Ptr(VOID), "<ffffe8ffffd21df8>"),
        (0x00080014, DataLoc(CHAR), "dynamic(8 bytes, offset 0x14)"),
        ((0, 140722520718428, 0), Array(U64, 3), "[0, 140722520718428, 0]"),
        ((1, b"w\0\0"), struct_of("", [("0", INT), ("1", Array(CHAR, 3))]), "{ 1, w  }"),
        ((1, 2), struct_of("pair", [("a", INT), ("b", U8)]), "{\n\ta = 1,\n\tb = 2\n}"),
        (5, Typedef("outer", shown(Show.PID, U32)), "    5"),
        ((5, 6), Array(shown(Show.PID, U32), 2), "[    5,     6]"),
        (b"ply".ljust(16, b"\0"), COMM, "ply            "),
        (b"a\tb\0", Array(CHAR, 4), "a\\tb"),
        (b"12345678", Array(CHAR, 8), "12345678"),
        (b"ab\0cd\0\0\0", Array(CHAR, 8), "ab     "),
        (b"\x1b[0m\0\0\0\0\0", Array(CHAR, 9), "\\x1b[0m "),
        ("日本".encode() + bytes(4), Array(CHAR, 10), "日本     "),
        (b"w", Array(CHAR, 8), "w      "),
        (bytes(4), Array(CHAR, 4), "   "),
        (b"abc\0", mem(4), "abc"),
        (bytes(4), mem(4), "   "),
    ],
)
def test_show(value, t, text, style):
    assert show(value, t, style) == text


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (
            b"a\tb",
            ["000:  61 09 62                                           a.b"],
        ),
        (
            b"12345678",
            ["000:  31 32 33 34 35 36 37 38                            12345678"],
        ),
        (
            b"ab\0c\xff67890\x7f2",
            ["000:  61 62 00 63 ff 36 37 38  39 30 7f 32               ab.c.678 90.2"],
        ),
        (
            bytes(range(0x40, 0x52)),
            [
                "000:  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f   @ABCDEFG HIJKLMNO",
                "010:  50 51                                              PQ",
            ],
        ),
    ],
    ids=["tab", "no NUL", "data after NUL", "two rows"],
)
def test_bytes_that_are_no_text_are_dumped(data, lines, style):
    assert show(data, mem(len(data)), style) == "\n" + "".join(f"{line}\n" for line in lines)


def test_a_stack_has_a_line_for_each_frame(style):
    stack = Stack(7, (0xFFFFFFFF81000005, 0xFFFFFFFF8100106B, 0x10))
    assert show(stack, STACK, style) == ("\n\tvfs_read+5\n\tksys_read+107\n\t<              10>\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Stack(7, ()), "<STACKID7>"),
        (Stack(-17, ()), "<STACKID4294967279>"),
        (Stack(-14, ()), "<user space>"),
        (7, "<STACKID7>"),
    ],
)
def test_a_stack_that_cannot_be_found(value, text, style):
    assert show(value, STACK, style) == text


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("ns", "offset", "text"),
    [
        (0, 0, "00:00:00.000000000"),
        (1_000_000_002, 12 * 3600 * 10**9, "12:00:01.000000002"),
        (-1, 0, "23:59:59.999999999"),
    ],
)
def test_walltime(ns, offset, text, symbols):
    style = Style(symbols, walltime_offset=offset)
    assert show(ns, shown(Show.WALLTIME, S64), style) == text


def test_symbol_names_are_escaped():
    class Hostile:
        def resolve(self, address):
            return ("a\x1b[0m", address)

    assert show(3, shown(Show.SYMBOL), Style(Hostile())) == "a\\x1b[0m+3"


@pytest.mark.parametrize(
    ("value", "t"),
    [((1, b"x"), VOID), (b"x", INT), (Buckets((1, 2)), COMM), (Stack(1, ()), COMM), (3, COMM)],
    ids=str,
)
def test_a_value_that_does_not_fit_its_type_is_still_shown(value, t, style):
    assert show(value, t, style).strip()


@given(cells())
def test_any_value_of_any_type_is_shown_without_control_characters(style, cell):
    text = show(cell.value, cell.type, style)
    assert text.replace("\n", "").replace("\t", "").isprintable()
