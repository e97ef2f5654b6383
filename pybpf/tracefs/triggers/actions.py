"""The actions of a histogram: their texts in, what they need made and referred to.

action: handler '.' ('save(' FIELDS ')' | 'snapshot()' | 'trace(' SYNTHETIC ',' PARAMETERS ')'
      | SYNTHETIC '(' PARAMETERS ')')
handler: 'onmatch(' SYSTEM '.' EVENT ')' | 'onmax(' '$'VARIABLE ')' | 'onchange(' '$'VARIABLE ')'

Source: parse_actions(), create_actions() of kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from pybpf.tracefs.dynevents.ctext import restore
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.triggers.expression import Parser, find_variable, is_unknown, refer, remains
from pybpf.tracefs.triggers.matching import find_compatible
from pybpf.tracefs.triggers.messages import HistMessage
from pybpf.tracefs.triggers.model import (
    PARAMETERS_MAX,
    VARIABLES_MAX,
    Action,
    Handler,
    HistData,
    HistField,
    Is,
)
from pybpf.tracefs.triggers.state import State
from pybpf.tracefs.triggers.synthetic import Slot, slots_of
from pybpf.tracefs.triggers.text import strip

MakeHist = Callable[[State, str, str], None]
"""Makes a histogram on an event: raises Refused."""

_COMMAND_MAX = 256


def parse_action(text: str, state: State) -> Action:
    """Return the action in ``handler(…).action(…)``. Raises Refused."""
    head, _, rest = text.partition("(")
    on, closing, rest = rest.partition(")")
    match head:
        case "onmatch":
            found = _parse_onmatch(on, closing, state)
        case _:
            handler: Handler = "onmax" if head == "onmax" else "onchange"
            if not closing:
                raise Refused
            found = Action(handler, variable=on)
    _parse_what(rest, found, state)
    return found


def _parse_onmatch(on: str, closing: str, state: State) -> Action:
    if not closing:
        raise state.refuse(HistMessage.NO_CLOSING_PAREN, on)
    system, dot, event = on.partition(".")
    if not dot:
        raise state.refuse(HistMessage.SUBSYS_NOT_FOUND, system)
    if not state.exists(f"{restore(system)}/{restore(event)}"):
        raise state.refuse(HistMessage.INVALID_SUBSYS_EVENT, event)
    return Action("onmatch", system=system, event=event)


def _parse_what(text: str, found: Action, state: State) -> None:
    _, dot, rest = text.partition(".")
    name, bracket, rest = rest.partition("(")
    if not dot or not bracket:
        raise state.refuse(HistMessage.ACTION_NOT_FOUND)
    inner, closing, _ = rest.partition(")")
    found.name = name
    if name.startswith("save"):
        found.kind = "save"
        found.parameters = tuple(_parameters(inner, state))
    elif name.startswith("snapshot"):
        found.kind = "snapshot"
        if not closing:
            raise state.refuse(HistMessage.NO_CLOSING_PAREN, inner)
    else:
        found.keyword = name.startswith("trace")
        parameters = _parameters(inner, state, extra=int(found.keyword))
        if found.keyword:
            found.synthetic, *parameters = parameters
        else:
            found.synthetic = name
        found.synthetic = restore(found.synthetic)
        found.parameters = tuple(parameters)
        return
    if found.handler == "onmatch":
        raise state.refuse(HistMessage.ACTION_MISMATCH, name)


def _parameters(text: str, state: State, *, extra: int = 0) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        if len(found) - extra >= PARAMETERS_MAX:
            raise state.refuse(HistMessage.TOO_MANY_PARAMS)
        parameter = strip(part)
        if len(parameter) < 2:
            raise state.refuse(HistMessage.INVALID_PARAM, parameter)
        found.append(parameter)
    return found


class Maker:
    """Makes what the actions of one histogram need."""

    def __init__(self, state: State, data: HistData, make_hist: MakeHist) -> None:
        self.state, self.data, self.make_hist = state, data, make_hist
        self.parser = Parser(state, data)

    def make(self) -> None:
        """Make it for all actions in their order. Raises Refused."""
        for action in self.data.actions:
            if action.handler != "onmatch":
                self._track(action)
            match action.kind:
                case "trace":
                    self._trace(action)
                case "snapshot":
                    self._snapshot(action)
                case _:
                    self._save(action)

    def _track(self, action: Action) -> None:
        name = action.variable
        if name[:1] != "$":
            raise self.state.refuse(HistMessage.ONX_NOT_VAR, name)
        variable = self.data.variable(name[1:])
        if variable is None:
            raise self.state.refuse(HistMessage.ONX_VAR_NOT_FOUND, name[1:])
        if refer(self.data, variable) is None:
            raise Refused(errno.ENOMEM)
        hidden = "__max" if action.handler == "onmax" else "__change"
        if self._variable(hidden, None) is None:
            raise self.state.refuse(HistMessage.ONX_VAR_CREATE_FAIL)

    def _snapshot(self, action: Action) -> None:
        """Only one histogram of a kernel may take snapshots, with one action."""
        others = [t.data for t in self.state.triggers if t.data is not None]
        actions = [a for data in [*others, self.data] for a in data.actions]
        if any(other.kind == "snapshot" and other is not action for other in actions):
            raise Refused(errno.EBUSY)

    def _save(self, action: Action) -> None:
        if self.data.saved:
            raise self.state.refuse(HistMessage.TOO_MANY_SAVE_ACTIONS, number=errno.EEXIST)
        for parameter in action.parameters:
            try:
                variable = self._field_variable(parameter)
            except Refused:
                self.state.log(HistMessage.FIELD_VAR_CREATE_FAIL, remains(parameter))
                raise
            self.data.saved.append(variable.variable or "")

    def _trace(self, action: Action) -> None:
        written = action.synthetic if action.keyword else action.name
        event = self.state.synthetic(action.synthetic or "")
        if event is None:
            raise self.state.refuse(HistMessage.SYNTH_EVENT_NOT_FOUND, written)
        slots = slots_of(event)
        for place, parameter in enumerate(action.parameters):
            system, on, name = _qualified(parameter)
            found = (
                self._find(action, system, on, name[1:])
                if name[:1] == "$"
                else self._make_variable(action, system, on, name)
            )
            if found is None:
                raise Refused
            if place >= len(slots) or not self._fits(slots[place], found):
                raise self.state.refuse(HistMessage.SYNTH_TYPE_MISMATCH, name)
            if refer(self.data, found, system, on) is None:
                raise Refused(errno.ENOMEM)
        if len(action.parameters) != len(slots):
            raise self.state.refuse(HistMessage.SYNTH_COUNT_MISMATCH, event.event)

    def _fits(self, slot: Slot, field: HistField) -> bool:
        ctype = field.ctype or ""
        if is_unknown(field):
            return True
        if "char[" in ctype and slot.string and slot.dynamic:
            return True
        if self.state.rules.stack_fields and "long[" in ctype and slot.stack:
            return True
        if slot.ctype == ctype:
            return True
        return slot.size == field.size and (slot.string or slot.signed == field.signed)

    def _is_here(self, system: str | None, event: str | None) -> bool:
        if system is None:
            return True
        return f"{restore(system)}/{restore(event or '')}" == self.data.event

    def _find(
        self, action: Action, system: str | None, event: str | None, name: str
    ) -> HistField | None:
        found = self.data.variable(name) if self._is_here(system, event) else None
        if found is None:
            if system is None and action.handler == "onmatch":
                system, event = action.system, action.event
            found = find_variable(self.state, self.data, system, event, name)
        if found is None:
            self.state.log(HistMessage.PARAM_NOT_FOUND, name)
        return found

    def _make_variable(
        self, action: Action, system: str | None, event: str | None, name: str
    ) -> HistField | None:
        """Make a variable of a field of the event, or else of the one that is waited for."""
        if self._is_here(system, event):
            try:
                found = self._field_variable(name)
            except Refused:
                pass
            else:
                self.data.field_variables += 1
                return found
        if system is None and action.handler == "onmatch":
            system, event = action.system, action.event
        if system is None or event is None:
            return None
        return self._helper(system, event, name)

    def _field_variable(self, name: str) -> HistField:
        if self.data.field_variables >= PARAMETERS_MAX:
            raise self.state.refuse(HistMessage.TOO_MANY_FIELD_VARS, name)
        try:
            value = self.parser.atom(name, Is.VAR)
        except Refused:
            self.state.log(HistMessage.FIELD_VAR_PARSE_FAIL, remains(name))
            raise
        # The kernel has cut SYSTEM.EVENT.$NAME apart by now.
        name = remains(name)
        found = self._variable(name, value)
        if found is None:
            raise self.state.refuse(HistMessage.VAR_CREATE_FIND_FAIL, name)
        return found

    def _variable(self, name: str, value: HistField | None) -> HistField | None:
        """Return a new variable that is none of the histogram's fields; None if it cannot be."""
        known = self.data.variable(name) or self.state.variable(self.data.event, name)
        if (known and not self.data.remove) or self.data.indices >= VARIABLES_MAX:
            return None
        found = HistField(Is.VAR, self.data, name)
        found.index = self.data.indices
        self.data.indices += 1
        found.size, found.ctype = (8, "u64") if value is None else (value.size, value.ctype)
        return found

    def _helper(self, system: str, event: str, name: str) -> HistField | None:
        """Make a histogram on another event, to have a variable of one of its fields."""
        state = self.state
        if len(self.data.helpers) >= PARAMETERS_MAX:
            state.log(HistMessage.TOO_MANY_FIELD_VARS, name)
            return None
        place = f"{restore(system)}/{restore(event)}"
        if not state.exists(place):
            state.log(HistMessage.EVENT_FILE_NOT_FOUND, name)
            return None
        model = find_compatible(self.data, state.on(place))
        if model is None or model.data is None:
            state.log(HistMessage.HIST_NOT_FOUND, name)
            return None
        hidden = f"synthetic_{name}"
        if known := find_variable(state, self.data, system, event, hidden):
            return known
        keys = ",".join(_name(key) for key in model.data.keys)
        command = f"keys={keys}:{hidden}={name}"
        if model.filter is not None:
            command += f" if {model.filter}"
        if len(command) >= _COMMAND_MAX:
            return None
        try:
            self.make_hist(state, place, command)
        except Refused:
            state.log(HistMessage.HIST_CREATE_FAIL, name)
            return None
        found = find_variable(state, self.data, system, event, hidden)
        if found is None:
            state.log(HistMessage.SYNTH_VAR_NOT_FOUND, name)
            return None
        self.data.helpers.append((place, command))
        return found


def _name(key: HistField) -> str:
    return "" if key.field is None else key.field.name


def _qualified(text: str) -> tuple[str | None, str | None, str]:
    """Return system, event and name in ``[SYSTEM.EVENT.]NAME``. Raises Refused."""
    system, dot, rest = text.partition(".")
    if not dot:
        return None, None, text
    event, dot, name = rest.partition(".")
    if not dot:
        raise Refused
    return system, event, name
