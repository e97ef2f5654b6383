"""What a kernel answers to a filter: its text and the event's fields in, a verdict out.

Sources: event_filter_write() of kernel/trace/trace_events.c, apply_event_filter(),
append_filter_err() of kernel/trace/trace_events_filter.c.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from pybpf.dataclass import dataclass
from pybpf.errors import TargetError
from pybpf.tracefs.dynevents.ctext import as_bytes, restore, skip_spaces
from pybpf.tracefs.dynevents.log import Answer, LogEntry
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.fields import Fields, kernel_fields
from pybpf.tracefs.filters.messages import SUBSYSTEM, FilterFault, FilterMessage
from pybpf.tracefs.filters.parse import combine
from pybpf.tracefs.filters.predicate import Surroundings
from pybpf.tracefs.filters.rules import PAGE, tracing_rules
from pybpf.tracefs.filters.scan import scan
from pybpf.tracefs.filters.value import Filter
from pybpf.tracefs.format import EventField, EventFormat, parse_format

NONE = "none\n"
"""What a ``filter`` file reads where there is no filter."""


@dataclass(frozen=True, slots=True)
class FilterVerdict(Answer):
    """The kernel's answer to one write to an event's ``filter``.

    ``file`` is what the file reads afterwards; where a filter was refused, that is the refusal, and
    the event runs unfiltered. ``value`` is None for a filter that is refused or cleared.
    """

    errno: int
    errors: tuple[LogEntry, ...]
    file: str
    value: Filter | None
    assumptions: tuple[str, ...]


class Checker:
    """Checks filters of one event, and notes what it took for granted."""

    def __init__(self, fields: Fields | None, world: World) -> None:
        self._world = world
        self.assumptions: list[str] = []
        rules = tracing_rules(world.rules)
        self._around = Surroundings(rules, fields, world.cpus, self._is_function)
        if fields is None:
            self._assume("the fields of the event are not known: those of the filter are taken")

    def check(self, text: str) -> Filter:
        """Return the value of a filter, one character a byte. Raises FilterFault."""
        return combine(scan(text, self._around))

    def _assume(self, what: str) -> None:
        if what not in self.assumptions:
            self.assumptions.append(what)

    def _is_function(self, name: str) -> bool:
        symbols = self._world.symbols
        if name[:1].isdigit():
            self._assume(f"where the kernel's functions are is not known: {name} is taken for one")
            return True
        if symbols is None:
            self._assume(f"the symbols of the kernel are not known: {name} is taken to exist")
            return True
        return name in symbols


def check_filter(text: str, fields: Iterable[EventField], world: World) -> FilterFault | None:
    """Return why a filter, one character a byte, of an event with ``fields`` is refused."""
    known = kernel_fields(fields, tracing_rules(world.rules))
    try:
        Checker(known, world).check(text)
    except FilterFault as fault:
        return fault
    return None


def log_entry(fault: FilterFault, command: str) -> LogEntry:
    """Return what the error_log says of a filter, one character a byte, that is refused."""
    message = fault.message or FilterMessage.ERRNO
    return LogEntry(SUBSYSTEM, message.value, restore(command), fault.place)


def event_format(event: str, world: World) -> EventFormat | None:
    """Return the format of an event ``group/event`` of a world, None where it is not known.

    Raises TargetError for an event that is not there.
    """
    for existing in world.existing:
        if existing.name == event:
            return None if existing.format is None else parse_format(existing.format)
    if world.formats is None:
        return None
    if event not in world.formats:
        raise TargetError(f"no event: {event}")
    return world.formats[event]


def event_fields(event: str, world: World) -> Fields | None:
    """Return what the names in filters and triggers of an event stand for, None: not known.

    Raises TargetError for an event that is not there.
    """
    found = event_format(event, world)
    if found is None:
        return None
    synthetic = any(e.name == event and e.kind == "synthetic" for e in world.existing)
    return kernel_fields(found.fields, tracing_rules(world.rules), synthetic=synthetic)


def judge_filter(
    data: str | bytes, event: str, world: World, *, before: str = NONE
) -> FilterVerdict:
    """Return what the kernel answers where ``data`` is written to the filter of ``group/event``.

    ``before`` is what the file reads until then. No text raises; TargetError for an event that is
    not there.
    """
    checker = Checker(event_fields(event, world), world)
    raw = as_bytes(data)
    if not raw:
        return FilterVerdict(0, (), before, None, ())
    if len(raw) >= PAGE:
        return FilterVerdict(errno.EINVAL, (), before, None, ())
    text = _without_end(raw.partition("\0")[0])
    if skip_spaces(text) == "0":
        return FilterVerdict(0, (), NONE, None, ())
    try:
        value = checker.check(text)
    except FilterFault as fault:
        entry = log_entry(fault, text)
        shown = restore(text) + "\n" + _caret(fault, text)
        return FilterVerdict(fault.errno, (entry,), shown, None, tuple(checker.assumptions))
    return FilterVerdict(0, (), restore(text) + "\n", value, tuple(checker.assumptions))


def _without_end(text: str) -> str:
    end = len(text)
    while end and not skip_spaces(text[end - 1]):
        end -= 1
    return text[:end]


def _caret(fault: FilterFault, text: str) -> str:
    if fault.message is None:
        return "Error: (0)\n\n"
    place = min(fault.place, len(text))
    width = place + 1 if place else 0
    return f"{'^':>{width}}\nparse_error: {fault.message.value}\n\n"
