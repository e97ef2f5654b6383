"""Record eprobes by programs instead of tracefs: for kernels without them, and for many readers."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs

if TYPE_CHECKING:
    from pybpf.eprobes import EprobeRecord, EprobeTrace, How

BACKENDS = ("auto", "tracefs", "bpf")
_ALONE = "programs can do `pybpf events strings`, and `trace` of event probes alone"


def declare_backend(parser: argparse.ArgumentParser) -> None:
    """Declare the choice between tracefs and programs."""
    parser.add_argument(
        "--backend", choices=BACKENDS, default="auto",
        help="what records: the kernel's dynamic events, or programs, which auto takes where "
        "the kernel has no event probes",
    )  # fmt: skip
    parser.add_argument(
        "--string-size", type=inputs.count, metavar="N", default=512,
        help="with programs: the most bytes of a string (512)",
    )  # fmt: skip


def chosen(
    options: argparse.Namespace,
    by_tracefs: Callable[[], int],
    by_programs: Callable[[], int],
    *,
    able: bool = True,
) -> int:
    """Record by what was chosen, or by programs where the kernel lacks what tracefs takes.

    ``able`` says whether programs can do it.
    """
    from pybpf.errors import TargetError

    if options.backend == "bpf":
        return by_programs()
    try:
        return by_tracefs()
    except TargetError as error:
        lacking = options.backend == "auto" and "CONFIG_" in error.message
        if lacking and not able:
            raise TargetError(error.message, hints=(*error.hints, _ALONE)) from None
        if not lacking or options.filter is not None:
            raise
        if not options.quiet:
            print(f"pybpf: {error.message}: using programs (--backend bpf)", file=sys.stderr)
    return by_programs()


def is_eprobe(line: str) -> bool:
    """Say whether a line of a plan is the definition of an eprobe."""
    return re.match(r"\s*e\w*[:\s]", line) is not None


def run_eprobes(lines: Sequence[str], options: argparse.Namespace) -> int:
    """Record definitions of eprobes by programs, print them, and return the exit status."""
    from pybpf.eprobes import trace_eprobes

    others = [line for line in lines if not is_eprobe(line)]
    if others:
        raise UsageError(f"programs record event probes only, not '{others[0]}'")
    size = options.string_size
    return _run(lambda how: trace_eprobes(lines, string_size=size, **how), options)


def run_strings(call: str, fields: Sequence[str], options: argparse.Namespace) -> int:
    """Record strings of a system call by programs, print them, and return the exit status."""
    from pybpf.eprobes import trace_strings

    size = options.string_size
    return _run(lambda how: trace_strings(call, fields, string_size=size, **how), options)


def _run(make: Callable[[How], EprobeTrace], options: argparse.Namespace) -> int:
    from pybpf.compiler.pipeline import Options
    from pybpf.kernel.ftrace.trace import Symbols

    if options.filter is not None:
        raise UsageError("--filter is for tracefs: programs take `if FILTER` in the definition")
    room = Options()
    if options.buffer is not None:
        room = Options(buffer_size=inputs.ring(options.buffer))
    how: How = {
        "command": options.command,
        "pids": options.pid,
        "everything": options.all,
        "catch_signals": True,
        "symbols": Symbols(),
        "options": room,
        "before_wait": sys.stdout.flush,
    }
    with make(how) as tracing:
        show = _json(tracing) if options.format == "json" else _text(tracing)
        out = sys.stdout
        for record in chain(tracing.records(), tracing.finish()):
            out.write(show(record) + "\n")
        out.flush()
        return _complete(tracing.lost, tracing.skipped)


def _complete(lost: int, skipped: int) -> int:
    if skipped:
        from pybpf.output.text import render_skipped

        print(render_skipped(skipped, "hit"), file=sys.stderr)
    return report_lost(lost, "--buffer makes room")


def report_lost(lost: int, hint: str) -> int:
    """Print how many records were lost, if any, and return the exit status that it means."""
    if not lost:
        return 0
    from pybpf.output.text import counted

    print(
        f"error: {counted(lost, 'record')} lost for want of room\n  hint: {hint}", file=sys.stderr
    )
    return 1


def _json(tracing: EprobeTrace) -> Callable[[EprobeRecord], str]:
    from pybpf.events.ftrace.jsonl import to_json

    return lambda record: to_json(tracing.decode(record))


def _text(tracing: EprobeTrace) -> Callable[[EprobeRecord], str]:
    from pybpf.events.ftrace.lines import line_of
    from pybpf.output.escape import escape

    def show(record: EprobeRecord) -> str:
        byteorder = tracing.formats.byteorder
        line = line_of(record.raw, tracing.text(record), {record.pid: record.comm}, byteorder)
        return escape(line)

    return show
