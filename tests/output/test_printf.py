"""printf does what C's does, on values whose types are known."""

from __future__ import annotations

import ctypes
import platform

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.output.printf import _in_full, render_printf
from pybpf.printf import LETTERS, parse_format
from pybpf.rows import Cell, MapRow, Stack
from pybpf.script import Conversion, Text
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
    Ptr,
    Show,
    Typedef,
    struct_of,
)

COMM = Array(CHAR, 16)
PID = Typedef("pid_t", U32, Show.PID)
TIME = Typedef("time_t", S64, Show.TIME)
SYMBOL = Typedef("symbol_t", U64, Show.SYMBOL)
STACK = Typedef("stack_t", U32, Show.STACK)
MEM = Typedef("mem", Array(CHAR, 4), Show.BYTES)


@pytest.mark.parametrize(
    ("text", "value", "t", "expected"),
    [
        ("%d", 2, INT, "2"),
        ("%ld", 2, INT, "2"),
        ("%5d|", -7, INT, "   -7|"),
        ("%-5d|", 7, INT, "7    |"),
        ("%05d", -7, INT, "-0007"),
        ("%+d % d", 7, INT, "+7 % d"),
        ("%'d", 1234567, INT, "1234567"),
        ("%.3d", 7, INT, "007"),
        ("%d", (1 << 32) - 1, U32, "-1"),
        ("%d", (1 << 64) - 100, U64, "-100"),
        ("%d", 255, U8, "255"),
        ("%u", -1, INT, "4294967295"),
        ("%u", -1, S64, "18446744073709551615"),
        ("%u", -1, CHAR, "4294967295"),
        ("%x", -100, S64, "ffffffffffffff9c"),
        ("%#x", 255, INT, "0xff"),
        ("%#X", 255, INT, "0XFF"),
        ("%#x", 0, INT, "0"),
        ("%#o", 8, INT, "010"),
        ("%08x", 0xBEEF, U32, "0000beef"),
        ("%5d", 42, PID, "   42"),
        ("%v", 42, PID, "   42"),
        ("%1v", 42, PID, "   42"),
        ("%v", 1024, TIME, "1.02us"),
        ("%d", 1024, TIME, "1024"),
        ("%s", b"ply".ljust(16, b"\0"), COMM, "ply"),
        ("%6s|", b"ply".ljust(16, b"\0"), COMM, "   ply|"),
        ("%-6s|", b"ply".ljust(16, b"\0"), COMM, "ply   |"),
        ("%.2s|", b"ply".ljust(16, b"\0"), COMM, "pl|"),
        ("%.s|", b"ply".ljust(16, b"\0"), COMM, "|"),
        ("%v|", b"ply".ljust(16, b"\0"), COMM, "ply            |"),
        ("%s", b"abcdefgh", Array(CHAR, 8), "abcdefgh"),
        ("%4s|", "日".encode() + b"\0", COMM, "  日|"),
        ("%.1s", "日本".encode(), COMM, "日"),
        ("%s", b"a\nb\x1b\xff\0", COMM, "a\\nb\\x1b\\xff"),
        ("%s", b"a\0b\0", MEM, "a"),
        ("%s", 0xFFFFFFFF81000005, SYMBOL, "vfs_read+5"),
        ("%12s|", 0xFFFFFFFF81000005, SYMBOL, "  vfs_read+5|"),
        ("%s", Stack(1, (0xFFFFFFFF81000005,)), STACK, "\n\tvfs_read+5\n"),
        ("%d", Stack(-17, ()), STACK, "-17"),
        ("%s", 42, PID, "42"),
        ("%c", 65, INT, "A"),
        ("%3c|", 65, INT, "  A|"),
        ("%c", 10, INT, "\\n"),
        ("%c", 0, INT, "\\x00"),
        ("%c", 0x1C3, INT, "\\xc3"),
        ("%c", b"xyz\0", COMM, "x"),
        ("%p", 0xFFFF, Ptr(VOID), "0xffff"),
        ("%p", 0, Ptr(VOID), "(nil)"),
        ("%20p|", 0xFFFF, Ptr(VOID), "              0xffff|"),
        ("%f", 2, INT, "2.000000"),
        ("%08.2f", -2, INT, "-0002.00"),
        ("%e", 12345, INT, "1.234500e+04"),
        ("%G", 10**20, U64, "1E+20"),
        ("%a", 1, INT, "0x1p+0"),
        ("%.1a", 1000, INT, "0x1.fp+9"),
        ("%A", 10, INT, "0X1.4P+3"),
        ("%d", b"7\0", COMM, "7"),
        ("%v", (1, 2), struct_of("", [("a", INT), ("b", INT)]), "{ 1, 2 }"),
        ("%9d", (1, 2), Array(INT, 2), "   [1, 2]"),
        ("\x1b[1m%d\n", 1, INT, "\x1b[1m1\n"),
        ("é%%%d", 1, INT, "é%1"),
    ],
)
def test_printf(text, value, t, expected, style):
    assert render_printf(parse_format(text.encode()), [Cell(value, t)], style) == expected


