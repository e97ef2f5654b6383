"""A verdict on a trigger for people: why it is refused, or what it does not do, with a caret."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from pybpf.errors import Diagnostic, DynEventError, Severity, TargetError
from pybpf.source import Source, Span
from pybpf.suggest import suggest
from pybpf.tracefs.dynevents.ctext import as_bytes, restore, unsigned
from pybpf.tracefs.dynevents.log import LogEntry
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.explain import filter_hints, filter_place
from pybpf.tracefs.filters.fields import Fields, Kind
from pybpf.tracefs.filters.judge import event_fields
from pybpf.tracefs.filters.messages import SUBSYSTEM
from pybpf.tracefs.triggers.judge import TriggerVerdict, judge_trigger
from pybpf.tracefs.triggers.messages import HistMessage
from pybpf.tracefs.triggers.model import CLOCKS, Is, Trigger
from pybpf.tracefs.triggers.text import split_command

_FIXED: Mapping[HistMessage, str] = {
    HistMessage.DUPLICATE_VAR: "a variable is defined once on an event: take another name",
    HistMessage.VAR_NOT_UNIQUE: "write SYSTEM.EVENT.$NAME",
    HistMessage.TOO_MANY_VARS: "a histogram has at most 16 variables",
    HistMessage.MALFORMED_ASSIGNMENT: "a variable is NAME=EXPRESSION",
    HistMessage.NAMED_MISMATCH: "histograms of one name have the same keys, values and variables",
    HistMessage.TRIGGER_EEXIST: "size and clock do not make another histogram; remove that first",
    HistMessage.TRIGGER_ENOENT_CLEAR: "name the same keys, values, sort and filter as it has",
    HistMessage.SET_CLOCK_FAIL: f"clocks are {' '.join(sorted(CLOCKS))}",
    HistMessage.TOO_MANY_SUBEXPR: "keep a part in a variable, and use that",
    HistMessage.TIMESTAMP_MISMATCH: "write common_timestamp.usecs on both sides, or on neither",
    HistMessage.HIST_NOT_FOUND: "set a histogram on that event whose keys have the same types",
    HistMessage.SYNTH_TYPE_MISMATCH: "a parameter has the type of its field, and its sign and size",
    HistMessage.SYNTH_COUNT_MISMATCH: "give a parameter for each field of the synthetic event",
    HistMessage.ONX_NOT_VAR: "write onmax($NAME), of a variable of this histogram",
    HistMessage.ONX_VAR_NOT_FOUND: "define the variable in this histogram: NAME=EXPRESSION",
    HistMessage.INVALID_PARAM: "a parameter has at least two characters",
    HistMessage.ACTION_NOT_FOUND: "actions are .trace(…), .save(…) and .snapshot()",
    HistMessage.ACTION_MISMATCH: "save and snapshot go with onmax and onchange",
    HistMessage.SUBSYS_NOT_FOUND: "write onmatch(SYSTEM.EVENT)",
    HistMessage.INVALID_REF_KEY: "a key is a field of the event",
    HistMessage.VAR_NOT_FOUND: "no histogram defines that variable",
    HistMessage.PARAM_NOT_FOUND: "no histogram defines that variable",
    HistMessage.EMPTY_ASSIGNMENT: "something has to follow the =",
    HistMessage.INVALID_SORT_MODIFIER: "sort=NAME takes .ascending and .descending, no modifier",
    HistMessage.TOO_MANY_SORT_FIELDS: "at most two",
    HistMessage.INVALID_SORT_FIELD: "sort by the name of a key or value, or by hitcount",
    HistMessage.UNARY_MINUS_SUBEXPR: "-(…) cannot be part of another expression: write 0-…",
    HistMessage.NEED_NOHC_VAL: "name a value: vals=…",
}
_PARTS = (
    "parts are keys= vals= sort= size= clock= name= VARIABLE= pause cont clear nohitcount and"
    " onmatch(…). onmax(…). onchange(…). with an action; at most 3 keys, 2 values, size 131072"
)
_COMMANDS = (
    "triggers are hist traceon traceoff snapshot stacktrace enable_event disable_event enable_hist"
    " disable_hist, with [:COUNT] [if FILTER]; a ! before one removes it"
)
_MODIFIERS = (
    "keys take .hex .sym .sym-offset .syscall .log2 .buckets=N, common_pid .execname; values .hex"
    " .percent .graph; timestamps .usecs"
)


def explain_trigger(
    data: str | bytes, verdict: TriggerVerdict, event: str, world: World, name: str = "<trigger>"
) -> DynEventError:
    """Return the error that tells why a trigger of ``group/event`` is refused in ``world``."""
    return trigger_error(as_bytes(data), verdict.errors, verdict.errno, event, world, name)


def trigger_error(
    raw: str,
    entries: Sequence[LogEntry],
    number: int,
    event: str = "",
    world: World | None = None,
    name: str = "<trigger>",
) -> DynEventError:
    """Return the error for a text, one character a byte, that is refused with ``entries``."""
    source = Source(name, restore(raw))
    diagnostics: list[Diagnostic] = []
    for entry in entries:
        start, end = _place(raw, entry)
        before = len(restore(raw[:start]))
        span = Span(source, before, before + max(1, len(restore(raw[start:end]))))
        hints = () if diagnostics else _hints(entry, event, world)
        diagnostics.append(Diagnostic(entry.message, span, hints))
    if not diagnostics:
        reason = f"{os.strerror(number)} ({errno.errorcode[number]}); the kernel logs no reason"
        span = Span(source, 0, min(1, len(source.text)))
        diagnostics = [Diagnostic(reason, span, _silent(raw, number))]
    return DynEventError(diagnostics, number)


def _place(raw: str, entry: LogEntry) -> tuple[int, int]:
    command = as_bytes(entry.command)
    if entry.subsystem == SUBSYSTEM:
        start, end = filter_place(entry)
        offset = max(raw.rfind(command), 0)
        return offset + start, offset + end
    offset = raw.find(command.removeprefix("hist:")) - len("hist:")
    start = max(entry.column + offset, 0)
    word = re.match(r"[\w$]+", raw[start:])
    return start, start + (len(word[0]) if word else 1)


def _fields(event: str, world: World | None) -> Fields | None:
    if world is None or not event:
        return None
    try:
        return event_fields(event, world)
    except TargetError:
        return None


def _hints(entry: LogEntry, event: str, world: World | None) -> tuple[str, ...]:
    if entry.subsystem == SUBSYSTEM:
        return () if world is None else filter_hints(entry, _fields(event, world), world)
    message = HistMessage(entry.message)
    word = re.match(r"\$?(\w*)", as_bytes(entry.command)[entry.column :])
    name = restore(word[1]) if word else ""
    match message:
        case HistMessage.FIELD_NOT_FOUND:
            return _named(name, _fields(event, world))
        case HistMessage.BAD_FIELD_MODIFIER:
            return (_MODIFIERS,)
        case HistMessage.SYNTH_EVENT_NOT_FOUND if world is not None:
            known = [e.event for e in world.existing if e.kind == "synthetic"]
            made = f"make it first: s:{name} TYPE FIELD; …"
            return (f"did you mean {found[0]}?",) if (found := suggest(name, known)) else (made,)
        case HistMessage.INVALID_SUBSYS_EVENT if world is not None and world.formats:
            found = suggest(name, [known.partition("/")[2] for known in world.formats])
            return (f"did you mean {' or '.join(found)}?",) if found else ()
        case _:
            return (_FIXED[message],) if message in _FIXED else ()


def _named(name: str, fields: Fields | None) -> tuple[str, ...]:
    if fields is None:
        return ()
    if found := suggest(name, fields):
        return (f"did you mean {' or '.join(found)}?",)
    own = [n for n, field in fields.items() if field.size and not n.startswith("common_")]
    return (f"fields: {' '.join(own)}",) if own else ()


def _silent(raw: str, number: int) -> tuple[str, ...]:
    """Return what a refusal that leaves no entry may mean."""
    head, rest = split_command(raw)
    command = head.removeprefix("!")
    match number:
        case errno.EBUSY if head.startswith("!"):
            return ("another histogram refers to its variables: remove that first",)
        case errno.EBUSY:
            return ("one histogram at a time takes snapshots",)
        case errno.EEXIST:
            return (f"the event has a trigger of the kind of {command} already",)
        case errno.ENOMEM:
            return ("a key or value is a number of 1, 2, 4 or 8 bytes, or a string",)
        case _ if command == "hist":
            if rest is None or "key" not in rest:
                return ("a histogram has keys: hist:keys=FIELD",)
            return (_PARTS,)
        case _ if command.endswith(("_event", "_hist")):
            return (f"write {command}:SYSTEM:EVENT[:COUNT], of an event that is there",)
        case _:
            return (_COMMANDS,)


def trigger_warnings(
    data: str | bytes, verdict: TriggerVerdict, event: str, world: World, name: str = "<trigger>"
) -> tuple[Diagnostic, ...]:
    """Return what an accepted trigger of ``group/event`` does not do, though it looks like it."""
    text = restore(as_bytes(data))
    source = Source(name, text)
    found = []
    for part, message, hint in _warnings(text, verdict, event, world):
        place = text.find(part) if part else -1
        span = Span(source, max(place, 0), max(place, 0) + (len(part) if place >= 0 else 0))
        found.append(Diagnostic(message, span, (hint,), Severity.WARNING))
    return tuple(found)


_Warning = tuple[str, str, str]


def _warnings(text: str, verdict: TriggerVerdict, event: str, world: World) -> Iterator[_Warning]:
    if not verdict.accepted:
        return
    if text.lstrip().startswith("!") and not verdict.removed:
        message = "no trigger of the event is made this way: nothing is removed"
        yield "", message, "write ! and the text it was made with"
    if "\n" in text.strip():
        yield "\n", "a line end does not begin another trigger", "write each by itself"
    if any(_takes_snapshots(t) for t in verdict.made):
        yield from _panic(verdict.after)
    for trigger in verdict.made:
        if trigger.data is not None and trigger.event == event:
            yield from _hist(text, trigger, world, verdict.after)


def _takes_snapshots(trigger: Trigger) -> bool:
    data = trigger.data
    if data is None:
        return trigger.command == "snapshot"
    return any(action.kind == "snapshot" for action in data.actions)


def _panic(after: World) -> Iterator[_Warning]:
    """Yield what all kernels do where both kinds of snapshots are taken: follow a null pointer."""
    takers = [trigger for trigger in after.triggers if _takes_snapshots(trigger)]
    if len({trigger.data is None for trigger in takers}) == 2:
        message = "with a histogram that takes snapshots, a snapshot trigger that fires is a panic"
        yield "snapshot", message, "have one or the other, not both"


def _hist(text: str, trigger: Trigger, world: World, after: World) -> Iterator[_Warning]:
    data = trigger.data
    assert data is not None
    again = trigger.listed.removesuffix(" [active]").removesuffix(" [paused]")
    removal = judge_trigger("!" + again, trigger.event, after)
    if trigger not in removal.removed:
        message = "it is listed in another way, which does not remove it"
        yield "", message, "keep the text it is made with"
    size = re.search(r":size=(\w+)", text)
    if size is not None and unsigned(size[1]) != 1 << data.bits:
        yield size[1], f"the size becomes {1 << data.bits}", "sizes are powers of two"
    if "clock=" in text and not data.timestamps:
        yield "clock=", "a clock without a timestamp is overlooked", "use common_timestamp"
    for field in data.fields:
        if field.flags & Is.KEY and field.field and field.field.kind is Kind.POINTER_STRING:
            message = f"{field.field.name} is a pointer: the key is the address, not the string"
            yield field.field.name, message, "make an eprobe that fetches the string"
    if trigger.shares:
        yield "name=", "its counts are those of all histograms of that name", "take another name"
    waited = {f"{a.system}/{a.event}" for a in data.actions if a.handler == "onmatch"}
    for on in sorted(waited - {trigger.event}):
        if not any(t.event == on and t.data is not None for t in world.triggers):
            message = f"no histogram is on {on}: it is not waited for"
            yield on.replace("/", "."), message, "set one there first, with a variable"
