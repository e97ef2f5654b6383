"""Tracing by a list of events: lines of a plan in, an instance of their own that records out.

What several lists define, at one time or in several processes, does not meet: each has an instance,
and names that carry its owner. Records and messages have the names that were given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass, replace
from pybpf.errors import Diagnostic, DynEventError, TargetError
from pybpf.events.ftrace.reader import RecordFormats
from pybpf.kernel.ftrace.dynevents import Judged, defined, judge_all, require
from pybpf.kernel.ftrace.given import in_given_names
from pybpf.kernel.ftrace.instance import Instance, instance
from pybpf.kernel.ftrace.owner import new_owner
from pybpf.kernel.ftrace.stream import CLOCK, Stream
from pybpf.kernel.ftrace.world import live_world
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.tracefs import Tree, open_tracefs
from pybpf.suggest import did_you_mean
from pybpf.target.symbols import LazySymbols
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.explain import explain_filter, filter_warnings
from pybpf.tracefs.filters.judge import event_format, judge_filter
from pybpf.tracefs.format import EventFormat, parse_format
from pybpf.tracefs.plan import (
    Define,
    Record,
    SetTrigger,
    Step,
    owned_name,
    parse_step,
    recorded,
    rename,
    rename_trigger,
)
from pybpf.tracefs.triggers.explain import explain_trigger, trigger_warnings
from pybpf.tracefs.triggers.judge import judge_trigger
from pybpf.tracefs.triggers.parse import parse_trigger
from pybpf.tracefs.triggers.value import Hist

if TYPE_CHECKING:
    from pybpf.tracefs.sql.plan import Plan


@dataclass(frozen=True, slots=True)
class Trace:
    """What records: ``stream`` reads it, ``warnings`` are what it does not do.

    ``events`` are those that are recorded, ``hists`` the files of the histograms by event, as
    ``instance`` reads them.
    """

    stream: Stream
    instance: Instance
    events: tuple[str, ...]
    hists: Mapping[str, str]
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan that the kernel takes: what is defined, then what is set and recorded.

    ``world`` is the kernel with all of it, by the names that were given.
    """

    definitions: tuple[Judged, ...]
    triggers: tuple[SetTrigger, ...]
    recorded: Mapping[str, str | None]
    world: World
    warnings: tuple[Diagnostic, ...]


def check_plan(steps: Sequence[Step], world: World, condition: str | None = None) -> Checked:
    """Return a plan all of whose parts are accepted, one after the other.

    ``condition`` is a filter on each event that is recorded and has none. Events of ``world`` that
    have the names of those defined are out of the way. Raises DynEventError, TargetError.
    """
    texts = [step.text for step in steps if isinstance(step, Define)]
    judged = judge_all(texts, _without(world, texts))
    names = {one.event.name for one in judged}
    world = judged[-1].after if judged else world
    found = [warning for one in judged for warning in one.warnings]
    triggers = []
    for step in steps:
        match step:
            case SetTrigger(event, text):
                require_event(event, world)
                verdict = judge_trigger(text, event, world)
                if not verdict.accepted:
                    raise explain_trigger(text, verdict, event, world)
                found += trigger_warnings(text, verdict, event, world)
                triggers.append(step)
                world = verdict.after
            case Record(event, _):
                require_event(event, world)
            case Define():
                pass
    parents = [one.event.parent for one in judged]
    events = recorded([one.event.name for one in judged], parents, steps)
    events = {event: text if text is not None else condition for event, text in events.items()}
    for event, wanted in events.items():
        if wanted is not None:
            answer = judge_filter(wanted, event, world)
            if not answer.accepted:
                raise explain_filter(wanted, answer, event, world, "")
            found += filter_warnings(wanted, answer, event, world)
    if not events and not triggers:
        raise TargetError(
            "nothing is recorded: each event is only used by others",
            hints=(f"name one that is to be recorded too: {next(iter(names), 'SYSTEM/EVENT')}",),
        )
    return Checked(tuple(judged), tuple(triggers), events, world, tuple(found))


def _without(world: World, texts: Sequence[str]) -> World:
    """Return a world without the events of others that have the names of those to be defined."""
    mine = {one.event.name for text in texts for one in _alone(text, world)}
    return replace(world, existing=tuple(e for e in world.existing if e.name not in mine))


def _alone(text: str, world: World) -> list[Judged]:
    try:
        return judge_all([text], replace(world, existing=(), formats=None))
    except DynEventError:
        return []


def require_event(event: str, world: World) -> None:
    """Raise TargetError for an event that is not there."""
    try:
        event_format(event, world)
    except TargetError:
        group, _, name = event.partition("/")
        known = [n for n in world.formats or () if n.startswith(f"{group}/")]
        known += [e.name for e in world.existing]
        hint = did_you_mean(event, known) or f": {group} has no {name}"
        raise TargetError(f"there is no event {event}{hint}") from None


