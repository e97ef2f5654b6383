"""A printf format is split into text and conversions, or refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.printf import LETTERS, MAX_WIDTH, FormatFault, parse_format
from pybpf.script import Conversion, Text

CHOICE = "the letters are d i o u x X c s p a A e E f F g G v"


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (b"", ()),
        (b"plain\n", (Text(b"plain\n"),)),
        (b"100%", (Text(b"100%"),)),
        (b"%", (Text(b"%"),)),
        (b"100%%\n", (Text(b"100%\n"),)),
        (b"%%%", (Text(b"%%"),)),
        (b"%d", (Conversion("", None, None, "d"),)),
        (b"a%db", (Text(b"a"), Conversion("", None, None, "d"), Text(b"b"))),
        (b"%d%%%s", (Conversion("", None, None, "d"), Text(b"%"), Conversion("", None, None, "s"))),
        (b"%-05d", (Conversion("-0", 5, None, "d"),)),
        (b"%+ #'x", (Conversion("+ #'", None, None, "x"),)),
        (b"%8.3f", (Conversion("", 8, 3, "f"),)),
        (b"%.s", (Conversion("", None, 0, "s"),)),
        (b"%.0005d", (Conversion("", None, 5, "d"),)),
        (b"%1024d", (Conversion("", MAX_WIDTH, None, "d"),)),
        (b"%v\xc3\xa9\x00", (Conversion("", None, None, "v"), Text(b"\xc3\xa9\x00"))),
    ],
)
def test_pieces(text, pieces):
    assert parse_format(text) == pieces


@pytest.mark.parametrize("length", ["hh", "h", "l", "ll", "j", "z", "t", "q", "L"])
def test_a_length_is_dropped(length):
    assert parse_format(f"%5{length}d".encode()) == (Conversion("", 5, None, "d"),)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_letter_is_a_conversion(letter):
    assert parse_format(f"%{letter}".encode()) == (Conversion("", None, None, letter),)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        (b"%k", 0, f"unknown conversion '%k'; {CHOICE}"),
        (b"a %n", 2, f"unknown conversion '%n'; {CHOICE}"),
        (b"%5%", 0, f"unknown conversion '%5%'; {CHOICE}"),
        (b"%-08.3ll!", 0, f"unknown conversion '%-08.3ll!'; {CHOICE}"),
        (b"%\x1b", 0, f"unknown conversion '%\\x1b'; {CHOICE}"),
        (b"%\xc3\xa9", 0, f"unknown conversion '%\\xc3'; {CHOICE}"),
        (b"%d %5", 3, "unfinished conversion '%5'"),
        (b"%l", 0, "unfinished conversion '%l'"),
        (b"%*d", 0, "'*' is not supported: write the width as a number"),
        (b"%.*d", 0, "'*' is not supported: write the width as a number"),
        (b"%1025d", 0, "a width may be at most 1024"),
        (b"%.1025d", 0, "a precision may be at most 1024"),
        (b"%" + b"9" * 5000 + b"d", 0, "a width may be at most 1024"),
    ],
)
def test_faults(text, position, message):
    assert parse_format(text) == FormatFault(position, message)


CONVERSIONS = st.builds(
    Conversion,
    st.text("-+ #0'", max_size=3),
    st.none() | st.integers(1, MAX_WIDTH),
    st.none() | st.integers(0, MAX_WIDTH),
    st.sampled_from(LETTERS),
)


@given(st.lists(st.binary(max_size=4) | CONVERSIONS))
def test_a_format_written_from_pieces_is_read_as_these_pieces(pieces):
    written, expected = b"", []
    for piece in pieces:
        if isinstance(piece, Conversion):
            width = "" if piece.width is None else piece.width
            precision = "" if piece.precision is None else f".{piece.precision}"
            written += f"%{piece.flags}{width}{precision}{piece.letter}".encode()
            expected.append(piece)
        elif piece:
            written += piece.replace(b"%", b"%%")
            before = expected.pop().value if expected and isinstance(expected[-1], Text) else b""
            expected.append(Text(before + piece))
    assert parse_format(written) == tuple(expected)


@given(st.binary() | st.text("%*.0123456789dlhsv-").map(str.encode))
def test_any_bytes_give_pieces_or_a_fault_inside_the_text(text):
    match parse_format(text):
        case FormatFault(position=position):
            assert text[position : position + 1] == b"%"
        case pieces:
            assert all(
                p.width is None or p.width <= MAX_WIDTH for p in pieces if isinstance(p, Conversion)
            )
