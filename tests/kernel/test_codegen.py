"""The verifier accepts what the back end makes of functions, and the kernel runs it as we do."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pybpf.compiler.codegen import generate
from pybpf.isa.abi import MapType, ProgType
from pybpf.testing.functions import (
    TABLES,
    Outcome,
    evaluate_afresh,
    random_function,
    random_surroundings,
)

pytestmark = pytest.mark.kernel

SCRATCH = 1  # which element of the scratch map the programs use


@pytest.fixture(scope="module")
def maps() -> Iterator[dict]:
    from pybpf.kernel.maps import Map

    types = {"table": (MapType.HASH, 64), "out": (MapType.ARRAY, 1)}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                Map(kind, name.strip("."), table.key_size, table.value_size, entries)
            )
            for name, table in TABLES.items()
            for kind, entries in (types.get(name, (MapType.PERCPU_ARRAY, SCRATCH + 1)),)
        }


@pytest.fixture(scope="module")
def features() -> frozenset[str]:
    from pybpf.kernel.features import detect

    return detect()


def surroundings(seed: int):
    """Return what the functions see of this very process."""
    around = random_surroundings(Random(seed), byteorder=sys.byteorder)
    around.comm = Path("/proc/thread-self/comm").read_bytes().rstrip(b"\n")
    around.results = {
        **around.results,
        "bpf_get_current_pid_tgid": os.getpid() << 32 | threading.get_native_id(),
        "bpf_get_current_uid_gid": os.getgid() << 32 | os.getuid(),
    }
    return around


def run(program, around, maps) -> Outcome:
    """Load a program and run it once."""
    from pybpf.kernel import programs

    bound = replace(
        program,
        insns=tuple(
            replace(i, symbol=None, imm=i.imm | maps[i.symbol].fileno()) if i.symbol in maps else i
            for i in program.insns
        ),
    )
    maps["table"].clear()
    maps["out"].update(bytes(4), bytes(256))
    with programs.load(bytes(bound), ProgType.RAW_TRACEPOINT) as loaded:
        code = loaded.test_run(around.ctx).retval
    table = {key: value for key, (value,) in maps["table"].items()}
    return Outcome(code, table, maps["out"].lookup(bytes(4))[0])


@pytest.mark.parametrize("oldest", [False, True], ids=["detected", "oldest"])
@pytest.mark.parametrize(
    ("count", "values", "size"), [(120, 0, 50), (20, 20, 80), (4, 90, 30), (1, 200, 10)]
)
def test_random_functions(count, values, size, oldest, features, maps):
    for seed in range(count):
        function = random_function(Random(seed), values=values, size=size)
        generated = generate(
            function,
            features=frozenset() if oldest else features,
            prog_type=ProgType.RAW_TRACEPOINT,
            scratch_index=SCRATCH,
            byteorder=sys.byteorder,
        )
        around = surroundings(seed)

        found = run(generated.program, around, maps)

        assert found == evaluate_afresh(function, around), f"seed {seed}"
