"""Say where the time of start-up goes, by module, as ``python -X importtime`` takes it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from statistics import median
from typing import Any

from plan import Plan
from report import Finding, Table
from startup import SCRIPTS
from tracers import BenchmarkError

_LINE = re.compile(r"^import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)$", re.MULTILINE)
_START = "import sys; from pybpf.cli import main; sys.exit(main(sys.argv[1:]))"
_SHOWN = 15


def measure(plan: Plan) -> Finding:
    """Import all that a run of ``BEGIN { exit(0); }`` does (as root; else all that compiling does).

    Times are of the modules themselves, without what they import, and include the measurement.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for number in plan.rounds(full=11, quick=3):
        plan.say(f"imports: {number + 1}")
        for module, microseconds in imports().items():
            times[module].append(microseconds)
    modules = {module: median(found) for module, found in times.items()}
    by_time = sorted(modules, key=lambda module: -modules[module])
    data = [
        {"module": module, "group": group_of(module), "us": modules[module]} for module in by_time
    ]
    return Finding(data, (_groups(modules), _slowest(data)))


def imports() -> dict[str, int]:
    """Return microseconds by module of one start."""
    options = [] if os.geteuid() == 0 else ["--dry-run"]
    command = [sys.executable, "-X", "importtime", "-c", _START, "run", *options]
    command.append(SCRIPTS["start to exit"]["ply"])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{command} ended with {done.returncode}")
    return {module: int(own) for own, _, module in _LINE.findall(done.stderr)}


def group_of(module: str) -> str:
    """Return ``pybpf``, ``standard library`` or the name of another package."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return "standard library"
    return "editable install" if top.startswith("__editable__") else top


def _groups(modules: dict[str, float]) -> Table:
    groups: dict[str, list[float]] = defaultdict(list)
    for module, microseconds in modules.items():
        groups[group_of(module)].append(microseconds)
    rows = [[group, str(len(found)), f"{sum(found) / 1000:.1f}"] for group, found in groups.items()]
    rows.sort(key=lambda row: -float(row[2]))
    rows.append(["all", str(len(modules)), f"{sum(modules.values()) / 1000:.1f}"])
    return Table("Imports, by package", ["package", "modules", "ms"], rows)


def _slowest(data: list[dict[str, Any]]) -> Table:
    rows = [[row["module"], f"{row['us'] / 1000:.2f}"] for row in data[:_SHOWN]]
    return Table("The modules that take longest", ["module", "ms"], rows)
