"""Judge programs as a kernel's verifier would: an object, a script, one program, or a batch."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs, printable, subjects
from pybpf.target.profile import NAMES

if TYPE_CHECKING:
    from pybpf.target.profile import Profile
    from pybpf.verifier.kerneltypes import KernelTypes
    from pybpf.verifier.report import Report
    from pybpf.verifier.subject import Subject

ACCEPTED, REJECTED, UNKNOWN = 0, 1, 2
"""The exit status; of several programs the worst: one that is rejected before one not known."""
_SECONDS, _SECONDS_BATCH = 60, 10


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    subjects.declare(parser)
    add = parser.add_argument
    add(
        "--kernel", default="live", metavar="K",
        help=f"{', '.join(NAMES)}, live (the nearest) or the file of a profile",
    )  # fmt: skip
    add("--unprivileged", action="store_true", help="as a user without capabilities")
    add("--json", action="store_true", help="print one JSON object")
    add("--log", action="store_true", help="print what the verifier sees, as the kernel would")
    add("--batch", metavar="FILE", help="judge a program a line of JSON, answer with a line each")
    add("--jobs", type=inputs.count, default=1, metavar="N", help="processes for a batch (1)")
    add(
        "--seconds", type=inputs.count, metavar="N",
        help=f"processor time a program may take ({_SECONDS}; {_SECONDS_BATCH} in a batch)",
    )  # fmt: skip


def main(options: argparse.Namespace) -> int:
    """Judge everything and print it; 0 where all is accepted, 1 for a reject, 2 for unknown."""
    if options.batch is not None:
        return _batch(options)
    if options.jobs != 1:
        raise UsageError("--jobs goes with --batch")
    if options.json and options.log:
        raise UsageError("--log prints text: it does not go with --json")
    from pybpf.target.profile import profile

    kernel = profile(options.kernel)
    types = subjects.types_of(options.btf, kernel)
    judged = []
    for subject in subjects.subjects(options, kernel, types):
        judged.append((subject, _judge(subject, kernel, types, options)))
        if not options.json:
            from pybpf.cli.verdict import shown

            print(printable(shown(*judged[-1])), flush=True)
    if options.json:
        import json

        from pybpf.cli.verdict import as_data

        print(json.dumps(as_data(kernel, judged), indent=2))
    verdicts = {report.verdict for _, report in judged}
    return REJECTED if "reject" in verdicts else UNKNOWN if "unknown" in verdicts else ACCEPTED


def _judge(
    subject: Subject, kernel: Profile, types: KernelTypes | None, options: argparse.Namespace
) -> Report:
    from pybpf.verifier.within import verify_within

    seconds, privileged = options.seconds or _SECONDS, not options.unprivileged
    if not options.log:
        return verify_within(subject.program, kernel, seconds, privileged=privileged, types=types)
    from pybpf.verifier.log import KernelLog

    log = KernelLog(lambda line: print(printable(line)), subject.text, subject.line)
    report = verify_within(
        subject.program, kernel, seconds, privileged=privileged, log=log, types=types
    )
    log.finish(report, kernel.limits.processed)
    return report


def _batch(options: argparse.Namespace) -> int:
    from pybpf.cli import batch

    alone = ("file", "prog", "type", "attach", "map", "target", "json", "log")
    batch.refuse(options, alone, "all of a program")
    from pybpf.verifier.batch import Judge, judge_lines

    judge = Judge(
        options.kernel, options.seconds or _SECONDS_BATCH,
        privileged=not options.unprivileged, btf=options.btf,
    )  # fmt: skip
    answers = judge_lines(batch.lines(options.batch), judge, jobs=options.jobs)
    return batch.print_all(answers, options.batch)
