"""The passes of the optimizer: each on its own, then all of them, on functions as text."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from hypothesis import given, settings

from pybpf.compiler.flow import drop_unreachable, thread_jumps, tidy
from pybpf.compiler.irdump import dump_function
from pybpf.compiler.optimize import drop_dead, optimize
from pybpf.compiler.values import fold_values
from pybpf.testing.functions import functions
from pybpf.testing.irtext import parse_function


def body(text: str) -> str:
    """Return what a pass made of a function, without the header."""
    return "".join(line for line in text.splitlines(keepends=True)[1:] if " bytes," not in line)


def block(text: str) -> str:
    """Return a whole function of one block."""
    return f"s0: 16 bytes, aligned to 8\nentry:\n{dedent(text)}\nexit 0"


def written(text: str) -> str:
    return indent(dedent(text).strip() + "\n", "    ")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # copies and constants are followed
        ("v1 = ctx\nv2 = *(u64 *)(v1 +8)", "v1 = ctx\nv2 = *(u64 *)(ctx +8)"),
        ("v1 = 5\nv2 = v1\nv3 = v2 + 1", "v1 = 5\nv2 = 5\nv3 = 6"),
        (
            "v1 = &s0[8]\n*(u64 *)(v1 +0) = 1\nbpf_get_current_comm(v1, 16)",
            "v1 = &s0[8]\n*(u64 *)(&s0 +8) = 1\nbpf_get_current_comm(&s0[8], 16)",
        ),
        ("v1 = map(@)\nbpf_map_delete_elem(v1, 0)", "v1 = map(@)\nbpf_map_delete_elem(map(@), 0)"),
        # where a constant may not stand, its register stays
        (
            "v1 = 1\nlock *(u64 *)(&s0 +0) += v1",
            "v1 = 1\nlock *(u64 *)(&s0 +0) += v1",
        ),
        # the same is computed once
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 >> 32\nv3 = v1 >> 32\nv4 = v3 * 10",
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 >> 32\nv3 = v2\nv4 = v2 * 10",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = *(u64 *)(ctx +8)\nv3 = v1 ^ v2\nv4 = v2 ^ v1",
            "v1 = *(u64 *)(ctx +0)\nv2 = *(u64 *)(ctx +8)\nv3 = v1 ^ v2\nv4 = v3",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = *(u64 *)(ctx +8)\nv3 = v1 - v2\nv4 = v2 - v1",
            "v1 = *(u64 *)(ctx +0)\nv2 = *(u64 *)(ctx +8)\nv3 = v1 - v2\nv4 = v2 - v1",
        ),
        # a load is repeated after stores and calls, the context only after calls
        ("v1 = *(u64 *)(&s0 +0)\nv2 = *(u64 *)(&s0 +0)", "v1 = *(u64 *)(&s0 +0)\nv2 = v1"),
        (
            "v1 = *(u64 *)(&s0 +0)\n*(u8 *)(&s0 +1) = 1\nv2 = *(u64 *)(&s0 +0)",
            "v1 = *(u64 *)(&s0 +0)\n*(u8 *)(&s0 +1) = 1\nv2 = *(u64 *)(&s0 +0)",
        ),
        (
            "v1 = *(u64 *)(&s0 +0)\nlock *(u64 *)(&s0 +0) += v1\nv2 = *(u64 *)(&s0 +0)",
            "v1 = *(u64 *)(&s0 +0)\nlock *(u64 *)(&s0 +0) += v1\nv2 = *(u64 *)(&s0 +0)",
        ),
        (
            "v1 = *(u64 *)(&s0 +0)\nbpf_get_current_comm(&s0[0], 16)\nv2 = *(u64 *)(&s0 +0)",
            "v1 = *(u64 *)(&s0 +0)\nbpf_get_current_comm(&s0[0], 16)\nv2 = *(u64 *)(&s0 +0)",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\n*(u8 *)(&s0 +1) = 1\nv2 = *(u64 *)(ctx +0)",
            "v1 = *(u64 *)(ctx +0)\n*(u8 *)(&s0 +1) = 1\nv2 = v1",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv3 = bpf_ktime_get_ns()\nv2 = *(u64 *)(ctx +0)",
            "v1 = *(u64 *)(ctx +0)\nv3 = bpf_ktime_get_ns()\nv2 = *(u64 *)(ctx +0)",
        ),
        # one run sees one process and one CPU, but time goes on
        (
            "v1 = bpf_get_current_pid_tgid()\nv2 = bpf_get_current_pid_tgid()\nv3 = v2 >> 32",
            "v1 = bpf_get_current_pid_tgid()\nv2 = v1\nv3 = v1 >> 32",
        ),
        ("v1 = bpf_ktime_get_ns()\nv2 = bpf_ktime_get_ns()", None),
        ("v1 = bpf_get_prandom_u32()\nv2 = bpf_get_prandom_u32()", None),
        # what merges is followed inside of a block
        (
            "v1 = 1\nv2 = v1 + 1\nv1 = *(u64 *)(ctx +0)\nv3 = v1 + 1\nv1 = 2\nv4 = v1 + 1",
            "v1 = 1\nv2 = 2\nv1 = *(u64 *)(ctx +0)\nv3 = v1 + 1\nv1 = 2\nv4 = 3",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 + 7\nv1 = v1 + 1\nv3 = v1 + 7",
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 + 7\nv1 = v1 + 1\nv3 = v1 + 7",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 * 10\nv2 = v2 + 1\nv3 = v1 * 10",
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 * 10\nv2 = v2 + 1\nv3 = v1 * 10",
        ),
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 + 4\nv1 = *(u64 *)(ctx +8)\nv3 = v2 + 3",
            "v1 = *(u64 *)(ctx +0)\nv2 = v1 + 4\nv1 = *(u64 *)(ctx +8)\nv3 = v2 + 3",
        ),
        # the length of a comparison and of what is used after it is one register
        (
            "v1 = *(u64 *)(ctx +0)\nv2 = (u32) v1\nv3 = v2\nv4 = u32 v3 + 1\nv5 = v2 + 1",
            "v1 = *(u64 *)(ctx +0)\nv2 = (u32) v1\nv3 = v2\nv4 = u32 v2 + 1\nv5 = v2 + 1",
        ),
    ],
)  # fmt: skip
def test_values_in_a_block(before, after):
    found = fold_values(parse_function(block(before)))

    assert body(dump_function(found)) == f"entry:\n{written(after or before)}    exit 0\n"


BRANCHES = """
    entry:
        v1 = *(u64 *)(ctx +0)
        v2 = v1 + 5
        v9 = 1
        if v1 == 0 goto left else right
    left:
        v3 = v1 + 5
        v4 = v1 * 10
        v5 = 1
        goto join
    right:
        v6 = v1 * 10
        v5 = {right}
        goto join
    join:
        v7 = v1 * 10
        v8 = v5 + 1
        exit 0
