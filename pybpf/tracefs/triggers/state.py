"""The triggers while a write is judged: what is there, what carets point into, what was logged."""

from __future__ import annotations

import errno

from pybpf.errors import TargetError
from pybpf.tracefs.dynevents.ctext import restore
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.log import LogEntry, Refused
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.fields import Fields, KernelField, Kind
from pybpf.tracefs.filters.judge import Checker, event_fields, event_format, log_entry
from pybpf.tracefs.filters.messages import FilterFault
from pybpf.tracefs.filters.rules import TracingRules, tracing_rules
from pybpf.tracefs.triggers.messages import HistMessage
from pybpf.tracefs.triggers.model import UNKNOWN, HistData, HistField, Trigger


class State:
    """The world as one write to a ``trigger`` file changes it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rules: TracingRules = tracing_rules(world.rules)
        self.triggers: list[Trigger] = list(world.triggers)
        self.remembered = _remembered(world)
        """The histograms whose variables, and references to such, are known to all."""
        self.entries: list[LogEntry] = []
        self.assumptions: list[str] = []
        self._command: str | None = None
        self._subsystem = ""
        self._fields: dict[str, Fields | None] = {}

    def begin(self, event: str, command: str | None) -> None:
        """Begin a hist command; carets point into ``hist:`` and its parameters."""
        if self._command is not None:
            self._command = ""
        if command is not None:
            self._command = f"hist:{command}"
            self._subsystem = "hist:" + event.replace("/", ":", 1)

    def place(self, word: str | None) -> int:
        """Return where the kernel looks for a word in the command: the first that reads so."""
        return max((self._command or "").find(word), 0) if word else 0

    def log(self, message: HistMessage, word: str | None = None) -> None:
        """Log a message about a word of the command."""
        if self._command is not None:
            shown = restore(self._command)
            entry = LogEntry(self._subsystem, message.value, shown, self.place(word))
            self.entries.append(entry)

    def refuse(
        self, message: HistMessage, word: str | None = None, number: int = errno.EINVAL
    ) -> Refused:
        """Log a message, and return what to raise."""
        self.log(message, word)
        return Refused(number)

    def assume(self, what: str) -> None:
        """Note what is taken for granted."""
        if what not in self.assumptions:
            self.assumptions.append(what)

    def exists(self, event: str) -> bool:
        """Say whether there is an event ``group/event`` that can have triggers."""
        if event.startswith("ftrace/"):
            return False
        try:
            found = event_format(event, self.world)
        except TargetError:
            return False
        if found is None and not any(e.name == event for e in self.world.existing):
            self.assume(f"no formats are known: {event} is taken to exist")
        return True

    def field(self, event: str, name: str) -> KernelField | None:
        """Return what a name means on an event, None where it means nothing."""
        if event not in self._fields:
            self._fields[event] = event_fields(event, self.world)
        fields = self._fields[event]
        if fields is None:
            self.assume(f"the fields of {event} are not known: {restore(name)} is taken for one")
            return KernelField(restore(name), UNKNOWN, 8, signed=False, kind=Kind.NUMBER)
        return fields.get(restore(name))

    def synthetic(self, name: str) -> Existing | None:
        """Return the synthetic event called ``name``, or None."""
        found = (e for e in self.world.existing if e.kind == "synthetic" and e.event == name)
        return next(found, None)

    def check_filter(self, event: str, text: str) -> None:
        """Check the filter of a trigger. Raises Refused."""
        checker = Checker(event_fields(event, self.world), self.world)
        try:
            checker.check(text)
        except FilterFault as fault:
            if self.rules.trigger_filter_logged:
                self.entries.append(log_entry(fault, text))
            raise Refused(fault.errno) from None
        for what in checker.assumptions:
            self.assume(what)

    def on(self, event: str) -> list[Trigger]:
        """Return the triggers of an event in the order they are listed."""
        return [trigger for trigger in self.triggers if trigger.event == event]

    def add(self, trigger: Trigger, *, first: bool = False) -> None:
        """Put a trigger behind, or before, the others."""
        self.triggers.insert(0 if first else len(self.triggers), trigger)

    def replace(self, old: Trigger, new: Trigger) -> None:
        """Put a trigger in the place of another."""
        self.triggers = [new if trigger is old else trigger for trigger in self.triggers]

    def remove(self, trigger: Trigger) -> None:
        """Take a trigger away."""
        self.triggers = [other for other in self.triggers if other is not trigger]

    def variable(self, event: str, name: str) -> HistField | None:
        """Return the first variable called ``name`` among the histograms of an event."""
        for trigger in self.on(event):
            if trigger.data is not None and (found := trigger.data.variable(name)):
                return found
        return None

    def event_of(self, name: str) -> str | None:
        """Return the one event with a variable called ``name``; None, perhaps logged, otherwise."""
        found: str | None = None
        for data in reversed(self.remembered):
            if data.event != found and data.variable(name):
                if found is not None:
                    self.log(HistMessage.VAR_NOT_UNIQUE, name)
                    return None
                found = data.event
        return found

    def is_referenced(self, data: HistData) -> bool:
        """Say whether another histogram refers to a variable of ``data``."""
        owned = {f.index for f in data.fields if f.variable is not None}
        return any(
            reference.owner is data and reference.index in owned
            for other in self.remembered
            if other is not data
            for reference in other.references
        )


def _remembered(world: World) -> list[HistData]:
    held = [t.data for t in world.triggers if t.data is not None and not t.shares]
    return [data for data in held if data.is_remembered]
