"""What verifying a program found, in; text for people, or data for JSON, out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pybpf import __version__
from pybpf.errors import Diagnostic
from pybpf.target.profile import Profile
from pybpf.verifier.explain import explain
from pybpf.verifier.report import Report
from pybpf.verifier.subject import Subject


def shown(subject: Subject, report: Report) -> str:
    """Return a verdict as lines: what, where, the kernel's words, and in plain words why."""
    title = f"{report.verdict:7}  {subject.name}"
    if report.verdict == "accept":
        return f"{title}  {_counted(report.processed)} processed"
    if report.verdict == "unknown":
        where = f" at instruction {report.insn}" if report.insn is not None else ""
        return f"{title}  {report.message}{where}"
    return f"{title}\n{rejection(subject, report)}"


def _counted(number: int) -> str:
    return f"{number} instruction{'s' if number != 1 else ''}"


def rejection(subject: Subject, report: Report) -> str:
    """Return why a program is rejected, where, and what to change."""
    span = None if report.insn is None else subject.span(report.insn)
    lines = [Diagnostic(_message(subject, report), span).render()]
    if report.insn is not None:
        lines.append(f"  instruction {report.insn}: {subject.text(report.insn)}")
        if note := subject.notes.get(report.insn):
            lines.append(f"  {note}")
    explanation = explain(report.message, report.errno)
    if explanation is not None:
        lines += [f"  why: {explanation.why}", f"  fix: {explanation.fix}"]
    return "\n".join(lines)


def _message(subject: Subject, report: Report) -> str:
    """Return the verifier's last line; where it has none, as bpf(2) fails before, its errno."""
    if report.message:
        return report.message
    import os

    said = f', and its SEC("{subject.section}") names none' if subject.section else ""
    why = "" if subject.program.prog_type else f": it has no program type{said}"
    return f"bpf(2) refuses the program{why}: {os.strerror(report.errno)} (errno {report.errno})"


def as_data(kernel: Profile, judged: Iterable[tuple[Subject, Report]]) -> Mapping[str, Any]:
    """Return all verdicts as the object that docs/verifier.md describes."""
    return {
        "pybpf": __version__,
        "kernel": {
            "name": kernel.name,
            "release": kernel.release,
            "origin": str(kernel.origin),
        },
        "programs": [_program(subject, report) for subject, report in judged],
    }


def _program(subject: Subject, report: Report) -> Mapping[str, Any]:
    explanation = explain(report.message, report.errno) if report.verdict == "reject" else None
    return {
        "name": subject.name,
        "prog_type": subject.program.prog_type,
        "verdict": report.verdict,
        "insn": report.insn,
        "instruction": None if report.insn is None else subject.text(report.insn),
        "source": None if report.insn is None else _place(subject, report.insn),
        "note": None if report.insn is None else subject.notes.get(report.insn),
        "message": report.message,
        "errno": report.errno,
        "kind": None if explanation is None else explanation.kind,
        "explanation": None if explanation is None else explanation.why,
        "fix": None if explanation is None else explanation.fix,
        "processed": report.processed,
        "states": report.states,
        "stack": list(report.depths),
    }


def _place(subject: Subject, slot: int) -> Mapping[str, Any] | None:
    span = subject.span(slot)
    if span is None:
        return None
    return {
        "file": span.source.name,
        "line": span.line,
        "column": span.column,
        "text": span.source.line(span.line),
    }
