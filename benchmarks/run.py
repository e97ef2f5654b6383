"""Measure pybpf beside bpftrace and ply: names of benchmarks in; tables, and JSON, out.

    python benchmarks/run.py                            all of it, about half an hour
    python benchmarks/run.py --quick cost               a rough look at one
    python benchmarks/run.py cost count-by-comm         one script
    python benchmarks/run.py --bpftrace 'chroot DIR bpftrace'

The benchmarks are cost, instructions, startup, drain, records (these need root), imports, offline,
objects and verify; see docs/performance.md. attach.py is for a machine of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path

import mounts
from machine import describe, shown
from plan import Plan
from report import Finding, replace_block
from tools import compiled
from tracers import BenchmarkError, find_tracers, script_names

BENCHMARKS = {
    "cost": "cost",
    "instructions": "instructions",
    "startup": "startup",
    "imports": "importtime",
    "drain": "drain",
    "offline": "offline",
    "objects": "objects",
    "verify": "verify",
    "records": "records",
}
"""The modules by name; each has a function ``measure`` from Plan to Finding."""

FOR_ROOT = {"cost", "instructions", "startup", "drain", "records"}
OF_SCRIPTS = ["cost", "instructions"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; or of scripts")
    add("--quick", action="store_true", help="few and short rounds, to try things out")
    add("--json", type=Path, metavar="FILE", help="write all numbers to a file")
    add("--docs", type=Path, metavar="FILE", help="put the tables into their places in a file")
    add("--pybpf", metavar="CMD", help="another pybpf, such as one installed from a wheel")
    add("--bpftrace", action="append", default=[], metavar="CMD",
        help="one more bpftrace; CMD may be 'chroot DIR bpftrace'")  # fmt: skip
    return parser


def _chosen(names: list[str]) -> tuple[list[str], list[str]]:
    """Return the benchmarks and the scripts to run; raises BenchmarkError for a wrong name."""
    scripts = [name for name in names if name in script_names()]
    benchmarks = [name for name in names if name in BENCHMARKS]
    if unknown := set(names) - {*scripts, *benchmarks}:
        raise BenchmarkError(
            f"there is no '{min(unknown)}'; benchmarks: {', '.join(BENCHMARKS)}; "
            f"scripts: {', '.join(script_names())}"
        )
    return benchmarks or (OF_SCRIPTS if scripts else [*BENCHMARKS]), scripts or script_names()


def _say(what: str) -> None:
    """Show on a terminal what is measured now, on one line."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


def _measure(benchmarks: list[str], plan: Plan) -> dict[str, Finding]:
    findings = {}
    for name in benchmarks:
        if name in FOR_ROOT and os.geteuid() != 0:
            print(f"{name}: skipped, for it needs root\n")
            continue
        findings[name] = import_module(BENCHMARKS[name]).measure(plan)
        _say("")
        print(findings[name].markdown(), flush=True)
        for row in findings[name].data:
            if "error" in row:
                where = ", ".join(str(row[key]) for key in ("script", "bytes") if key in row)
                print(f"{name}: {row['tracer']}, {where}: {row['error']}\n")
    return findings


def _keep_bytecode(folder: Path) -> None:
    """Let every Python that we start use the bytecode of an earlier one, as installed code does.

    Where the environment forbids to write it, every start would compile all of pybpf.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def main() -> int:
    """Run the command line; return the exit status."""
    options = _parser().parse_args()
    if os.geteuid() == 0:
        mounts.start_again_in_namespace()
    try:
        benchmarks, scripts = _chosen(options.names)
        tracers = find_tracers(options.pybpf, options.bpftrace)
        if os.geteuid() == 0:
            mounts.mount_tracing()
            mounts.mount_roots(tracer.root for tracer in tracers)
        facts = describe()
        print(f"{shown(facts)}\n")
        with compiled() as tools:
            _keep_bytecode(tools.folder / "bytecode")
            plan = Plan(tracers, scripts, tools, options.quick, _say)
            findings = _measure(benchmarks, plan)
    except BenchmarkError as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 1
    if options.json:
        data = {name: list(finding.data) for name, finding in findings.items()}
        text = json.dumps({"machine": facts, "quick": options.quick, "results": data}, indent=1)
        options.json.write_text(text + "\n")
    if options.docs:
        text = options.docs.read_text()
        for name, finding in findings.items():
            text = replace_block(text, name, f"{shown(facts)}\n\n{finding.markdown()}")
        options.docs.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
