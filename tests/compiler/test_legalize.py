"""Operations that the target cannot do, in words that it can."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.compiler.ir import AtomicAdd, Bin, BinOp, Branch, Load, MapValueAddr, SlotRef, Store
from pybpf.compiler.irdump import dump_function
from pybpf.compiler.legalize import legalize
from pybpf.compiler.operands import IMM32, operations
from pybpf.target.features import ALL, CPU_V4, JMP32, MAP_VALUE_ADDR
from pybpf.testing.functions import functions
from pybpf.testing.irtext import parse_function


def legal(before: str, features=ALL, byteorder="little") -> str:
    text = f"s0: 16 bytes, aligned to 8\nentry:\n{dedent(before)}\nexit 0"
    lines = dump_function(legalize(parse_function(text), features, byteorder)).splitlines()
    return "\n".join(line.strip() for line in lines[lines.index("entry:") + 1 : -1])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # 32 bits fit the instruction, more do not
        ("v1 = ctx + 2147483647", None),
        ("v1 = ctx + -2147483648", None),
        ("v1 = ctx ^ 2147483648", "v2 = 2147483648\nv1 = ctx ^ v2"),
        ("v1 = u32 ctx ^ 2147483648", "v1 = u32 ctx ^ -2147483648"),
        ("v1 = 4294967296 - ctx", None),
        ("v1 = 5 ^ ctx", "v1 = ctx ^ 5"),
        ("v1 = 4294967296 ^ ctx", "v2 = 4294967296\nv1 = ctx ^ v2"),
        # the kernel refuses these
        ("v1 = ctx << 64", "v1 = ctx"),
        ("v1 = u32 ctx >> 33", "v1 = u32 ctx >> 1"),
        ("v1 = ctx / 0", "v1 = 0"),
        ("v1 = ctx % 0", "v1 = ctx"),
        ("v1 = u32 ctx s% 4294967296", "v1 = (u32) ctx"),
        # offsets of 16 bits
        ("v1 = *(u64 *)(ctx +32767)", None),
        ("v1 = *(u64 *)(ctx +32768)", "v2 = ctx + 32768\nv1 = *(u64 *)(v2 +0)"),
        ("*(u8 *)(ctx -32769) = 1", "v1 = ctx + -32769\n*(u8 *)(v1 +0) = 1"),
        # stores take constants
        ("*(u64 *)(&s0 +0) = -1", None),
        ("*(u8 *)(&s0 +0) = 255", "*(u8 *)(&s0 +0) = -1"),
        ("*(u32 *)(&s0 +0) = 4294967295", "*(u32 *)(&s0 +0) = -1"),
        ("*(u32 *)(&s0 +0) = 4294967297", "*(u32 *)(&s0 +0) = 1"),
        ("*(u64 *)(ctx +0) = 4294967295", "v1 = 4294967295\n*(u64 *)(ctx +0) = v1"),
        (
            "*(u64 *)(&s0 +8) = 1311768467463790320",
            "*(u32 *)(&s0 +8) = -1698898192\n*(u32 *)(&s0 +12) = 305419896",
        ),
        # 32-bit arithmetic shift, division and comparison are there
        ("v1 = u32 ctx s>> 3", None),
        ("v1 = ctx s/ 10", None),
        ("v1 = u32 ctx s% ctx", None),
    ],
)
def test_operations(before, after):
    assert legal(before) == (after or before)


def test_halves_of_a_constant_are_stored_in_the_order_of_the_machine():
    assert legal("*(u64 *)(&s0 +8) = 1311768467463790320", byteorder="big") == (
        "*(u32 *)(&s0 +8) = 305419896\n*(u32 *)(&s0 +12) = -1698898192"
    )


OLD = ALL - {CPU_V4, JMP32}


@pytest.mark.parametrize(
    ("before", "features", "after"),
    [
        (
            "v1 = ctx s/ 10",
            ALL - {CPU_V4},
            """\
            v2 = ctx s>> 63
            v4 = ctx ^ v2
            v5 = v4 - v2
            v6 = v5 / 10
            v7 = v6 ^ v2
            v1 = v7 - v2""",
        ),
        (
            "v1 = ctx s/ -8",
            ALL - {CPU_V4},
            """\
            v2 = ctx s>> 63
            v4 = ctx ^ v2
            v5 = v4 - v2
            v8 = v2 ^ -1
            v9 = v5 >> 3
            v10 = v9 ^ v8
            v1 = v10 - v8""",
        ),
        (
            "v2 = u32 7 s% v1",
            ALL - {CPU_V4},
            """\
            v4 = u32 v1 s>> 31
            v5 = u32 v1 ^ v4
            v6 = u32 v5 - v4
            v2 = u32 7 % v6""",
        ),
        (
            "v1 = u32 ctx s>> 3",
            OLD,
            """\
            v3 = (s32) ctx
            v4 = v3 s>> 3
            v1 = (u32) v4""",
        ),
    ],
)
def test_what_older_kernels_lack(before, features, after):
    assert legal(before, features) == dedent(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("u32 v1 == -1", "v2 = (u32) v1\nv3 = 4294967295\nif v2 == v3"),
        ("u32 v1 < 7", "v2 = (u32) v1\nif v2 < 7"),
        ("u32 v1 s< 4294967295", "v2 = (s32) v1\nif v2 s< -1"),
        ("u32 v1 & v0", "v2 = (u32) v1\nv3 = (u32) ctx\nif v2 & v3"),
        ("v1 < 7", "if v1 < 7"),
    ],
)
def test_32_bit_comparisons(before, after):
    text = f"v1 = *(u64 *)(ctx +0)\nif {before} goto out else out\nout:"

    lines = legal(text, OLD).splitlines()[1:-1]
    assert "\n".join(lines) == f"{after} goto out else out"


def test_comparisons_take_32_bits():
    text = "v1 = *(u64 *)(ctx +0)\nif {} goto out else out\nout:"

    assert "if v1 == -5 " in legal(text.format("v1 == -5"))
    assert "if u32 v1 == -1 " in legal(text.format("u32 v1 == 4294967295"))
    assert "v2 = 4294967295\nif v1 == v2 " in legal(text.format("v1 == 4294967295"))


def test_values_of_array_maps_are_looked_up_once():
    text = """
        entry:
            v1 = &value(.lost)[8]
            *(u64 *)(v1 +0) = 1
            v2 = &value(.lost)[0]
            *(u64 *)(v2 +0) = 1
            v3 = &value(.zero)[0]
            *(u64 *)(v3 +0) = 1
            goto out
        out:
            exit 0
    """

    found = legalize(parse_function(text), ALL - {MAP_VALUE_ADDR}, "little")

    assert dump_function(found) == dedent("""\
        function test
            s0: 4 bytes, aligned to 4
            s1: 4 bytes, aligned to 4
        entry:
            *(u32 *)(&s1 +0) = 0
            v5 = bpf_map_lookup_elem(map(.zero), &s1[0])
            if v5 == 0 goto out else entry.found'
        entry.found':
            *(u32 *)(&s0 +0) = 0
            v4 = bpf_map_lookup_elem(map(.lost), &s0[0])
            if v4 == 0 goto out else entry.found
        entry.found:
            v1 = v4 + 8
            *(u64 *)(v1 +0) = 1
            v2 = v4
            *(u64 *)(v2 +0) = 1
            v3 = v5
            *(u64 *)(v3 +0) = 1
            goto out
        out:
            exit 0
    """)


@settings(deadline=None)
@given(functions(size=60), st.sets(st.sampled_from((CPU_V4, JMP32, MAP_VALUE_ADDR))))
def test_every_operation_is_one_that_the_target_has(function, features):
    found = legalize(function, frozenset(features), "little")

    for op in operations(found):
        match op:
            case Bin(op=kind, width=width, left=left, right=right):
                assert CPU_V4 in features or kind not in (BinOp.SDIV, BinOp.SMOD)
                assert JMP32 in features or width == 64 or kind is not BinOp.ARSH
                assert not isinstance(right, int) or right in IMM32
                assert not (isinstance(left, int) and isinstance(right, int))
                if isinstance(right, int) and kind in (BinOp.LSH, BinOp.RSH, BinOp.ARSH):
                    assert 0 < right < width
                if kind in (BinOp.DIV, BinOp.MOD, BinOp.SDIV, BinOp.SMOD):
                    assert right != 0
            case Load(base=base, offset=offset) | AtomicAdd(base=base, offset=offset):
                assert isinstance(base, SlotRef) or -(1 << 15) <= offset < 1 << 15
            case Store(src=src):
                assert not isinstance(src, int) or src in IMM32
            case MapValueAddr():
                assert MAP_VALUE_ADDR in features
            case _:
                pass
    for block in found.blocks:
        if isinstance(block.terminator, Branch):
            right = block.terminator.right
            assert not isinstance(right, int) or right in IMM32
            assert block.terminator.width == 64 or JMP32 in features
