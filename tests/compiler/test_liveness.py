"""Where registers and slots are live: operation n reads at 3n and writes at 3n + 2."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings

from pybpf.compiler.ir import VReg
from pybpf.compiler.liveness import analyze, slot_lives
from pybpf.testing.functions import functions
from pybpf.testing.irtext import parse_function


def ranges(text: str):
    return {r.number: found for r, found in analyze(parse_function(text)).ranges.items()}


def test_from_the_write_to_the_last_read():
    text = """
        v1 = *(u64 *)(ctx +0)
        v2 = v1 + 1
        v3 = 7
        *(u64 *)(ctx +0) = v2
        exit 0
    """

    assert ranges(text) == {0: ((-1, 10),), 1: ((2, 4),), 2: ((5, 10),), 3: ((8, 9),)}


def test_ranges_have_holes_where_another_way_goes():
    text = """
        entry:
            v1 = *(u64 *)(ctx +0)
            v2 = v1
            if v1 == 0 goto left else right
        left:
            v3 = 1
            goto join
        right:
            v3 = v2
            goto join
        join:
            *(u64 *)(ctx +0) = v3
            exit 0
    """

    found = ranges(text)

    assert found[1] == ((2, 7),)
    assert found[2] == ((5, 9), (15, 16))
    assert found[3] == ((11, 15), (17, 22))


def test_the_right_operand_outlives_the_write_unless_the_two_swap():
    text = """
        v1 = *(u64 *)(ctx +0)
        v2 = *(u64 *)(ctx +8)
        v3 = {}
        exit 0
    """

    assert ranges(text.format("v1 - v2"))[2] == ((5, 9),)
    assert ranges(text.format("v1 + v2"))[2] == ((5, 7),)
    assert ranges(text.format("1 << v2"))[2] == ((5, 9),)
    assert ranges(text.format("v2 - v2"))[2] == ((5, 7),)


def test_calls():
    text = """
        v1 = bpf_ktime_get_ns()
        bpf_map_delete_elem(map(@), v1)
        exit 0
    """

    found = analyze(parse_function(text))

    assert found.calls == (1, 4)
    assert found.ranges == {VReg(1): ((2, 4),)}


@settings(deadline=None)
@given(functions(size=60))
def test_nothing_but_the_context_is_live_at_the_start(function):
    for register, pieces in analyze(function).ranges.items():
        assert register == VReg(0) or pieces[0][0] > 0
        assert all(start < end for start, end in pieces)
        assert all(a[1] < b[0] for a, b in pairwise(pieces))


SLOTS = """
    s0: 8 bytes, aligned to 8
    s1: 8 bytes, aligned to 8
    s2: 8 bytes, aligned to 8
"""


def lives(text: str):
    return {slot.id: life for slot, life in slot_lives(parse_function(SLOTS + text)).items()}


def test_a_slot_lives_from_its_first_to_its_last_mention():
    text = """
        entry:
            *(u64 *)(&s0 +0) = 1
            bpf_map_delete_elem(map(@), &s0[0])
            *(u64 *)(&s1 +0) = 1
            if ctx == 0 goto left else right
        left:
            v1 = *(u64 *)(&s2 +0)
            goto right
        right:
            v2 = *(u64 *)(&s1 +0)
            exit 0
    """

    assert lives(text) == {0: (0, 6), 1: (6, 21), 2: (12, 15)}


def test_a_slot_lives_as_long_as_its_address_is_used():
    text = """
        v1 = &s0[0]
        v2 = v1
        v3 = *(u64 *)(ctx +0)
        v4 = v2 + v3
        *(u64 *)(&s1 +0) = v4
        v5 = *(u64 *)(&s1 +0)
        *(u64 *)(v5 +0) = 1
        exit 0
    """

    assert lives(text) == {0: (0, 21), 1: (12, 18)}
