"""What becomes which token, and what is said of text that is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.compiler.lexer import lex
from pybpf.compiler.printer import print_script
from pybpf.compiler.tokens import Kind
from pybpf.errors import LexError
from pybpf.source import Source
from pybpf.testing.scripts import asts, soups


def tokens(text):
    return lex(Source("<script>", text))


def texts(text):
    """The tokens of a text but END, as written."""
    return [token.text for token in tokens(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BEGIN", Kind.SPEC),
        ("END", Kind.SPEC),
        ("kprobe:f", Kind.SPEC),
        ("BEGINS", Kind.NAME),
        ("pid", Kind.NAME),
        ("_9", Kind.NAME),
        ("a" * 5000, Kind.NAME),
        ("if", Kind.KEYWORD),
        ("else", Kind.KEYWORD),
        ("return", Kind.KEYWORD),
        ("delete", Kind.KEYWORD),
        ("@", Kind.AGGREGATION),
        ("@9_x", Kind.AGGREGATION),
        ("$HOME", Kind.PARAMETER),
        ("$1", Kind.PARAMETER),
        ("0x1f", Kind.NUMBER),
        ("'c'", Kind.NUMBER),
        ('"a b"', Kind.STRING),
        ("->", Kind.OPERATOR),
        ("^^", Kind.OPERATOR),
    ],
)
def test_kinds(text, kind):
    token, end = tokens(text)

    assert (kind, text) == (token.kind, token.text)
    assert Kind.END is end.kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<<b<=c<d", ["a", "<<", "b", "<=", "c", "<", "d"]),
        ("a||b|c", ["a", "||", "b", "|", "c"]),
        ("1--1", ["1", "-", "-", "1"]),
        ("a->b-c", ["a", "->", "b", "-", "c"]),
        ("!!x!=y", ["!", "!", "x", "!=", "y"]),
        ("#!/usr/bin/env ply\nBEGIN", ["BEGIN"]),
        ("a # to the end", ["a"]),
        ("a // to the end\nb", ["a", "b"]),
        ("a /* b\n * c */ d /**/ e", ["a", "d", "e"]),
        ("/* /* */ a", ["a"]),
        ("a / b", ["a", "/", "b"]),
        ('"/* # // {" a', ['"/* # // {"', "a"]),
        ("a\r\n\tb\f", ["a", "b"]),
        ("", []),
    ],
)
def test_separates(text, expected):
    assert expected == texts(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kprobe:vfs_read {", ["kprobe:vfs_read", "{"]),
        ("interval:50ms{", ["interval:50ms", "{"]),
        ("interval:50ms/pid>0/{", ["interval:50ms", "/", "pid", ">", "0", "/", "{"]),
        ("kprobe:f/pid/{", ["kprobe:f", "/", "pid", "/", "{"]),
        ("kr:f/pid/{", ["kr:f", "/", "pid", "/", "{"]),
        ("BEGIN/1/{", ["BEGIN", "/", "1", "/", "{"]),
        ("B:x/1/{", ["B:x", "/", "1", "/", "{"]),
        (
            "tracepoint:sched/sched_switch/pid/{",
            ["tracepoint:sched/sched_switch", *"/", "pid", *"/{"],
        ),
        ("t:sched/* {", ["t:sched/*", "{"]),
        ("uprobe:/bin/sh:main/x {", ["uprobe:/bin/sh:main/x", "{"]),
        ("kprobe:vfs_*/* c */{", ["kprobe:vfs_*", "{"]),
        ("kprobe:f//c", ["kprobe:f"]),
        ("kprobe:__x64_sys_!(x) {", ["kprobe:__x64_sys_!(x)", "{"]),
        ("kprobe:vfs_@(read|write){", ["kprobe:vfs_@(read|write)", "{"]),
        ("kprobe:[a-c]?*+0x8\n{", ["kprobe:[a-c]?*+0x8", "{"]),
        ("profile:0:99hz{", ["profile:0:99hz", "{"]),
        ("kprobe:f;", ["kprobe:f", ";"]),
        ("kprobe:a,kprobe:b", ["kprobe:a", ",", "kprobe:b"]),
        ("kprobe:{", ["kprobe:", "{"]),
    ],
)
def test_probe_specifications_end_where_a_clause_goes_on(text, expected):
    assert expected == texts(text)


@pytest.mark.parametrize(
    ("text", "value", "suffix"),
    [
        ("0", 0, ""),
        ("42", 42, ""),
        ("1_000_000", 1_000_000, ""),
        ("1_", 1, ""),
        ("017", 15, ""),
        ("0_7", 7, ""),
        ("00", 0, ""),
        ("0xc1ab_dead", 0xC1ABDEAD, ""),
        ("0XF", 15, ""),
        ("0b1_0", 2, ""),
        ("0B11", 3, ""),
        ("2147483648", 1 << 31, ""),
        ("18446744073709551615", (1 << 64) - 1, ""),
        ("0xffffffffffffffff", (1 << 64) - 1, ""),
        ("0x" + "0" * 5000 + "1", 1, ""),
        ("1u", 1, "u"),
        ("1L", 1, "l"),
        ("0xful", 15, "ul"),
        ("1LU", 1, "ul"),
        ("1ll", 1, "ll"),
        ("017ULL", 15, "ull"),
        ("0b1llu", 1, "ull"),
        ("'c'", 99, ""),
        (r"'\n'", 10, ""),
        (r"'\''", 39, ""),
        ("'\"'", 34, ""),
        (r"'\0'", 0, ""),
        (r"'\xff'", 255, ""),
    ],
)
def test_numbers(text, value, suffix):
    (token, _) = tokens(text)

    assert (value, suffix) == (token.value, token.suffix)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('""', b""),
        ('"two\nlines"', b"two\nlines"),
        (r'"\n\r\t\a\b\f\v"', b"\n\r\t\a\b\f\v"),
        (r'"\\ \" \'"', b"\\ \" '"),
        (r'"\0 \7 \101 \1012"', b"\0 \7 A A2"),
        (r'"\x41 \x4 \x414"', b"A \x04 A4"),
        ('"h\N{LATIN SMALL LETTER E WITH ACUTE}"', b"h\xc3\xa9"),
    ],
)
def test_strings(text, value):
    (token, _) = tokens(text)

    assert value == token.value


def test_end_stands_behind_the_last_token():
    *_, end = tokens("BEGIN { }\n\n# c\n")

    assert (end.span.start, end.span.end) == (9, 9)


ERRORS = [
    (
        "a ~ `",
        """\
