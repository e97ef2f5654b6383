"""Every program of the bpf_conformance corpus survives decoding, encoding and the assembler."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import disassemble
from pybpf.isa.encoding import decode, encode

SHARED = Path(os.environ.get("PYBPF_SHARED", Path(__file__).parents[3] / "shared"))
CORPUS = SHARED / "golden" / "bpf_conformance" / "tests.jsonl"


@pytest.fixture(scope="module")
def corpus():
    if not CORPUS.exists():
        pytest.skip(f"no bpf_conformance corpus at {CORPUS} (PYBPF_SHARED names its place)")
    with CORPUS.open() as lines:
        cases = [json.loads(line) for line in lines]
    return {case["name"]: bytes.fromhex(case["insns"]) for case in cases}


def test_all_programs_round_trip(corpus):
    for name, data in corpus.items():
        program = decode(data)
        assert encode(program) == data, name
        assert decode(encode(program, "big"), "big") == program, name
        assert encode(assemble(disassemble(program), name)) == data, name
