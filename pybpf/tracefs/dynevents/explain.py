"""A verdict for people: what was written and why it is refused in, an error with a caret out."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from pybpf.errors import Diagnostic, DynEventError
from pybpf.source import Source, Span
from pybpf.tracefs.dynevent import Eprobe
from pybpf.tracefs.dynevents.ctext import as_bytes, restore, skip_spaces, word_places
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.hints import hints_for, lacking_hints
from pybpf.tracefs.dynevents.judge import Verdict
from pybpf.tracefs.dynevents.log import LogEntry
from pybpf.tracefs.dynevents.world import World


def explain(
    data: str | bytes, verdict: Verdict, world: World, name: str = "<definition>"
) -> DynEventError:
    """Return the error that tells why ``data`` is refused in ``world``.

    It has a diagnostic for each entry of the error_log, or one that names the errno where the
    kernel logs nothing.
    """
    raw = as_bytes(data)
    source = Source(name, restore(raw))
    line = raw[verdict.line :].partition("\n")[0].partition("#")[0]
    diagnostics = [
        Diagnostic(
            entry.message,
            _span(source, raw, verdict.line + _place(line, entry)),
            hints_for(entry, line, world) if first else (),
        )
        for first, entry in zip([True, *[False] * 9], verdict.errors, strict=False)
    ]
    if not diagnostics:
        start = verdict.line + len(line) - len(skip_spaces(line))
        number = verdict.errno
        message = f"{os.strerror(number)} ({errno.errorcode[number]}); the kernel logs no reason"
        hints = _silent(number, line, world)
        diagnostics = [Diagnostic(message, _span(source, raw, start), hints)]
    return DynEventError(diagnostics, verdict.errno)


def the_eprobe(text: str, verdict: Verdict, world: World) -> Existing:
    """Return the one event probe that a text defines. Raises DynEventError for any other text."""
    if not verdict.accepted:
        raise explain(text, verdict, world)
    if len(verdict.made) == 1 and isinstance(verdict.made[0].value, Eprobe):
        return verdict.made[0]
    span = Span(Source("<definition>", text), 0, len(text.partition("\n")[0]))
    reason = "this is no eprobe: it begins with e, as in 'e:GROUP/EVENT SYSTEM.NAME …'"
    if len(verdict.made) > 1:
        reason = f"these are {len(verdict.made)} definitions, where there is to be one"
    raise DynEventError(Diagnostic(reason, span), errno.EINVAL)


def _span(source: Source, raw: str, place: int) -> Span:
    start = len(restore(raw[:place]))
    return Span(source, start, start + 1)


def _place(line: str, entry: LogEntry) -> int:
    """Return where in the line the caret of an entry points.

    The command that is logged is the line with single spaces, its filter likewise, or the line
    from its first word on.
    """
    places = word_places(line)
    texts = [line[start:end] for start, end in places]
    for first in range(len(texts)):
        if restore(" ".join(texts[first:])) == entry.command:
            return _in_words(places[first:], entry.column)
    return min(len(line), len(line) - len(skip_spaces(line)) + entry.column)


def _in_words(places: Sequence[tuple[int, int]], column: int) -> int:
    for start, end in places:
        if column <= end - start:
            return start + column
        column -= end - start + 1
    return places[-1][1]


def _silent(number: int, line: str, world: World) -> tuple[str, ...]:
    """Return what a refusal that leaves no entry may mean."""
    removes = line.startswith(("-", "!"))
    if number == errno.EBUSY:
        return ("it is enabled, used by a trigger, or an eprobe is attached to it",)
    if number == errno.ENOENT:
        return ("no event matches" if removes else "the kernel has no such symbol",)
    if number == errno.E2BIG:
        return ("an event has at most 128 arguments",)
    if removes:
        return ("-:GROUP/EVENT removes an event",)
    if len(line) > 4094:
        return ("a line has at most 4094 bytes",)
    if lacking := lacking_hints(line, world):
        return lacking
    if line[:1] in {"f", "t"} and not world.rules.function_probes:
        return (f"kernel {world.rules.release} has no fprobes and no tracepoint probes",)
    return ("a definition is a letter of e p r f t s, a name and what to attach to",)
