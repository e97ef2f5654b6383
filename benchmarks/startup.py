"""Measure start to exit of a tracer, and its memory: of a script that only ends, and of one event.

The second script ends with the first event that it sees, of thousands a second, so its time is that
from start to attached, and of the way out.
"""

from __future__ import annotations

from typing import Any

from machine import producer_cpu
from plan import Plan
from report import Finding, Spread, Table
from tools import Timed
from tracers import BenchmarkError

_RATE = 20_000
SCRIPTS = {
    "start to exit": {"ply": "BEGIN { exit(0); }", "bt": "BEGIN { exit(); }"},
    "to the first event": {
        "ply": "tracepoint:syscalls/sys_enter_getppid { exit(0); }",
        "bt": "tracepoint:syscalls:sys_enter_getppid { exit(); }",
    },
}


def measure(plan: Plan) -> Finding:
    """Take the wall time and the peak of resident memory of every tracer, in turns."""
    times: dict[tuple[str, str], list[Timed]] = {}
    errors: dict[tuple[str, str], str] = {}
    with plan.tools.hammer(producer_cpu()) as hammer:
        hammer.begin(1 << 40, _RATE)
        for what, texts in SCRIPTS.items():
            for number in plan.rounds(full=21, quick=4):
                plan.say(f"startup: {what}, {number + 1}")
                for tracer in plan.tracers:
                    try:
                        timed = plan.tools.timed(tracer.command(texts[tracer.language]))
                    except BenchmarkError as error:
                        errors[what, tracer.name] = str(error)
                        continue
                    if number:  # the first fills the caches of the file system
                        times.setdefault((what, tracer.name), []).append(timed)
    return Finding(_data(times, errors), (_table(plan, times),))


def _seconds(times: list[Timed]) -> Spread:
    return Spread(tuple(timed.seconds for timed in times))


def _cpu_seconds(times: list[Timed]) -> Spread:
    return Spread(tuple(timed.cpu_seconds for timed in times))


def _kib(times: list[Timed]) -> Spread:
    return Spread(tuple(timed.kib for timed in times))


def _data(
    times: dict[tuple[str, str], list[Timed]], errors: dict[tuple[str, str], str]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "script": what,
            "tracer": name,
            "seconds": _seconds(found).data(),
            "cpu_seconds": _cpu_seconds(found).data(),
            "peak_kib": _kib(found).data(),
        }
        for (what, name), found in times.items()
    ]
    rows += ({"script": what, "tracer": name, "error": e} for (what, name), e in errors.items())
    return rows


def _table(plan: Plan, times: dict[tuple[str, str], list[Timed]]) -> Table:
    columns = ["tracer"]
    for what in SCRIPTS:
        columns += [f"{what}, ms", "pybpf = 1", "CPU, ms", "peak, MB"]
    rows = []
    for tracer in plan.tracers:
        row = [tracer.name]
        for what in SCRIPTS:
            found = times.get((what, tracer.name))
            own = times.get((what, plan.tracers[0].name))
            if not found or not own:
                row += ["-", "-", "-", "-"]
                continue
            seconds = _seconds(found)
            row.append(seconds.scaled(1000).shown(0))
            row.append(f"{seconds.median / _seconds(own).median:.2f}")
            row.append(_cpu_seconds(found).scaled(1000).shown(0))
            row.append(_kib(found).scaled(1024 / 1e6).shown())
        rows.append(row)
    note = "Wall time and CPU time of the whole process, and the most memory it had resident."
    return Table("Start-up", columns, rows, note)
