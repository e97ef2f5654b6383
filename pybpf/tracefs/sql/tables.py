"""The events of a query: names in, which field of which event each stands for out."""

from __future__ import annotations

from typing import Literal

from pybpf.dataclass import dataclass
from pybpf.suggest import suggest
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.fields import Fields, KernelField, Kind
from pybpf.tracefs.filters.judge import event_fields
from pybpf.tracefs.sql.parse import fault
from pybpf.tracefs.sql.syntax import Name, Query, Table

Side = Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a query: ``group/event``, what its names stand for, and what it is called."""

    name: str
    fields: Fields
    table: Table

    @property
    def dotted(self) -> str:
        """``group.event``, as onmatch and eprobes have it."""
        return self.name.replace("/", ".", 1)


TIMES = {"TIMESTAMP": "common_timestamp", "TIMESTAMP_USECS": "common_timestamp.usecs"}
DELTAS = {"TIMESTAMP_DELTA": "TIMESTAMP", "TIMESTAMP_DELTA_USECS": "TIMESTAMP_USECS"}
_TIME_FIELD = KernelField("common_timestamp", "u64", 8, signed=False, kind=Kind.NUMBER)


class Tables:
    """The events of one query: that of FROM, and that of JOIN if it has one."""

    def __init__(self, query: Query, world: World) -> None:
        self.world = world
        self.start = self._event(query.start)
        self.end = None if query.end is None else self._event(query.end)
        if query.end is not None and self._calls(query.start) & self._calls(query.end):
            raise fault(
                "both events go by the same name",
                query.end.name.span,
                "give each a name: FROM a AS x JOIN b AS y",
            )

    @staticmethod
    def _calls(table: Table) -> set[str]:
        return {table.alias} if table.alias else {str(table.name), table.name.words[-1]}

    def _event(self, table: Table) -> Event:
        words = table.name.words
        known = sorted({*(self.world.formats or ()), *(e.name for e in self.world.existing)})
        if len(words) > 2:
            raise fault("an event is EVENT or SYSTEM.EVENT", table.name.span)
        if len(words) == 2:
            found = [name for name in known if name == "/".join(words)]
        else:
            found = [name for name in known if name.partition("/")[2] == words[0]]
        if len(found) > 1:
            named = " or ".join(name.replace("/", ".", 1) for name in found[:4])
            raise fault("several events have this name", table.name.span, f"write {named}")
        if not found:
            near = suggest(words[-1], [name.partition("/")[2] for name in known])
            hints = (f"did you mean {' or '.join(near)}?",) if near else ()
            raise fault(f"no event: {table.name}", table.name.span, *hints)
        fields = event_fields(found[0], self.world)
        if fields is None:
            raise fault(f"the fields of {found[0]} are not known", table.name.span)
        return Event(found[0], fields, table)

    def event(self, side: Side) -> Event:
        """Return the event of a side of the query."""
        return self.start if side == "start" or self.end is None else self.end

    def side(self, name: Name) -> tuple[Side, str]:
        """Return which event a name belongs to, and the field it names. Raises DynEventError."""
        *table, last = name.words
        if not table:
            if self.end is not None:
                calls = [self._short(self.start), self._short(self.end)]
                raise fault(
                    f"of which event is {last}?",
                    name.span,
                    f"write {' or '.join(f'{call}.{last}' for call in calls)}",
                )
            return "start", last
        for side, event in (("start", self.start), ("end", self.end)):
            if event is not None and self._is(event, table):
                return ("start" if side == "start" else "end"), last
        called = " and ".join(self._short(e) for e in (self.start, self.end) if e is not None)
        raise fault(f"no event of the query is {'.'.join(table)}", name.span, f"there is {called}")

    @staticmethod
    def _short(event: Event) -> str:
        return event.table.alias or event.name.partition("/")[2]

    @staticmethod
    def _is(event: Event, words: list[str]) -> bool:
        system, _, name = event.name.partition("/")
        return words in ([event.table.alias], [name], [system, name])

    def field(self, name: Name) -> tuple[Side, str, KernelField]:
        """Return the side, the text in a trigger, and the kernel's field of a name.

        Raises DynEventError.
        """
        side, last = self.side(name)
        if last in TIMES:
            return side, TIMES[last], _TIME_FIELD
        fields = self.event(side).fields
        found = fields.get(last)
        if found is None or not found.size:
            near = suggest(last, [f for f in fields if fields[f].size])
            own = [f for f in fields if fields[f].size and not f.startswith("common_")]
            hint = f"did you mean {' or '.join(near)}?" if near else f"fields: {' '.join(own)}"
            raise fault(f"{self.event(side).name} has no field {last}", name.span, hint)
        return side, last, found
