"""Expressions of the assembler: their values are C's, and what is wrong is pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import AssemblyError
from pybpf.isa.assembler import assemble
from pybpf.isa.expressions import unescape


def value(text: str) -> int:
    """Return what a load of 64 bits makes of an expression."""
    return assemble(f"r1 = {text} ll").insns[0].imm


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / -2", -3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("1 << 4 | 1", 17),
        ("1 << 2 + 1", 8),
        ("6 & 3", 2),
        ("6 ^ 3 & 1", 7),
        ("~0", -1),
        ("-~5", 6),
        ("- -5", 5),
        ("-8 >> 1", -4),
        ("0x1_000", 0x1000),
        ("1_000", 1000),
        ("0b1010", 10),
        ("0o17", 15),
        ("'a'", 97),
        ("'a' + 1", 98),
        (r"'\n'", 10),
        (r"'\x7f'", 127),
        (r"'\0'", 0),
        (r"'\''", 39),
        ("';'", 59),
        ("0xffffffffffffffff", -1),
        ("XDP_PASS", 2),
        ("TC_ACT_UNSPEC", -1),
        ("BPF_MAP_TYPE_HASH | BPF_F_MMAPABLE", 0x401),
        ("(((((1)))))", 1),
    ],
)
def test_values(text, result):
    assert value(text) == result


OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"])
NUMBERS = st.integers(0, 1 << 16)


def _python(left, operator, right):
    """Return what C makes of an operation, or None where pybpf refuses it."""
    if operator in {"/", "%"}:
        if not right:
            return None
        quotient = abs(left) // abs(right) * (-1 if (left < 0) != (right < 0) else 1)
        return quotient if operator == "/" else left - right * quotient
    if operator in {"<<", ">>"} and not 0 <= right < 64:
        return None
    return eval(f"({left}) {operator} ({right})")


@st.composite
def expressions(draw, depth=4):
    """Draw a text, with every operation in parentheses or not, and its value (None: refused)."""
    if not depth or draw(st.booleans()):
        number = draw(NUMBERS)
        sign = draw(st.sampled_from(["", "-", "~", "+"]))
        return f"{sign}{number}", {"-": -number, "~": ~number}.get(sign, number)
    left, a = draw(expressions(depth - 1))
    right, b = draw(expressions(depth - 1))
    operator = draw(OPERATORS)
    result = None if a is None or b is None else _python(a, operator, b)
    if result is not None and not -(1 << 63) <= result < 1 << 64:
        result = None
    return f"({left} {operator} {right})", result


@given(expressions())
def test_values_are_those_of_c(found):
    text, result = found
    if result is None:
        with pytest.raises(AssemblyError):
            value(text)
    else:
        assert value(text) % (1 << 64) == result % (1 << 64)


@given(st.lists(st.tuples(NUMBERS, st.sampled_from("+-&|^")), min_size=1, max_size=6))
def test_precedence_is_that_of_python(pairs):
    """Whose order is C's for these operators."""
    text = " ".join(f"{number} {operator}" for number, operator in pairs) + " 1"
    result = eval(text)
    assert value(text) == result


ERRORS = """
x.s:1:10: error: a division by 0
    r1 = 1 / 0
             ^

x.s:1:11: error: a shift is by 0 to 63, not by 64
    r1 = 1 << 64
              ^^

x.s:1:6: error: 1 << 62 << 3 does not fit 64 bits
    r1 = 1 << 62 << 3
         ^^^^^^^^^^^^

x.s:1:7: error: 'fo' is no number and no constant
    r1 += fo
          ^^

x.s:1:7: error: 'XDP_PASSED' is no number and no constant; did you mean 'XDP_PASS'?
    r1 += XDP_PASSED
          ^^^^^^^^^^

x.s:1:6: error: BPF_F_INDEX_MASK (4294967295) does not fit the 32 signed bits of imm
    r1 = BPF_F_INDEX_MASK
         ^^^^^^^^^^^^^^^^
  hint: 'r1 = BPF_F_INDEX_MASK ll' loads 64 bits

x.s:1:6: error: 1 << 31 (2147483648) does not fit the 32 signed bits of imm
    r1 = 1 << 31
         ^^^^^^^
  hint: 'r1 = 1 << 31 ll' loads 64 bits

x.s:1:12: error: expected ')', found the end of the line
    r1 = (1 + 2
               ^

x.s:1:9: error: expected a number, found the end of the line
    r1 = 1 +
            ^

x.s:1:10: error: expected a number, found 'r2'
    r1 = 1 + r2
             ^^

x.s:1:6: error: 'ab' is no character of one byte
    r1 = 'ab'
         ^^^^

x.s:1:6: error: '08' is no number
    r1 = 08
         ^^
  hint: write it as 42 or 0x2a

x.s:1:17: error: an offset is from -32768 to 32767
    r1 = *(u8 *)(r2 + 1 << 20)
                    ^^^^^^^^^
"""


@pytest.mark.parametrize(
    "message", ERRORS.strip("\n").split("\n\n"), ids=lambda m: m.splitlines()[1].strip()
)
def test_errors(message):
    text = message.splitlines()[1].removeprefix("    ")

    with pytest.raises(AssemblyError) as caught:
        assemble(text, "x.s")

    assert str(caught.value) == message


def test_nesting_has_an_end():
    with pytest.raises(AssemblyError, match="more than 50 parentheses within each other"):
        value("(" * 10_000 + "1" + ")" * 10_000)


def test_many_signs_are_no_recursion():
    assert value("-" * 20_000 + "1") == 1


def test_a_long_literal_is_refused():
    with pytest.raises(AssemblyError, match="100000 characters are more than any number has"):
        value("9" * 100_000)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("plain", b"plain"),
        (r"a\tb\\", b"a\tb\\"),
        (r"\x41\x4", b"A\x04"),
        (r"\1012", b"A2"),
        ("é", "é".encode()),
        (r"\q", None),
        (r"\x", None),
    ],
)
def test_unescape(text, data):
    assert unescape(text) == data
