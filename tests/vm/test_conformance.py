"""Every program of the bpf_conformance corpus gives the result that corpus expects."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pybpf.vm.interpreter import interpret

SHARED = Path(os.environ.get("PYBPF_SHARED", Path(__file__).parents[3] / "shared"))
CORPUS = SHARED / "golden" / "bpf_conformance" / "tests.jsonl"


def _cases():
    if not CORPUS.exists():
        return []
    with CORPUS.open() as lines:
        return [json.loads(line) for line in lines]


CASES = _cases()


@pytest.mark.skipif(not CASES, reason=f"no bpf_conformance corpus at {CORPUS} (set PYBPF_SHARED)")
@pytest.mark.parametrize("fast", [False, True], ids=["step", "fast"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_program_gives_the_expected_result(case, fast):
    memory = bytes.fromhex(case["mem"] or "")

    assert case["expect"]["error"] is None
    result = interpret(bytes.fromhex(case["insns"]), memory, fast=fast)
    assert result == case["expect"]["result_u64"]
