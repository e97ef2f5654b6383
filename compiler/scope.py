"""What inference knows at a place in the script: the probe, the target, maps and events so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pybpf.compiler.maptypes import MapTypes
from pybpf.dataclass import dataclass, field
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
from pybpf.types import Struct, Type, struct_of

if TYPE_CHECKING:
    from pybpf.compiler import tast
    from pybpf.compiler.eprobes.record import Record
    from pybpf.target.target import Target
    from pybpf.tracefs.format import EventFormat

_A = TypeVar("_A")
_B = TypeVar("_B")


class Refused(Exception):
    """Faults in the script; caught where the walk can go on with the next statement."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = diagnostics
        super().__init__(*(d.message for d in diagnostics))


def fault(span: Span | None, message: str, *hints: str) -> Refused:
    """Return the fault ``message`` about ``span``, to be raised."""
    return Refused(Diagnostic(message, span, hints))


class NotYetKnown(Exception):
    """The type of a map is not known before a later statement has been seen."""

    def __init__(self, name: str, span: Span) -> None:
        self.name = name
        self.span = span
        super().__init__(name)


Failure = Refused | NotYetKnown


def each(items: Iterable[_A], step: Callable[[_A], _B]) -> tuple[_B, ...]:
    """Take the step for every item, even after one failed; then raise all faults as one."""
    results: list[_B] = []
    failures: list[Failure] = []
    for item in items:
        try:
            results.append(step(item))
        except (Refused, NotYetKnown) as failure:
            failures.append(failure)
    _raise(failures)
    return tuple(results)


def both(first: Callable[[], _A], second: Callable[[], _B]) -> tuple[_A, _B]:
    """Take two steps, the second even if the first failed; then raise all faults as one."""
    left: list[_A] = []
    right: list[_B] = []
    steps: tuple[Callable[[], None], ...] = (
        lambda: left.append(first()),
        lambda: right.append(second()),
    )
    each(steps, lambda step: step())
    return left[0], right[0]


def _raise(failures: Sequence[Failure]) -> None:
    diagnostics = [d for f in failures if isinstance(f, Refused) for d in f.diagnostics]
    if diagnostics:
        raise Refused(*diagnostics)
    if failures:
        raise failures[0]


@dataclass(slots=True)
class Scope:
    """The state of the walk.

    ``maps``, ``events``, ``records`` (the data of tracepoints, by their names) and ``eprobes`` (by
    their definitions) grow; the rest belongs to one probe.
    """

    target: Target
    maps: MapTypes
    events: list[EventSchema] = field(default_factory=list)
    records: dict[str, Struct] = field(default_factory=dict)
    spec: ProbeSpec | None = None
    format: EventFormat | None = None
    eprobes: dict[str, Record] = field(default_factory=dict)

    def start_over(self) -> None:
        """Forget what the last walk made, but for the types of maps."""
        self.events.clear()
        for use in self.maps.uses.values():
            use.broken = False

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
