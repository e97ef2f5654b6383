"""Registers for values, and places for slots."""

from __future__ import annotations

from itertools import combinations
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.compiler.allocate import allocate
from pybpf.compiler.frame import demote, pack
from pybpf.compiler.ir import SlotRef, Store, VReg
from pybpf.compiler.irdump import dump_allocation, dump_function
from pybpf.compiler.legalize import legalize
from pybpf.compiler.liveness import analyze, slot_lives
from pybpf.compiler.operands import operations, slots
from pybpf.compiler.optimize import optimize
from pybpf.compiler.pointers import find_pointers
from pybpf.compiler.regalloc import assign
from pybpf.errors import SourceError
from pybpf.target.features import ALL
from pybpf.testing.functions import functions
from pybpf.testing.irtext import parse_function


def overlap(left, right):
    return any(a < d and c < b for a, b in left for c, d in right)


def check(allocation):
    """Hold an allocation to what must be so: nothing that is needed is overwritten."""
    liveness = analyze(allocation.function)
    for a, b in combinations(liveness.ranges, 2):
        if allocation.registers[a] == allocation.registers[b]:
            assert not overlap(liveness.ranges[a], liveness.ranges[b])
    for register, pieces in liveness.ranges.items():
        if any(start <= call < end for start, end in pieces for call in liveness.calls):
            assert allocation.registers[register] in range(6, 10)
    lives = slot_lives(allocation.function)
    for slot in lives:
        assert -512 <= allocation.places[slot] <= -slot.size
        assert allocation.places[slot] % slot.align == 0
    for a, b in combinations(lives, 2):
        if overlap([lives[a]], [lives[b]]):
            places = [(allocation.places[s], allocation.places[s] + s.size) for s in (a, b)]
            assert not overlap([places[0]], [places[1]])


@settings(max_examples=60, deadline=None)
@given(functions(size=80, values=12), st.booleans())
def test_nothing_that_is_needed_is_overwritten(function, optimized):
    if optimized:
        function = optimize(function)

    check(allocate(legalize(function, ALL, "little"), 0))


def many(count: int, load: str = "*(u64 *)(ctx +{at})") -> str:
    """Return a function with ``count`` values that are all live across a call."""
    lines = [f"v{n + 1} = {load.format(at=8 * n % 96)}" for n in range(count)]
    lines += ["bpf_map_delete_elem(map(@), 0)"]
    lines += [f"bpf_map_delete_elem(v{n + 1}, 1)" for n in range(count)]
    return "\n".join([*lines, "exit 0"])


@pytest.mark.parametrize("count", [4, 5, 9, 64, 200])
def test_any_number_of_values(count):
    allocation = allocate(parse_function(many(count)), 0)

    check(allocation)
    assert (allocation.scratch_size > 0) == (count > 68)


def test_many_arguments_that_are_all_spilled():
    text = many(20).replace("exit 0", "bpf_perf_event_output(v1, v2, v3, v4, v5)\nexit 0")

    check(allocate(parse_function(text), 0))


def test_many_values_before_the_first_call():
    text = many(30).replace("bpf_map_delete_elem(map(@), 0)\n", "")

    check(allocate(parse_function(text), 0))


def test_four_values_fit_the_registers_that_calls_preserve():
    assert not any(
        isinstance(op, Store) for op in operations(allocate(parse_function(many(4)), 0).function)
    )


def test_constants_and_addresses_are_computed_anew_instead_of_stored():
    lines = [
        f"v{n} = {value}" for n, value in enumerate(("&s0[0]", "map(@)", "7", "8", "9", "10"), 1)
    ]
    lines += ["v7 = &value(.lost)[0]", "bpf_ktime_get_ns()"]
    lines += [f"bpf_map_delete_elem(v{n}, 0)" for n in range(1, 8)]
    text = "s0: 8 bytes, aligned to 8\n" + "\n".join([*lines, "exit 0"])

    allocation = allocate(parse_function(text), 0)

    check(allocation)
    assert not any(isinstance(op, Store) for op in operations(allocation.function))


