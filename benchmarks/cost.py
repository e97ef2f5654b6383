"""Measure what an event costs in the kernel, by script and tracer.

The kernel itself takes the time of each run of a program (run_time_ns / run_cnt), so neither the
system call nor what the tracer does in user space is in it. The cost of a script is the sum of what
its programs cost. Part of that is the measurement: an empty program tells how much, and the net
cost is without it. Tracers take turns within each round, one at a time.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from statistics import median
from typing import Any

from machine import away_from, producer_cpu
from plan import Plan
from report import Finding, Spread, Table
from running import Running, attached
from tools import Hammer
from tracers import BenchmarkError, Tracer

EMPTY = {
    "ply": "tracepoint:syscalls/sys_enter_getppid { }",
    "bt": "tracepoint:syscalls:sys_enter_getppid { }",
}
_BURSTS, _TRIES = 9, 20
# Events a second for scripts that emit records: if these were lost, they would seem cheap.
_PACED = {"printf": 50_000}
_LINE = re.compile(rb".*\d$")

Costs = dict[tuple[str, str], list[float]]
"""Nanoseconds for an event, of every round, by (script, tracer)."""


def programs_of(script: str) -> int:
    """Return how many programs a script has."""
    return 2 if script == "latency" else 1


def measure(plan: Plan) -> Finding:
    """Measure total and net cost, in nanoseconds for an event."""
    costs: Costs = defaultdict(list)
    errors: dict[tuple[str, str], str] = {}
    cpu = producer_cpu()
    with away_from(cpu), plan.tools.hammer(cpu) as hammer:
        for number in plan.rounds(full=7, quick=2):
            for script in ("", *plan.scripts):
                plan.say(f"cost: round {number + 1}: {script or 'empty'}")
                # The order changes, so that no tracer is always the first.
                for tracer in plan.tracers[:: -1 if number % 2 else 1]:
                    try:
                        costs[script, tracer.name].append(_cost(tracer, script, hammer, plan))
                    except BenchmarkError as error:
                        errors[script, tracer.name] = str(error)
    return Finding(_data(plan, costs, errors), (_table(plan, costs),))


def _cost(tracer: Tracer, script: str, hammer: Hammer, plan: Plan) -> float:
    """Attach anew and return the median of a few bursts of events."""
    rate = _PACED.get(script, 0)
    events = (10_000 if rate else 50_000) // (5 if plan.quick else 1)
    text = tracer.script(script) if script else EMPTY[tracer.language]
    with attached(tracer, text, programs=programs_of(script)) as running:
        hammer.burst(events // 5, rate)
        costs = [_burst_cost(running, hammer, events, rate) for _ in range(_BURSTS)]
        if rate:
            _check_output(running)
    return median(costs)


def _check_output(running: Running) -> None:
    """Raise BenchmarkError where records were lost; each that is printed ends in a number."""
    running.settle()
    running.stop()
    printed, _ = running.output(_LINE)
    emitted = sum(info.run_cnt for info in running.infos())
    if emitted - printed > 0.01 * emitted:
        raise BenchmarkError(f"{emitted - printed} of {emitted} records were lost, and cost less")


def _burst_cost(running: Running, hammer: Hammer, events: int, rate: int) -> float:
    """Return the nanoseconds for an event of one burst, to which others added next to nothing."""
    for _ in range(_TRIES):
        before = running.infos()
        hammer.burst(events, rate)
        spent = [
            (after.run_time_ns - ago.run_time_ns, after.run_cnt - ago.run_cnt)
            for ago, after in zip(before, running.infos(), strict=True)
        ]
        if any(runs < events for _, runs in spent):
            raise BenchmarkError("a program did not run for every event")
        if all(runs < 1.01 * events for _, runs in spent):
            return sum(nanoseconds / runs for nanoseconds, runs in spent)
        time.sleep(0.5)  # it may be over then
    raise BenchmarkError("other processes call getppid all the time")


def net(costs: Costs, script: str, tracer: str) -> Spread | None:
    """Return the cost without that of as many empty programs."""
    empty = costs.get(("", tracer))
    total = costs.get((script, tracer))
    if not empty or not total:
        return None
    unit = median(empty) * programs_of(script)
    return Spread(tuple(cost - unit for cost in total))


def _data(plan: Plan, costs: Costs, errors: dict[tuple[str, str], str]) -> list[dict[str, Any]]:
    rows = []
    for script in ("", *plan.scripts):
        for tracer in plan.tracers:
            row: dict[str, Any] = {"script": script or "empty", "tracer": tracer.name}
            if total := costs.get((script, tracer.name)):
                row["total_ns"] = Spread(tuple(total)).data()
            if script and (without := net(costs, script, tracer.name)):
                row["net_ns"] = without.data()
            if error := errors.get((script, tracer.name)):
                row["error"] = error
            rows.append(row)
    return rows


def _verdict(plan: Plan, costs: Costs, other: str) -> str:
    """Count the scripts that cost less than with another tracer, or as much."""
    less = same = 0
    for script in plan.scripts:
        ours, theirs = net(costs, script, plan.tracers[0].name), net(costs, script, other)
        if ours and theirs:
            near = max(ours.error + theirs.error, 0.01 * theirs.median)
            same += abs(ours.median - theirs.median) <= near
            less += ours.median < theirs.median - near
    return (
        f"Of {len(plan.scripts)} scripts {less} have a lower net cost than in {other}, and {same} "
        "the same, within the spread or 1 %."
    )


def _table(plan: Plan, costs: Costs) -> Table:
    own, *others = plan.tracers
    columns = ["script"]
    for tracer in plan.tracers:
        columns += [f"{tracer.name}, total", "net"]
    columns += [f"net : {tracer.name}" for tracer in others]
    rows = []
    for script in ("", *plan.scripts):
        row = [script or "empty program"]
        for tracer in plan.tracers:
            total = costs.get((script, tracer.name))
            row.append(Spread(tuple(total)).shown() if total else "-")
            without = net(costs, script, tracer.name) if script else None
            row.append(without.shown() if without else "-")
        ours = net(costs, script, own.name) if script else None
        for tracer in others:
            theirs = net(costs, script, tracer.name) if script else None
            row.append(f"{ours.median / theirs.median:.2f}" if ours and theirs else "-")
        rows.append(row)
    note = (
        "Nanoseconds for an event in the kernel: the median of all rounds ± half the distance of "
        "the quartiles. Net is without an empty program for each probe; the last columns have our "
        "net cost as a fraction of theirs.\n\n"
    )
    note += " ".join(_verdict(plan, costs, tracer.name) for tracer in others)
    return Table("Cost of an event", columns, rows, note)
