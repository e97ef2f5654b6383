"""A compiled script does what its typed tree says: the VM against the evaluator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.compiler.pipeline import compile_script
from pybpf.source import Source
from pybpf.target.features import (
    ALL,
    COMM_PADDED,
    CPU_V4,
    JMP32,
    MAP_VALUE_ADDR,
    PROBE_READ_KERNEL,
    RINGBUF,
)
from pybpf.testing.agreement import expected, simulated
from pybpf.testing.tracepoints import recordings, target
from pybpf.testing.typed import typed_scripts

# Kernels that lack one thing each, and one that lacks everything.
LITTLE = [
    target(),
    target("aarch64"),
    target(features=ALL - {RINGBUF}),
    target(features=ALL - {CPU_V4}),
    target(features=ALL - {JMP32}),
    target(features=ALL - {PROBE_READ_KERNEL}),
    target(features=ALL - {MAP_VALUE_ADDR}),
    target(features=ALL - {COMM_PADDED}),
    target(features=()),
]
EXAMPLES = settings().max_examples
"""100, but for other profiles: ``pytest --hypothesis-profile=long``."""
pytestmark = pytest.mark.timeout(3600)
BIG = [target("s390x"), target("s390x", features=())]


def agrees(text, on, events):
    source = Source("<script>", text)
    typed = infer(parse_text(source), on)

    outcome = simulated(compile_script(source, on), on, events)

    assert outcome == expected(typed, on, events)


@settings(max_examples=3 * EXAMPLES // 2, deadline=None)
@given(typed_scripts(), st.sampled_from(LITTLE), recordings("little"))
def test_scripts_agree_with_the_evaluator(text, on, events):
    agrees(text, on, events)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(typed_scripts(), st.sampled_from(BIG), recordings("big"))
def test_scripts_agree_on_big_endian_machines(text, on, events):
    agrees(text, on, events)
