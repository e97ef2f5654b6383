"""Random programs give what an independent model of the arithmetic says."""

import operator

from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.isa.insn import Program, insn
from pybpf.vm.interpreter import interpret

# The model knows numbers of Python only: operands are reduced to their signed or unsigned value,
# the operation is done without limits, and the result is reduced to the register again.
_PLAIN = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "or": operator.or_,
    "and": operator.and_,
    "xor": operator.xor,
    "mov": lambda _, b: b,
}
_DIVIDING = {"div": False, "mod": False, "sdiv": True, "smod": True}
_SHIFTING = {"lsh", "rsh", "arsh"}


def _as(value, width, *, signed):
    value %= 1 << width
    return value - (1 << width) if signed and value >= 1 << width - 1 else value


def _divide(name, a, b):
    if name.endswith("div"):
        if b == 0:
            return 0
        quotient = abs(a) // abs(b)
        return quotient if (a >= 0) == (b >= 0) else -quotient
    if b == 0:
        return a
    remainder = abs(a) % abs(b)
    return remainder if a >= 0 else -remainder


def _model(name, width, a, b):
    if name in _PLAIN:
        return _PLAIN[name](a, b) % (1 << width)
    if name in _DIVIDING:
        signed = _DIVIDING[name]
        a, b = (_as(n, width, signed=signed) for n in (a, b))
        return _divide(name, a, b) % (1 << width)
    count = b % width
    if name == "lsh":
        return a * 2**count % (1 << width)
    return _as(a, width, signed=name == "arsh") // 2**count % (1 << width)


NAMES = sorted({*_PLAIN, *_DIVIDING, *_SHIFTING})
EDGES = [0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**32, 2**63 - 1, -(2**63)]
words = st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1)
imms = st.sampled_from([n for n in EDGES if -(2**31) <= n < 2**31]) | st.integers(
    -(2**31), 2**31 - 1
)
registers = st.integers(0, 9)
operations = st.tuples(
    st.sampled_from(NAMES), st.sampled_from([32, 64]), registers, registers, st.none() | imms
)


@given(st.lists(words, min_size=10, max_size=10), st.lists(operations, max_size=20), registers)
@settings(max_examples=300, deadline=None)
def test_arithmetic_equals_a_model(start, steps, result):
    values = [n % (1 << 64) for n in start]
    insns = [insn("lddw", register, imm=value) for register, value in enumerate(start)]
    for name, width, dst, src, imm in steps:
        if imm is None:
            insns.append(insn(f"{name}{width}_reg", dst, src))
        else:
            insns.append(insn(f"{name}{width}_imm", dst, imm=imm))
        values[dst] = _model(name, width, values[dst], values[src] if imm is None else imm)
    insns += [insn("mov64_reg", 0, result), insn("exit")]

    assert interpret(Program(tuple(insns))) == values[result]


_COMPARISONS = {
    "jeq": operator.eq, "jne": operator.ne, "jgt": operator.gt, "jge": operator.ge,
    "jlt": operator.lt, "jle": operator.le, "jset": operator.and_, "jsgt": operator.gt,
    "jsge": operator.ge, "jslt": operator.lt, "jsle": operator.le,
}  # fmt: skip


@given(st.sampled_from(sorted(_COMPARISONS)), st.sampled_from([32, 64]), words, words)
@settings(deadline=None)
def test_branches_equal_a_model(name, width, a, b):
    signed = name.startswith("js") and name != "jset"
    taken = _COMPARISONS[name](_as(a, width, signed=signed), _as(b, width, signed=signed))
    insns = (
        insn("lddw", 1, imm=a), insn("lddw", 2, imm=b), insn("mov64_imm", 0, imm=1),
        insn(f"{name}{width}_reg", 1, 2, off=1), insn("mov64_imm", 0, imm=0), insn("exit"),
    )  # fmt: skip

    assert interpret(Program(insns)) == bool(taken)