<script>:1:5: error: unexpected character '`'
    a ~ `
        ^""",
    ),
    (
        "a ? 1 : 2",
        """\
<script>:1:3: error: unexpected character '?'
    a ? 1 : 2
      ^
  hint: there is no '?:'; use if (…) … else …""",
    ),
    (
        "print(\N{LEFT DOUBLE QUOTATION MARK}a",
        """\
<script>:1:7: error: unexpected character '\N{LEFT DOUBLE QUOTATION MARK}' (U+201C)
    print(\N{LEFT DOUBLE QUOTATION MARK}a
          ^
  hint: strings are written between plain quotes: "…\"""",
    ),
    (
        "a \x01",
        """\
<script>:1:3: error: unexpected character U+0001
    a \N{REPLACEMENT CHARACTER}
      ^""",
    ),
    (
        "$ x",
        """\
<script>:1:1: error: unexpected character '$'
    $ x
    ^
  hint: '$' is followed by the name of an environment variable or the number of an argument""",
    ),
    (
        'print("abc);\n',
        """\
<script>:1:7: error: unterminated string
    print("abc);
          ^
  hint: close it with '"'""",
    ),
    (
        "a;\n /* b\n c",
        """\
<script>:2:2: error: unterminated comment
     /* b
     ^^
  hint: close it with '*/'""",
    ),
    (
        "print('a);",
        """\
<script>:1:7: error: unterminated character constant
    print('a);
          ^
  hint: close it with "'"; a string is written between double quotes""",
    ),
    (
        "print('abc');",
        """\
<script>:1:7: error: character constant 'abc' is not one byte
    print('abc');
          ^^^^^
  hint: a string is written between double quotes: "abc\"""",
    ),
    (
        "''",
        """\
<script>:1:1: error: character constant '' is not one byte
    ''
    ^^""",
    ),
    (
        r'print("a\qb");',
        r"""<script>:1:9: error: unknown escape '\q'
    print("a\qb");
            ^^
  hint: a backslash is written '\\'; the escapes are \n \r \t \a \b \f \v \\ \" \' \0 \ooo \xHH""",
    ),
    (
        r'"\e[1m"',
        r"""<script>:1:2: error: unknown escape '\e'
    "\e[1m"
     ^^
  hint: the escape character is written '\x1b'""",
    ),
    (
        r'"\xg"',
        r"""<script>:1:2: error: unknown escape '\x'
    "\xg"
     ^^
  hint: '\x' is followed by one or two hexadecimal digits, as in '\x1b'""",
    ),
    (
        '"a\\\nb"',
        r"""<script>:1:3: error: unknown escape '\' at the end of a line
    "a\
      ^
  hint: a backslash is written '\\'; the escapes are \n \r \t \a \b \f \v \\ \" \' \0 \ooo \xHH""",
    ),
    (
        r'"\400"',
        r"""<script>:1:2: error: escape '\400' does not fit in a byte
    "\400"
     ^^^^""",
    ),
    (
        "08",
        """\
<script>:1:1: error: '8' is no octal digit, in number '08'
    08
    ^^
  hint: a number that begins with 0 is octal""",
    ),
    (
        "0x",
        """\
<script>:1:1: error: number '0x' has no digits behind '0x'
    0x
    ^^""",
    ),
    (
        "0b12",
        """\
<script>:1:1: error: '2' is no binary digit, in number '0b12'
    0b12
    ^^^^""",
    ),
    (
        "0xfg",
        """\
<script>:1:1: error: 'g' is no hexadecimal digit, in number '0xfg'
    0xfg
    ^^^^""",
    ),
    (
        "10ms",
        """\
<script>:1:1: error: number '10ms' has the unknown suffix 'ms'
    10ms
    ^^^^
  hint: the suffixes of a number are u, l, ul, ll and ull""",
    ),
    (
        "1uu",
        """\
<script>:1:1: error: number '1uu' has the unknown suffix 'uu'
    1uu
    ^^^
  hint: the suffixes of a number are u, l, ul, ll and ull""",
    ),
    (
        "1.5",
        """\
<script>:1:1: error: '1.5' is not an integer
    1.5
    ^^^
  hint: a probe computes with integers only""",
    ),
    (
        "18446744073709551616",
        """\
<script>:1:1: error: number '18446744073709551616' does not fit in 64 bits
    18446744073709551616
    ^^^^^^^^^^^^^^^^^^^^
  hint: the largest number is 18446744073709551615 (0xffffffffffffffff)""",
    ),
    (
        "BEGIN\0",
        """\
<script>:1:6: error: the script holds a NUL byte: it is not text
    BEGIN\N{REPLACEMENT CHARACTER}
         ^""",
    ),
    (
        b"BEGIN # \xff".decode(errors="surrogateescape"),
        """\
<script>:1:9: error: the script is not UTF-8 text: byte 0xff
    BEGIN # \N{REPLACEMENT CHARACTER}
            ^""",
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[ascii(text) for text, _ in ERRORS])
def test_errors(text, message):
    with pytest.raises(LexError) as caught:
        tokens(text)

    assert message == str(caught.value)


def test_thousands_of_digits_are_too_many():
    with pytest.raises(LexError, match="does not fit in 64 bits"):
        tokens("9" * 100_000)


@given(asts())
@settings(max_examples=25, deadline=None)
def test_spans_are_where_the_tokens_stand(tree):
    text = print_script(tree)
    at = 0
    for token in tokens(text):
        assert token.text == token.span.text
        assert not text[at : token.span.start].strip()
        at = token.span.end
    assert not text[at:].strip()


@given(st.text() | st.binary().map(lambda data: data.decode(errors="surrogateescape")) | soups())
@settings(max_examples=300, deadline=None)
def test_any_text_lexes_or_is_a_lex_error(text):
    try:
        *_, end = tokens(text)
    except LexError:
        return

    assert Kind.END is end.kind
