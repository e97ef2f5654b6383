"""What the makers of all kinds of probes share: names, and the state that a write changes."""

from __future__ import annotations

import errno
import re

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevents.ctext import is_digit, is_group, is_name, restore
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.log import Log, Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.rules import MAX_NAME
from pybpf.tracefs.dynevents.world import World


class NotMine(Exception):
    """The command is of another kind; the next maker is asked."""


class State:
    """The dynamic events while a write is judged, and what was taken for granted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = Log(world.rules)
        self.events: list[Existing] = list(world.existing)
        self.made: list[Existing] = []
        self.removed: list[Existing] = []
        self.assumptions: list[str] = []
        self.line = 0
        """Where in the data that were written the current line begins."""

    def assume(self, what: str) -> None:
        """Note what is taken for granted."""
        if what not in self.assumptions:
            self.assumptions.append(what)

    def add(self, event: Existing) -> None:
        """Make an event."""
        self.events.append(event)
        self.made.append(event)

    def remove(self, event: Existing) -> None:
        """Remove an event, which forgets it altogether if this write made it."""
        self.events = [other for other in self.events if other is not event]
        if any(other is event for other in self.made):
            self.made = [other for other in self.made if other is not event]
        else:
            self.removed.append(event)

    def taken(self, name: str) -> bool:
        """Say whether an event ``group/event`` exists, the kernel's own included."""
        if any(event.name == name for event in self.events):
            return True
        return self.world.formats is not None and name in self.world.formats

    def next_number(self) -> int:
        """Return the ID that the next event gets, as far as one can tell."""
        formats = self.world.formats
        if formats is None:
            return 0
        last = self.world.last_id
        if last is None:
            last = max((format_.id for format_ in formats.values()), default=0)
        return last + 1 + len(self.events)


@dataclass(frozen=True, slots=True)
class Name:
    """``[GROUP/][EVENT]``; None for what was left out."""

    group: str | None
    event: str | None


def parse_name(text: str, log: Log, offset: int) -> Name:
    """Return the name in ``text``, which stands ``offset`` bytes into the current word.

    Raises Refused.
    """
    separator = "/" if "/" in text else "."
    group: str | None = None
    event = text
    if separator in text:
        group, _, event = text.partition(separator)
        if not group:
            raise log.refuse(Message.NO_GROUP_NAME, errno.EINVAL, offset)
        if len(group) > MAX_NAME:
            raise log.refuse(Message.GROUP_TOO_LONG, errno.EINVAL, offset)
        if not is_group(group):
            raise log.refuse(Message.BAD_GROUP_NAME, errno.EINVAL, offset)
        offset += len(group) + 1
        if not event:
            return Name(group, None)
    if not event:
        raise log.refuse(Message.NO_EVENT_NAME, errno.EINVAL, offset)
    if len(event) > MAX_NAME:
        raise log.refuse(Message.EVENT_TOO_LONG, errno.EINVAL, offset)
    if not is_name(event):
        raise log.refuse(Message.BAD_EVENT_NAME, errno.EINVAL, offset)
    return Name(group, event)


def own_name(head: str, log: Log, group: str) -> tuple[Name, str]:
    """Return the name that the command's first word gives, and the group, ``group`` by default."""
    _, colon, text = head[1:].partition(":")
    if not colon:
        return Name(None, None), group
    name = parse_name(text, log, len(head) - len(text))
    return name, name.group or group


def made_name(text: str) -> str:
    """Return a text as the name of an event that was given none."""
    text = text[:MAX_NAME]
    return text[:1] + re.sub("[:.*]", "_", text[1:])


def maxactive_text(head: str) -> str | None:
    """Return the number that follows the letter of a command's first word, or None."""
    digits = head[1:].partition(":")[0]
    return digits if is_digit(head[1:2]) and digits else None


def exists(state: State) -> Refused:
    """Log that the event's name is taken, and return what to raise."""
    state.log.index = 0
    return state.log.refuse(Message.EVENT_EXIST, errno.EEXIST)


def name_of(group: str, event: str) -> str:
    """Return ``group/event`` of two names as the kernel sees them."""
    return f"{restore(group)}/{restore(event)}"


_FILES = frozenset({"enable", "filter"})
_TOP_FILES = frozenset({"enable", "header_page", "header_event"})


def has_folder(state: State, group: str, event: str) -> bool:
    """Say whether tracefs makes the event a folder; old kernels fail where a file has the name."""
    if state.world.rules.mount_names:
        return True
    return event not in _FILES and group not in _TOP_FILES
