"""What a kernel answers to a trigger: its text and the event in, a verdict out.

Sources: event_trigger_regex_write(), event_trigger_regex_open() of
kernel/trace/trace_events_trigger.c.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterable

from pybpf.dataclass import dataclass, replace
from pybpf.errors import TargetError
from pybpf.tracefs.dynevents.ctext import as_bytes
from pybpf.tracefs.dynevents.log import Answer, LogEntry, Refused
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.rules import PAGE
from pybpf.tracefs.triggers.hist import remove_hist, run_hist
from pybpf.tracefs.triggers.listing import AVAILABLE
from pybpf.tracefs.triggers.model import Trigger
from pybpf.tracefs.triggers.simple import run_enable, run_simple
from pybpf.tracefs.triggers.state import State
from pybpf.tracefs.triggers.text import split_command


@dataclass(frozen=True, slots=True)
class TriggerVerdict(Answer):
    """The kernel's answer to one write to an event's ``trigger``.

    ``listed`` are the lines of the file afterwards. ``made`` and ``removed`` are the triggers, on
    any event, that are there or gone because of the write: a removal that matches none succeeds
    and removes none. ``after`` is the world then.
    """

    errno: int
    errors: tuple[LogEntry, ...]
    listed: tuple[str, ...]
    made: tuple[Trigger, ...]
    removed: tuple[Trigger, ...]
    after: World
    assumptions: tuple[str, ...]

    @property
    def file(self) -> str:
        """What the ``trigger`` file reads."""
        return "".join(f"{line}\n" for line in self.listed) or AVAILABLE


def judge_trigger(
    data: str | bytes, event: str, world: World, *, truncate: bool = False
) -> TriggerVerdict:
    """Return what the kernel answers where ``data`` is written to a trigger of ``group/event``.

    ``truncate`` says that the file is opened with O_TRUNC (a shell's ``>``), which removes the
    histograms of the event first, unless another one refers to their variables. No text raises;
    TargetError for an event that is not there.
    """
    state = State(world)
    if not state.exists(event):
        raise TargetError(f"no event: {event}")
    if truncate:
        _truncate(state, event)
    number = 0
    try:
        _write(state, event, as_bytes(data))
    except Refused as refusal:
        number = refusal.errno
    before = world.triggers
    kept, known = set(map(id, state.triggers)), set(map(id, before))
    return TriggerVerdict(
        number,
        tuple(state.entries),
        tuple(trigger.listed for trigger in state.on(event)),
        tuple(trigger for trigger in state.triggers if id(trigger) not in known),
        tuple(trigger for trigger in before if id(trigger) not in kept),
        _after(world, state.triggers),
        tuple(state.assumptions),
    )


def _truncate(state: State, event: str) -> None:
    hists = [trigger for trigger in state.on(event) if trigger.data is not None]
    if not any(t.data is not None and state.is_referenced(t.data) for t in hists):
        for trigger in hists:
            remove_hist(state, trigger)
    for trigger in state.on(event):
        if trigger.command in {"enable_hist", "disable_hist"}:
            state.remove(trigger)


def _write(state: State, event: str, raw: str) -> None:
    if not raw:
        return
    if len(raw) >= PAGE:
        raise Refused
    head, rest = split_command(raw)
    remove = head.startswith("!")
    match head.removeprefix("!"):
        case "hist":
            run_hist(state, event, rest, remove=remove)
        case "traceon" | "traceoff" | "snapshot" | "stacktrace" as command:
            run_simple(state, event, command, rest, remove=remove)
        case "enable_event" | "disable_event" | "enable_hist" | "disable_hist" as command:
            run_enable(state, event, command, rest, remove=remove)
        case _:
            raise Refused(errno.EINVAL)


def _after(world: World, triggers: Iterable[Trigger]) -> World:
    """Return the world with other triggers, and the events that these hold on to counted anew."""
    triggers = tuple(triggers)
    before = Counter(name for trigger in world.triggers for name in trigger.uses)
    after = Counter(name for trigger in triggers for name in trigger.uses)
    existing = tuple(
        replace(event, triggers=event.triggers + after[event.name] - before[event.name])
        if after[event.name] != before[event.name]
        else event
        for event in world.existing
    )
    return replace(world, triggers=triggers, existing=existing)
