"""Each operation becomes the cheapest that does the same."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pybpf.compiler.ir import (
    CTX,
    AtomicAdd,
    Bin,
    BinOp,
    Branch,
    Cmp,
    Copy,
    Extend,
    Goto,
    Label,
    Load,
    Neg,
    Slot,
    SlotRef,
    Store,
    VReg,
)
from pybpf.compiler.simplify import INVERTED, MIRRORED, fold, holds, simplify, simplify_branch
from pybpf.compiler.width import FULL, Width, of_constant

V, X, Y, Z, P = map(VReg, range(1, 6))
A, B = Label("a"), Label("b")
ADD, SUB, MUL, DIV, SDIV, MOD, SMOD = (BinOp(op) for op in ["+", "-", "*", "/", "s/", "%", "s%"])
OR, AND, XOR, LSH, RSH, ARSH = (BinOp(op) for op in ["|", "&", "^", "<<", ">>", "s>>"])
MIN64, MIN32 = -(1 << 63), -(1 << 31)


@dataclass
class Facts:
    """What the tests say is known; P is the one pointer."""

    definitions: dict = field(default_factory=dict)
    widths: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)
    often: tuple = ()

    def constant(self, register):
        return self.constants.get(register)

    def width(self, operand):
        return of_constant(operand) if isinstance(operand, int) else self.widths.get(operand, FULL)

    def definition(self, operand):
        return self.definitions.get(operand) if isinstance(operand, VReg) else None

    def read_once(self, register):
        return register not in self.often

    def is_pointer(self, register):
        return register == P


def u(bits: int) -> Width:
    return Width(bits, bits + 1)


def bin64(op, left, right):
    return Bin(V, op, 64, left, right)


def bin32(op, left, right):
    return Bin(V, op, 32, left, right)


def low(bits, src=X):
    return Extend(V, bits, signed=False, src=src)


def sext(bits, src=X):
    return Extend(V, bits, signed=True, src=src)


@pytest.mark.parametrize(
    ("op", "simpler"),
    [
        # constants
        (bin64(ADD, 2, 3), Copy(V, 5)),
        (bin64(SUB, 2, 3), Copy(V, -1)),
        (bin32(SUB, 2, 3), Copy(V, 0xFFFFFFFF)),
        (bin64(SDIV, MIN64, -1), Copy(V, MIN64)),
        (bin64(DIV, 7, 0), Copy(V, 0)),
        (bin32(SMOD, -7, 2), Copy(V, 0xFFFFFFFF)),
        (bin64(LSH, 1, 65), Copy(V, 2)),
        # the constant goes right
        (bin64(ADD, 3, X), bin64(ADD, X, 3)),
        (bin64(XOR, 3, X), bin64(XOR, X, 3)),
        (bin64(SUB, 3, X), bin64(SUB, 3, X)),
        (bin64(LSH, 3, X), bin64(LSH, 3, X)),
        # neutral elements
        (bin64(ADD, X, 0), Copy(V, X)),
        (bin64(SUB, X, 0), Copy(V, X)),
        (bin64(OR, X, 0), Copy(V, X)),
        (bin64(XOR, X, 0), Copy(V, X)),
        (bin64(ARSH, X, 64), Copy(V, X)),
        (bin64(MUL, X, 1), Copy(V, X)),
        (bin64(SDIV, X, 1), Copy(V, X)),
        (bin64(MOD, X, 0), Copy(V, X)),
        (bin64(AND, X, -1), Copy(V, X)),
        (bin32(ADD, X, 0), low(32)),
        (bin32(AND, X, -1), low(32)),
        (bin32(SMOD, X, 1 << 32), low(32)),
        # whatever the register holds
        (bin64(MUL, X, 0), Copy(V, 0)),
        (bin64(AND, X, 0), Copy(V, 0)),
        (bin64(DIV, X, 0), Copy(V, 0)),
        (bin64(MOD, X, 1), Copy(V, 0)),
        (bin64(SMOD, X, -1), Copy(V, 0)),
        (bin64(OR, X, -1), Copy(V, -1)),
        (bin32(OR, X, -1), Copy(V, 0xFFFFFFFF)),
        (bin64(SUB, X, X), Copy(V, 0)),
        (bin32(XOR, X, X), Copy(V, 0)),
        (bin64(AND, X, X), Copy(V, X)),
        (bin32(OR, X, X), low(32)),
        (bin64(ADD, X, X), bin64(ADD, X, X)),
        # powers of two
        (bin64(MUL, X, 8), bin64(LSH, X, 3)),
        (bin64(DIV, X, 8), bin64(RSH, X, 3)),
        (bin64(MOD, X, 8), bin64(AND, X, 7)),
        (bin64(MUL, X, MIN64), bin64(LSH, X, 63)),
        (bin32(DIV, X, 0x80000000), bin32(RSH, X, 31)),
        (bin64(SDIV, X, 8), bin64(SDIV, X, 8)),
        (bin64(MUL, X, 10), bin64(MUL, X, 10)),
        # one form for each
        (bin64(SUB, X, 5), bin64(ADD, X, -5)),
        (bin64(SUB, X, MIN64), bin64(ADD, X, MIN64)),
        (bin32(ADD, X, 0xFFFFFFFF), bin32(ADD, X, -1)),
        (bin32(LSH, X, 33), bin32(LSH, X, 1)),
        (bin64(SDIV, X, -1), Neg(V, 64, X)),
        (bin64(AND, X, 0xFFFFFFFF), low(32)),
        (bin64(AND, X, 0xFF), bin64(AND, X, 0xFF)),
    ],
)  # fmt: skip
def test_arithmetic(op, simpler):
    assert simplify(op, Facts()) == simpler


@pytest.mark.parametrize(
    ("op", "facts", "simpler"),
    [
        # widths
        (bin64(AND, X, 0xFF), {"widths": {X: u(8)}}, Copy(V, X)),
        (bin64(AND, X, 0xFE), {"widths": {X: u(8)}}, bin64(AND, X, 0xFE)),
        (bin64(RSH, X, 8), {"widths": {X: u(8)}}, Copy(V, 0)),
        (bin64(RSH, X, 7), {"widths": {X: u(8)}}, bin64(RSH, X, 7)),
        (bin64(SDIV, X, 8), {"widths": {X: u(63)}}, bin64(RSH, X, 3)),
        (bin64(SDIV, X, 8), {"widths": {X: u(64)}}, bin64(SDIV, X, 8)),
        (bin64(SMOD, X, Y), {"widths": {X: u(8), Y: u(8)}}, bin64(MOD, X, Y)),
        (bin32(SMOD, X, Y), {"widths": {X: u(32), Y: u(8)}}, bin32(SMOD, X, Y)),
        (bin64(SDIV, X, -8), {"widths": {X: u(8)}}, bin64(SDIV, X, -8)),
        (bin32(ADD, X, 0), {"widths": {X: u(32)}}, Copy(V, X)),
        (low(16), {"widths": {X: u(16)}}, Copy(V, X)),
        (low(16), {"widths": {X: u(17)}}, low(16)),
        (sext(16, X), {"widths": {X: u(15)}}, Copy(V, X)),
        (sext(16, X), {"widths": {X: u(16)}}, sext(16, X)),
        (sext(16, X), {"widths": {X: Width(64, 16)}}, Copy(V, X)),
        # constants in registers
        (sext(8, X), {"constants": {X: 0x1FF}}, Copy(V, -1)),
        (low(8), {"constants": {X: -1}}, Copy(V, 0xFF)),
        (Neg(V, 64, X), {"constants": {X: 5}}, Copy(V, -5)),
        (Neg(V, 32, X), {"constants": {X: 5}}, Copy(V, 0xFFFFFFFB)),
        # definitions
        (bin64(ADD, X, 3), {"definitions": {X: bin64(ADD, Y, 4)}}, bin64(ADD, Y, 7)),
        (bin64(SUB, X, 4), {"definitions": {X: bin64(ADD, Y, 4)}}, Copy(V, Y)),
        (bin32(ADD, X, 3), {"definitions": {X: bin64(ADD, Y, 4)}}, bin32(ADD, X, 3)),
        (bin32(ADD, X, -1), {"definitions": {X: bin32(ADD, Y, MIN32)}}, bin32(ADD, Y, 0x7FFFFFFF)),
        (
            bin64(ADD, X, 3),
            {"definitions": {X: Copy(X, SlotRef(Slot(0, 8), 1))}},
            Copy(V, SlotRef(Slot(0, 8), 4)),
        ),
        (low(8), {"definitions": {X: sext(16, Y)}}, low(8, Y)),
        (low(16), {"definitions": {X: sext(8, Y)}}, low(16)),
        (low(8), {"definitions": {X: sext(16, P)}}, low(8)),
        # half of an extended value is half of the value
        (bin32(ADD, X, Y), {"definitions": {X: low(32, Z)}}, bin32(ADD, Z, Y)),
        (bin32(ADD, X, Y), {"definitions": {X: low(16, Z)}}, bin32(ADD, X, Y)),
        (bin32(ADD, X, Y), {"definitions": {X: low(32, Z)}, "often": (X,)}, bin32(ADD, X, Y)),
        (bin64(ADD, X, Y), {"definitions": {X: low(32, Z)}}, bin64(ADD, X, Y)),
    ],
)
def test_arithmetic_on_what_is_known(op, facts, simpler):
    assert simplify(op, Facts(**facts)) == simpler


SLOT = SlotRef(Slot(0, 64))
AT_8 = {"definitions": {X: bin64(ADD, P, 8)}}


@pytest.mark.parametrize(
    ("op", "facts", "simpler"),
    [
        (Load(V, X, 4, 8), AT_8, Load(V, P, 12, 8)),
        (Load(V, X, 0x7FFF, 8), AT_8, Load(V, X, 0x7FFF, 8)),
        (AtomicAdd(X, 4, 8, Y), AT_8, AtomicAdd(P, 12, 8, Y)),
        (Store(X, 4, 8, 1), AT_8, Store(P, 12, 8, 1)),
        (Load(V, X, 4, 8), {"definitions": {X: bin64(ADD, P, Y)}}, Load(V, X, 4, 8)),
        (Store(SLOT, 0, 4, X), {"definitions": {X: low(32, Y)}}, Store(SLOT, 0, 4, Y)),
        (Store(SLOT, 0, 2, X), {"definitions": {X: sext(16, Y)}}, Store(SLOT, 0, 2, Y)),
        (Store(SLOT, 0, 8, X), {"definitions": {X: low(32, Y)}}, Store(SLOT, 0, 8, X)),
        # The verifier lets no piece of a pointer be stored.
        (Store(SLOT, 0, 4, X), {"definitions": {X: low(32, P)}}, Store(SLOT, 0, 4, X)),
    ],
)
def test_memory(op, facts, simpler):
    assert simplify(op, Facts(**facts)) == simpler


def branch(cmp, left, right, width=64):
    return Branch(Cmp(cmp), left, right, A, B, width)


def other_way(cmp, left, right, width=64):
    return Branch(Cmp(cmp), left, right, B, A, width)


@pytest.mark.parametrize(
    ("terminator", "facts", "simpler"),
    [
        (Branch(Cmp.EQ, X, 1, A, A), {}, Goto(A)),
        (branch("==", X, 5), {"constants": {X: 5}}, Goto(A)),
        (branch("s<", X, 5), {"constants": {X: 5}}, Goto(B)),
        (branch("<", X, 5), {"constants": {X: -1}}, Goto(B)),
        (branch("&", X, 5), {"constants": {X: 4}}, Goto(A)),
        (branch("==", X, 0, 32), {"constants": {X: 1 << 32}}, Goto(A)),
        (branch("s<", X, Y), {"constants": {X: 5}}, branch("s>", Y, 5)),
        (branch("&", X, Y), {"constants": {X: 5}}, branch("&", Y, 5)),
        (branch("<=", X, X), {}, Goto(A)),
        (branch("s<", X, X), {}, Goto(B)),
        (branch("&", X, X), {}, branch("!=", X, 0)),
        # The verifier knows a null check by == and !=.
        (branch(">", X, 0), {}, branch("!=", X, 0)),
        (branch(">=", X, 1), {}, branch("!=", X, 0)),
        (branch("<", X, 1), {}, branch("==", X, 0)),
        (branch("<=", X, 0), {}, branch("==", X, 0)),
        (branch("s>", X, 0), {}, branch("s>", X, 0)),
        (branch("&", X, -1), {}, branch("!=", X, 0)),
        (branch("&", X, 0), {}, Goto(B)),
        (branch(">=", X, 0), {}, Goto(A)),
        (branch("<", X, 0), {}, Goto(B)),
        (branch("==", X, 0xFFFFFFFF, 32), {}, branch("==", X, -1, 32)),
        # out of range
        (branch("==", X, 256), {"widths": {X: u(8)}}, Goto(B)),
        (branch("==", X, 255), {"widths": {X: u(8)}}, branch("==", X, 255)),
        (branch("!=", X, -1), {"widths": {X: u(8)}}, Goto(A)),
        (branch("<", X, 256), {"widths": {X: u(8)}}, Goto(A)),
        (branch("<", X, 255), {"widths": {X: u(8)}}, branch("<", X, 255)),
        (branch("<=", X, 255), {"widths": {X: u(8)}}, Goto(A)),
        (branch(">", X, 255), {"widths": {X: u(8)}}, Goto(B)),
        (branch(">=", X, 255), {"widths": {X: u(8)}}, branch(">=", X, 255)),
        (branch(">=", X, 256), {"widths": {X: u(8)}}, Goto(B)),
        (branch(">", X, -1, 32), {}, Goto(B)),
        (branch("s>", X, 256), {"widths": {X: u(8)}}, branch("s>", X, 256)),
        # bits
        (branch("!=", X, 0), {"definitions": {X: bin64(AND, Y, 64)}}, branch("&", Y, 64)),
        (branch("==", X, 0), {"definitions": {X: bin64(AND, Y, Z)}}, other_way("&", Y, Z)),
        (branch("==", X, 1), {"definitions": {X: bin64(AND, Y, 1)}}, branch("==", X, 1)),
        (branch("!=", X, 0), {"definitions": {X: bin32(AND, Y, 64)}}, branch("&", Y, 64, 32)),
        (
            branch("!=", X, 0, 32),
            {"definitions": {X: bin64(AND, Y, 1 << 40)}},
            branch("!=", X, 0, 32),
        ),
        (
            branch("!=", X, 0),
            {"definitions": {X: bin64(AND, Y, 64)}, "often": (X,)},
            branch("!=", X, 0),
        ),
    ],
)
def test_branches(terminator, facts, simpler):
    assert simplify_branch(terminator, Facts(**facts)) == simpler


SIGNED = {"definitions": {X: sext(32, Y)}, "widths": {X: Width(64, 32)}}
UNSIGNED = {"definitions": {X: low(32, Y)}, "widths": {X: u(32)}}


@pytest.mark.parametrize(
    ("terminator", "facts", "simpler"),
    [
        (branch("==", X, -1), SIGNED, branch("==", Y, -1, 32)),
        (branch("s<", X, 5), SIGNED, branch("s<", Y, 5, 32)),
        (branch("<", X, 5), SIGNED, branch("<", X, 5)),
        (branch("s<", X, 1 << 31), SIGNED, branch("s<", X, 1 << 31)),
        (branch("==", X, 0xFFFFFFFF), UNSIGNED, branch("==", Y, -1, 32)),
        (branch("<", X, 0x80000000), UNSIGNED, branch("<", Y, MIN32, 32)),
        (branch("s<", X, 5), UNSIGNED, branch("s<", X, 5)),
        (branch("&", X, 4), UNSIGNED, branch("&", Y, 4, 32)),
        (branch("<", X, Z), UNSIGNED, branch("<", X, Z)),
        (
            branch("<", X, Z),
            {"definitions": {X: low(32, Y), Z: low(32, V)}, "widths": {X: u(32), Z: u(32)}},
            branch("<", Y, V, 32),
        ),
        (branch("==", X, -1), {**SIGNED, "often": (X,)}, branch("==", X, -1)),
        (branch("==", X, 5, 32), {"definitions": {X: low(32, Y)}}, branch("==", Y, 5, 32)),
    ],
)
def test_comparisons_of_extended_halves(terminator, facts, simpler):
    assert simplify_branch(terminator, Facts(**facts)) == simpler


VALUES = [0, 1, 2, -1, 5, MIN32, 1 << 31, 0xFFFFFFFF, MIN64, (1 << 63) - 1]


@pytest.mark.parametrize("cmp", Cmp)
@pytest.mark.parametrize("width", [32, 64])
def test_mirrored_and_inverted_conditions(cmp, width):
    for a in VALUES:
        for b in VALUES:
            assert holds(MIRRORED[cmp], width, b, a) == holds(cmp, width, a, b)
            if cmp in INVERTED:
                assert holds(INVERTED[cmp], width, a, b) != holds(cmp, width, a, b)


def test_fold_takes_and_gives_signed_constants():
    assert fold(BinOp.ADD, 64, (1 << 63) - 1, 1) == MIN64
    assert fold(BinOp.RSH, 64, -1, 0) == -1
    assert fold(BinOp.RSH, 32, -1, 0) == 0xFFFFFFFF


def test_the_context_is_no_constant():
    assert simplify(Load(V, CTX, 8, 4), Facts()) == Load(V, CTX, 8, 4)
