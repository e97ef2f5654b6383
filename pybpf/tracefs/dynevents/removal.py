"""Removing dynamic events: the words of ``-:[GROUP/]EVENT …`` in, events gone.

Sources: dyn_event_release() of kernel/trace/trace_dynevent.c, and the match functions of each kind.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from pybpf.tracefs.dynevents.ctext import restore
from pybpf.tracefs.dynevents.existing import Existing, busy
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.probe import State
from pybpf.tracefs.dynevents.world import Kind


def remove_named(argv: Sequence[str], state: State, kind: Kind | None = None) -> None:
    """Remove every event that a command names, of one kind if it is given.

    Raises Refused, nothing logged: EBUSY at the first that is in use, with those before it gone.
    """
    group, event = _parse(argv[0])
    found = False
    for existing in tuple(state.events):
        if kind is not None and existing.kind != kind:
            continue
        if not _matches(existing, group, event, argv[1:]):
            continue
        found = True
        if busy(existing, state.events):
            raise Refused(errno.EBUSY)
        state.remove(existing)
    if not found:
        raise Refused(errno.ENOENT)


def _parse(word: str) -> tuple[str | None, str]:
    if word.startswith("-"):
        rest = word[2:] if word.startswith("-:") else None
    else:
        _, colon, after = word.partition(":")
        rest = after if colon else None
    if rest is None:
        raise Refused(errno.EINVAL)
    group, slash, event = rest.partition("/")
    if not slash:
        if not rest:
            raise Refused(errno.EINVAL)
        return None, restore(rest)
    return restore(group), restore(event)


def _matches(existing: Existing, group: str | None, event: str, words: Sequence[str]) -> bool:
    if group is not None and existing.group != group:
        return False
    if existing.kind == "synthetic":
        return existing.event == event
    if event and existing.event != event:
        return False
    if not words:
        return True
    if not _at(existing, restore(words[0])):
        return False
    args = existing.args[: len(words) - 1]
    return [arg.listed for arg in args] == [restore(word) for word in words[1:]]


def _at(existing: Existing, place: str) -> bool:
    """Say whether the first word after the name is what the event is attached to."""
    if existing.kind == "eprobe":
        group, _, event = existing.place.partition(".")
        separator = "/" if "/" in place else "."
        head, found, tail = place.partition(separator)
        # The kernel compares only as much of the group as is given.
        return bool(found) and group.startswith(head) and event == tail
    return existing.place.removesuffix("%return") == place


def remove_all(state: State, kind: Kind | None = None) -> None:
    """Remove all events, or all of one kind, as opening the file to overwrite it does.

    Raises Refused (EBUSY) where one is in use; those that were made before it are gone then.
    """
    wanted = [event for event in state.events if kind in {None, event.kind}]
    if any(event.triggers if event.kind == "synthetic" else event.enabled for event in wanted):
        raise Refused(errno.EBUSY)
    for event in wanted:
        if busy(event, state.events):
            raise Refused(errno.EBUSY)
        state.remove(event)
