"""Hist triggers: the text after ``hist:`` in, a histogram made, changed or removed out.

Source: event_hist_trigger_parse(), create_hist_data(), hist_register_trigger() of
kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

import errno

from pybpf.dataclass import replace
from pybpf.tracefs.dynevents.ctext import restore
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.triggers.actions import Maker, parse_action
from pybpf.tracefs.triggers.attributes import read_attributes, read_variables
from pybpf.tracefs.triggers.expression import Parser, remains
from pybpf.tracefs.triggers.listing import field_name, list_hist
from pybpf.tracefs.triggers.matching import find_named, matches, same
from pybpf.tracefs.triggers.messages import HistMessage
from pybpf.tracefs.triggers.model import (
    CLOCKS,
    KEY_SIZE_MAX,
    KEYS_MAX,
    NOTHING,
    SORT_MAX,
    STACK_SIZE,
    VALUES_MAX,
    HistData,
    HistField,
    Is,
    Trigger,
)
from pybpf.tracefs.triggers.state import State
from pybpf.tracefs.triggers.text import split_hist

_NOT_IN_VARIABLES = Is.GRAPH | Is.PERCENT | Is.BUCKET | Is.LOG2
_NOT_IN_VALUES = Is.BUCKET | Is.LOG2 | Is.SYM | Is.SYM_OFFSET | Is.SYSCALL | Is.STACKTRACE


def run_hist(state: State, event: str, text: str | None, *, remove: bool) -> None:
    """Run ``hist:TEXT``, or ``!hist:TEXT`` to remove one. Raises Refused."""
    state.begin(event, text)
    if text is None:
        raise Refused
    _Command(state, event, text, remove=remove).run()


def _make_helper(state: State, event: str, text: str) -> None:
    _Command(state, event, text, remove=False).run()


class _Command:
    """One hist command on one event."""

    def __init__(self, state: State, event: str, text: str, *, remove: bool) -> None:
        self.state, self.event, self.remove = state, event, remove
        split = split_hist(text)
        if split is None:
            raise Refused
        parameters, self.condition = split
        attributes = read_attributes(parameters.replace(".sym-offset", ".symXoffset"), state)
        self.data = HistData(event, attributes, remove=remove)
        Builder(state, self.data).build()
        if self.condition is not None:
            state.check_filter(event, self.condition)
        self.named = find_named(state.triggers, attributes.name)

    def run(self) -> None:
        if self.remove:
            self._remove()
        elif not self._update():
            try:
                # Actions are made before one looks whether the histogram is there already.
                Maker(self.state, self.data, _make_helper).make()
                self._remember()
                self._register()
            except Refused:
                self._forget()
                _remove_helpers(self.state, self.data)
                raise
            self._enable()

    def _match(self) -> Trigger | None:
        for trigger in self.state.on(self.event):
            if matches(self.data, self.condition, trigger, self.named):
                return trigger
        return None

    def _remove(self) -> None:
        found = self._match()
        if found is None or found.data is None:
            return
        if self.state.is_referenced(found.data):
            raise Refused(errno.EBUSY)
        remove_hist(self.state, found)

    def _update(self) -> bool:
        """Pause, continue or clear the histogram; return False where there is none such."""
        attributes = self.data.attributes
        if not (attributes.pause or attributes.cont or attributes.clear):
            return False
        named = self.named
        if attributes.name is not None and (named is None or not _shared(named, self.data)):
            return False
        found = self._match()
        if found is None or found.data is None:
            return False
        if attributes.pause or attributes.cont:
            paused = attributes.pause
            self.state.replace(found, listed(self.state, replace(found, paused=paused)))
        return True

    def _register(self) -> None:
        state, attributes = self.state, self.data.attributes
        if self.named is not None and not _shared(self.named, self.data):
            raise state.refuse(HistMessage.NAMED_MISMATCH, attributes.name)
        if (attributes.name is None or self.named) and self._match():
            raise state.refuse(HistMessage.TRIGGER_EEXIST, number=errno.EEXIST)
        if attributes.cont or attributes.clear:
            raise state.refuse(HistMessage.TRIGGER_ENOENT_CLEAR, number=errno.ENOENT)
        if self.data.timestamps and attributes.clock not in CLOCKS:
            raise state.refuse(HistMessage.SET_CLOCK_FAIL, attributes.clock)

    def _remember(self) -> None:
        """Let others find the variables, and know of the references."""
        data = self.data
        if data.references or any(field.has_variables() for field in data.fields):
            data.is_remembered = True
            self.state.remembered.append(data)

    def _forget(self) -> None:
        state = self.state
        state.remembered = [other for other in state.remembered if other is not self.data]

    def _enable(self) -> None:
        state, attributes = self.state, self.data.attributes
        data = self.data
        if self.named is not None and self.named.data is not None:
            self._forget()
            data = self.named.data
        trigger = Trigger(
            event=self.event,
            command="hist",
            listed="",
            filter=self.condition,
            data=data,
            name=attributes.name,
            paused=attributes.pause,
            shares=self.named is not None,
        )
        state.add(listed(state, trigger))


def _shared(named: Trigger, data: HistData) -> bool:
    return named.data is not None and same(data, named.data)


def listed(state: State, trigger: Trigger) -> Trigger:
    """Return a histogram's trigger with the line it is listed with."""
    assert trigger.data is not None
    line = list_hist(
        trigger.data,
        state.rules,
        name=trigger.name,
        condition=trigger.filter,
        paused=trigger.paused,
    )
    return replace(trigger, listed=restore(line))