def test_pointers_are_never_spilled_to_scratch_memory():
    text = many(100)
    text = text.replace("v50 = *(u64 *)(ctx +8)", "v50 = bpf_map_lookup_elem(map(@), 0)")
    text = text.replace("v60 = *(u64 *)(ctx +88)", "v60 = ctx")

    allocation = allocate(parse_function(text), 0)

    pointers = find_pointers(allocation.function)
    stored = [
        op for op in operations(allocation.function) if isinstance(op, Store) and op.src in pointers
    ]
    assert stored
    assert all(isinstance(op.base, SlotRef) for op in stored)


def test_arguments_and_results_land_where_the_call_wants_them():
    text = """
        s0: 8 bytes, aligned to 8
        v1 = *(u64 *)(ctx +8)
        v2 = v1 + 8
        v3 = *(u64 *)(ctx +16)
        bpf_probe_read_kernel(&s0[0], v3, v2)
        v4 = bpf_ktime_get_ns()
        v5 = v4 >> 32
        *(u32 *)(&s0 +0) = v5
        bpf_map_delete_elem(map(@), &s0[0])
        exit 0
    """

    assert dump_allocation(allocate(parse_function(text), 0)) == dedent("""\
        function test
            s0: 8 bytes, aligned to 8 at r10-8
        entry:
            r3:v1 = *(u64 *)(r1:ctx +8)
            r3:v2 = r3:v1 + 8
            r2:v3 = *(u64 *)(r1:ctx +16)
            bpf_probe_read_kernel(&s0[0], r2:v3, r3:v2)
            r0:v4 = bpf_ktime_get_ns()
            r0:v5 = r0:v4 >> 32
            *(u32 *)(&s0 +0) = r0:v5
            bpf_map_delete_elem(map(@), &s0[0])
            exit 0
    """)


def test_the_context_stays_in_r1_if_no_call_comes_before_its_last_use():
    text = """
        v1 = *(u64 *)(ctx +8)
        bpf_map_delete_elem(map(@), v1)
        {}
        exit 0
    """

    short = allocate(parse_function(text.format("")), 0)
    long = allocate(parse_function(text.format("v2 = *(u64 *)(ctx +8)")), 0)

    assert short.registers[VReg(0)] == 1
    assert long.registers[VReg(0)] == 6


def test_copies_join_registers():
    text = """
        entry:
            v1 = bpf_map_lookup_elem(map(@), 0)
            if v1 == 0 goto missing else found
        missing:
            v2 = bpf_map_lookup_elem(map(@), 1)
            v1 = v2
            if v1 == 0 goto out else found
        found:
            *(u64 *)(v1 +0) = 1
            goto out
        out:
            exit 0
    """

    registers = allocate(parse_function(text), 0).registers

    assert registers[VReg(1)] == registers[VReg(2)] == 0


def test_a_reloaded_value_is_used_again_up_to_the_next_call():
    text = many(5).replace(
        "bpf_map_delete_elem(v1, 1)", "*(u64 *)(v1 +0) = v1\n*(u64 *)(v1 +8) = v1"
    )

    assignment = assign(parse_function(text))

    assert len(assignment.spills) == 1
    (slot,) = assignment.spills
    loads = [op for op in operations(assignment.function) if slot in slots(op)]
    assert len(loads) == 2


def test_slots_share_bytes_when_their_lives_do_not_overlap():
    text = "\n".join(
        [f"s{n}: 64 bytes, aligned to 8" for n in range(50)]
        + [f"*(u64 *)(&s{n} +0) = {n}\nbpf_map_delete_elem(map(@), &s{n}[0])" for n in range(50)]
        + ["exit 0"]
    )

    frame = pack(parse_function(text))

    assert set(frame.places.values()) == {-64}


def test_slots_of_two_ways_share_bytes_but_not_with_what_lives_across():
    text = """
        s0: 8 bytes, aligned to 8
        s1: 8 bytes, aligned to 8
        s2: 8 bytes, aligned to 8
        entry:
            *(u64 *)(&s0 +0) = 1
            if ctx == 0 goto left else right
        left:
            *(u64 *)(&s1 +0) = 1
            bpf_map_delete_elem(map(@), &s1[0])
            goto join
        right:
            *(u64 *)(&s2 +0) = 1
            bpf_map_delete_elem(map(@), &s2[0])
            goto join
        join:
            bpf_map_delete_elem(map(@), &s0[0])
            exit 0
    """

    assert {s.id: at for s, at in pack(parse_function(text)).places.items()} == {
        0: -8,
        1: -16,
        2: -16,
    }


