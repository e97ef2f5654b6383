"""What answers a query: its text and the events of a kernel in, a plan of plain commands out.

    SELECT end.next_comm AS comm, TIMESTAMP_DELTA_USECS AS lat
      FROM sched_waking AS start JOIN sched_switch AS end ON start.pid = end.next_pid
     WHERE start.prio < 100

is a synthetic event with a field for each thing selected, a histogram on the first event that keeps
what is selected of it in variables, and one on the second, which makes the synthetic event where
the keys match. ``USTRING(start.filename)`` keeps the address, and an eprobe on the synthetic event
reads the string, when the kernel has it in memory. Without JOIN a query is a histogram: what is
selected are its keys, and ``SUM(field)`` values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pybpf.dataclass import dataclass, replace
from pybpf.errors import DynEventError
from pybpf.source import Span
from pybpf.tracefs.dynevent import Eprobe, Synthetic, SyntheticField
from pybpf.tracefs.dynevents.explain import explain
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.fetch import Deref, FetchArg, FetchType, Field
from pybpf.tracefs.plan import shell_command
from pybpf.tracefs.sql.parse import fault, parse_query
from pybpf.tracefs.sql.select import Choice, Sides
from pybpf.tracefs.sql.syntax import Cast, Name, Query
from pybpf.tracefs.sql.tables import Event, Tables
from pybpf.tracefs.sql.where import conditions
from pybpf.tracefs.triggers.explain import explain_trigger
from pybpf.tracefs.triggers.judge import judge_trigger
from pybpf.tracefs.triggers.model import KEYS_MAX, VALUES_MAX
from pybpf.tracefs.triggers.value import (
    Act,
    Expression,
    Hist,
    HistField,
    Removal,
    Save,
    Snapshot,
    Trace,
)
from pybpf.types import Int

GROUP = "sql"
"""The group of the eprobes that plans make."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A histogram to set on the event ``group/event``."""

    event: str
    hist: Hist


