"""Find how many records a second a tracer prints without losing one, by size of the record.

A paced producer on a CPU of its own makes events for about a second, each of which is a record. The
rate is doubled until records are lost, then narrowed down between the last good and the first bad
one. How many events there were is known, so after every attempt those must be the records printed
and those said to be lost, together. Buffers have the sizes that the tracers give them.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from machine import away_from, producer_cpu
from plan import Plan
from report import Finding, Spread, Table
from running import attached
from tools import Hammer
from tracers import BenchmarkError, Tracer

# What a record of so many bytes holds besides its id of 4 bytes: 3 numbers, and commands of 16.
COMMANDS = {16: 0, 64: 3, 256: 15}
_FIRST = 25_000
_HIGHEST = 4_000_000
_LINE = re.compile(rb"E ")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of the records at a rate; ``rate`` is in records a second, as it was reached."""

    rate: float
    emitted: int
    printed: int
    lost: int

    @property
    def exact(self) -> bool:
        """Whether every record was printed, or said to be lost."""
        return self.emitted == self.printed + self.lost

    @property
    def complete(self) -> bool:
        """Whether every record was printed."""
        return self.emitted == self.printed


@dataclass(frozen=True, slots=True)
class Search:
    """The highest rate at which nothing was lost, and all that was tried.

    ``bounded`` is False where the producer could not make enough events.
    """

    best: float
    bounded: bool
    attempts: tuple[Attempt, ...]


def script(size: int, language: str, pid: int) -> str:
    """Return a script that prints events of a process; records have ``size`` bytes.

    Its lines begin with ``E``.
    """
    commands = COMMANDS[size]
    place, thread = ("syscalls/", "kpid") if language == "ply" else ("syscalls:", "tid")
    text = "E" + " %s" * commands + " %d %d %d\\n"
    arguments = ", ".join(["comm"] * commands + ["pid", thread, "uid"])
    probe = f"tracepoint:{place}sys_enter_getppid / pid == {pid} /"
    return f'{probe} {{ printf("{text}", {arguments}); }}'


def measure(plan: Plan) -> Finding:
    """Search for the highest rate, a few times, for every tracer and size."""
    found: dict[tuple[int, str], list[Search]] = {}
    errors: dict[tuple[int, str], str] = {}
    cpu = producer_cpu()
    with away_from(cpu), plan.tools.hammer(cpu) as hammer:
        for number in plan.rounds(full=3, quick=1):
            for size in COMMANDS:
                for tracer in plan.tracers:
                    plan.say(f"drain: round {number + 1}: {size} bytes, {tracer.name}")
                    try:
                        result = _search(tracer, size, hammer, plan)
                    except BenchmarkError as error:
                        errors[size, tracer.name] = str(error)
                    else:
                        found.setdefault((size, tracer.name), []).append(result)
    return Finding(_data(found, errors), (_rates(plan, found), _losses(plan, found)))


def _search(tracer: Tracer, size: int, hammer: Hammer, plan: Plan) -> Search:
    attempts: list[Attempt] = []
    good, bad = 0.0, 0.0

    def attempt(rate: float) -> bool:
        text = script(size, tracer.language, hammer.pid)
        attempts.append(_attempt(tracer, text, rate, hammer, plan))
        return attempts[-1].complete

    rate: float = _FIRST
    while rate <= _HIGHEST:
        if not attempt(rate):
            bad = rate
            break
        good = attempts[-1].rate
        if good < 0.9 * rate:  # the producer is at its limit
            break
        rate *= 2
    if not bad:
        return Search(good, bounded=False, attempts=tuple(attempts))
    # Each step halves the ratio of the two, so that after three they differ by 9 %.
    good = good or bad / 4
    for _ in plan.rounds(full=3, quick=1):
        middle = (good * bad) ** 0.5
        if attempt(middle):
            good = middle
        else:
            bad = middle
    complete = [a.rate for a in attempts if a.complete]
    return Search(max(complete, default=0.0), bounded=True, attempts=tuple(attempts))


def _attempt(tracer: Tracer, text: str, rate: float, hammer: Hammer, plan: Plan) -> Attempt:
    seconds = 0.3 if plan.quick else 1.0
    with attached(tracer, text) as running:
        events = int(rate * seconds)
        reached = events / hammer.burst(events, int(rate))
        running.settle()
        running.stop()
        printed, lost = running.output(_LINE)
        return Attempt(reached, events, printed, lost)


def _data(
    found: dict[tuple[int, str], list[Search]], errors: dict[tuple[int, str], str]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "bytes": size,
            "tracer": name,
            "rate": Spread(tuple(search.best for search in searches)).data(),
            "bounded": all(search.bounded for search in searches),
            "attempts": [asdict(a) for search in searches for a in search.attempts],
        }
        for (size, name), searches in found.items()
    ]
    rows += ({"bytes": size, "tracer": name, "error": e} for (size, name), e in errors.items())
    return rows


def _rates(plan: Plan, found: dict[tuple[int, str], list[Search]]) -> Table:
    rows = []
    for size in COMMANDS:
        row = [f"{size} bytes"]
        for tracer in plan.tracers:
            searches = found.get((size, tracer.name))
            if not searches:
                row.append("-")
                continue
            more = "" if all(search.bounded for search in searches) else "> "
            row.append(more + Spread(tuple(s.best / 1000 for s in searches)).shown(0))
        rows.append(row)
    columns = ["record", *(tracer.name for tracer in plan.tracers)]
    note = "Thousands of records a second, each printed on a line, at which none is lost."
    return Table("Records without loss", columns, rows, note)


def _losses(plan: Plan, found: dict[tuple[int, str], list[Search]]) -> Table:
    rows = []
    for tracer in plan.tracers:
        for size in COMMANDS:
            attempts = [a for s in found.get((size, tracer.name), ()) for a in s.attempts]
            lossy = [a for a in attempts if not a.complete]
            if not attempts:
                continue
            worst = max(lossy, key=lambda a: a.emitted - a.printed, default=None)
            row = [f"{tracer.name}, {size} bytes"]
            row.append(f"{sum(a.exact for a in attempts)} of {len(attempts)}")
            row += (
                [f"{n:,}" for n in (worst.emitted, worst.printed, worst.lost)]
                if worst
                else ["-"] * 3
            )
            rows.append(row)
    columns = ["tracer", "accounts balance", "emitted", "printed", "said to be lost"]
    note = (
        "How often the records printed and those said to be lost were together those emitted; and "
        "the numbers of the attempt that lost most."
    )
    return Table("Records beyond that", columns, rows, note)
