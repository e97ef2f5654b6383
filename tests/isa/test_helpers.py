"""Helper numbers are the kernel's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pybpf.isa.helpers import HELPER_NAMES, HELPERS

UAPI = Path("/usr/include/linux/bpf.h")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (1, "bpf_map_lookup_elem"),
        (6, "bpf_trace_printk"),
        (14, "bpf_get_current_pid_tgid"),
        (25, "bpf_perf_event_output"),
        (67, "bpf_get_stack"),
        (112, "bpf_probe_read_user"),
        (131, "bpf_ringbuf_reserve"),
        (164, "bpf_for_each_map_elem"),
        (195, "bpf_map_lookup_percpu_elem"),
        (209, "bpf_user_ringbuf_drain"),
        (211, "bpf_cgrp_storage_delete"),
    ],
)
def test_helper_has_the_kernels_number(number: int, name: str) -> None:
    """Milestones spread over the list, so that a missing name shifts one of them."""
    assert (HELPERS[name], HELPER_NAMES[number]) == (number, name)


def test_the_two_mappings_are_inverses() -> None:
    """Every number from 1 to 211 has one name and every name one number."""
    assert sorted(HELPER_NAMES) == list(range(1, 212))
    assert {name: number for number, name in HELPER_NAMES.items()} == dict(HELPERS)


def test_agrees_with_the_installed_kernel_header() -> None:
    """The header lists the helpers of its release in order; ours begins with the same."""
    if not UAPI.exists():
        pytest.skip(f"{UAPI} is not installed")
    mapper = UAPI.read_text().partition("FUNC_MAPPER(FN")[2].partition("enum bpf_func_id")[0]
    theirs = re.findall(r"\bFN\((\w+)", mapper)
    if theirs and theirs[0] == "unspec":
        theirs = theirs[1:]

    ours = [HELPER_NAMES[number] for number in sorted(HELPER_NAMES)]

    assert theirs
    assert [f"bpf_{name}" for name in theirs] == ours[: len(theirs)]