"""


def test_values_across_branches():
    found = fold_values(parse_function(BRANCHES.format(right=1)))

    assert body(dump_function(found)) == dedent("""\
        entry:
            v1 = *(u64 *)(ctx +0)
            v2 = v1 + 5
            v9 = 1
            if v1 == 0 goto left else right
        left:
            v3 = v2
            v4 = v1 * 10
            v5 = 1
            goto join
        right:
            v6 = v1 * 10
            v5 = 1
            goto join
        join:
            v7 = v1 * 10
            v8 = 2
            exit 0
    """)


def test_what_paths_do_not_agree_on_is_unknown():
    found = fold_values(parse_function(BRANCHES.format(right=2)))

    assert "v8 = v5 + 1" in dump_function(found)


@pytest.mark.parametrize(("first", "second"), [("u8", "u16"), ("u16", "u8")])
def test_the_width_of_a_merged_register_is_that_of_the_widest(first, second):
    text = f"""
        entry:
            v1 = *(u64 *)(ctx +0)
            v2 = *({first} *)(ctx +8)
            if v1 == 0 goto left else join
        left:
            v2 = *({second} *)(ctx +8)
            goto join
        join:
            v3 = (u8) v2
            v4 = (u16) v2
            exit 0
    """

    found = dump_function(fold_values(parse_function(text)))

    assert "v3 = (u8) v2" in found
    assert "v4 = v2" in found


def test_loads_are_shared_with_a_block_that_nothing_else_leads_to():
    text = """
        entry:
            v1 = *(u64 *)(ctx +0)
            if v1 == 0 goto left else join
        left:
            v2 = *(u64 *)(ctx +0)
            v3 = bpf_ktime_get_ns()
            goto join
        join:
            v4 = *(u64 *)(ctx +0)
            exit 0
    """

    found = dump_function(fold_values(parse_function(text)))

    assert "v2 = v1" in found
    assert "v4 = *(u64 *)(ctx +0)" in found


def test_a_comparison_whose_length_is_used_later_keeps_it():
    text = """
        entry:
            v1 = *(u64 *)(ctx +0)
            v2 = (u32) v1
            v3 = v2
            if v2 > 64 goto out else copy
        copy:
            bpf_probe_read_kernel(&s0[0], v3, v1)
            goto out
        out:
            exit 0
    """

    found = fold_values(parse_function("s0: 64 bytes, aligned to 8\n" + text))

    assert "if v2 > 64 goto" in dump_function(found)


AND = """
    entry:
        v1 = *(u64 *)(ctx +0)
        if v1 == 1 goto more else no
    more:
        v2 = *(u64 *)(ctx +8)
        if v2 == 2 goto yes else no
    yes:
        v3 = 1
        goto test
    no:
        v3 = 0
        goto test
    test:
        {between}
        if {tested} != 0 goto then else out
    then:
        v9 = bpf_map_delete_elem(map(@), 0)
        goto out
    out:
        exit 0
