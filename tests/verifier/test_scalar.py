"""Scalars of 64 bits: what a register really holds is always inside of what is known of it."""

# `is32` is positional wherever scalars are computed with.
# ruff: noqa: FBT003

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.isa import semantics
from pybpf.isa.table import Effect
from pybpf.verifier.arithmetic import arithmetic
from pybpf.verifier.precision import Precision, precision_of
from pybpf.verifier.scalar import U32, UNKNOWN, ZERO, constant
from pybpf.verifier.tnum import U64

RELEASES = ((5, 10), (5, 15), (6, 1), (6, 6), (6, 12), (6, 18), (7, 1), (7, 3))
releases = pytest.mark.parametrize("release", RELEASES, ids=lambda r: f"{r[0]}.{r[1]}")

edges = st.sampled_from(
    [0, 1, 2, 7, 8, 0xFF, 0x7FFFFFFF, 0x80000000, U32, 1 << 32, (1 << 63) - 1, 1 << 63, U64]
)
values = st.one_of(edges, st.integers(0, 300), st.integers(0, U64), st.integers(-300, -1)).map(
    lambda value: value & U64
)

JUMPS = [
    Effect.JEQ, Effect.JNE, Effect.JSET, Effect.JGT, Effect.JGE, Effect.JLT, Effect.JLE,
    Effect.JSGT, Effect.JSGE, Effect.JSLT, Effect.JSLE,
]  # fmt: skip
ALU = [
    Effect.ADD, Effect.SUB, Effect.MUL, Effect.AND, Effect.OR, Effect.XOR, Effect.LSH, Effect.RSH,
    Effect.ARSH, Effect.DIV, Effect.SDIV, Effect.MOD, Effect.SMOD, Effect.NEG, Effect.MOV,
]  # fmt: skip
SHIFTS = {Effect.LSH, Effect.RSH, Effect.ARSH}
WIDTHS = {False: 64, True: 32}

steps = st.one_of(
    st.tuples(st.just("branch"), st.sampled_from(JUMPS), st.booleans(), values),
    st.tuples(st.just("branch of two"), st.sampled_from(JUMPS), st.booleans(), values),
    st.tuples(st.just("alu"), st.sampled_from(ALU), st.booleans(), values),
    st.tuples(st.just("alu of two"), st.sampled_from(ALU), st.booleans(), values),
    st.tuples(st.just("extend"), st.sampled_from((8, 16, 32)), st.booleans(), values),
    st.tuples(st.just("load"), st.sampled_from((1, 2, 4, 8)), st.booleans(), values),
    st.tuples(
        st.just("swap"),
        st.sampled_from((Effect.TO_LE, Effect.TO_BE, Effect.BSWAP)),
        st.sampled_from((16, 32, 64)),
        values,
    ),
    st.tuples(st.just("pointer"), st.booleans(), st.booleans(), values),
    st.tuples(st.just("link"), st.integers(-1000, 1000), st.booleans(), values),
    st.tuples(st.just("exchange"), st.none(), st.none(), values),
)


class Registers:
    """Two registers, each with the value it has and what is known of it."""

    def __init__(self, arith, x, y):
        self.arith = arith
        self.x, self.y = x, y
        self.a = self.b = UNKNOWN

    def step(self, kind, how, is32, value):
        arith = self.arith
        match kind:
            case "branch":
                self.a = self.branch(how, is32, constant(value), value)[0]
            case "branch of two":
                self.a, self.b = self.branch(how, is32, self.b, self.y)
            case "alu":
                self.compute(how, is32, constant(value), value)
            case "alu of two":
                self.compute(how, is32, self.b, self.y)
            case "extend":
                if not (is32 and how == 32):
                    self.a = arith.move_extended(how, is32, self.a)
                    self.x = semantics.sign_extend(self.x, how, WIDTHS[is32])
            case "load":
                signed = is32 and how < 8
                self.a = (arith.load_signed if signed else arith.load)(how, self.a)
                extend = semantics.sign_extend
                self.x = extend(self.x, 8 * how, 64) if signed else self.x & (1 << 8 * how) - 1
            case "swap":
                self.a = arith.swap(how, is32, self.a)
                low = self.x & (1 << is32) - 1
                self.x = low if how is Effect.TO_LE else semantics.byte_swap(self.x, is32)
            case "pointer":
                move = arith.pointer_add if how else arith.pointer_sub
                self.a = move(self.a, self.b)
                self.x = self.x + (self.y if how else -self.y) & U64
            case "link":
                # Registers are linked over 32 bits only where the upper halves are known to be 0.
                if not is32 or self.x <= U32:
                    self.a = arith.offset(self.a, how, is32)
                    self.x = self.x + how & (U32 if is32 else U64)
            case "exchange":
                self.a, self.b, self.x, self.y = self.b, self.a, self.y, self.x
                self.a = arith.alu(Effect.MOV, False, self.b, self.a)

    def branch(self, effect, is32, b, y):
        real = semantics.compare(effect, WIDTHS[is32], self.x, y)
        outcome = self.arith.taken(effect, is32, self.a, b)
        if outcome is not None:
            assert outcome is real
            return self.a, b
        refined = self.arith.refine(effect, is32, self.a, b)
        return refined[:2] if real else refined[2:]

    def compute(self, effect, is32, b, y):
        width = WIDTHS[is32]
        if effect in SHIFTS and b.const is not None and b.const >= width:
            return  # every kernel refuses it as a constant
        forked = self.arith.fork(effect, self.a, b)
        if forked is not None:
            self.a = next(f for f in forked if f.holds(self.x))
        self.a = self.arith.alu(effect, is32, self.a, b)
        self.x = semantics.alu(effect, width, self.x, y)


