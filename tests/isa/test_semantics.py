"""What operations compute, at the corners RFC 9669 spells out and against plain integers."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.isa.semantics import MASK64, alu, alu_function, byte_swap, compare, signed
from pybpf.isa.table import OPS, ROWS, Effect, Form

U64 = st.integers(0, MASK64)
WIDTHS = st.sampled_from((32, 64))
MIN32, MIN64 = 1 << 31, 1 << 63
MINUS_1 = MASK64


@pytest.mark.parametrize(
    ("effect", "width", "a", "b", "expected"),
    [
        (Effect.ADD, 64, MASK64, 2, 1),
        (Effect.ADD, 32, 0x1_FFFF_FFFF, 2, 1),
        (Effect.SUB, 64, 0, 1, MASK64),
        (Effect.SUB, 32, 0, 1, 0xFFFFFFFF),
        (Effect.MUL, 64, MIN64, 2, 0),
        (Effect.MUL, 32, 0x1_0000_0003, 0x1_0000_0005, 15),
        (Effect.DIV, 64, 7, 0, 0),
        (Effect.DIV, 32, 7, 0x1_0000_0000, 0),
        (Effect.DIV, 64, MASK64, MINUS_1, 1),
        (Effect.DIV, 32, 0x5_0000_0009, 2, 4),
        (Effect.MOD, 64, MASK64, 0, MASK64),
        (Effect.MOD, 32, 0x1_2345_6789, 0, 0x2345_6789),
        (Effect.MOD, 32, 0x1_0000_0009, 0x5_0000_0004, 1),
        (Effect.SDIV, 64, MIN64, MINUS_1, MIN64),
        (Effect.SDIV, 32, MIN32, MINUS_1, MIN32),
        (Effect.SDIV, 64, -7 & MASK64, 2, -3 & MASK64),
        (Effect.SDIV, 64, 7, -2 & MASK64, -3 & MASK64),
        (Effect.SDIV, 32, -7 & MASK64, -2 & MASK64, 3),
        (Effect.SDIV, 64, 7, 0, 0),
        (Effect.SMOD, 64, MIN64, MINUS_1, 0),
        (Effect.SMOD, 32, MIN32, MINUS_1, 0),
        (Effect.SMOD, 64, -13 & MASK64, 3, -1 & MASK64),
        (Effect.SMOD, 64, 13, -3 & MASK64, 1),
        (Effect.SMOD, 32, -13 & MASK64, 3, -1 & 0xFFFFFFFF),
        (Effect.SMOD, 64, MASK64, 0, MASK64),
        (Effect.SMOD, 32, MASK64, 0x1_0000_0000, 0xFFFFFFFF),
        (Effect.LSH, 64, 1, 63, MIN64),
        (Effect.LSH, 64, 1, 64, 1),
        (Effect.LSH, 32, 1, 31, MIN32),
        (Effect.LSH, 32, 1, 33, 2),
        (Effect.RSH, 64, MASK64, 63, 1),
        (Effect.RSH, 32, 0x1_8000_0000, 31, 1),
        (Effect.RSH, 32, MASK64, MINUS_1, 1),
        (Effect.ARSH, 64, MIN64, 63, MASK64),
        (Effect.ARSH, 32, MIN32, 31, 0xFFFFFFFF),
        (Effect.ARSH, 32, 0xFFFFFFFF_7FFFFFFF, 30, 1),
        (Effect.OR, 32, 0xF_0000_0000, 1, 1),
        (Effect.XOR, 32, 0xF_0000_0001, 1, 0),
        (Effect.AND, 32, MASK64, MASK64, 0xFFFFFFFF),
        (Effect.NEG, 64, 1, 0, MASK64),
        (Effect.NEG, 64, MIN64, 0, MIN64),
        (Effect.NEG, 32, 1, 0, 0xFFFFFFFF),
        (Effect.MOV, 64, 5, MINUS_1, MASK64),
        (Effect.MOV, 32, 5, MINUS_1, 0xFFFFFFFF),
    ],
)
def test_alu(effect, width, a, b, expected):
    assert alu(effect, width, a, b) == expected


@pytest.mark.parametrize(
    ("row", "src", "expected"),
    [
        ("movsx8_32", 0x180, 0xFFFFFF80),
        ("movsx16_32", 0x8000, 0xFFFF8000),
        ("movsx8_64", 0x180, MASK64 - 0x7F),
        ("movsx16_64", 0x7FFF, 0x7FFF),
        ("movsx32_64", 0x5_8000_0000, 0xFFFFFFFF_80000000),
    ],
)
def test_moves_with_sign_extension(row, src, expected):
    assert alu_function(OPS[row])(0x1234, src) == expected


@pytest.mark.parametrize(
    ("row", "little", "big"),
    [
        ("le16", 0x7788, 0x8877),
        ("le32", 0x55667788, 0x88776655),
        ("le64", 0x1122334455667788, 0x8877665544332211),
        ("be16", 0x8877, 0x7788),
        ("be32", 0x88776655, 0x55667788),
        ("be64", 0x8877665544332211, 0x1122334455667788),
        ("bswap16", 0x8877, 0x8877),
        ("bswap32", 0x88776655, 0x88776655),
        ("bswap64", 0x8877665544332211, 0x8877665544332211),
    ],
)
def test_byte_swaps(row, little, big):
    assert alu_function(OPS[row], "little")(0x1122334455667788, 0) == little
    assert alu_function(OPS[row], "big")(0x1122334455667788, 0) == big


@pytest.mark.parametrize(
    ("effect", "width", "a", "b", "expected"),
    [
        (Effect.JEQ, 32, 0x1_0000_0001, 1, True),
        (Effect.JEQ, 64, 0x1_0000_0001, 1, False),
        (Effect.JNE, 32, 0x1_0000_0001, 1, False),
        (Effect.JSET, 32, 1 << 32, 1 << 32, False),
        (Effect.JSET, 64, 1 << 32, 1 << 32, True),
        (Effect.JGT, 64, MASK64, 0, True),
        (Effect.JSGT, 64, MASK64, 0, False),
        (Effect.JSLT, 64, MIN64, MIN64 - 1, True),
        (Effect.JSLT, 32, MIN32, MIN32 - 1, True),
        (Effect.JSGE, 32, 0x7FFFFFFF, 0xFFFFFFFF_80000000, True),
    ],
)
def test_compare(effect, width, a, b, expected):
    assert compare(effect, width, a, b) is expected


@given(WIDTHS, U64, U64)
def test_comparisons_agree_with_integers(width, a, b):
    unsigned = tuple(value & ((1 << width) - 1) for value in (a, b))
    as_signed = tuple(signed(value, width) for value in (a, b))
    for effect, function, values in (
        (Effect.JEQ, operator.eq, unsigned),
        (Effect.JNE, operator.ne, unsigned),
        (Effect.JGT, operator.gt, unsigned),
        (Effect.JGE, operator.ge, unsigned),
        (Effect.JLT, operator.lt, unsigned),
        (Effect.JLE, operator.le, unsigned),
        (Effect.JSGT, operator.gt, as_signed),
        (Effect.JSGE, operator.ge, as_signed),
        (Effect.JSLT, operator.lt, as_signed),
        (Effect.JSLE, operator.le, as_signed),
    ):
        assert compare(effect, width, a, b) is function(*values)


@given(st.sampled_from([r for r in ROWS if r.form in {Form.ALU_REG, Form.NEG}]), U64, U64)
def test_results_fit_the_width_and_depend_on_nothing_else(op, a, b):
    mask = (1 << op.width) - 1
    result = alu(op.effect, op.width, a, b)

    assert 0 <= result <= mask
    assert result == alu(op.effect, op.width, a & mask, b & mask)


@given(WIDTHS, U64, U64)
def test_quotient_and_remainder_belong_together(width, a, b):
    mask = (1 << width) - 1
    for divide, modulo in ((Effect.DIV, Effect.MOD), (Effect.SDIV, Effect.SMOD)):
        quotient, remainder = alu(divide, width, a, b), alu(modulo, width, a, b)
        assert (quotient * b + remainder) & mask == a & mask


@given(st.sampled_from((16, 32, 64)), U64)
def test_byte_swap_is_its_own_inverse(narrow, value):
    assert byte_swap(byte_swap(value, narrow), narrow) == value & ((1 << narrow) - 1)


def test_every_arithmetic_row_has_a_function():
    arithmetic = {Form.ALU_IMM, Form.ALU_REG, Form.NEG, Form.MOVSX, Form.SWAP}
    for row in ROWS:
        if row.form in arithmetic:
            assert alu_function(row)(1, 1) >= 0
        elif row.form in {Form.BRANCH_IMM, Form.BRANCH_REG}:
            assert compare(row.effect, row.width, 1, 1) in {True, False}
