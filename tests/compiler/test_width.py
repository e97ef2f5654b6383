"""No value is wider than it is said to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.compiler.ir import Bin, BinOp, CallHelper, Copy, Extend, Load, Neg, Slot, SlotRef, VReg
from pybpf.compiler.width import FULL, Width, join, of_constant, of_result
from pybpf.isa.semantics import alu, sign_extend, signed
from pybpf.isa.table import Effect

V, X, Y = map(VReg, range(1, 4))
MASK = (1 << 64) - 1
numbers = st.integers(0, 64).flatmap(lambda bits: st.integers(0, (1 << bits) - 1)) | st.integers(
    -(1 << 63), -1
).map(lambda n: n & MASK)


def fits(value: int, width: Width) -> bool:
    limit = 1 << (width.signed - 1)
    return value >> width.unsigned == 0 and -limit <= signed(value, 64) < limit


@given(numbers)
def test_constants(value):
    width = of_constant(signed(value, 64))

    assert fits(value, width)
    assert width.unsigned == 0 or not fits(value, Width(width.unsigned - 1, 64))
    assert width.signed == 1 or not fits(value, Width(64, width.signed - 1))


@given(st.sampled_from(BinOp), st.sampled_from((32, 64)), numbers, numbers, st.booleans())
def test_arithmetic(op, width, a, b, constant):
    widths = {X: of_constant(signed(a, 64)), Y: of_constant(signed(b, 64))}
    right = signed(b, 64) if constant else Y

    claimed = of_result(
        Bin(V, op, width, X, right),
        lambda x: of_constant(x) if isinstance(x, int) else widths[x],
    )

    assert fits(alu(Effect(op.value), width, a, b), claimed)


@given(st.sampled_from((8, 16, 32)), st.booleans(), numbers)
def test_extensions(bits, is_signed, value):
    result = sign_extend(value, bits, 64) if is_signed else value & ((1 << bits) - 1)

    claimed = of_result(Extend(V, bits, is_signed, X), lambda _: of_constant(signed(value, 64)))

    assert fits(result, claimed)


@given(numbers, numbers)
def test_join_holds_both(a, b):
    joined = join(of_constant(signed(a, 64)), of_constant(signed(b, 64)))

    assert fits(a, joined)
    assert fits(b, joined)


@pytest.mark.parametrize(
    ("op", "width"),
    [
        (Load(V, X, 0, 1), Width(8, 9)),
        (Load(V, X, 0, 2, signed=True), Width(64, 16)),
        (Load(V, X, 0, 8), FULL),
        (Copy(V, 255), Width(8, 9)),
        (Copy(V, SlotRef(Slot(0, 8))), FULL),
        (Neg(V, 32, X), FULL),
        (CallHelper(V, "bpf_get_prandom_u32", ()), FULL),
        (Bin(V, BinOp.AND, 64, X, 7), Width(3, 4)),
        (Bin(V, BinOp.RSH, 64, X, 32), Width(32, 33)),
        # The verifier does not know either.
        (Bin(V, BinOp.MOD, 64, X, 7), FULL),
    ],
)
def test_what_is_known_of_any_operand(op, width):
    assert of_result(op, lambda x: of_constant(x) if isinstance(x, int) else FULL) == width
