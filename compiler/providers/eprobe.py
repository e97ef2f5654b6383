"""eprobe: the definition of an event probe, in quotes: ``eprobe:"sched.sched_switch p=$prev_pid"``.

It may have the head that the kernel wants (``e:GROUP/EVENT``), or begin with the parent event.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pybpf.compiler.scope import Refused, fault
from pybpf.dataclass import replace
from pybpf.errors import DynEventError, TargetError
from pybpf.isa.insn import Program
from pybpf.script import ProbeSpec, Provider
from pybpf.source import Span
from pybpf.target.target import Target

if TYPE_CHECKING:
    from pybpf.errors import Diagnostic

_HINT = 'as in eprobe:"sched.sched_switch prev=$prev_pid:u32"'
_ESCAPE = re.compile(r"\\([\"\\])")


def eprobe(where: str, span: Span, target: Target) -> list[ProbeSpec]:
    """Return the probe of ``eprobe:where``."""
    from pybpf.compiler.eprobes.definition import HEAD, define

    if not where.startswith('"') or not where.strip('" \t\n'):
        raise fault(span, "eprobe wants a definition in quotes", _HINT)
    text, places = _unquoted(where, span.start + len(span.text) - len(where))
    head = "" if re.match(r"\s*e[:\s]", text) else HEAD
    definition = head + text
    try:
        found = define(definition, target)
    except DynEventError as error:
        moved = [_moved(d, len(head), places, span) for d in error.diagnostics]
        raise Refused(*moved) from error
    except TargetError as error:
        raise fault(span, error.message, *error.hints) from error
    return [
        ProbeSpec(
            Provider.EPROBE, span.text, Program(()),
            tracepoint=found.target, definition=definition,
        )
    ]  # fmt: skip


def _unquoted(where: str, start: int) -> tuple[str, list[int]]:
    """Return what a text in quotes says, and where in the script each of its characters is.

    Lines count for nothing in it.
    """
    text, places, at = "", [], 1
    while at < len(where) - 1:
        escape = _ESCAPE.match(where, at)
        places.append(start + at)
        one = escape[1] if escape else where[at]
        text += " " if one == "\n" else one
        at = escape.end() if escape else at + 1
    places.append(start + at)
    return text, places


def _moved(diagnostic: Diagnostic, head: int, places: list[int], span: Span) -> Diagnostic:
    """Return a fault of a definition as one of the script that it stands in."""
    if diagnostic.span is None or diagnostic.span.start < head:
        return replace(diagnostic, span=span)
    last = len(places) - 1
    start = places[min(diagnostic.span.start - head, last)]
    end = places[min(diagnostic.span.end - head, last)]
    return replace(diagnostic, span=Span(span.source, start, max(end, start + 1)))