@dataclass(frozen=True, slots=True)
class Watch:
    """What a joined query does instead of making an event at each match.

    ``handler`` watches the selected ``label``; ``save`` are fields of the second event to keep,
    ``snapshot`` says to keep the buffer. With neither the synthetic event is made.
    """

    handler: Literal["onmax", "onchange"]
    label: str
    save: tuple[str, ...] = ()
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make, in this order, to answer a query."""

    synthetic: Synthetic | None
    settings: tuple[Setting, ...]
    eprobe: Eprobe | None = None

    @property
    def event(self) -> str | None:
        """The ``group/event`` to enable and read; None where it is a ``hist`` file to read."""
        if self.eprobe is not None:
            return f"{self.eprobe.group}/{self.eprobe.event}"
        made = any(isinstance(a.action, Trace) for s in self.settings for a in s.hist.actions)
        return f"synthetic/{self.synthetic.name}" if self.synthetic is not None and made else None

    def steps(self) -> Iterator[tuple[str, str]]:
        """Yield what to write, each to the end of which file of tracefs."""
        if self.synthetic is not None:
            yield "dynamic_events", str(self.synthetic).replace("\t", " ")
        for setting in self.settings:
            yield f"events/{setting.event}/trigger", str(setting.hist)
        if self.eprobe is not None:
            yield "dynamic_events", str(self.eprobe)
        if self.event is not None:
            yield f"events/{self.event}/enable", "1"

    def undoing(self) -> Iterator[tuple[str, str]]:
        """Yield what to write to take all of it away, what depends on others first."""
        if self.event is not None:
            yield f"events/{self.event}/enable", "0"
        if self.eprobe is not None:
            yield "dynamic_events", f"-:{self.eprobe.group}/{self.eprobe.event}"
        for setting in reversed(self.settings):
            yield f"events/{setting.event}/trigger", str(Removal(setting.hist))
        if self.synthetic is not None:
            yield "dynamic_events", f"-:synthetic/{self.synthetic.name}"

    def commands(self, root: str = "/sys/kernel/tracing") -> tuple[str, ...]:
        """Return the commands for a shell that set the plan up."""
        return tuple(shell_command(text, file, root) for file, text in self.steps())

    def teardown(self, root: str = "/sys/kernel/tracing") -> tuple[str, ...]:
        """Return the commands for a shell that take away what ``commands`` made."""
        return tuple(shell_command(text, file, root) for file, text in self.undoing())


def plan_query(
    text: str,
    world: World,
    *,
    name: str = "query",
    watch: Watch | None = None,
    source: str = "<query>",
) -> Plan:
    """Return the plan for a query; ``name`` is that of the events it makes.

    Every part of it is one that the kernel of ``world`` takes. Raises DynEventError with a caret
    for a query that is none, that names what is not there, or that the kernel cannot answer.
    """
    query = parse_query(text, source)
    tables = Tables(query, world)
    if tables.end is None:
        if watch is not None:
            raise fault("only a query with JOIN can watch", query.span)
        plan = _single(query, tables)
    else:
        plan = _Joined(query, tables, name, watch).plan()
    _check(plan, query, world)
    return plan


def _single(query: Query, tables: Tables) -> Plan:
    keys: list[Expression] = []
    values: list[Expression] = []
    for item in query.selected:
        match item.expression:
            case Name() as chosen:
                _, shown, _ = tables.field(chosen)
                keys.append(_shown(shown))
            case Cast(kind="sum" | "counter" | "_counter_") as cast:
                values.append(HistField(tables.field(cast.name)[1]))
            case Cast(kind="ustring" | "string") as cast:
                raise fault("a string is read where two events are joined", cast.span)
            case Cast(name, kind, width):
                _, shown, _ = tables.field(name)
                kind = {"log": "log2", "bucket": "buckets", "symbol": "sym"}.get(kind, kind)
                keys.append(HistField(shown, kind, width))
            case other:
                raise fault("a histogram counts fields", other.span)
    if not keys or len(keys) > KEYS_MAX or len(values) >= VALUES_MAX:
        raise fault("a histogram has 1 to 3 keys and up to 2 sums", query.span)
    start, _ = conditions(query.where, tables)
    hist = Hist(tuple(keys), tuple(values), filter=start)
    return Plan(None, (Setting(tables.start.name, hist),))


def _shown(text: str) -> HistField:
    name, _, modifier = text.partition(".")
    return HistField(name, modifier or None)


class _Joined:
    """A query of two events."""

    def __init__(self, query: Query, tables: Tables, name: str, watch: Watch | None) -> None:
        self.query, self.tables, self.name, self.watch = query, tables, name, watch
        assert tables.end is not None
        self.end: Event = tables.end

    def plan(self) -> Plan:
        keys = [self._pair(*pair) for pair in self.query.on]
        if len(keys) > KEYS_MAX:
            raise fault("at most three keys can be compared", self.query.span)
        sides = Sides(self.tables, self.name)
        chosen = [sides.choose(item) for item in self.query.selected]
        self._check_labels(chosen)
        start_filter, end_filter = conditions(self.query.where, self.tables)
        start = Hist(
            tuple(HistField(key) for key, _ in keys),
            variables=tuple(sides.start),
            filter=start_filter,
        )
        end = Hist(
            tuple(HistField(key) for _, key in keys),
            variables=tuple(sides.end),
            actions=self._actions(chosen),
            filter=end_filter,
        )
        settings = (Setting(self.tables.start.name, start), Setting(self.end.name, end))
        synthetic = Synthetic(
            self.name, tuple(SyntheticField(choice.ctype, choice.label) for choice in chosen)
        )
        traces = any(isinstance(act.action, Trace) for act in end.actions)
        strings = traces and any(choice.string for choice in chosen)
        return Plan(
            synthetic if traces else None, settings, self._eprobe(chosen) if strings else None
        )

    def _pair(self, first: Name, second: Name) -> tuple[str, str]:
        found = {}
        for name in (first, second):
            side, shown, field = self.tables.field(name)
            found[side] = shown, field
        if len(found) != 2:
            raise fault("a field of each event is needed", first.span.to(second.span))
        (start, one), (end, other) = found["start"], found["end"]
        if one.is_string != other.is_string or (one.is_string and one.size != other.size):
            raise fault(f"{one.ctype} and {other.ctype} never match", first.span.to(second.span))
        return start, end

    @staticmethod
    def _check_labels(chosen: list[Choice]) -> None:
        seen: set[str] = set()
        for choice in chosen:
            if choice.label in seen:
                raise fault(f"{choice.label} is selected twice", choice.span, "name it: … AS NAME")
            seen.add(choice.label)

    def _actions(self, chosen: list[Choice]) -> tuple[Act, ...]:
        parameters = tuple(f"${choice.variable}" for choice in chosen)
        # A parameter, which the name would be, has at least two characters.
        trace = Trace(self.name, parameters, keyword=len(self.name) > 1)
        match_ = Act("onmatch", self.tables.start.dotted, trace)
        if self.watch is None:
            return (match_,)
        watched = next((c for c in chosen if c.label == self.watch.label), None)
        if watched is None:
            labels = " ".join(choice.label for choice in chosen)
            raise fault(
                f"{self.watch.label} is not selected", self.query.span, f"there is {labels}"
            )
        variable = f"${watched.variable}"
        made: list[Act] = []
        if self.watch.save:
            made.append(Act(self.watch.handler, variable, Save(self.watch.save)))
        if self.watch.snapshot:
            made.append(Act(self.watch.handler, variable, Snapshot()))
        return tuple(made) or (Act(self.watch.handler, variable, trace),)

    def _eprobe(self, chosen: list[Choice]) -> Eprobe:
        args = tuple(FetchArg(_fetch(c), c.label, FetchType(_type(c))) for c in chosen)
        return Eprobe(f"synthetic.{self.name}", args, GROUP, self.name)


def _fetch(choice: Choice) -> Field | Deref:
    field = Field(choice.label)
    return Deref(0, field) if choice.string else field


def _type(choice: Choice) -> str:
    if choice.string is not None:
        return choice.string
    if "char[" in choice.ctype:
        return "string"
    return str(Int(choice.size, choice.signed))


def _check(plan: Plan, query: Query, world: World) -> None:
    """Raise DynEventError, about a part of the query, for a plan that the kernel would refuse."""
    places = iter([query.start.name.span, *([query.end.name.span] if query.end else [])])
    error: DynEventError | None = None
    span: Span = query.span
    for file, text in plan.steps():
        if file == "dynamic_events":
            verdict = judge(text, world)
            error = None if verdict.accepted else explain(text, verdict, world)
            span, world = query.span, verdict.after
        elif file.endswith("/trigger"):
            event = file.removeprefix("events/").removesuffix("/trigger")
            answer = judge_trigger(text, event, world)
            error = None if answer.accepted else explain_trigger(text, answer, event, world)
            span, world = next(places), answer.after
        if error is not None:
            first = error.diagnostics[0]
            hints = (f"the plan has: {text}", *first.hints)
            raise DynEventError(
                replace(
                    first, message=f"the kernel refuses it: {first.message}", span=span, hints=hints
                ),
                error.errno,
            )