@contextmanager
def trace(
    lines: str | Iterable[str],
    *,
    condition: str | None = None,
    pids: Iterable[int] = (),
    without: Iterable[int] = (),
    buffer_kb: int | None = None,
    tree: Tree | None = None,
) -> Iterator[Trace]:
    """Make, set and record what lines of a plan say, for the time of a block.

    Those events are recorded that lines name, and those defined that no other line uses.
    ``condition`` filters them, ``pids`` are the only processes, with those they start, if any;
    ``without`` are processes that are left out (Linux 5.7).
    ``buffer_kb`` is the room of each CPU. Nothing is left half made, and nothing remains, but after
    a SIGKILL: then `cleanup` finds it. Raises DynEventError, TargetError, KernelError.
    """
    given = (lines,) if isinstance(lines, str) else lines
    steps = [parse_step(line) for line in given]
    texts = [step.text for step in steps if isinstance(step, Define)]
    with open_tracefs() if tree is None else nullcontext(tree) as found, ExitStack() as stack:
        world = live_world(found, texts)
        checked = check_plan(steps, world, condition)
        if texts or checked.triggers:
            hist = any(step.text.startswith("hist") for step in checked.triggers)
            require(found, [one.event.kind for one in checked.definitions], hist=hist)
        own = _Own(checked, world)
        made = stack.enter_context(instance(found, own.owner))
        made.write("trace_clock", CLOCK)
        if buffer_kb is not None:
            made.write("buffer_size_kb", str(buffer_kb), truncate=True)
        with in_given_names(own.names):
            formats = _define(own, found, world, stack)
            _set(own, made, stack)
        _only(made, tuple(pids), tuple(without))
        for event in checked.recorded:
            if event not in own.names:
                formats[event] = _format(found, event)
        known = RecordFormats((), symbols=Symbols(), constants=Constants())
        parents = {event.name: event.parent for event in checked.world.existing}
        for name, format_ in formats.items():
            parent = parents.get(name)
            known.add(format_, f"({parent.replace('/', '.', 1)})" if parent else "")
        stream = stack.enter_context(Stream(made, known))
        for event in checked.recorded:
            stack.enter_context(made.enabled(own.names.get(event, event), event))
        hists = {
            step.event: f"events/{own.names.get(step.event, step.event)}/hist"
            for step in checked.triggers
            if step.text.startswith("hist")
        }
        yield Trace(stream, made, tuple(checked.recorded), hists, checked.warnings)


class _Own:
    """A plan by names that carry an owner: ``names`` has those by the ones that were given."""

    def __init__(self, checked: Checked, world: World) -> None:
        self.owner = str(new_owner())
        self.checked = checked
        self.names = {
            one.event.name: owned_name(
                one.event.group,
                one.event.event,
                synthetic=one.event.kind == "synthetic",
                owner=self.owner,
            )
            for one in checked.definitions
        }
        events = [(one.event.name, one.event.value) for one in checked.definitions]
        texts = [str(rename(value, self.names[name], self.names)) for name, value in events]
        with in_given_names(self.names):
            self.judged = judge_all(texts, world)
        self.world = self.judged[-1].after if self.judged else world

    def trigger(self, step: SetTrigger) -> str:
        """Return the text of a trigger, whose timestamps are those of the records."""
        value = rename_trigger(parse_trigger(step.text, self.world.rules), self.names)
        if isinstance(value, Hist) and value.clock is None and "common_timestamp" in step.text:
            value = replace(value, clock=CLOCK)
        return str(value)


def _define(own: _Own, tree: Tree, world: World, stack: ExitStack) -> dict[str, EventFormat]:
    """Make the events; return their formats by the names that were given."""
    formats = {}
    for given, one in zip(own.checked.definitions, own.judged, strict=True):
        made = stack.enter_context(defined(tree, one, world))
        formats[given.event.name] = replace(made.format, name=given.event.name)
    return formats


def _set(own: _Own, made: Instance, stack: ExitStack) -> None:
    """Set filters and triggers."""
    world = own.world
    for event, text in own.checked.recorded.items():
        if text is not None:
            stack.enter_context(made.filtered(own.names.get(event, event), text, world))
    for step in own.checked.triggers:
        event = own.names.get(step.event, step.event)
        world = stack.enter_context(made.triggered(event, own.trigger(step), world))


def _only(made: Instance, pids: tuple[int, ...], without: tuple[int, ...]) -> None:
    """Record processes, and those that they start, and no others; leave processes out."""
    if pids:
        made.write("options/event-fork", "1")
        made.write("set_event_pid", " ".join(map(str, pids)))
    elif without and made.tree.exists(f"{made.folder}set_event_notrace_pid"):
        made.write("set_event_notrace_pid", " ".join(map(str, without)))


def _format(tree: Tree, event: str) -> EventFormat:
    return parse_format(tree.read(f"events/{event}/format"), event)


class Symbols:
    """Names of kernel addresses, read when first asked for; uprobes have none, nor who may not."""

    def __init__(self) -> None:
        self._symbols = LazySymbols(LiveTarget())

    def __call__(self, address: int) -> str | None:
        """Return ``name+0x2``, or None."""
        found = self._symbols.resolve(address)
        return None if found is None else f"{found[0]}+{found[1]:#x}"


class Constants:
    """The values of names of enums, by the kernel's types, read when first asked for."""

    def __init__(self) -> None:
        self._target = LiveTarget()

    def __call__(self, name: str) -> int | None:
        """Return a value, None for what is not known."""
        types = self._target.types
        return None if types is None else types.enumerator(name)


def query_lines(
    query: str,
    definitions: Sequence[str] = (),
    *,
    name: str = "query",
    tree: Tree | None = None,
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan that answers a query on this machine, and the lines to `trace` for it.

    ``definitions`` are of events that the query may name; ``name`` is that of the event that it
    makes. Raises DynEventError, TargetError.
    """
    from pybpf.tracefs.sql.plan import plan_query

    with open_tracefs() if tree is None else nullcontext(tree) as found:
        world = live_world(found, definitions)
        judged = judge_all(definitions, _without(world, definitions))
        plan = plan_query(query, judged[-1].after if judged else world, name=name)
    made = [str(value) for value in (plan.synthetic, plan.eprobe) if value is not None]
    settings = [f"{setting.event} {setting.hist}" for setting in plan.settings]
    return plan, (*definitions, *made, *settings)
