"""What is to be traced, as a list: lines of text in, definitions, triggers and events out.

A line is

    e:GROUP/EVENT …             the definition of a dynamic event, of any kind
    SYSTEM/EVENT TRIGGER        a trigger on an event: hist:…, stacktrace, …
    SYSTEM/EVENT [if FILTER]    an event to be recorded, dynamic or not

``.`` does for ``/``. `rename` gives events other names, wherever they are mentioned, so that
several may trace by the same list at one time.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping

from pybpf.dataclass import dataclass, replace
from pybpf.errors import Diagnostic, DynEventError
from pybpf.source import Source, Span
from pybpf.tracefs.dynevent import (
    DynEvent,
    Eprobe,
    Fprobe,
    Kprobe,
    Removal,
    Synthetic,
    Tprobe,
    Uprobe,
)
from pybpf.tracefs.triggers.value import (
    Act,
    Binary,
    Enable,
    Expression,
    Hist,
    Negated,
    Trace,
    TriggerValue,
    VariableRef,
)

NAME_MAX = 63
"""The most bytes of the name of an event or a group."""


@dataclass(frozen=True, slots=True)
class Define:
    """A dynamic event to be made."""

    text: str


@dataclass(frozen=True, slots=True)
class SetTrigger:
    """A trigger to be set on ``event``, a ``group/event``."""

    event: str
    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """An event to be recorded, all of its hits or those that a filter lets through."""

    event: str
    filter: str | None = None


Step = Define | SetTrigger | Record

_EVENT = re.compile(r"\s*([A-Za-z0-9_-]+)[/.](\w+)(?:\s+(\S.*?))?\s*", re.ASCII)
_TRIGGER = re.compile(
    r"(?:hist|traceon|traceoff|snapshot|stacktrace|(?:en|dis)able_(?:event|hist))\b"
)


# step: definition | SYSTEM ('/' | '.') EVENT [TRIGGER | 'if' FILTER]
def parse_step(text: str, name: str = "<event>") -> Step:
    """Return what a line asks for; definitions are judged later. Raises DynEventError."""
    match = _EVENT.fullmatch(text)
    if match is None:
        if text.lstrip().startswith(("-", "!")):
            raise _refused(text, 0, "this removes events", "pybpf events rm removes them", name)
        return Define(text.strip())
    event, rest = f"{match[1]}/{match[2]}", match[3] or ""
    if not rest:
        return Record(event)
    if condition := re.fullmatch(r"if\s+(.*)", rest):
        return Record(event, condition[1])
    if _TRIGGER.match(rest):
        return SetTrigger(event, rest)
    place = match.start(3)
    hint = f"write {event} if FILTER, or {event} hist:keys=FIELD"
    raise _refused(text, place, "neither a filter nor a trigger", hint, name)


def _refused(text: str, place: int, message: str, hint: str, name: str) -> DynEventError:
    span = Span(Source(name, text), place, place + 1)
    return DynEventError(Diagnostic(message, span, (hint,)), errno.EINVAL)


def recorded(
    made: Iterable[str], parents: Iterable[str | None], steps: Iterable[Step]
) -> dict[str, str | None]:
    """Return which events are to be recorded, with their filters.

    They are those that steps name, and those ``made`` that nothing else is made of: no eprobe is on
    them (``parents``), no trigger.
    """
    steps = tuple(steps)
    found = {step.event: step.filter for step in steps if isinstance(step, Record)}
    used = {*parents, *(step.event for step in steps if isinstance(step, SetTrigger))}
    return {name: None for name in made if name not in used} | found


def owned_name(group: str, event: str, *, synthetic: bool, owner: str) -> str:
    """Return a ``group/event`` that carries its owner, in the group where that is free to choose.

    A name that becomes too long is cut, from its middle.
    """
    if synthetic:
        return f"synthetic/{_cut(f'{owner}_{event}', len(owner) + 1)}"
    return f"{_cut(f'{owner}_{group}', len(owner) + 1)}/{event}"


def _cut(name: str, kept: int) -> str:
    if len(name) <= NAME_MAX:
        return name
    from zlib import crc32

    # What is cut differs, and so must what is left.
    return f"{name[: max(kept, NAME_MAX - 9)]}_{crc32(name.encode()):08x}"


def shell_command(text: str, file: str, root: str = "/sys/kernel/tracing") -> str:
    """Return the command for a shell that writes ``text`` to a file of tracefs."""
    from shlex import quote

    # Truncating some of these files would remove what others set: always append. The echo of some
    # shells replaces what follows a backslash.
    write = r"printf '%s\n'" if "\\" in text else "echo"
    return f"{write} {quote(text)} >> {quote(f'{root}/{file}')}"


def rename(value: DynEvent, name: str, names: Mapping[str, str]) -> DynEvent:
    """Return an event called ``name``, attached to what ``names`` call the one it is on."""
    group, _, event = name.partition("/")
    match value:
        case Eprobe(target=target):
            on = target.replace(".", "/", 1)
            target = names.get(on, on).replace("/", ".", 1)
            return replace(value, group=group, event=event, target=target)
        case Synthetic():
            return replace(value, name=event)
        case Kprobe() | Uprobe() | Fprobe() | Tprobe():
            return replace(value, group=group, event=event)
        case Removal():
            return value


def rename_trigger(value: TriggerValue, names: Mapping[str, str]) -> TriggerValue:
    """Return a trigger that speaks of events as ``names`` call them."""
    match value:
        case Hist():
            return replace(
                value,
                keys=tuple(_expression(key, names) for key in value.keys),
                values=tuple(_expression(v, names) for v in value.values),
                variables=tuple(
                    replace(v, expression=_expression(v.expression, names)) for v in value.variables
                ),
                actions=tuple(_act(act, names) for act in value.actions),
            )
        case Enable(system=system, event=event):
            group, _, name = names.get(f"{system}/{event}", f"{system}/{event}").partition("/")
            return replace(value, system=group, event=name)
        case _:
            return value


def _act(act: Act, names: Mapping[str, str]) -> Act:
    on, action = act.on, act.action
    if act.handler == "onmatch":
        on = names.get(on.replace(".", "/", 1), on).replace("/", ".", 1)
    if isinstance(action, Trace):
        name = f"synthetic/{action.synthetic}"
        made = names.get(name, name).partition("/")[2]
        parameters = tuple(_parameter(text, names) for text in action.parameters)
        action = replace(action, synthetic=made, parameters=parameters)
    return replace(act, on=on, action=action)


def _parameter(text: str, names: Mapping[str, str]) -> str:
    """Return a parameter with another event, where it is SYSTEM.EVENT.FIELD."""
    parts = text.split(".", 2)
    if len(parts) < 3:
        return text
    event = names.get(f"{parts[0]}/{parts[1]}")
    return text if event is None else f"{event.replace('/', '.', 1)}.{parts[2]}"


def _expression(expression: Expression, names: Mapping[str, str]) -> Expression:
    match expression:
        case VariableRef(system=str() as system, event=event):
            group, _, name = names.get(f"{system}/{event}", f"{system}/{event}").partition("/")
            return replace(expression, system=group, event=name)
        case Binary(left=left, right=right):
            return replace(
                expression, left=_expression(left, names), right=_expression(right, names)
            )
        case Negated(inner=inner):
            return replace(expression, inner=_expression(inner, names))
        case _:
            return expression
