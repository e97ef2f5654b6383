"""The fast mode does what the step mode does: results, memory, budget and faults, to the letter."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.errors import VmFault
from pybpf.isa.abi import MapType
from pybpf.isa.assembler import assemble
from pybpf.isa.insn import Program, insn
from pybpf.isa.table import ROWS, Form
from pybpf.script import MapRole, MapSpec
from pybpf.vm.fast.run import compile_program
from pybpf.vm.machine import Machine

SPECS = [
    MapSpec("h", MapRole.MAP, MapType.HASH, 4, 8, 3),
    MapSpec("a", MapRole.MAP, MapType.ARRAY, 4, 8, 4),
]
INTERESTING = [0, 1, 2, 7, 31, 32, 63, 64, 255, (1 << 31) - 1, -1, -2, -8, -(1 << 31)]
imms = st.sampled_from(INTERESTING) | st.integers(-(1 << 31), (1 << 31) - 1)
data = st.integers(0, 7)
"""The registers that hold numbers; r8 points to the memory of the run, r9 counts."""
ALU = [
    row for row in ROWS if row.form in {Form.ALU_IMM, Form.ALU_REG, Form.NEG, Form.MOVSX, Form.SWAP}
]
BRANCHES = [row for row in ROWS if row.form in {Form.BRANCH_IMM, Form.BRANCH_REG}]
LOADS = [row for row in ROWS if row.form in {Form.LOAD, Form.LOAD_ACQUIRE}]
STORES = [row for row in ROWS if row.form in {Form.STORE_REG, Form.STORE_IMM, Form.STORE_RELEASE}]
ATOMICS = [row for row in ROWS if row.form is Form.ATOMIC]


@st.composite
def alu(draw):
    row = draw(st.sampled_from(ALU))
    by_imm = row.form is Form.ALU_IMM
    by_reg = row.form in {Form.ALU_REG, Form.MOVSX}
    source = draw(data | st.sampled_from([8, 10])) if by_reg else 0
    return insn(row.name, draw(data), source, imm=draw(imms) if by_imm else 0)


@st.composite
def memory(draw):
    """An access to the stack or to the run's memory, seldom outside it."""
    row = draw(st.sampled_from(LOADS + STORES + ATOMICS))
    base = draw(st.sampled_from([8, 10, 8, 10, 7]))
    off = draw(st.integers(0, 31) | st.sampled_from([0, 8, 16, 24, -1, 30])) - 40 * (base == 10)
    if row in LOADS:
        return insn(row.name, draw(data), base, off)
    imm = draw(imms) if row.form is Form.STORE_IMM else 0
    return insn(row.name, base, 0 if row.form is Form.STORE_IMM else draw(data), off, imm)


@st.composite
def branch(draw, size):
    row = draw(st.sampled_from(BRANCHES))
    by_imm = row.form is Form.BRANCH_IMM
    return insn(
        row.name,
        draw(data),
        0 if by_imm else draw(data),
        off=draw(st.integers(-size, size)),
        imm=draw(imms) if by_imm else 0,
    )


@st.composite
def programs(draw):
    """A program whose registers are all set, whose jumps go anywhere within it."""
    size = draw(st.integers(1, 24))
    kinds = [alu(), alu(), alu(), memory(), branch(6)]
    body = [draw(st.one_of(kinds)) for _ in range(size)]
    for at, i in enumerate(body):
        if i.op in BRANCHES:
            body[at] = insn(i.op.name, i.dst, i.src, max(-at, min(size - at - 1, i.off)), i.imm)
    begin = [insn("mov64_reg", 8, 1), insn("mov64_imm", 9, imm=draw(st.integers(1, 6)))]
    begin += [insn("lddw", reg, imm=draw(imms | st.integers(0, (1 << 64) - 1))) for reg in range(8)]
    # Whatever the body does, it is gone through a few times.
    again = [insn("add64_imm", 9, imm=-1), insn("jne64_imm", 9, off=-size - 2, imm=0)]
    return Program((*begin, *body, *again, insn("exit")))


