"""Eprobes: the words of ``e[:[GROUP/][EVENT]] GROUP.EVENT ARGS [if FILTER]`` in, the event out.

Source: __trace_eprobe_create() of kernel/trace/trace_eprobe.c.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from types import MappingProxyType

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevent import Eprobe
from pybpf.tracefs.dynevents.argument import Argument, parse_arguments
from pybpf.tracefs.dynevents.context import Context, Where
from pybpf.tracefs.dynevents.ctext import restore
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.function import limit
from pybpf.tracefs.dynevents.layout import eprobe_format
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import (
    NotMine,
    State,
    exists,
    has_folder,
    name_of,
    own_name,
    parse_name,
)
from pybpf.tracefs.dynevents.symbols import look_up_symbols
from pybpf.tracefs.filters.judge import check_filter, log_entry
from pybpf.tracefs.format import EventField, EventFormat, parse_format


@dataclass(frozen=True, slots=True)
class _Target:
    """The event to attach to; its format is None where its fields are not known."""

    group: str
    event: str
    format: EventFormat | None


def make_eprobe(argv: Sequence[str], state: State) -> None:
    """Make an eprobe. Raises NotMine for another kind's command, Refused with the reason logged."""
    if len(argv) < 2 or not argv[0].startswith("e"):
        raise NotMine
    log = state.log
    log.command("event_probe", argv)
    name, group = own_name(argv[0], log, "eprobes")
    log.index = 1
    target_group, target_event = _target_name(argv[1], state)
    event = name.event or target_event
    words, filter_words = _split_filter(argv)
    words = words[: 2 + limit(len(words) - 2, state)]
    log.index = 1
    target = _find(target_group, target_event, state)
    if filter_words is not None:
        log.index = len(argv) - len(filter_words)
        _check_filter(filter_words, target, state)
    args = _arguments(words[2:], target, state)
    if state.taken(name_of(group, event)):
        raise exists(state)
    value = Eprobe(
        restore(f"{target.group}.{target.event}"),
        tuple(arg.value for arg in args),
        name.group and restore(name.group),
        name.event and restore(name.event),
        None if filter_words is None else restore(" ".join(filter_words)),
    )
    text = None
    if all(arg.known for arg in args) and has_folder(state, group, event):
        text = eprobe_format(restore(event), state.next_number(), args)
    parent = name_of(target.group, target.event)
    state.add(
        Existing(
            kind="eprobe",
            group=restore(group),
            event=restore(event),
            head="e",
            place=parent.replace("/", ".", 1),
            value=value,
            args=args,
            format=text,
            parent=parent,
        )
    )


def _target_name(text: str, state: State) -> tuple[str, str]:
    try:
        name = parse_name(text, state.log, 0)
    except Refused:
        name = None
    if name is None or name.group is None or name.event is None:
        raise state.log.refuse(Message.NO_EVENT_INFO, errno.EINVAL)
    return name.group, name.event


def _split_filter(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """Split the command at the word ``if``."""
    for place, word in enumerate(argv[2:], start=2):
        if word == "if":
            return argv[:place], argv[place + 1 :]
    return argv, None


def _find(group: str, event: str, state: State) -> _Target:
    name = name_of(group, event)
    for existing in state.events:
        if existing.name == name:
            attachable = existing.kind in {"synthetic", "fprobe"}
            if not attachable:
                break
            text = existing.format
            return _Target(group, event, None if text is None else parse_format(text))
    else:
        formats = state.world.formats
        if formats is None:
            state.assume(f"no formats are known: {name} is taken to exist")
            return _Target(group, event, None)
        if name in formats and restore(group) != "ftrace":
            return _Target(group, event, formats[name])
    raise state.log.refuse(Message.BAD_ATTACH_EVENT, errno.ENODEV)


def own_fields(event: EventFormat) -> tuple[EventField, ...]:
    """Return the fields of an event without those that all events have."""
    return tuple(field for field in event.fields if not field.common)


def _check_filter(words: Sequence[str], target: _Target, state: State) -> None:
    if not words:
        raise state.log.refuse(Message.NO_EP_FILTER, errno.EINVAL)
    text = " ".join(words)
    if target.format is None:
        state.assume("the fields of the event are not known: the filter is taken to fit")
        return
    fault = check_filter(text, target.format.fields, state.world)
    if fault is not None:
        state.log.entries.append(log_entry(fault, text))
        raise Refused(errno.EINVAL)


def _arguments(words: Sequence[str], target: _Target, state: State) -> tuple[Argument, ...]:
    fields = None
    if target.format is not None:
        fields = MappingProxyType({f.name: f for f in reversed(own_fields(target.format))})
    context = Context(state.log, state.world, Where.KERNEL | Where.EVENT, fields=fields)
    args = parse_arguments(words, context, lambda arg: look_up_symbols(arg, state))
    for what in context.assumptions:
        state.assume(what)
    return args
