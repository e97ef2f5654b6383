"""What kprobes and fprobes share: arguments, the number of returns, one more probe of an event."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from pybpf.dataclass import dataclass, replace
from pybpf.tracefs.dynevent import Fprobe, Kprobe, Tprobe
from pybpf.tracefs.dynevents.argument import Argument, parse_arguments
from pybpf.tracefs.dynevents.context import Context, Where
from pybpf.tracefs.dynevents.ctext import (
    NumberError,
    restore,
    unsigned32,
)
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.expand import expand, written
from pybpf.tracefs.dynevents.layout import probe_format
from pybpf.tracefs.dynevents.log import Log, Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import (
    Name,
    State,
    exists,
)
from pybpf.tracefs.dynevents.rules import MAX_ARGS, MAX_NAME
from pybpf.tracefs.dynevents.world import Kind
from pybpf.tracefs.fetch import Builtin, FetchArg

_MAX_ACTIVE = 4096


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found of a command before its arguments are judged."""

    kind: Kind
    head: str
    place: str
    where: Where
    function: str | None
    returns: bool


@dataclass(frozen=True, slots=True)
class Parsed:
    """The arguments of a probe, and their values as they were written.

    ``unknown`` says that there are more arguments, which only BTF could tell.
    """

    args: tuple[Argument, ...]
    values: tuple[FetchArg, ...]
    unknown: bool


def parse_maxactive(text: str, log: Log) -> int:
    """Return the number of returns that are followed at once. Raises Refused."""
    try:
        number = unsigned32(text) if len(text) <= MAX_NAME else 0
    except NumberError:
        number = 0
    if not number:
        raise log.refuse(Message.BAD_MAXACT, errno.EINVAL, 1)
    if number > _MAX_ACTIVE:
        raise log.refuse(Message.MAXACT_TOO_BIG, errno.EINVAL, 1)
    return number


def given_name(name: Name) -> tuple[str | None, str | None]:
    """Return group and event as they were given."""
    return name.group and restore(name.group), name.event and restore(name.event)


def parse_probe(argv: Sequence[str], probe: Probe, state: State) -> Parsed:
    """Return the arguments of a command. Raises Refused, with the reason logged."""
    context = Context(state.log, state.world, probe.where, function=probe.function)
    words, unknown = expand(argv[2:], context)
    words = words[: limit(len(words), state)]
    if all(word.number is None for word in words) and not unknown:
        # Then %pd is expanded in the very words that are logged.
        state.log.rewrite([*argv[:2], *(word.text for word in words)])
    args = parse_arguments([word.text for word in words], context)
    for what in context.assumptions:
        state.assume(what)
    values = written(words, args)
    if unknown:
        place = next(at for at, word in enumerate(argv[2:]) if word.startswith("$arg*"))
        values = (*values[:place], FetchArg(Builtin("arg*")), *values[place:])
    return Parsed(args, values, unknown)


def limit(count: int, state: State) -> int:
    """Return how many of the arguments are taken. Raises Refused where too many are no option."""
    if count <= MAX_ARGS:
        return count
    match state.world.rules.excess_args:
        case "dropped":
            return MAX_ARGS
        case "logged":
            state.log.index = 2
            raise state.log.refuse(Message.TOO_MANY_ARGS, errno.E2BIG)
        case _:
            raise Refused(errno.E2BIG)


def register(
    probe: Probe,
    value: Kprobe | Fprobe | Tprobe,
    group: str,
    event: str,
    parsed: Parsed,
    state: State,
) -> None:
    """Make the event, or one more probe of it. Raises Refused, with the reason logged."""
    made = Existing(
        kind=probe.kind,
        group=restore(group),
        event=restore(event),
        head=probe.head,
        place=restore(probe.place),
        value=value,
        args=parsed.args,
    )
    append_or_add(made, state, known=not parsed.unknown)


def append_or_add(made: Existing, state: State, *, known: bool = True) -> None:
    """Make a probe, or one more for an event that has the same arguments. Raises Refused.

    ``known`` says that all of its arguments are.
    """
    old = [e for e in state.events if e.kind == made.kind and e.name == made.name]
    text = None
    if old:
        _check_sibling(made, old, state)
        text = old[0].format
    elif state.taken(made.name):
        raise exists(state)
    elif known and all(arg.known for arg in made.args):
        text = probe_format(made.event, state.next_number(), made.args, returns=made.returns)
    state.add(replace(made, format=text))


def _check_sibling(made: Existing, old: Sequence[Existing], state: State) -> None:
    log, first = state.log, old[0]
    if made.returns != first.returns or made.head[:1] != first.head[:1]:
        log.index = 0
        raise log.refuse(Message.DIFF_PROBE_TYPE, errno.EEXIST)
    different = _first_difference(made.args, first.args)
    if different is not None:
        log.index = different + 2
        raise log.refuse(Message.DIFF_ARG_TYPE, errno.EEXIST)
    texts = [arg.text for arg in made.args]
    if any(e.place == made.place and [arg.text for arg in e.args] == texts for e in old):
        log.index = 0
        raise log.refuse(Message.SAME_PROBE, errno.EEXIST)


def _first_difference(new: Sequence[Argument], old: Sequence[Argument]) -> int | None:
    if len(new) != len(old):
        return min(len(new), len(old))
    for place, (one, other) in enumerate(zip(new, old, strict=True)):
        if (one.storage, one.count, one.name) != (other.storage, other.count, other.name):
            return place
    return None