def remove_hist(state: State, trigger: Trigger) -> None:
    """Remove a histogram, and those that were made for it where nothing else refers to them."""
    state.remove(trigger)
    data = trigger.data
    if data is None or any(other.data is data for other in state.triggers):
        return
    state.remembered = [other for other in state.remembered if other is not data]
    _remove_helpers(state, data)


def _remove_helpers(state: State, data: HistData) -> None:
    for event, command in data.helpers:
        try:
            _Command(state, event, command, remove=True).run()
        except Refused:
            continue


class Builder:
    """Builds the fields of a histogram from the parts of its text."""

    def __init__(self, state: State, data: HistData) -> None:
        self.state, self.data = state, data
        self.parser = Parser(state, data)

    def build(self) -> None:
        """Build it. Raises Refused."""
        attributes = self.data.attributes
        for text in attributes.actions:
            self.data.actions.append(parse_action(text, self.state))
        read_variables(attributes, self.state)
        self._values(attributes.values)
        for place, (name, expression) in enumerate(attributes.variables):
            # The kernel cuts up the very text that $NAME is looked up in.
            attributes.variables[place] = name, remains(expression)
            self._variable(name, expression)
        self._keys(attributes.keys or "")
        if attributes.sort is not None:
            self._sort(attributes.sort)
        for field in self.data.fields:
            if field.flags & Is.VAR:
                field.index, field.owner = self.data.indices, self.data
                self.data.indices += 1

    def _values(self, text: str | None) -> None:
        self._add(self.parser.make(None, Is.HITCOUNT))
        rest = [] if text is None else text.split(",")
        seen = count = 0
        for _ in range(VALUES_MAX):
            if not rest or count == VALUES_MAX - 1:
                break
            part = rest.pop(0)
            if part == "hitcount":
                seen += 1
                if seen == 1 or not self.state.rules.hitcounts:
                    continue
            count += 1
            self._value(part, NOTHING, None)
        if count == 0 and self.data.attributes.no_hitcount:
            raise self.state.refuse(HistMessage.NEED_NOHC_VAL, number=errno.ENOENT)
        if rest and rest != ["hitcount"]:
            raise Refused

    def _value(self, text: str, flags: Is, variable: str | None) -> None:
        found = self.parser.expression(text, flags, variable)
        wrong = _NOT_IN_VARIABLES if found.flags & Is.VAR else _NOT_IN_VALUES
        if found.flags & wrong:
            raise self.state.refuse(HistMessage.BAD_FIELD_MODIFIER, remains(text))
        self._add(found)

    def _add(self, field: HistField) -> None:
        self.data.fields.append(field)
        self.data.values += 1

    def _variable(self, name: str, expression: str) -> None:
        known = self.data.variable(name) or self.state.variable(self.data.event, name)
        if known is not None and not self.data.remove:
            raise self.state.refuse(HistMessage.DUPLICATE_VAR, name)
        self.data.variables += 1
        self._value(expression, Is.VAR, name)
        found = self.data.fields[-1]
        if found.flags & Is.EXECNAME:
            found.flags = Is.STRING | Is.VAR | Is.EXECNAME
            found.size, found.signed, found.ctype = 256, False, "char[]"

    def _keys(self, text: str) -> None:
        parts = text.split(",")
        for part in parts[:KEYS_MAX]:
            self._key(part)
        if len(parts) > KEYS_MAX:
            raise Refused

    def _key(self, text: str) -> None:
        if text == "stacktrace":
            found = self.parser.make(None, Is.KEY | Is.STACKTRACE)
            size = STACK_SIZE
        else:
            found = self.parser.expression(text, Is.KEY)
            if found.has_variables():
                raise self.state.refuse(HistMessage.INVALID_REF_KEY, remains(text))
            size = found.size
        found.size = -(-size // 8) * 8
        found.offset = self.data.key_size
        self.data.fields.append(found)
        self.data.key_size += found.size
        if self.data.key_size > KEY_SIZE_MAX:
            raise Refused

    def _sort(self, text: str) -> None:
        parts = text.split(",")
        self.data.sort_count = min(len(parts), SORT_MAX)
        for place, part in enumerate(parts[:SORT_MAX]):
            if not part:
                raise self.state.refuse(HistMessage.EMPTY_SORT_FIELD, "sort=")
            if place == SORT_MAX - 1 and len(parts) > SORT_MAX:
                raise self.state.refuse(HistMessage.TOO_MANY_SORT_FIELDS, "sort=")
            name, dot, order = part.partition(".")
            if not name:
                raise self.state.refuse(HistMessage.EMPTY_SORT_FIELD, "sort=")
            index = 0 if name == "hitcount" else self._sorted_by(name)
            if dot and order not in {"descending", "ascending"}:
                raise self.state.refuse(HistMessage.INVALID_SORT_MODIFIER, order)
            self.data.sort.append((index, order == "descending"))

    def _sorted_by(self, name: str) -> int:
        shown = [f for f in self.data.fields[1:] if not f.flags & Is.VAR]
        for index, field in enumerate(shown, start=1):
            if field_name(field, self.state.rules) == name:
                return index
        raise self.state.refuse(HistMessage.INVALID_SORT_FIELD, name)
