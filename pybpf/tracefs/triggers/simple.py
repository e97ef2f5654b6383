"""Triggers that are no histograms: their text in, what is set on the event out.

trigger: ('traceon' | 'traceoff' | 'snapshot' | 'stacktrace') [':' COUNT] ['if' FILTER]
       | ('enable' | 'disable') ('_event' | '_hist') ':' SYSTEM ':' EVENT [':' COUNT] ['if' FILTER]

Source: event_trigger_parse(), event_enable_trigger_parse() of kernel/trace/trace_events_trigger.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping

from pybpf.dataclass import replace
from pybpf.tracefs.dynevents.ctext import (
    S64,
    U64,
    is_digit,
    restore,
    skip_spaces,
)
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.triggers.listing import list_simple
from pybpf.tracefs.triggers.model import Command, Trigger
from pybpf.tracefs.triggers.state import State
from pybpf.tracefs.triggers.text import filter_of, leading_number

# Of each kind, an event has one at a time.
KINDS: Mapping[Command, str] = {
    "traceon": "onoff",
    "traceoff": "onoff",
    "snapshot": "snapshot",
    "stacktrace": "stacktrace",
    "enable_event": "event",
    "disable_event": "event",
    "enable_hist": "hists",
    "disable_hist": "hists",
}
_SPACE = re.compile(r"[ \t]")


def run_simple(
    state: State, event: str, command: Command, text: str | None, *, remove: bool
) -> None:
    """Set a trigger that needs no parameter, or remove it. Raises Refused."""
    parameter, condition = None, text
    if text is not None and is_digit(text[:1]):
        parameter, condition = _split(text)
    trigger = Trigger(event, command, "")
    if remove:
        _remove(state, trigger)
    else:
        _set(state, trigger, command, parameter, condition)


def run_enable(
    state: State, event: str, command: Command, text: str | None, *, remove: bool
) -> None:
    """Set a trigger that enables or disables an event or its histograms, or remove it.

    Raises Refused.
    """
    if text is None:
        raise Refused
    parameter, condition = _split(text)
    system, colon, rest = parameter.partition(":")
    name, more, count = rest.partition(":")
    target = f"{restore(system)}/{restore(name)}"
    if not colon or not state.exists(target):
        raise Refused
    trigger = Trigger(event, command, "", target=target)
    if remove:
        _remove(state, trigger)
        return
    head = f"{command}:{target.replace('/', ':', 1)}"
    _set(state, trigger, head, count if more else None, condition)


def _split(text: str) -> tuple[str, str | None]:
    match = _SPACE.search(text)
    if match is None:
        return text, None
    return text[: match.start()], skip_spaces(text[match.end() :]) or None


def _find(state: State, trigger: Trigger) -> Trigger | None:
    for other in state.on(trigger.event):
        kind = KINDS.get(other.command)
        if kind == KINDS[trigger.command] and other.target == trigger.target:
            return other
    return None


def _remove(state: State, trigger: Trigger) -> None:
    found = _find(state, trigger)
    if found is not None:
        state.remove(found)


def _set(
    state: State, trigger: Trigger, head: str, parameter: str | None, condition: str | None
) -> None:
    count = None if parameter is None else _count(parameter)
    if condition is not None:
        condition = filter_of(condition)
        if condition is None:
            raise Refused
        state.check_filter(trigger.event, condition)
    if _find(state, trigger) is not None:
        raise Refused(errno.EEXIST)
    line = list_simple(head, count, None if condition is None else restore(condition))
    state.add(replace(trigger, listed=line, filter=condition, count=count), first=True)


def _count(text: str) -> int | None:
    count = leading_number(text)
    count -= U64 if count >= S64 else 0
    return None if count == -1 else count
