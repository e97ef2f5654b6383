"""From the IR to what a program does: every stage, and the VM at the end, gives the same."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pybpf.compiler.allocate import allocate
from pybpf.compiler.codegen import generate
from pybpf.compiler.legalize import legalize
from pybpf.compiler.optimize import optimize
from pybpf.isa.abi import MapType, ProgType
from pybpf.script import MapRole, MapSpec
from pybpf.target.features import ALL
from pybpf.testing.functions import (
    PROCESS,
    Outcome,
    evaluate_afresh,
    functions,
    random_function,
    random_surroundings,
)
from pybpf.testing.irtext import parse_function
from pybpf.vm.machine import Machine
from pybpf.vm.world import World

CPUS = 2
SCRATCH = 1  # which element of the scratch map the programs use


def compiled(function, features=ALL, byteorder="little"):
    return generate(
        function,
        features=features,
        prog_type=ProgType.RAW_TRACEPOINT,
        scratch_index=SCRATCH,
        byteorder=byteorder,
    )


def run(generated, around):
    """Run a program in the VM."""
    specs = [
        MapSpec("table", MapRole.MAP, MapType.HASH, 8, 16, 64),
        MapSpec("out", MapRole.LOST, MapType.ARRAY, 4, 256, 1),
    ]
    if generated.scratch_size:
        size = generated.scratch_size
        specs.append(
            MapSpec(".scratch", MapRole.SCRATCH, MapType.PERCPU_ARRAY, 4, size, SCRATCH + 1)
        )
    tgid, tid, gid, uid = PROCESS
    world = World(
        cpus=CPUS, cpu=1, pid=tgid, tid=tid, gid=gid, uid=uid, comm=around.comm,
        time=around.results["bpf_ktime_get_ns"],
        random=lambda: around.results["bpf_get_prandom_u32"],
    )  # fmt: skip
    machine = Machine(specs, world, byteorder=around.byteorder)
    ctx = machine.memory.add(bytearray(around.ctx), "the context", writable=False)
    code = machine.run(generated.program, ctx.address)
    (out,) = dict(machine.maps["out"].items()).values()
    table = {key: value for key, (value,) in machine.maps["table"].items()}
    return Outcome(code % (1 << 32), table, out[0])


def check(function, seed, features, byteorder):
    """Compare what a function does after every stage."""
    around = random_surroundings(Random(seed), byteorder=byteorder)
    wanted = evaluate_afresh(function, around)
    optimized = optimize(function)
    assert evaluate_afresh(optimized, around) == wanted
    legal = legalize(optimized, features, byteorder)
    assert evaluate_afresh(legal, around) == wanted
    assert evaluate_afresh(allocate(legal, SCRATCH).function, around) == wanted
    assert run(compiled(function, features, byteorder), around) == wanted


seeds = st.integers(0, 0xFFFFFFFF)
orders = st.sampled_from(("little", "big"))


@settings(max_examples=150, deadline=None)
@given(functions(size=80), seeds, st.sampled_from((ALL, frozenset())), orders)
def test_random_functions(function, seed, features, byteorder):
    check(function, seed, features, byteorder)


@settings(max_examples=10, deadline=None)
@given(functions(size=30, values=90), seeds, st.sampled_from((ALL, frozenset())), orders)
def test_random_functions_with_many_values_at_once(function, seed, features, byteorder):
    check(function, seed, features, byteorder)


@pytest.mark.parametrize("features", [ALL, frozenset()], ids=["all", "none"])
def test_200_values_at_once(features):
    function = random_function(Random(1), values=200, size=10)

    generated = compiled(function, features)
    assert generated.scratch_size > 0
    check(function, 2, features, "little")


EDGES = (
    0, 1, -1, 2, -2, 3, -3, 7, 10, -10, 0xFFFFFFFF, 1 << 32,
    1 << 31, -(1 << 31), (1 << 31) - 1, -(1 << 63), (1 << 63) - 1,
)  # fmt: skip
numbers = st.sampled_from(EDGES) | st.integers(-(1 << 63), (1 << 63) - 1)

ARITHMETIC = """
    v1 = *(u64 *)(ctx +0)
    v2 = *(u64 *)(ctx +8)
    v3 = {half}{left} {op} {right}
    v4 = &value(out)[0]
    *(u64 *)(v4 +0) = v3
    exit 0
"""


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(("s/", "s%", "/", "%", "s>>", "<<", "*", "-")),
    st.sampled_from(("", "u32 ")),
    numbers,
    numbers,
    st.sampled_from(((1, 1), (1, 0), (0, 1))),
    st.sampled_from((ALL, frozenset())),
)
@example("s/", "", -(1 << 63), -1, (1, 1), frozenset())
@example("s%", "", -(1 << 63), -1, (1, 1), frozenset())
@example("s/", "u32 ", -(1 << 31), -1, (1, 1), frozenset())
@example("s/", "", -7, 0, (1, 1), frozenset())
@example("s%", "", -7, 0, (1, 1), frozenset())
@example("s%", "u32 ", -7, 1 << 32, (1, 0), frozenset())
def test_arithmetic(op, half, left, right, registers, features):
    text = ARITHMETIC.format(
        half=half,
        op=op,
        left="v1" if registers[0] else left,
        right="v2" if registers[1] else right,
    )
    around = random_surroundings(Random(0))
    around.ctx = b"".join(n.to_bytes(8, "little", signed=True) for n in (left, right))
    function = parse_function(text)

    assert run(compiled(function, features), around) == evaluate_afresh(function, around)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(("==", "!=", "<", "<=", ">", ">=", "s<", "s<=", "s>", "s>=", "&")),
    st.sampled_from(("", "u32 ")),
    numbers,
    numbers,
    st.booleans(),
    st.booleans(),
    st.sampled_from((ALL, frozenset())),
)
def test_comparisons(cmp, half, left, right, register, swapped, features):
    ways = ("no", "yes") if swapped else ("yes", "no")
    text = f"""
        v1 = *(u64 *)(ctx +0)
        v2 = *(u64 *)(ctx +8)
        if {half}v1 {cmp} {"v2" if register else right} goto {ways[0]} else {ways[1]}
        yes:
        exit 1
        no:
        exit 2
    """
    around = random_surroundings(Random(0))
    around.ctx = b"".join(n.to_bytes(8, "little", signed=True) for n in (left, right))
    function = parse_function(text)

    assert run(compiled(function, features), around) == evaluate_afresh(function, around)