def test_cells_are_taken_in_order_and_one_too_many_is_not_printed(style):
    cells = [Cell(1, INT), Cell(b"x\0", COMM), Cell(3, INT)]
    assert render_printf(parse_format(b"%d-%s\n"), cells, style) == "1-x\n"


def test_a_conversion_without_a_value_is_printed_as_it_is(style):
    assert render_printf(parse_format(b"%d %-05.3lx\n"), [Cell(1, INT)], style) == "1 %-05.3x\n"


def test_invalid_utf8_in_the_format_is_visible(style):
    assert render_printf((Text(b"\xff\n"),), [], style) == "\\xff\n"


def test_a_map_is_printed_whole(style):
    row = MapRow("a", (INT,), INT, (((1,), 2),))
    assert render_printf(parse_format(b"%v|"), [row], style) == "\na:\n{ 1 }: 2\n|"


FLAGS = st.text("-+ #0", max_size=3)
WIDTHS = st.none() | st.integers(1, 40)


def written(flags, width, precision, suffix):
    places = "" if precision is None else f".{precision}"
    return f"%{flags}{width or ''}{places}{suffix}".encode()


def libc_printf(text, argument):
    buffer = ctypes.create_string_buffer(4096)
    ctypes.CDLL(None).snprintf(buffer, len(buffer), text, argument)
    return buffer.value.decode()


needs_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="C leaves details of printf open; glibc is the model"
)


@needs_glibc
@given(
    FLAGS,
    WIDTHS,
    WIDTHS | st.just(0),
    st.sampled_from("diouxX"),
    st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 2),
    st.sampled_from((INT, U32, S64, U64)),
)
def test_integers_are_printed_as_glibc_does(style, flags, width, precision, letter, value, t):
    value = t.wrap(value)
    length, argument = ("ll", ctypes.c_int64) if t.size == 8 else ("", ctypes.c_int32)
    theirs = libc_printf(written(flags, width, precision, length + letter), argument(value))
    ours = render_printf((Conversion(flags, width, precision, letter),), [Cell(value, t)], style)
    assert ours == theirs


@needs_glibc
@given(
    FLAGS,
    WIDTHS,
    WIDTHS | st.just(0),
    st.sampled_from("aAeEfFgG"),
    st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-9, 9),
)
def test_floats_are_printed_as_glibc_does(style, flags, width, precision, letter, value):
    theirs = libc_printf(written(flags, width, precision, letter), ctypes.c_double(value))
    ours = render_printf((Conversion(flags, width, precision, letter),), [Cell(value, S64)], style)
    assert ours == theirs


CONVERSIONS = st.builds(
    Conversion,
    st.text("-+ #0'", max_size=6),
    st.none() | st.integers(0, 1 << 70),
    st.none() | st.integers(0, 1 << 70),
    st.sampled_from(LETTERS),
)


@given(CONVERSIONS, cells())
def test_any_conversion_of_any_value_is_printed_without_control_characters(style, conversion, cell):
    text = render_printf((conversion,), [cell], style)
    assert text.replace("\n", "").replace("\t", "").isprintable()
    assert len(text) < 100_000


@given(
    conversions=st.lists(
        st.tuples(
            st.sampled_from(["", "-", "0", "-0", "+", " ", "#"]),
            st.sampled_from(["", "1", "20"]),
            st.sampled_from(["", ".0", ".3"]),
            st.sampled_from("sdiuxXocv"),
        ),
        max_size=4,
    ),
    some=st.lists(cells(), min_size=4, max_size=4),
)
def test_the_short_way_prints_what_the_long_way_prints(conversions, some, style):
    text = " ".join(["50%%", *(f"%{''.join(parts)}" for parts in conversions)])
    pieces = parse_format(text.encode())
    some = some[: len(conversions)]

    shown = render_printf(pieces, some, style)

    assert shown == _in_full(pieces, some, style)
    assert shown == render_printf(pieces, some, style)  # once more: by then it is remembered


def test_a_format_keeps_up_with_other_types(style):
    """Formats are remembered with the types they were first used with."""
    pieces = parse_format(b"%d %s")
    for cell, expected in [(Cell(7, INT), "7 x"), (Cell(2**64 - 1, U64), "-1 x")]:
        assert render_printf(pieces, [cell, Cell(b"x\0", Array(CHAR, 2))], style) == expected
