"""Nothing that is not printable reaches the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.output.escape import columns, escape, escape_text, pad


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain text", "plain text"),
        (b"back\\slash", "back\\slash"),
        (b"a\tb\r\n", "a\\tb\\r\\n"),
        (b"\x1b[31m", "\\x1b[31m"),
        (b"\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("é€😀".encode(), "é€😀"),
        (b"\xff\xc3", "\\xff\\xc3"),
        (b"\x9b31m", "\\x9b31m"),
        ("\x9b".encode(), "\\xc2\\x9b"),
        ("\u202e".encode(), "\\xe2\\x80\\xae"),
        ("\u2028".encode(), "\\xe2\\x80\\xa8"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
    ],
)
def test_escape(data, text):
    assert escape(data) == text


def test_a_lone_surrogate_in_text_is_escaped_too():
    assert escape_text("\ud800") == "\\xed\\xa0\\x80"


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_what_is_left_is_printable(data):
    assert escape(data).isprintable()


@given(st.text())
def test_printable_text_is_unchanged(text):
    if text.isprintable():
        assert escape(text.encode()) == text


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("é", 1), ("e\u0301", 1), ("日本", 4), ("", 0)]
)
def test_columns(text, width):
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "width", "left", "padded"),
    [
        ("ab", 4, False, "  ab"),
        ("ab", 4, True, "ab  "),
        ("日本", 5, True, "日本 "),
        ("abcdef", 4, True, "abcdef"),
        ("x", -1, False, "x"),
    ],
)
def test_pad(text, width, left, padded):
    assert pad(text, width, left=left) == padded
