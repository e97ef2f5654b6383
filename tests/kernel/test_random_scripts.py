"""Random scripts load: neither the running kernel's verifier nor its model refuses one."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from pybpf.compiler.pipeline import Options, compile_script
from pybpf.errors import KernelError
from pybpf.target.features import CPU_V4, JMP32, MAP_VALUE_ADDR, PROBE_READ_KERNEL, RINGBUF
from pybpf.target.profile import profile
from pybpf.testing.tracepoints import target
from pybpf.testing.typed import typed_scripts
from pybpf.verifier.subject import of_script
from pybpf.verifier.verify import verify

SMALL = Options(map_entries=16, buffer_size=4096, stacks=16)
NAMESPACE = (4, 0xEFFFFFFC)
SCRIPTS = (1 if "PYBPF_GUEST" in os.environ else 5) * settings().max_examples
"""How many scripts each test loads: 2,000 in all; 10,000 with ``--hypothesis-profile=scripts``.

Guests, which emulate every instruction, load a fifth of them.
"""


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("lacking", "contained"),
    [
        ((), False),
        ((RINGBUF, PROBE_READ_KERNEL), False),
        ((CPU_V4, JMP32), True),
        ((CPU_V4, JMP32, MAP_VALUE_ADDR, PROBE_READ_KERNEL, RINGBUF), False),
    ],
    ids=["all features", "perf buffers", "old processor, in a container", "no features"],
)
def test_no_program_is_refused(lacking, contained):
    from pybpf.kernel.live import LiveTarget
    from pybpf.kernel.loader import Loaded

    # The tracepoints do not exist, which nobody asks before a program is attached.
    features = LiveTarget().features.difference(lacking)
    on = target(features=features, pid_namespace=NAMESPACE if contained else None)
    options = replace(SMALL, cgroup=own_cgroup()) if contained else SMALL
    kernel = profile("live")
    scripts = 0

    @settings(
        max_examples=SCRIPTS,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(typed_scripts())
    def load(text):
        nonlocal scripts
        script = Loaded(compile_script(text, on, options))
        try:
            for probe in script.script.probes:
                script.program(probe)
            for subject in of_script(script.script):
                report = verify(subject.program, kernel)
                assert report.verdict == "accept", report
        finally:
            script.close()
        scripts += 1

    load()

    assert scripts >= SCRIPTS


def own_cgroup():
    """Return the name of the cgroup to trace, or None where there are none to be had."""
    from pybpf.kernel.cgroup import open_cgroup

    try:
        open_cgroup("self").close()
    except KernelError:
        return None
    return "self"
