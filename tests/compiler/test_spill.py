"""Registers that are kept in slots."""

from __future__ import annotations

from textwrap import dedent

from pybpf.compiler.ir import CTX, VReg
from pybpf.compiler.irdump import dump_function
from pybpf.compiler.spill import fixed_values, spill
from pybpf.testing.irtext import parse_function


def spilled(text: str, *webs: tuple[int, ...], hold: int = 0) -> str:
    result = spill(parse_function(text), [tuple(map(VReg, web)) for web in webs], hold=hold)
    lines = dump_function(result.function).splitlines()
    start = lines.index("entry:") + 1
    return "\n".join(line.strip() for line in lines[start:])


def wanted(text: str) -> str:
    return dedent(text).strip()


def test_stored_where_written_and_loaded_before_each_read():
    text = """
        v1 = *(u64 *)(ctx +0)
        v2 = v1 + 1
        v3 = v1 - v2
        *(u64 *)(ctx +0) = v3
        if v1 == v3 goto out else out
        out:
        exit 0
    """

    assert spilled(text, (1,)) == wanted("""
        v4 = *(u64 *)(ctx +0)
        *(u64 *)(&s0 +0) = v4
        v5 = *(u64 *)(&s0 +0)
        v2 = v5 + 1
        v6 = *(u64 *)(&s0 +0)
        v3 = v6 - v2
        *(u64 *)(ctx +0) = v3
        v7 = *(u64 *)(&s0 +0)
        if v7 == v3 goto out else out
        out:
        exit 0
    """)


def test_what_is_held_is_not_loaded_before_a_call():
    text = """
        v1 = *(u64 *)(ctx +0)
        v2 = v1 + v1
        bpf_map_delete_elem(v1, v2)
        *(u64 *)(ctx +0) = v1
        *(u64 *)(ctx +8) = v1
        exit 0
    """

    assert spilled(text, (1,), hold=1) == wanted("""
        v3 = *(u64 *)(ctx +0)
        *(u64 *)(&s0 +0) = v3
        v2 = v3 + v3
        bpf_map_delete_elem(v3, v2)
        v4 = *(u64 *)(&s0 +0)
        *(u64 *)(ctx +0) = v4
        *(u64 *)(ctx +8) = v4
        exit 0
    """)


def test_what_is_written_anew_is_not_held_any_more():
    text = """
        v1 = *(u64 *)(ctx +0)
        v2 = *(u64 *)(ctx +8)
        *(u64 *)(ctx +0) = v1
        v1 = v2
        *(u64 *)(ctx +0) = v1
        v1 = 7
        *(u64 *)(ctx +0) = v1
        exit 0
    """

    assert spilled(text, (1,), hold=1) == wanted("""
        v3 = *(u64 *)(ctx +0)
        *(u64 *)(&s0 +0) = v3
        v2 = *(u64 *)(ctx +8)
        *(u64 *)(ctx +0) = v3
        *(u64 *)(&s0 +0) = v2
        v4 = *(u64 *)(&s0 +0)
        *(u64 *)(ctx +0) = v4
        *(u64 *)(&s0 +0) = 7
        v5 = *(u64 *)(&s0 +0)
        *(u64 *)(ctx +0) = v5
        exit 0
    """)


def test_only_the_latest_are_held():
    text = """
        v1 = *(u64 *)(ctx +0)
        v2 = *(u64 *)(ctx +8)
        *(u64 *)(ctx +0) = v1
        exit 0
    """

    assert "v5 = *(u64 *)(&s0 +0)" in spilled(text, (1,), (2,), hold=1)
    assert "*(u64 *)(ctx +0) = v3" in spilled(text, (1,), (2,), hold=2)


def test_nothing_is_held_from_block_to_block():
    text = """
        entry:
            v1 = *(u64 *)(ctx +0)
            goto next
        next:
            *(u64 *)(ctx +0) = v1
            exit 0
    """

    assert "v3 = *(u64 *)(&s0 +0)" in spilled(text, (1,), hold=2)


def test_copies_within_a_web_vanish_and_others_need_no_temporary():
    text = """
        v1 = *(u64 *)(ctx +0)
        v2 = v1
        v3 = v2
        v4 = v3
        *(u64 *)(ctx +0) = v4
        exit 0
    """

    assert spilled(text, (1, 2), (3,)) == wanted("""
        v5 = *(u64 *)(ctx +0)
        *(u64 *)(&s0 +0) = v5
        v6 = *(u64 *)(&s0 +0)
        *(u64 *)(&s1 +0) = v6
        v4 = *(u64 *)(&s1 +0)
        *(u64 *)(ctx +0) = v4
        exit 0
    """)


def test_fixed_values_are_computed_anew():
    text = """
        v1 = &value(.lost)[8]
        v2 = 7
        *(u64 *)(v1 +0) = v2
        v3 = v2
        bpf_map_delete_elem(v1, v3)
        exit 0
    """

    assert spilled(text, (1,), (2,)) == wanted("""
        v4 = &value(.lost)[8]
        v5 = 7
        *(u64 *)(v4 +0) = v5
        v3 = 7
        v6 = &value(.lost)[8]
        bpf_map_delete_elem(v6, v3)
        exit 0
    """)


def test_what_has_two_values_is_not_fixed():
    text = """
        s0: 8 bytes, aligned to 8
        v1 = 1
        v2 = 2
        v1 = 2
        v3 = v2
        v4 = &s0[0]
        exit 0
    """

    assert set(fixed_values(parse_function(text))) == {VReg(2), VReg(4)}


def test_the_context_is_stored_first():
    text = "v1 = *(u64 *)(ctx +0)\nbpf_ktime_get_ns()\nv2 = *(u64 *)(ctx +8)\nexit 0"

    assert CTX in spill(parse_function(text), [(CTX,)], hold=1).temporaries
    assert spilled(text, (0,), hold=1) == wanted("""
        *(u64 *)(&s0 +0) = ctx
        v1 = *(u64 *)(ctx +0)
        bpf_ktime_get_ns()
        v3 = *(u64 *)(&s0 +0)
        v2 = *(u64 *)(v3 +8)
        exit 0
    """)
