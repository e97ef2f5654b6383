"""Synthetic events: the text of ``s:[synthetic/]NAME FIELDS`` in, the event out.

fields: field {';' field}   field: ['unsigned'] TYPE NAME ['[' [N] ']']

The kernel finds the place of a fault by looking for the faulty word in the whole command, so that
the caret may point to an earlier place that reads the same. Source:
kernel/trace/trace_events_synth.c.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping, Sequence

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevent import Synthetic, SyntheticField
from pybpf.tracefs.dynevents.ctext import (
    NumberError,
    is_name,
    restore,
    skip_spaces,
    unsigned32,
    words,
)
from pybpf.tracefs.dynevents.existing import Existing, busy
from pybpf.tracefs.dynevents.layout import FIXED, Place, format_text
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import NotMine, State

_SYSTEM = "synthetic_events"
_MAX_FIELDS = 64
_MAX_STRING = 256
_DIGITS = 3
_LOCATED = "__data_loc "

TYPES: Mapping[str, tuple[int, str]] = {
    "s64": (8, "%lld"),
    "u64": (8, "%llu"),
    "s32": (4, "%d"),
    "u32": (4, "%u"),
    "s16": (2, "%d"),
    "u16": (2, "%u"),
    "s8": (1, "%d"),
    "u8": (1, "%u"),
    "char": (1, "%d"),
    "unsigned char": (1, "%u"),
    "int": (4, "%d"),
    "unsigned int": (4, "%u"),
    "long": (8, "%ld"),
    "unsigned long": (8, "%lu"),
    "bool": (1, "%d"),
    "pid_t": (4, "%d"),
    "gfp_t": (4, "%x"),
}
"""Size in bytes and format of each type; from synth_field_size() and synth_field_fmt()."""


@dataclass(frozen=True, slots=True)
class _Field:
    type: str
    name: str
    size: int

    @property
    def located(self) -> bool:
        return self.type.startswith(_LOCATED)

    @property
    def text(self) -> bool:
        return "char[" in self.type

    @property
    def signed(self) -> bool:
        return not self.type.startswith("u") and self.type != "gfp_t"

    @property
    def listed_type(self) -> str:
        return self.type.removeprefix(_LOCATED)

    @property
    def fmt(self) -> str:
        return "%s" if "[" in self.type else TYPES[self.type][1]


class _Command:
    """One command as its faults are logged."""

    def __init__(self, text: str, state: State) -> None:
        self.text, self.state = text, state

    def refuse(
        self, message: Message, word: str | None = None, number: int = errno.EINVAL
    ) -> Refused:
        column = 0 if word is None else max(0, self.text.find(word))
        self.state.log.plain(_SYSTEM, message, self.text, column)
        return Refused(number)


def make_synthetic(text: str, state: State) -> None:
    """Make a synthetic event from a line of ``dynamic_events``. Raises NotMine or Refused."""
    text = skip_spaces(text)
    if not text.startswith("s:"):
        raise NotMine
    command = _Command(text, state)
    match = re.search("[ \t]", text)
    if match is None:
        raise command.refuse(Message.INVALID_CMD)
    start = 2
    if "/" in text[2:]:
        if not text.startswith("synthetic/", 2):
            raise command.refuse(Message.INVALID_DYN_CMD)
        start += len("synthetic/")
    if not _is_complete(text[start:]):
        raise command.refuse(Message.INVALID_CMD)
    _make(text[start : match.start()], text[match.start() :], command)


def run_synthetic(text: str, state: State) -> None:
    """Run a line of ``synthetic_events``: ``NAME FIELDS`` or ``!NAME``. Raises Refused."""
    text = skip_spaces(text)
    if not text:
        return
    command = _Command(text, state)
    match = re.search("[ \t]", text)
    name = text if match is None else text[: match.start()]
    if text.startswith("!"):
        _delete(restore(name[1:]), state)
        return
    if not _is_complete(text) or match is None:
        raise command.refuse(Message.INVALID_CMD)
    _make(name, text[match.start() :], command)


def _delete(name: str, state: State) -> None:
    for event in state.events:
        if event.kind == "synthetic" and event.event == name:
            if busy(event, state.events):
                raise Refused(errno.EBUSY)
            state.remove(event)
            return
    raise Refused(errno.ENOENT)


def _is_complete(text: str) -> bool:
    """Say whether a name, a type and a field name stand before the first semicolon."""
    first = text.partition(";")[0]
    return first.startswith("!") or len(words(first)) >= 3


def _make(name: str, rest: str, command: _Command) -> None:
    state = command.state
    if not name:
        raise command.refuse(Message.INVALID_CMD)
    if not is_name(name):
        raise command.refuse(Message.BAD_NAME, name)
    if any(e.kind == "synthetic" and e.event == restore(name) for e in state.events):
        raise command.refuse(Message.EVENT_EXISTS, name, errno.EEXIST)
    fields = tuple(_fields(rest, command))
    if not fields:
        raise command.refuse(Message.INVALID_CMD)
    value = Synthetic(
        restore(name),
        tuple(SyntheticField(restore(f.listed_type), restore(f.name)) for f in fields),
    )
    place = "; ".join(f"{restore(f.listed_type)} {restore(f.name)}" for f in fields)
    shadow = next((e for e in state.events if e.name == f"synthetic/{restore(name)}"), None)
    text = _format(restore(name), fields, state) if shadow is None else shadow.format
    state.add(
        Existing(
            kind="synthetic",
            group="synthetic",
            event=restore(name),
            head="s",
            place=place,
            value=value,
            format=text,
        )
    )


def _fields(rest: str, command: _Command) -> Iterator[_Field]:
    count = 0
    for part in rest.split(";"):
        argv = words(part)
        while argv:
            field, used = _field(argv, command)
            if count == _MAX_FIELDS:
                raise command.refuse(Message.TOO_MANY_FIELDS)
            count += 1
            argv = argv[used:]
            yield field


def _field(argv: Sequence[str], command: _Command) -> tuple[_Field, int]:
    prefix, ctype = "", argv[0]
    if ctype == "unsigned":
        if len(argv) < 3:
            raise command.refuse(Message.INCOMPLETE_TYPE, ctype)
        prefix, ctype, declared = "unsigned ", argv[1], argv[2]
    elif len(argv) < 2:
        raise command.refuse(Message.INVALID_FIELD, ctype)
    else:
        declared = argv[1]
    name, bracket, count = declared.partition("[")
    if not is_name(name):
        raise command.refuse(Message.BAD_NAME, declared)
    full = f"{prefix}{ctype}{bracket}{count}"
    size = _size(full)
    if size is None:
        if bracket:
            raise command.refuse(Message.INVALID_ARRAY_SPEC, declared)
        raise command.refuse(Message.INVALID_TYPE, ctype)
    if size == 0:
        if "char[" not in full and "long[" not in full:
            raise command.refuse(Message.INVALID_TYPE, ctype)
        full, size = _LOCATED + full, 8
    return _Field(full, name, size), 3 if prefix else 2


def _size(ctype: str) -> int | None:
    """Return the size of a type, 0 for what has none of its own, None for a bad array."""
    if ctype in TYPES:
        return TYPES[ctype][0]
    start = ctype.find("char[")
    if start < 0:
        return 0
    start += len("char[")
    end = ctype.find("]")
    if end < start or len(ctype) > end + 1 or end - start > _DIGITS:
        return None
    if end == start:
        return 0
    try:
        size = unsigned32(ctype[start:end])
    except NumberError:
        return None
    return size if size <= _MAX_STRING else None


def _format(name: str, fields: Sequence[_Field], state: State) -> str:
    places, offset = [], FIXED
    for field in fields:
        places.append(Place(restore(field.name), field.type, offset, field.size, field.signed))
        offset += _MAX_STRING if field.text and not field.located else 8
    shape = state.world.rules.synthetic_separator.join(f"{restore(f.name)}={f.fmt}" for f in fields)
    values = [_value(field) for field in fields]
    return format_text(name, state.next_number(), places, ", ".join([f'"{shape}"', *values]))


def _value(field: _Field) -> str:
    if not field.located:
        return f"REC->{restore(field.name)}"
    return f"__get_{'str' if field.text else 'stacktrace'}({restore(field.name)})"