"""


@pytest.mark.parametrize(
    ("between", "tested"),
    [("", "v3"), ("v4 = v3", "v4"), ("v4 = (s32) v3\nv5 = v4 ^ 0", "v5"), ("goto at\nat:", "v3")],
)
def test_truth_values_become_jumps(between, tested):
    found = optimize(parse_function(AND.format(between=between, tested=tested)))

    assert body(dump_function(found)) == dedent("""\
        entry:
            v1 = *(u64 *)(ctx +0)
            if v1 == 1 goto more else out
        more:
            v2 = *(u64 *)(ctx +8)
            if v2 == 2 goto then else out
        then:
            bpf_map_delete_elem(map(@), 0)
            goto out
        out:
            exit 0
    """)


def test_what_a_jump_passes_is_done_on_the_way():
    text = AND.format(between="v4 = v3 + 7\n*(u64 *)(&s0 +0) = v4", tested="v3")

    # A store is not repeated on every way, so the jump stays.
    assert (
        dump_function(thread_jumps(parse_function(f"s0: 8 bytes, aligned to 8{text}"))).count(
            "goto test"
        )
        == 2
    )

    text = AND.format(between="v4 = v3 + 7", tested="v3").replace(
        "_elem(map(@), 0)", "_elem(v4, 0)"
    )
    found = dump_function(optimize(parse_function(text)))

    assert "bpf_map_delete_elem(8, 0)" in found


@pytest.mark.parametrize("between", ["v3 = *(u64 *)(ctx +16)", "v3 = v3 + v2"])
def test_a_value_set_anew_decides_nothing(between):
    text = AND.format(between="", tested="v3").replace("v3 = 1", f"v3 = 1\n{between}")

    found = dump_function(thread_jumps(parse_function(text)))

    assert found.count("goto test") == 1
    assert "goto out" in found


def test_paths_that_disagree_decide_nothing():
    text = AND.format(between="bpf_ktime_get_ns()\ngoto then2\nthen2:", tested="v3")

    function = parse_function(text)

    assert thread_jumps(function) == function


def test_a_branch_is_followed_where_nothing_is_passed():
    text = """
        entry:
            v1 = *(u64 *)(ctx +0)
            v2 = 0
            if v1 == 1 goto set else test
        set:
            v2 = *(u64 *)(ctx +8)
            goto test
        test:
            if v2 == 0 goto out else then
        then:
            bpf_map_delete_elem(map(@), 0)
            goto out
        out:
            exit 0
    """

    found = dump_function(thread_jumps(parse_function(text)))

    assert "if v1 == 1 goto set else out" in found


def test_tidy():
    text = """
        entry:
            # nothing
            goto a
        a:
            v1 = *(u64 *)(ctx +0)
            goto b
        b:
            v2 = *(u64 *)(ctx +8)
            if v1 == v2 goto c else d
        c:
            # on the way
            goto e
        d:
            goto e
        dead:
            v3 = 1
            goto e
        e:
            if v1 == 7 goto f else g
        f:
            exit 0
        g:
            exit 1
        h:
            exit 0
    """

    assert body(dump_function(tidy(parse_function(text)))) == dedent("""\
        entry:
            # nothing
            v1 = *(u64 *)(ctx +0)
            v2 = *(u64 *)(ctx +8)
            if v1 == 7 goto h else g
        g:
            exit 1
        h:
            exit 0
    """)


def test_unreachable_blocks_go():
    text = """
        entry:
            goto b
        a:
            goto b
        b:
            exit 0
    """

    assert "a:" not in dump_function(drop_unreachable(parse_function(text)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("v1 = 1\nv2 = v1 + 1\nv3 = v2 + 1", ""),
        ("v1 = *(u64 *)(ctx +0)", ""),
        ("# remark\nv1 = &value(.lost)[8]", "# remark"),
        ("v1 = bpf_get_current_pid_tgid()\nv2 = bpf_ktime_get_ns()", ""),
        ("v1 = bpf_map_lookup_elem(map(@), 0)", ""),
        ("v1 = bpf_map_delete_elem(map(@), 0)", "bpf_map_delete_elem(map(@), 0)"),
        ("v1 = bpf_get_prandom_u32()", "bpf_get_prandom_u32()"),
        ("*(u64 *)(&s0 +0) = 1\nv1 = &s0[0]", "*(u64 *)(&s0 +0) = 1"),
        ("*(u64 *)(&s0 +0) = 1", ""),
        ("*(u64 *)(&s0 +0) = 1\nbpf_map_delete_elem(map(@), &s0[0])", None),
        ("*(u64 *)(ctx +0) = 1", None),
        ("v1 = 1\nlock *(u64 *)(&s0 +0) += v1", None),
    ],
)
def test_dead_code(before, after):
    found = drop_dead(parse_function(block(before)))

    kept = written(before if after is None else after) if after != "" else ""
    assert body(dump_function(found)) == f"entry:\n{kept}    exit 0\n"


def test_what_only_one_way_reads_stays():
    text = """
        entry:
            v1 = *(u64 *)(ctx +0)
            v2 = *(u64 *)(ctx +8)
            v3 = 1
            if v1 == 0 goto left else right
        left:
            v3 = v2
            goto right
        right:
            bpf_map_delete_elem(map(@), v3)
            exit 0
    """

    function = parse_function(text)

    assert drop_dead(function) == function


@settings(deadline=None)
@given(functions(size=60))
def test_a_second_time_finds_little(function):
    once = optimize(function)

    again = optimize(once)

    assert len(dump_function(again)) <= len(dump_function(once))


def test_a_whole_predicate():
    text = """
        s0: 16 bytes, aligned to 8
        entry:
            v1 = bpf_get_current_pid_tgid()
            v2 = v1 >> 32
            v3 = (u32) v2
            v4 = 42
            if v3 == v4 goto body else leave
        body:
            v5 = bpf_get_current_pid_tgid()
            v6 = v5 >> 32
            v7 = (u32) v6
            *(u32 *)(&s0 +0) = v7
            v8 = bpf_get_current_uid_gid()
            v9 = (u32) v8
            *(u32 *)(&s0 +4) = v9
            bpf_map_delete_elem(map(@), &s0[0])
            goto leave
        leave:
            exit 0
    """

    assert body(dump_function(optimize(parse_function(text)))) == dedent("""\
        entry:
            v1 = bpf_get_current_pid_tgid()
            v2 = v1 >> 32
            if v2 == 42 goto body else leave
        body:
            *(u32 *)(&s0 +0) = v2
            v8 = bpf_get_current_uid_gid()
            *(u32 *)(&s0 +4) = v8
            bpf_map_delete_elem(map(@), &s0[0])
            goto leave
        leave:
            exit 0
    """)