def outcome(machine, program, content):
    data = bytearray(content)
    ctx = machine.memory.add(data, "memory")
    try:
        result = machine.run(program, ctx.address, len(data))
    except VmFault as fault:
        result = str(fault)
    maps = {name: list(m.items()) for name, m in machine.maps.items() if hasattr(m, "items")}
    return result, bytes(data), maps


def both(program, content=bytes(range(32)), budget=10_000, specs=(), **kwargs):
    step, fast = (Machine(specs, budget=budget, fast=way, **kwargs) for way in (False, True))
    assert compile_program(fast, program) is not None
    theirs, ours = outcome(step, program, content), outcome(fast, program, content)
    assert theirs == ours
    return ours


@settings(max_examples=150, deadline=None)
@given(programs(), st.sampled_from([10_000, 10_000, 50, 30, 20]))
def test_both_modes_agree(program, budget):
    both(program, budget=budget)


LOOP = """
    r0 = {first}
    r1 = 0
    r3 = {bound}
again:
    r1 += r0
    w1 ^= w0
    {step}
    r1 += 1
    if {test} goto again
    exit
"""


@pytest.mark.parametrize(
    "step", ["r0 += 1", "r0 += 3", "r0 -= 1", "r0 += -7", "w0 += 1", "w0 -= 5"]
)
@pytest.mark.parametrize(
    "test",
    [
        f"{r}0 {op} {bound}"
        for op in ("!=", "<", "<=", ">", ">=", "s<", "s<=", "s>", "s>=", "==", "&")
        for r in "rw"
        for bound in ("10", "-3", f"{r}3")
    ],
)
def test_loops_that_count(step, test):
    for first, bound in ((0, 20), (40, 3), (-4, 5), (2**31 - 4, -(2**31))):
        text = LOOP.format(first=first, bound=bound, step=step, test=test)
        both(assemble(text), budget=90)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("r0 = 0; r1 = 9; L: if r1 == 0 goto E; r0 += r1; r1 -= 1; goto L; E: exit", 45),
        ("r0 = 0; r1 = 0; L: if r1 >= 9 goto E; r1 += 1; r0 += r1; goto L; E: exit", 45),
        (
            (
                "r0 = 0; r1 = 99; L: r0 += r1; if r0 > 300 goto E; r1 -= 1; if r1 != 0 goto L;"
                " exit; E: r0 = r1; exit"
            ),
            96,
        ),
        (
            "r1 = 20; r0 = 0; L: if r1 & 1 goto N; r0 += r1; N: r1 -= 1; if r1 != 0 goto L; exit",
            110,
        ),
        ("r0 = 1; call f; exit; f: r0 = 7; exit", 7),
        (
            (
                "r1 = 3; call f; exit; f: r0 = r1; if r1 == 0 goto E; r1 -= 1; call f; r0 += 5;"
                " E: exit"
            ),
            15,
        ),
        ("r1 = 3; r0 = 2; call v; r0 = 4; exit; v: r1 += 1; exit", 4),
    ],
)
def test_control_flow(text, result):
    for budget in (1000, 60, 25, 12, 7, 3):
        found, *_ = both(assemble(text), budget=budget)
        assert found == result or "budget" in found


CALL_BACK = """
    r6 = 0
    *(u64 *)(r10 - 8) = 5
    r1 = 10
    r2 = subprog:each ll
    r3 = r10
    r3 += -8
    r4 = 0
    call bpf_loop
    r6 = *(u64 *)(r10 - 8)
    r0 <<= 32
    r0 += r6
    exit
each:
    r3 = *(u64 *)(r2 + 0)
    r3 += r1
    *(u64 *)(r2 + 0) = r3
    r0 = 0
    if r1 < 8 goto more
    r0 = 1
more:
    exit
"""


def test_functions_that_helpers_call():
    found, *_ = both(assemble(CALL_BACK))
    assert found == 9 << 32 | 5 + 36
    for budget in range(2, 80, 7):
        both(assemble(CALL_BACK), budget=budget)


