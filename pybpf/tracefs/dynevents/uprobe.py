"""Uprobes: the words of ``p[:[GROUP/][EVENT]] PATH:OFFSET ARGS`` in, the event out.

Source: __trace_uprobe_create() of kernel/trace/trace_uprobe.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevent import Uprobe
from pybpf.tracefs.dynevents.argument import Argument, parse_arguments
from pybpf.tracefs.dynevents.context import Context, Where
from pybpf.tracefs.dynevents.ctext import NumberError, is_digit, restore, unsigned
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.function import append_or_add, limit
from pybpf.tracefs.dynevents.log import Log
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import NotMine, State, made_name, own_name


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    offset: int
    counter: int | None
    returns: bool


def make_uprobe(argv: Sequence[str], state: State) -> None:
    """Make a uprobe or uretprobe. Raises NotMine, or Refused with the reason logged."""
    if argv[0][0] not in "pr" or len(argv) < 2 or "/" not in argv[1]:
        raise NotMine
    path, colon, rest = argv[1].rpartition(":")
    if not colon or not is_digit(rest[:1]):
        raise NotMine
    log = state.log
    log.command("trace_uprobe", argv)
    log.index = 1
    _check_file(path, state)
    place = _place(path, rest, log, returns=argv[0][0] == "r")
    log.index = 0
    # Only a colon right after the letter is looked for: in r5:group/event it is overlooked.
    head = argv[0] if argv[0][1:2] == ":" else argv[0][0]
    name, group = own_name(head, log, "uprobes")
    event = name.event or _made_name(place)
    args = _arguments(argv[2:], place, state)
    value = Uprobe(
        restore(path),
        place.offset,
        tuple(arg.value for arg in args),
        name.group and restore(name.group),
        name.event and restore(name.event),
        place.returns,
        place.counter or None,
    )
    counter = f"(0x{place.counter:x})" if place.counter else ""
    made = Existing(
        kind="uprobe",
        group=restore(group),
        event=restore(event),
        head="r" if place.returns else "p",
        place=f"{restore(path)}:0x{place.offset:016x}{counter}",
        value=value,
        args=args,
    )
    append_or_add(made, state)


def _check_file(path: str, state: State) -> None:
    kind = None if state.world.files is None else state.world.files(restore(path))
    if kind is None:
        state.assume(f"no files are known: {restore(path)} is taken for a regular file")
    elif kind == "missing":
        raise state.log.refuse(Message.FILE_NOT_FOUND, errno.ENOENT)
    elif kind == "other":
        raise state.log.refuse(Message.NO_REGULAR_FILE, errno.EINVAL)


def _place(path: str, text: str, log: Log, *, returns: bool) -> _Place:
    start = len(path) + 1
    counter = None
    body, brace, inner = text.partition("(")
    if brace:
        number, close, rest = inner.partition(")")
        at = start + len(body) + 1
        if not close:
            raise log.refuse(Message.REFCNT_OPEN_BRACE, errno.EINVAL, at + len(number))
        if rest:
            raise log.refuse(Message.BAD_REFCNT_SUFFIX, errno.EINVAL, at + len(number) + 1)
        counter = _number(number, Message.BAD_REFCNT, at, log)
    body, percent, suffix = body.partition("%")
    if percent:
        if suffix != "return":
            raise log.refuse(Message.BAD_ADDR_SUFFIX, errno.EINVAL, start + len(body))
        returns = True
    offset = _number(body, Message.BAD_UPROBE_OFFS, start, log)
    return _Place(path, offset, counter, returns)


def _number(text: str, message: Message, at: int, log: Log) -> int:
    try:
        return unsigned(text)
    except NumberError as error:
        raise log.refuse(message, error.errno, at) from None


def _made_name(place: _Place) -> str:
    tail = re.split("[.\\-_]", place.path.rpartition("/")[2], maxsplit=1)[0]
    return made_name(f"p_{tail}_0x{place.offset:x}")


def _arguments(words: Sequence[str], place: _Place, state: State) -> tuple[Argument, ...]:
    words = words[: limit(len(words), state)]
    where = Where.USER | (Where.RETURN if place.returns else Where(0))
    context = Context(state.log, state.world, where)
    args = parse_arguments(words, context)
    for what in context.assumptions:
        state.assume(what)
    return args