def test_small_slots_are_aligned():
    text = """
        s0: 1 bytes, aligned to 1
        s1: 8 bytes, aligned to 8
        s2: 2 bytes, aligned to 2
        *(u8 *)(&s0 +0) = 1
        *(u64 *)(&s1 +0) = 1
        *(u16 *)(&s2 +0) = 1
        bpf_perf_event_output(&s0[0], &s1[0], &s2[0])
        exit 0
    """

    assert {s.id: at for s, at in pack(parse_function(text)).places.items()} == {
        0: -1,
        2: -4,
        1: -16,
    }


BIG = """
    s0: 400 bytes, aligned to 8
    s1: 400 bytes, aligned to 8
    s2: 8 bytes, aligned to 8
    entry:
        v1 = *(u64 *)(ctx +0)
        if v1 == 7 goto body else leave
    body:
        v2 = bpf_get_current_comm(&s0[0], 16)
        bpf_get_current_comm(&s1[384], 16)
        v3 = &s1[8]
        *(u64 *)(&s2 +0) = 0
        *(u32 *)(&s1 +392) = 1
        v4 = *(u64 *)(&s0 +8)
        bpf_map_update_elem(map(@), &s2[0], v3, v4)
        goto leave
    leave:
        exit 0
"""


def test_what_does_not_fit_lies_in_scratch_memory():
    function = parse_function(BIG)
    frame = pack(function)

    assert {slot.id for slot in frame.overflow} == {1}
    assert dump_function(demote(function, frame.overflow, 5).function) == dedent("""\
        function test
            s0: 400 bytes, aligned to 8
            s2: 8 bytes, aligned to 8
            s3: 4 bytes, aligned to 4
        entry:
            v1 = *(u64 *)(ctx +0)
            if v1 == 7 goto body else leave
        body:
            *(u32 *)(&s3 +0) = 5
            v5 = bpf_map_lookup_elem(map(.scratch), &s3[0])
            if v5 == 0 goto leave else body.found
        body.found:
            v2 = bpf_get_current_comm(&s0[0], 16)
            v6 = v5 + 384
            bpf_get_current_comm(v6, 16)
            v3 = v5 + 8
            *(u64 *)(&s2 +0) = 0
            *(u32 *)(v5 +392) = 1
            v4 = *(u64 *)(&s0 +8)
            bpf_map_update_elem(map(@), &s2[0], v3, v4)
            goto leave
        leave:
            exit 0
    """)


def test_scratch_memory_is_found_before_anything_is_reserved():
    text = BIG.replace("v1 = *(u64 *)(ctx +0)", "v1 = bpf_ringbuf_reserve(map(.events), 8, 0)")
    function = parse_function(text)

    found = dump_function(demote(function, pack(function).overflow, 0).function)

    assert found.index("map(.scratch)") < found.index("bpf_ringbuf_reserve")


def test_scratch_memory_is_shared_too():
    text = "\n".join(
        [f"s{n}: 1000 bytes, aligned to 8" for n in range(50)]
        + [f"*(u64 *)(&s{n} +0) = {n}\nbpf_map_delete_elem(map(@), &s{n}[0])" for n in range(50)]
        + ["exit 0"]
    )

    assert allocate(parse_function(text), 0).scratch_size == 1000


def test_more_than_scratch_memory_holds():
    text = "s0: 40000 bytes, aligned to 8\nbpf_map_delete_elem(map(@), &s0[0])\nexit 0"

    with pytest.raises(SourceError) as caught:
        allocate(parse_function(text), 0)

    assert str(caught.value) == (
        "error: test: the values in use at once take 40000 bytes,"
        " more than the 32768 the kernel allows for"
    )


def test_more_pointers_than_the_stack_holds():
    with pytest.raises(SourceError) as caught:
        allocate(parse_function(many(70, "bpf_map_lookup_elem(map(@), {at})")), 0)

    assert str(caught.value) == (
        "error: test: more pointers are in use at once than the stack holds"
    )