MAPS = """
    *(u32 *)(r10 - 4) = 1
    *(u64 *)(r10 - 16) = 77
    r1 = map:h ll
    r2 = r10
    r2 += -4
    r3 = r10
    r3 += -16
    r4 = 0
    call bpf_map_update_elem
    r1 = map:h ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    {check}
    r1 = *(u64 *)(r0 + 0)
    r2 = map_value:a[8] ll
    lock *(u64 *)(r2 + 0) += r1
    r0 = *(u64 *)(r2 + {off})
    exit
"""


@pytest.mark.parametrize(
    ("check", "off", "result"),
    [
        ("if r0 == 0 goto +5", 0, 77),
        ("r0 = 0", 0, "14: r1 = *(u64 *)(r0 + 0): cannot load 8 bytes at 0x0: null pointer"),
        (
            "", 4,
            ("16: r0 = *(u64 *)(r2 + 4): cannot load 8 bytes at offset 4 of a value of map a:"
             " outside its 8 bytes"),
        ),
    ],
)  # fmt: skip
def test_maps_and_faults(check, off, result):
    text = MAPS.format(check=check, off=off).replace("map_value:a[8]", "map_value:a")
    found, *_ = both(assemble(text), specs=SPECS)

    assert found == result


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("r2 = 5; callx r2; exit", 0),
        ("r2 = 9999; callx r2; exit", "1: callx r2: there is no helper 9999"),
        (
            "r6 = 14; callx r6; r6 = 1; callx r6; exit",
            "3: callx r6: r1 holds nothing: it was never set, or a call destroyed it",
        ),
    ],
)
def test_helpers_that_are_called_by_a_register(text, result):
    found, *_ = both(assemble(text))

    assert found == result


def test_a_fault_in_a_called_function_names_its_own_instruction():
    found, *_ = both(assemble("r1 = 0; call f; exit; f: r0 = *(u8 *)(r1 + 0); exit"))

    assert found == "3: r0 = *(u8 *)(r1 + 0): cannot load 1 byte at 0x0: null pointer"


@pytest.mark.parametrize(
    "text",
    [
        "exit",
        "r0 = 0; call f; exit; f: r0 = r9; exit",
    ],
)
def test_what_is_left_to_the_step_mode(text):
    program, fast = assemble(text), Machine(fast=True)

    assert compile_program(fast, program) is None
    assert outcome(fast, program, b"") == outcome(Machine(), program, b"")


def test_arguments_that_nobody_gives_are_left_to_the_step_mode():
    found, *_ = both(assemble("r0 = r3; exit"))

    assert found == "0: r0 = r3: r3 holds nothing: it was never set, or a call destroyed it"


def test_tail_calls():
    def run(fast):
        machine = Machine([MapSpec("p", MapRole.MAP, MapType.PROG_ARRAY, 4, 4, 2)], fast=fast)
        jump = "r2 = map:p ll; r3 = {}; call bpf_tail_call; r0 = {}; exit"
        machine.maps["p"].put(1, assemble("r6 = r1; " + jump.format(1, 9)))
        results = [
            outcome(machine, assemble(jump.format(index, 4)), b"12345678")[0] for index in (0, 1, 2)
        ]
        within = "call f; r0 += 1; exit; f: " + jump.format(1, 5)
        return [*results, outcome(machine, assemble(within), b"12345678")[0]]

    assert run(fast=True) == run(fast=False) == [4, 9, 4, 10]


def test_a_traced_run_is_a_step_run():
    seen = []
    machine = Machine(fast=True, trace=lambda _, index, __: seen.append(index))

    assert machine.run(assemble("r0 = 1; exit")) == 1
    assert seen == [0, 1]


@pytest.mark.parametrize("factor", [0, 1, 2])
@pytest.mark.parametrize("imm", [-1, -5, -(1 << 31), (1 << 31) - 1])
def test_products_of_small_numbers(factor, imm):
    """A product is negative even where a factor is 1."""
    text = f"r0 = {factor}; r0 *= {imm}; *(u64 *)(r10 - 8) = r0; r0 = *(u64 *)(r10 - 8); exit"
    machine = Machine(fast=True)
    assert machine.run(assemble(text)) == factor * imm & (1 << 64) - 1
