"""Measure how long it takes to attach to many kernel functions, and to detach again.

    python tools/guest.py run 6.12 -- python benchmarks/attach.py

To be run as root on a machine that may crash: probes are put on functions all over the kernel. A
tracer attaches, runs ``true`` and ends with it. That is done with one function, with a clause for
each of many, and with a pattern that matches about as many; the difference to one function is what
many cost. A pattern can be attached by one link, on kernels that have kprobe.multi: there it is
also done with ``kprobe:*``, all functions that there are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import mounts
from machine import describe, shown
from pybpf.kernel import features
from pybpf.kernel.live import LiveTarget
from pybpf.target.target import Target
from report import Spread, Table
from tools import compiled
from tracers import BenchmarkError, Tracer, find_tracers

# What bpftrace sets itself, unless it is told otherwise, is 512 or 1024.
_LIMITS = {"BPFTRACE_MAX_PROBES": "1000000", "BPFTRACE_MAX_BPF_PROGS": "1000000"}
_PATIENCE = 900
_NO_LIMIT = ("--max-probes", "1000000")
# Subsystems of every distribution's kernel that tracing itself does not go through.
_SUBSYSTEMS = re.compile(r"(acpi|blk|crypto|drm|ext4|hid|inet|nfs|pci|scsi|snd|tcp|usb|xfs)_\w+")


def usable(target: Target) -> list[str]:
    """Return functions of a few subsystems, as far as their names stand for one place each."""
    return [
        name
        for name in target.functions()
        if _SUBSYSTEMS.fullmatch(name) and len(target.symbols.addresses(name)) == 1
    ]


def spaced(names: Sequence[str], count: int) -> list[str]:
    """Return ``count`` names from all over a list; raises BenchmarkError if it has fewer."""
    if len(names) < count:
        raise BenchmarkError(f"there are only {len(names)} functions")
    return [names[i * len(names) // count] for i in range(count)]


def pattern(names: Sequence[str], count: int) -> tuple[str, int]:
    """Return the pattern of a subsystem that has about ``count`` functions, and their number."""
    sizes = Counter(name.partition("_")[0] for name in names)
    subsystem = min(sizes, key=lambda subsystem: abs(sizes[subsystem] - count))
    return f"{subsystem}_*", sizes[subsystem]


def script(functions: Sequence[str]) -> str:
    """Return a script, in both languages, that counts calls of functions; a clause for each."""
    return "\n".join(f"kprobe:{name} {{ @ = count(); }}" for name in functions)


def _measure(
    tracers: Sequence[Tracer], cases: dict[str, str], rounds: int
) -> dict[tuple[str, str], list[float] | str]:
    """Return seconds of every round by (case, tracer), or what went wrong."""
    found: dict[tuple[str, str], list[float] | str] = {}
    with compiled() as tools:
        for tracer in tracers:  # what it reads of the disk is in memory from then on
            with suppress(BenchmarkError):
                tools.timed(tracer.command("BEGIN { exit(0); }"), timeout=_PATIENCE)
        for case, text in cases.items():
            for tracer in tracers:
                no_limit = _NO_LIMIT if tracer.name == "pybpf" else ()
                command = tracer.command(text, "-c", "/bin/true", *no_limit)
                try:
                    found[case, tracer.name] = [
                        tools.timed(command, timeout=_PATIENCE).seconds for _ in range(rounds)
                    ]
                except BenchmarkError as error:
                    found[case, tracer.name] = str(error)
                print(f"{case}: {tracer.name}: {found[case, tracer.name]}", file=sys.stderr)
    return found


def _table(
    tracers: Sequence[Tracer],
    cases: dict[str, str],
    found: dict[tuple[str, str], list[float] | str],
) -> Table:
    rows = []
    for case in cases:
        row = [case]
        for tracer in tracers:
            seconds = found[case, tracer.name]
            row.append("-" if isinstance(seconds, str) else Spread(tuple(seconds)).shown(2))
        rows.append(row)
    return Table("Attaching", ["probes on", *(tracer.name for tracer in tracers)], rows, "Seconds.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--count", type=int, default=1000, help="how many functions (1000)")
    add("--rounds", type=int, default=3, help="how often (3)")
    add("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    add("--bpftrace", action="append", default=[], metavar="CMD", help="one more bpftrace")
    return parser


def main() -> int:
    """Run the command line; return the exit status."""
    options = _parser().parse_args()
    if os.geteuid() != 0:
        print("attach.py: this needs root", file=sys.stderr)
        return 1
    mounts.start_again_in_namespace()
    mounts.mount_tracing()
    os.environ.update(_LIMITS)
    try:
        tracers = find_tracers(None, options.bpftrace)
        mounts.mount_roots(tracer.root for tracer in tracers)
        target = LiveTarget()
        names = usable(target)
        glob, matched = pattern(names, options.count)
        cases = {
            "one function": script(spaced(names, 1)),
            f"{glob}, {matched} functions": script([glob]),
        }
        if features.kprobe_multi():
            cases[f"*, {len(target.functions())} functions"] = script(["*"])
        cases[f"{options.count} functions"] = script(spaced(names, options.count))
        facts = describe()
        found = _measure(tracers, cases, options.rounds)
    except BenchmarkError as error:
        print(f"attach.py: {error}", file=sys.stderr)
        return 1
    print(f"{shown(facts)}\n")
    print(_table(tracers, cases, found).markdown())
    if options.json:
        data = [{"probes": c, "tracer": t, "seconds": s} for (c, t), s in found.items()]
        options.json.write_text(json.dumps({"machine": facts, "attach": data}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
