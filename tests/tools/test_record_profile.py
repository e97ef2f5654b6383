"""The probes of tools/record_profile.py, and what they find on this machine's kernel."""

import os
from pathlib import Path

import pytest

from pybpf.isa.abi import MapType, ProgType
from pybpf.target.profile import NAMES, nearest, profile
from pybpf.target.profile import _numbers as parse

RELEASE = os.uname().release
NAME = nearest(RELEASE)


@pytest.fixture(scope="module")
def kernel(tool):
    probes = tool("bpf_probes")
    kernel = probes.Kernel()
    if not kernel.loads(probes.SUBJECTS[0]):
        pytest.skip("this machine's kernel does not let us load programs")
    return kernel


def test_instructions_are_encoded_as_the_kernel_reads_them(tool):
    probes = tool("bpf_probes")

    assert probes.insn(0x61, 6, 1, -8, 0) == bytes.fromhex("6116f8ff00000000")
    assert probes.mov(0, 1) == bytes.fromhex("b700000001000000")
    assert probes.call(14) == bytes.fromhex("850000000e000000")
    assert bytes.fromhex("9500000000000000") == probes.EXIT


@pytest.mark.parametrize(
    ("usual", "helpers", "text"),
    [
        ({1, 2, 3}, {1, 2, 3}, ""),
        ({1, 2, 3}, {1, 2, 3, 5, 6}, "+5-6"),
        ({1, 2, 3}, {1, 7}, "+7 -2-3"),
    ],
)
def test_differences(tool, usual, helpers, text):
    assert tool("record_profile").difference(usual, helpers) == text


def test_what_is_not_asked_is_noted(tool):
    notes = tool("record_profile").unasked_notes

    assert notes(loud=True, memory=True, nobody=True) == []
    loud, *others = notes(loud=False, memory=False, nobody=False)
    assert loud.endswith(": bpf_probe_write_user, bpf_trace_printk, bpf_trace_vprintk (--loud)")
    assert others == [
        "not asked, so unknown: kernel functions (--memory)",
        "not asked, so nothing is allowed: users without rights may load no programs",
    ]


def test_every_program_type_is_asked_about(tool):
    asked = {subject.type for subject in tool("bpf_probes").SUBJECTS}

    assert set(ProgType) - asked == {ProgType.UNSPEC, ProgType.EXT}


def test_names_tell_kinds_of_programs_apart(tool):
    names = [subject.name for subject in tool("bpf_probes").SUBJECTS]

    assert len(set(names)) == len(names)


@pytest.mark.kernel
def test_an_answer_tells_what_is_wrong(tool, kernel):
    probes, record = tool("bpf_probes"), tool("record_profile")
    socket_filter = probes.SUBJECTS[0]

    assert kernel.load(socket_filter, probes.mov(0, 0) + probes.EXIT).accepted
    refused = kernel.load(socket_filter, probes.EXIT)
    assert (refused.errno, "R0 !read_ok" in refused.log) == (13, True)
    assert record.may_call(kernel, socket_filter, 1)  # it complains about an argument
    assert not record.may_call(kernel, socket_filter, 44)  # xdp_adjust_head


@pytest.mark.kernel
@pytest.mark.skipif(
    ".".join(RELEASE.split(".")[:2]) not in NAMES, reason="no profile of this kernel's release"
)
def test_this_kernel_is_as_recorded(tool, kernel):
    record = tool("record_profile")
    known = profile(NAME)

    types, _ = record.program_types(kernel, loud=False)

    for name, facts in types.items():
        numbers = set(parse(known._types[name]["helpers"])) - record.LOUD
        assert record.ranges(numbers) == facts["helpers"], name
    assert record.map_types(kernel) == known.map_types
    assert record.instructions(kernel) <= known.instructions


@pytest.mark.kernel
def test_maps_are_made_and_closed(tool, kernel):
    before = len([*Path("/proc/self/fd").iterdir()])

    assert MapType.HASH in tool("record_profile").map_types(kernel)
    assert len([*Path("/proc/self/fd").iterdir()]) == before
