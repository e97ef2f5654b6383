"""The value of a trigger: its text in, judged by the rules of a kernel alone.

What depends on more than rules is taken to be there: events, fields, variables.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from typing import Literal, cast

from pybpf.dataclass import replace
from pybpf.errors import Diagnostic, DynEventError
from pybpf.source import Source, Span
from pybpf.tracefs.dynevents.ctext import (
    NumberError,
    as_bytes,
    is_digit,
    is_name,
    restore,
    unsigned,
)
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.dynevents.rules import NEWEST, Rules, rules_for
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.parse import parse_filter
from pybpf.tracefs.filters.rules import PAGE
from pybpf.tracefs.filters.value import Filter
from pybpf.tracefs.triggers.actions import parse_action
from pybpf.tracefs.triggers.attributes import read_attributes, read_variables
from pybpf.tracefs.triggers.explain import trigger_error
from pybpf.tracefs.triggers.expression import Parser, root
from pybpf.tracefs.triggers.messages import HistMessage
from pybpf.tracefs.triggers.model import KEYS_MAX, SORT_MAX, Attributes, HistData, Is
from pybpf.tracefs.triggers.state import State
from pybpf.tracefs.triggers.text import filter_of, leading_number, split_command, split_hist
from pybpf.tracefs.triggers.value import (
    Act,
    Binary,
    Enable,
    Expression,
    Hist,
    HistField,
    Negated,
    Number,
    Removal,
    Save,
    Simple,
    Snapshot,
    SortKey,
    Trace,
    TriggerValue,
    Variable,
    VariableRef,
)

_ANYWHERE = "?/?"
_SPACE = re.compile(r"[ \t]+")
_MAX_PARTS = 3


def parse_trigger(text: str | bytes, kernel: str | Rules = NEWEST) -> TriggerValue:
    """Return the trigger that a text sets or removes.

    ``parse_trigger(str(value)) == value``. Raises DynEventError, with the kernel's message where
    it has one, for what that kernel refuses; TargetError for a ``kernel`` that is none.
    """
    rules = kernel if isinstance(kernel, Rules) else rules_for(kernel)
    raw = as_bytes(text)
    state = State(World(rules))
    try:
        return _Reader(state, rules).read(raw)
    except Refused as refusal:
        raise trigger_error(raw, state.entries, refusal.errno) from None


def checked(value: TriggerValue, kernel: str | Rules = NEWEST) -> TriggerValue:
    """Return a trigger made in Python, if that kernel reads its text as the same trigger.

    Raises DynEventError otherwise.
    """
    if parse_trigger(str(value), kernel) == value:
        return value
    source = Source("<trigger>", str(value))
    reason = "the kernel would read this trigger as another one"
    raise DynEventError(Diagnostic(reason, Span(source, 0, len(source.text))), errno.EINVAL)


class _Reader:
    def __init__(self, state: State, rules: Rules) -> None:
        self.state, self.rules = state, rules

    def read(self, raw: str) -> TriggerValue:
        if len(raw) >= PAGE:
            raise Refused
        head, rest = split_command(raw)
        found: Hist | Simple | Enable
        removes = head.startswith("!")
        match head.removeprefix("!"):
            case "hist":
                found = self._hist(rest)
            case "traceon" | "traceoff" | "snapshot" | "stacktrace" as command:
                found = self._simple(command, rest, removes=removes)
            case "enable_event" | "disable_event" | "enable_hist" | "disable_hist" as command:
                found = self._enable(command, rest, removes=removes)
            case _:
                raise Refused
        return Removal(found) if removes else found

    def _filter(self, text: str | None) -> Filter | None:
        return None if text is None else parse_filter(restore(text), self.rules)

    def _simple(
        self,
        command: Literal["traceon", "traceoff", "snapshot", "stacktrace"],
        rest: str | None,
        *,
        removes: bool,
    ) -> Simple:
        words = [] if rest is None else _SPACE.split(rest, maxsplit=1)
        count = words.pop(0) if words and is_digit(words[0][:1]) else None
        if removes:
            return Simple(command)
        condition = self._condition(" ".join(words) or None)
        return Simple(command, None if count is None else leading_number(count), condition)

    def _enable(
        self,
        command: Literal["enable_event", "disable_event", "enable_hist", "disable_hist"],
        rest: str | None,
        *,
        removes: bool,
    ) -> Enable:
        words = _SPACE.split(rest or "", maxsplit=1)
        system, _, target = words[0].partition(":")
        event, colon, count = target.partition(":")
        if not is_name(system.replace("-", "_")) or not is_name(event):
            raise Refused
        found = Enable(command, restore(system), restore(event))
        if removes:
            return found
        condition = self._condition(words[1] if len(words) > 1 else None)
        return replace(found, count=leading_number(count) if colon else None, filter=condition)

    def _condition(self, text: str | None) -> Filter | None:
        if text is None:
            return None
        condition = filter_of(text)
        if condition is None:
            raise Refused
        return self._filter(condition)

    def _hist(self, text: str | None) -> Hist:
        self.state.begin(_ANYWHERE, text)
        split = None if text is None else split_hist(text)
        if split is None:
            raise Refused
        parameters, condition = split
        attributes = read_attributes(parameters.replace(".sym-offset", ".symXoffset"), self.state)
        data = HistData(_ANYWHERE, attributes, remove=False)
        actions = tuple(self._action(text) for text in attributes.actions)
        read_variables(attributes, self.state)
        expressions = _Expressions(self.state, data)
        values = [] if attributes.values is None else attributes.values.split(",")
        keys = (attributes.keys or "").split(",")
        if len(keys) > KEYS_MAX:
            raise Refused
        return Hist(
            keys=tuple(expressions.read(key, Is.KEY) for key in keys),
            values=tuple(expressions.read(value, Is(0)) for value in values),
            variables=tuple(
                Variable(restore(name), expressions.read(expression, Is.VAR))
                for name, expression in attributes.variables
            ),
            sort=tuple(self._sort(attributes.sort)),
            size=1 << attributes.bits if attributes.bits else None,
            clock=None if attributes.clock == "global" else restore(attributes.clock or ""),
            name=attributes.name and restore(attributes.name.removeprefix("name=")),
            nohitcount=attributes.no_hitcount,
            actions=actions,
            mode=_mode(attributes),
            filter=self._filter(condition),
        )

    def _action(self, text: str) -> Act:
        found = parse_action(text, self.state)
        on = restore(found.variable or f"{found.system}.{found.event}")
        parameters = tuple(map(restore, found.parameters))
        match found.kind:
            case "save":
                return Act(found.handler, on, Save(parameters))
            case "snapshot":
                return Act(found.handler, on, Snapshot())
            case _:
                made = Trace(found.synthetic or "", parameters, found.keyword)
                return Act(found.handler, on, made)

    def _sort(self, text: str | None) -> Iterator[SortKey]:
        parts = [] if text is None else text.split(",")
        if len(parts) > SORT_MAX:
            raise self.state.refuse(HistMessage.TOO_MANY_SORT_FIELDS, "sort=")
        for part in parts:
            name, dot, order = part.partition(".")
            if not name:
                raise self.state.refuse(HistMessage.EMPTY_SORT_FIELD, "sort=")
            if dot and order not in {"ascending", "descending"}:
                raise self.state.refuse(HistMessage.INVALID_SORT_MODIFIER, order)
            yield SortKey(restore(name), descending=order == "descending")


def _mode(attributes: Attributes) -> Literal["", "pause", "cont", "clear"]:
    if attributes.pause:
        return "pause"
    if attributes.cont:
        return "cont"
    return "clear" if attributes.clear else ""


class _Expressions:
    """Reads expressions, without knowing what their names mean."""

    def __init__(self, state: State, data: HistData) -> None:
        self.state = state
        self.parser = Parser(state, data)

    def read(self, text: str, flags: Is) -> Expression:
        return self._read(text, flags, [0])

    def _read(self, text: str, flags: Is, parts: list[int]) -> Expression:
        if parts[0] > _MAX_PARTS:
            raise self.state.refuse(HistMessage.TOO_MANY_SUBEXPR, text)
        place = root(text)
        if place is None:
            return self._atom(text, flags)
        parts[0] += 1
        if place == 0 and text[0] == "-":
            if not (text.startswith("-(") and text.endswith(")")):
                raise Refused
            return Negated(self._read(text[2:-1], Is(0), parts))
        left, right = text[:place], text[place + 1 :]
        if not left or not right:
            raise Refused
        operator = cast("Literal['+', '-', '*', '/']", text[place])
        first = self._read(left, Is(0), parts)
        return Binary(operator, first, self._read(right, Is(0), parts))

    def _atom(self, text: str, flags: Is) -> Expression:
        if is_digit(text[:1]):
            try:
                return Number(unsigned(text))
            except NumberError:
                raise self.state.refuse(HistMessage.EXPECT_NUMBER, text) from None
        words: Sequence[str] = text.split(".", 2)
        if words[-1][:1] == "$" and len(words) in {1, 3}:
            system, event = (restore(w) for w in words[:2]) if len(words) > 1 else (None, None)
            name = words[-1][1:]
            if flags & Is.KEY or not name:
                message = HistMessage.INVALID_REF_KEY if name else HistMessage.FIELD_NOT_FOUND
                raise self.state.refuse(message, text)
            return VariableRef(restore(name), system, event)
        name, dot, modifier = text.partition(".")
        if not is_name(name):
            raise self.state.refuse(HistMessage.FIELD_NOT_FOUND, name)
        _, _, width = self.parser.field(text, flags)
        if not dot:
            return HistField(restore(name))
        shown = "buckets" if width else restore(modifier.replace("symX", "sym-"))
        return HistField(restore(name), shown, width or None)
