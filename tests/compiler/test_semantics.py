"""A compiled script does what its typed tree says: the VM against the evaluator."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.compiler.pipeline import Options, compile_script
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
from pybpf.testing.recordings import recordings
from pybpf.testing.tracepoints import target
from pybpf.testing.typed import typed_scripts

# Kernels that lack nothing or one thing, those that lack more, and other machines.
TARGETS = {
    "new": [target(), target(pid_namespace=(4, 0xEFFFFFFC)), target(features=ALL - {CPU_V4})],
    "old": [
        target(features=ALL - {RINGBUF}),
        target(features=ALL - {JMP32}),
        target(features=ALL - {PROBE_READ_KERNEL}),
        target(features=ALL - {MAP_VALUE_ADDR}),
        target(features=ALL - {COMM_PADDED}),
        target(features=()),
    ],
    "aarch64": [target("aarch64"), target("aarch64", features=())],
    "s390x": [target("s390x"), target("s390x", features=())],
}
SMALL = Options(stacks=16)
SCRIPTS = 5 * settings().max_examples
"""How many scripts each test runs: 2,000 in all; 10,000 with ``--hypothesis-profile=scripts``."""


@st.composite
def cases(draw, targets):
    """Draw a script, a target and what happens there."""
    arch = targets[0].arch
    text = draw(typed_scripts(arch=arch.name))
    return text, draw(st.sampled_from(targets)), draw(recordings(text, arch.byteorder))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("targets", TARGETS.values(), ids=TARGETS)
def test_scripts_agree_with_the_evaluator(targets):
    @settings(
        max_examples=SCRIPTS,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(cases(targets))
    def agrees(case):
        text, on, events = case
        source = Source("<script>", text)
        typed = infer(parse_text(source), on)

        outcome = simulated(compile_script(source, on, SMALL), on, events)

        assert outcome == expected(typed, on, events)

    agrees()
