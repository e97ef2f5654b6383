"""Measure the verifier's model: its time per processed instruction, and of each example script.

Processor time of this process, of programs that are compiled already; and the wall time of
``pybpf compile``, with the model and without.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plan import Plan
from pybpf.compiler.pipeline import compile_script
from pybpf.corpus import CorpusProgram
from pybpf.isa.abi import ProgType
from pybpf.isa.assembler import assemble
from pybpf.source import Source
from pybpf.target.profile import Profile, profile
from pybpf.target.snapshot import SnapshotTarget
from pybpf.verifier.subject import of_script
from pybpf.verifier.verify import verify
from report import Finding, Spread, Table

_ROOT = Path(__file__).resolve().parent.parent
_SNAPSHOT = _ROOT / "tests/data/targets/6.12.tar.gz"
_KERNEL = "6.12"
_ENVIRONMENT = {"target": "7", "1": "cat"}
_COMMANDS = {
    "compile --no-verify": ("compile", "--no-verify"),
    "compile": ("compile",),
}

_LOOP = """\
    r6 = 0
again:
    r6 += 1
    r7 = r6
    r7 *= 3
    *(u64 *)(r10 - 8) = r7
    r8 = *(u64 *)(r10 - 8)
    if r6 < 5000 goto again
    r0 = 0
    exit
"""
# Branches on numbers that are not known, whose paths meet again.
_DIAMOND = """\
    call bpf_get_prandom_u32
    if r0 > {n} goto other{n}
    r6 = r0
    r6 &= 7
    goto meet{n}
other{n}:
    r6 = 3
meet{n}:
    r7 = r10
    r7 += -8
    *(u64 *)(r7 + 0) = r6
"""
_PACKET = """\
    r2 = *(u32 *)(r1 + 0)
    r3 = *(u32 *)(r1 + 4)
    r4 = r2
    r4 += {size}
    if r4 > r3 goto out{n}
    r5 = *(u8 *)(r2 + {last})
    r5 &= 15
    r6 = r2
    r6 += r5
    r7 = r6
    r7 += 4
    if r7 > r3 goto out{n}
    r8 = *(u32 *)(r6 + 0)
out{n}:
"""


def measure(plan: Plan) -> Finding:
    """Time every program and every script a few times, in turns."""
    kernel = profile(_KERNEL)
    cases = {**_programs(), **_scripts()}
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    processed: dict[str, int] = {}
    for number in plan.rounds(full=7, quick=2):
        for name, programs in cases.items():
            plan.say(f"verify: {number + 1}: {name}")
            taken, processed[name] = _time(programs, kernel)
            seconds[name].append(taken)
    walls = _walls(plan)
    spreads = {name: Spread(tuple(found)) for name, found in seconds.items()}
    data: list[dict[str, Any]] = [
        {"name": name, "processed": processed[name], "cpu_seconds": spread.data()}
        for name, spread in spreads.items()
    ]
    data += ({"name": name, "seconds": spread.data()} for name, spread in walls.items())
    scripts = [name for name in cases if name.endswith(".ply")]
    return Finding(
        data,
        (
            _rates(spreads, processed, scripts),
            _examples(spreads, processed, scripts),
            _commands(walls),
        ),
    )


def _programs() -> dict[str, list[CorpusProgram]]:
    diamonds = "".join(_DIAMOND.format(n=n) for n in range(400))
    packets = "".join(_PACKET.format(n=n, size=n % 50 + 1, last=n % 50) for n in range(200))
    texts = {
        "a loop of 5,000 turns": (ProgType.XDP, _LOOP),
        "400 branches that meet": (ProgType.XDP, f"{diamonds}    r0 = 0\n    exit\n"),
        "200 checks of a packet": (ProgType.XDP, f"{packets}    r0 = 2\n    exit\n"),
    }
    return {
        name: [CorpusProgram(name, int(kind), bytes(assemble(text)))]
        for name, (kind, text) in texts.items()
    }


def _scripts() -> dict[str, list[CorpusProgram]]:
    target = SnapshotTarget.load(_SNAPSHOT, environment=_ENVIRONMENT)
    paths = sorted((_ROOT / "examples").glob("*.ply"))
    return {
        path.name: [
            subject.program
            for subject in of_script(compile_script(Source(path.name, path.read_text()), target))
        ]
        for path in paths
    }


def _time(programs: list[CorpusProgram], kernel: Profile) -> tuple[float, int]:
    """Return the processor time of a verification, and how many instructions that processed."""
    start = time.process_time()
    reports = [verify(program, kernel) for program in programs]
    taken = time.process_time() - start
    rejected = [report for report in reports if report.verdict != "accept"]
    assert not rejected, rejected
    return taken, sum(report.processed for report in reports)


def _walls(plan: Plan) -> dict[str, Spread]:
    walls: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    for number in plan.rounds(full=15, quick=3):
        plan.say(f"verify: {number + 1}: pybpf compile")
        for name, words in _COMMANDS.items():
            taken = _clock(lambda words=words: _run(words))
            if number:  # the first fills the caches of the file system
                walls[name].append(taken)
    return {name: Spread(tuple(found)) for name, found in walls.items()}


def _clock(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _run(words: tuple[str, ...]) -> None:
    script = "tracepoint:syscalls/sys_enter_read { @[comm] = quantize(data->count); }"
    command = [sys.executable, "-m", "pybpf", *words, "--target", str(_SNAPSHOT), script]
    subprocess.run(command, cwd=_ROOT, stdout=subprocess.DEVNULL, check=True)


def _rates(spreads: dict[str, Spread], processed: dict[str, int], scripts: list[str]) -> Table:
    rows = [
        [name, f"{processed[name]:,}", (spread.scaled(1e6 / processed[name])).shown()]
        for name, spread in spreads.items()
        if name not in scripts
    ]
    total = Spread(tuple(map(sum, zip(*(spreads[name].values for name in scripts), strict=True))))
    number = sum(processed[name] for name in scripts)
    rows.append(["all example scripts", f"{number:,}", total.scaled(1e6 / number).shown()])
    note = f"Processor time of the model of Linux {_KERNEL}."
    return Table("Verifier: rate", ("program", "processed", "ms per 1,000"), rows, note)


def _examples(spreads: dict[str, Spread], processed: dict[str, int], scripts: list[str]) -> Table:
    medians = Spread(tuple(spreads[name].median for name in scripts))
    slowest = sorted(scripts, key=lambda name: -spreads[name].median)[:5]
    rows = [[name, f"{processed[name]:,}", spreads[name].scaled(1000).shown()] for name in slowest]
    rows.append([f"median of {len(scripts)}", "", medians.scaled(1000).shown()])
    note = "Processor time to verify all programs of a script; the slowest, and the median of all."
    return Table("Verifier: example scripts", ("script", "processed", "ms"), rows, note)


def _commands(walls: dict[str, Spread]) -> Table:
    rows = [[name, spread.scaled(1000).shown(0)] for name, spread in walls.items()]
    note = "Wall time of the whole process; most of the difference is to import the model."
    return Table("Verifier: pybpf compile", ("command", "ms"), rows, note)