@releases
@settings(max_examples=120, deadline=None)
@given(x=values, y=values, path=st.lists(steps, min_size=1, max_size=14))
def test_registers_hold_what_is_known_of_them(release, x, y, path):
    regs = Registers(arithmetic(precision_of(release)), x, y)
    for step in path:
        before = (regs.a, regs.b)
        regs.step(*step)
        assert regs.a.holds(regs.x), (step, before, regs.a, hex(regs.x))
        assert regs.b.holds(regs.y), (step, before, regs.b, hex(regs.y))
        assert regs.arith.within(UNKNOWN, regs.a)
        assert regs.arith.within(regs.a, regs.a)


@given(values)
def test_a_constant_holds_itself_only(value):
    a = constant(value)
    assert a.const == value
    assert a.holds(value)
    assert not a.holds(value ^ 1)
    assert a == constant(value)
    assert hash(a) == hash(constant(value))
    assert a != UNKNOWN
    assert UNKNOWN.holds(value)
    assert UNKNOWN.const is None


def test_text():
    arith = arithmetic(precision_of((6, 12)))
    assert repr(ZERO) == "Scalar(0x0)"
    assert repr(arith.alu(Effect.AND, False, UNKNOWN, constant(0xF0))) == (
        "Scalar((0x0; 0xf0), u=[0x0, 0xf0], s=[0x0, 0xf0], u32=[0x0, 0xf0], s32=[0x0, 0xf0])"
    )


def run(release, *path, start=UNKNOWN):
    """Return a scalar after operations and branches taken: (effect, is32, constant) each."""
    arith = arithmetic(precision_of(release))
    a = start
    for effect, is32, value in path:
        b = constant(value)
        if effect in JUMPS:
            assert arith.taken(effect, is32, a, b) is None
            a = arith.refine(effect, is32, a, b)[0]
        else:
            a = arith.alu(effect, is32, a, b)
    return a


# What kernels print of registers in their logs (log_level 2).
@pytest.mark.parametrize(
    ("release", "path", "known"),
    [
        ((6, 1), [(Effect.DIV, True, 7)], {"umax": U32}),
        ((6, 12), [(Effect.DIV, True, 7)], {"umax": U64}),
        ((7, 3), [(Effect.DIV, True, 7)], {"umax": U32 // 7}),
        ((6, 1), [(Effect.JNE, False, 0)], {"umin": 0}),
        ((6, 12), [(Effect.JNE, False, 0)], {"umin": 1}),
        ((6, 12), [(Effect.NEG, False, 0)], {"umax": U64}),
        ((6, 12), [(Effect.AND, False, 0xFF), (Effect.NEG, False, 0)], {"smin": -1 << 63}),
        ((7, 3), [(Effect.AND, False, 0xFF), (Effect.NEG, False, 0)], {"smin": -255, "smax": 0}),
        ((6, 12), [(Effect.AND, False, 7), (Effect.MUL, False, -3)], {"smin": -1 << 63}),
        ((7, 3), [(Effect.AND, False, 7), (Effect.MUL, False, -3)], {"smin": -21, "smax": 0}),
        ((6, 12), [(Effect.AND, False, 7), (Effect.SUB, False, 8)], {"smin": -8, "smax": -1}),
        ((7, 3), [(Effect.SMOD, False, -101562192)], {"smin": -101562191, "smax32": 101562191}),
        (
            (6, 12),
            [(Effect.JGE, True, 3), (Effect.JSLE, True, 1)],
            {"smax32": -1, "umin32": 1 << 31},
        ),
        (
            (6, 1),
            [(Effect.AND, False, 1 << 63), (Effect.JSLE, False, -1)],
            {"umin": 1 << 63, "umax": 1 << 63},
        ),
    ],
)
def test_kernels_differ(release, path, known):
    a = run(release, *path)
    assert {name: getattr(a, name) for name in known} == known


@pytest.mark.parametrize(("release", "outcome"), [((6, 1), None), ((6, 12), None), ((7, 3), True)])
def test_later_kernels_know_that_a_register_equals_itself(release, outcome):
    arith = arithmetic(precision_of(release))
    assert arith.taken(Effect.JEQ, False, UNKNOWN, UNKNOWN, True) is outcome
    assert arith.taken(Effect.JSET, False, UNKNOWN, UNKNOWN, True) is None


@pytest.mark.parametrize(
    ("release", "outcome"), [((6, 1), None), ((6, 12), False), ((7, 3), False)]
)
def test_later_kernels_compare_ranges(release, outcome):
    a = run(release, (Effect.AND, False, 7))
    b = run(release, (Effect.AND, False, 8), (Effect.OR, False, 0x10))
    arith = arithmetic(precision_of(release))
    assert arith.taken(Effect.JGT, False, a, b) is outcome


def test_a_release_knows_what_earlier_ones_knew():
    names = [name for name in Precision.__match_args__ if name != "arcs"]
    previous = precision_of((5, 10))
    for release in ((5, 15), (6, 1), (6, 6), (6, 12), (6, 18), (7, 0), (7, 1), (7, 3)):
        now = precision_of(release)
        assert all(getattr(now, name) >= getattr(previous, name) for name in names), release
        previous = now
