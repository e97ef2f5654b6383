"""What inference knows at a place in the script: the probe, the target, maps and events so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pybpf.compiler.maptypes import MapTypes
from pybpf.errors import Diagnostic
from pybpf.script import (
    Conversion,
    EventArg,
    EventKind,
    EventSchema,
    FieldArg,
    ProbeSpec,
    Text,
)
from pybpf.source import Span
from pybpf.types import Type, struct_of

if TYPE_CHECKING:
    from pybpf.compiler import tast
    from pybpf.target.target import Target
    from pybpf.tracefs.format import EventFormat


class Refused(Exception):
    """A fault in the script; caught where the walk can go on with the next statement."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


def fault(span: Span | None, message: str, *hints: str) -> Refused:
    """Return the fault ``message`` about ``span``, to be raised."""
    return Refused(Diagnostic(message, span, hints))


class NotYetKnown(Exception):
    """The type of a map is not known before a later statement has been seen."""

    def __init__(self, name: str, span: Span) -> None:
        self.name = name
        self.span = span
        super().__init__(name)


@dataclass(slots=True)
class Scope:
    """The state of the walk. ``maps`` and ``events`` grow; the rest belongs to one probe."""

    target: Target
    maps: MapTypes
    events: list[EventSchema] = field(default_factory=list)
    spec: ProbeSpec | None = None
    format: EventFormat | None = None

    @property
    def probe(self) -> ProbeSpec:
        """The probe the walk is in."""
        assert self.spec is not None, "expressions stand in probes"
        return self.spec

    def event(
        self,
        kind: EventKind,
        parts: Sequence[tast.Expr | EventArg],
        format: Sequence[Text | Conversion] = (),  # noqa: A002 - the word of the schema
    ) -> tuple[int, tuple[tast.Expr, ...]]:
        """Declare a record of these parts; return its id and the expressions that travel in it."""
        args: list[EventArg] = []
        fields: list[tuple[str, Type]] = []
        values: list[tast.Expr] = []
        for part in parts:
            if isinstance(part, EventArg):
                args.append(part)
                continue
            name = str(len(fields))
            fields.append((name, part.type))
            values.append(part)
            args.append(FieldArg(name))
        number = len(self.events)
        payload = struct_of("", fields, start=4, align=8)
        self.events.append(EventSchema(number, kind, payload, tuple(args), tuple(format)))
        return number, tuple(values)
