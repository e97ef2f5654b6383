"""Random scripts load: the running kernel's verifier refuses none of the compiler's programs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from pybpf.compiler.pipeline import Options, compile_script
from pybpf.target.features import CPU_V4, JMP32, MAP_VALUE_ADDR, PROBE_READ_KERNEL, RINGBUF
from pybpf.testing.tracepoints import target
from pybpf.testing.typed import typed_scripts

SMALL = Options(map_entries=16, buffer_size=4096, stacks=16)
EXAMPLES = settings().max_examples
"""100, but for other profiles: ``pytest --hypothesis-profile=long``."""
PROGRAMS = 5 * EXAMPLES
"""How many programs each test loads: 2,000 in all."""


@pytest.mark.kernel
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "lacking",
    [
        frozenset(),
        frozenset({RINGBUF, PROBE_READ_KERNEL}),
        frozenset({CPU_V4, JMP32}),
        frozenset({CPU_V4, JMP32, MAP_VALUE_ADDR, PROBE_READ_KERNEL, RINGBUF}),
    ],
    ids=lambda lacking: f"without {', '.join(sorted(lacking))}" if lacking else "all features",
)
def test_no_program_is_refused(lacking):
    from pybpf.kernel.live import LiveTarget
    from pybpf.kernel.loader import Loaded

    # The tracepoints do not exist, which nobody asks before a program is attached.
    on = target(features=LiveTarget().features - lacking)
    loaded = 0

    @settings(
        max_examples=3 * EXAMPLES // 2,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(typed_scripts(least=2, most=3))
    def load(text):
        nonlocal loaded
        if loaded >= PROGRAMS:
            return
        script = Loaded(compile_script(text, on, SMALL), buffer_size=4096)
        try:
            for probe in script.script.probes:
                script.program(probe)
            loaded += len(script.programs())
        finally:
            script.close()

    load()

    assert loaded >= PROGRAMS
