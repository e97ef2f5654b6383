"""Functions and allocations as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from pybpf.compiler.allocate import allocate
from pybpf.compiler.irdump import dump_allocation, dump_function
from pybpf.testing.functions import functions
from pybpf.testing.irtext import parse_function

EVERYTHING = """\
function kprobe:vfs_read
    s0: 16 bytes, aligned to 8
    s1: 4 bytes, aligned to 4
entry:
    # every operation
    v1 = ctx
    v2 = -5
    v3 = &s0[8]
    v4 = map(@reads)
    v5 = v1 s>> 3
    v6 = u32 7 s% v5
    v7 = -v6
    v8 = u32 -v7
    v9 = (s16) v8
    v10 = (u32) v9
    v11 = *(s32 *)(ctx +80)
    v12 = *(u64 *)(&s0 +8)
    *(u8 *)(&s1 +3) = 255
    *(u64 *)(v3 -8) = v12
    lock *(u64 *)(v3 +0) += v12
    v13 = &value(.lost)[8]
    v14 = bpf_map_lookup_elem(map(@reads), &s0[0])
    bpf_map_delete_elem(v4, v3)
    v15 = bpf_ktime_get_ns()
    if v14 == 0 goto out else more
more:
    if u32 v15 s<= -1 goto on else out
on:
    goto out
out:
    exit -1
"""


def test_every_operation():
    function = parse_function(EVERYTHING)

    assert dump_function(function) == EVERYTHING


@settings(deadline=None)
@given(functions(size=60))
def test_what_is_printed_is_read_back(function):
    text = dump_function(function)

    assert dump_function(parse_function(text)) == text


def test_a_line_of_something_else():
    with pytest.raises(ValueError, match=r"v1 = 1 \+"):
        parse_function("v1 = 1 +")


def test_allocation():
    function = parse_function("""
        s0: 8 bytes, aligned to 8
        entry:
            *(u64 *)(&s0 +0) = 7
            v1 = bpf_map_lookup_elem(map(@), &s0[0])
            if v1 == 0 goto out else found
        found:
            v2 = *(u64 *)(v1 +0)
            v3 = v2 + 1
            *(u64 *)(v1 +0) = v3
            goto out
        out:
            exit 0
    """)

    assert (
        dump_allocation(allocate(function, 0))
        == """\
function test
    s0: 8 bytes, aligned to 8 at r10-8
entry:
    *(u64 *)(&s0 +0) = 7
    r0:v1 = bpf_map_lookup_elem(map(@), &s0[0])
    if r0:v1 == 0 goto out else found
found:
    r5:v2 = *(u64 *)(r0:v1 +0)
    r5:v3 = r5:v2 + 1
    *(u64 *)(r0:v1 +0) = r5:v3
    goto out
out:
    exit 0
"""
    )


def test_allocation_with_scratch_memory():
    function = parse_function("""
        s0: 600 bytes, aligned to 8
        entry:
            *(u64 *)(&s0 +592) = 7
            exit 1
    """)

    assert (
        dump_allocation(allocate(function, 3))
        == """\
function test
    scratch: 600 bytes
    s1: 4 bytes, aligned to 4 at r10-4
entry:
    *(u32 *)(&s1 +0) = 3
    r0:v1 = bpf_map_lookup_elem(map(.scratch), &s1[0])
    if r0:v1 == 0 goto entry.missing else entry.found
entry.found:
    *(u64 *)(r0:v1 +592) = 7
    exit 1
entry.missing:
    exit 0
"""
    )
