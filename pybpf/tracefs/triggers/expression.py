"""What a key, a value or a variable is computed from: its text in, fields of a histogram out.

expression: atom | expression OPERATOR expression | '-(' expression ')'
atom:       FIELD ['.' MODIFIER] | [SYSTEM.EVENT.]'$'VARIABLE | NUMBER

The text is cut at its last ``-`` or ``+``, else at its last ``*`` or ``/``. Source: parse_expr(),
parse_atom(), parse_field() of kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

import errno

from pybpf.tracefs.dynevents.ctext import U64, NumberError, is_digit, restore, unsigned
from pybpf.tracefs.dynevents.log import Refused
from pybpf.tracefs.filters.fields import KernelField, Kind
from pybpf.tracefs.filters.rules import MAX_STRING
from pybpf.tracefs.triggers.listing import expression_text
from pybpf.tracefs.triggers.messages import HistMessage
from pybpf.tracefs.triggers.model import (
    NOTHING,
    STACK_SIZE,
    UNKNOWN,
    VARIABLES_MAX,
    HistData,
    HistField,
    Is,
)
from pybpf.tracefs.triggers.state import State

_MAX_PARTS = 3
_DIVIDE_BITS = 20
_SIZES = frozenset({1, 2, 4, 8})
_MODIFIERS = {
    "hex": Is.HEX,
    "sym": Is.SYM,
    "symXoffset": Is.SYM_OFFSET,
    "syscall": Is.SYSCALL,
    "log2": Is.LOG2,
    "usecs": Is.USECS,
}


class Parser:
    """Parses the expressions of one histogram."""

    def __init__(self, state: State, data: HistData) -> None:
        self.state, self.data = state, data
        self.rules = state.rules

    def expression(self, text: str, flags: Is, variable: str | None = None) -> HistField:
        """Return what a text stands for. Raises Refused."""
        return self._expression(text, flags, variable, [0])

    def _expression(
        self, text: str, flags: Is, variable: str | None, parts: list[int]
    ) -> HistField:
        if parts[0] > _MAX_PARTS:
            raise self.state.refuse(HistMessage.TOO_MANY_SUBEXPR, text)
        place = root(text)
        if place is None:
            return self.atom(text, flags, variable)
        parts[0] += 1
        if place == 0 and text[0] == "-":
            return self._negated(text, flags, variable, parts)
        left, right = text[:place], text[place + 1 :]
        if not left or not right:
            raise Refused
        first = self._operand(left, parts)
        second = self._operand(right, parts)
        return self._binary(text[place], (first, second), flags, variable, right)

    def _operand(self, text: str, parts: list[int]) -> HistField:
        found = self._expression(text, NOTHING, None, parts)
        if found.flags & Is.STRING:
            raise self.state.refuse(HistMessage.INVALID_STR_OPERAND, remains(text))
        return found

    def _negated(self, text: str, flags: Is, variable: str | None, parts: list[int]) -> HistField:
        if parts[0] > _MAX_PARTS:
            raise self.state.refuse(HistMessage.TOO_MANY_SUBEXPR, text)
        if "(" not in text:
            raise Refused
        inner = text[2:]
        end = inner.rfind(")")
        if end < 0:
            raise Refused
        if inner[end + 1 :]:
            raise self.state.refuse(HistMessage.UNARY_MINUS_SUBEXPR, inner)
        found = HistField(flags | Is.EXPR, self.data, variable)
        operand = self._operand(inner[:end], parts)
        found.flags |= operand.flags & (Is.TIMESTAMP | Is.USECS)
        found.operands, found.operator = (operand,), "-"
        found.size, found.signed, found.ctype = operand.size, operand.signed, operand.ctype
        if operand.flags & (Is.LOG2 | Is.BUCKET):
            # The kernel takes what it groups by for an operand, and has no operator for it.
            if self.rules.checks_names:
                raise Refused
            return found
        found.name = expression_text(found, self.rules)
        return found

    def _binary(
        self,
        operator: str,
        operands: tuple[HistField, HistField],
        flags: Is,
        variable: str | None,
        right: str,
    ) -> HistField:
        first, second = (self._meant(operand) for operand in operands)
        if (first.flags ^ second.flags) & Is.USECS:
            raise self.state.refuse(HistMessage.TIMESTAMP_MISMATCH)
        constant = bool(first.flags & second.flags & Is.CONST)
        flags |= Is.CONST if constant else Is.EXPR
        flags |= operands[0].flags & (Is.TIMESTAMP | Is.USECS)
        if operator == "/" and second.flags & Is.CONST and second.constant == 0:
            raise self.state.refuse(HistMessage.DIVISION_BY_ZERO, remains(right), errno.EDOM)
        if constant:
            found = self._constant(_compute(operator, first.constant, second.constant), flags)
            found.variable = variable
            return found
        found = HistField(flags, self.data, variable)
        found.operands, found.operator = operands, operator
        found.size, found.signed = operands[0].size, operands[0].signed
        found.ctype = operands[0].ctype
        found.name = expression_text(found, self.rules)
        return found

    def _meant(self, operand: HistField) -> HistField:
        """Return the variable that an operand refers to, the operand itself if to none."""
        if not operand.flags & (Is.VAR_REF | Is.ALIAS):
            return operand
        found = operand.owner.variable(operand.name or "")
        if found is None:
            raise Refused
        return found

    def atom(self, text: str, flags: Is, variable: str | None = None) -> HistField:
        """Return the field, the variable or the number that a text is. Raises Refused."""
        if is_digit(text[:1]):
            try:
                found = self._constant(unsigned(text), flags | Is.CONST)
            except NumberError:
                raise self.state.refuse(HistMessage.EXPECT_NUMBER, text) from None
            found.variable = variable
            return found
        system = event = None
        if text.count(".") > 1:
            system, event, text = text.split(".", 2)
        local = self._local(system, event, text)
        if local is not None:
            text = local
        elif (reference := self._reference(system, event, text)) is not None:
            return reference if variable is None else self._alias(reference, variable)
        field, flags, buckets = self.field(text, flags)
        found = self.make(field, flags, variable)
        found.buckets = buckets
        return found

    def _constant(self, value: int, flags: Is) -> HistField:
        found = HistField(flags, self.data)
        found.constant, found.size, found.ctype = value, 8, "u64"
        return found

    def _local(self, system: str | None, event: str | None, text: str) -> str | None:
        """Return the field that a variable of the same histogram is, None if it is none."""
        if system is not None and f"{system}/{event}" != self.data.event:
            return None
        if not is_reference(text):
            return None
        for name, expression in self.data.attributes.variables:
            if name == text[1:] and root(expression) is None and not is_reference(expression):
                return expression
        return None

    def _reference(self, system: str | None, event: str | None, text: str) -> HistField | None:
        if not is_reference(text):
            return None
        name = text[1:]
        variable = find_variable(self.state, self.data, system, event, name)
        found = None
        if variable is not None:
            found = refer(self.data, variable, system, event)
        if found is None:
            self.state.log(HistMessage.VAR_NOT_FOUND, name)
        return found

    def _alias(self, reference: HistField, variable: str) -> HistField:
        found = HistField(Is.ALIAS | Is.VAR, self.data, variable)
        found.operands = (reference,)
        _describe(found, reference, reference.system, reference.event)
        return found

    def field(self, text: str, flags: Is) -> tuple[KernelField | None, Is, int]:
        """Return the field that a text names, with what its modifier adds, and buckets' width.

        Raises Refused.
        """
        name, dot, modifier = text.partition(".")
        buckets = 0
        if dot:
            flags, buckets = self._modifier(name, modifier, flags)
        field, more = self._named(name)
        is_stack = field is not None and field.size > 0 and field.kind is Kind.STACK
        if modifier == "stacktrace" and not is_stack:
            raise self.state.refuse(HistMessage.BAD_FIELD_MODIFIER, text)
        return field, flags | more, buckets

    def _named(self, name: str) -> tuple[KernelField | None, Is]:
        if name == "common_timestamp":
            self.data.timestamps = True
            return None, Is.TIMESTAMP
        if name == "common_stacktrace" and self.rules.stack_fields:
            return None, Is.STACKTRACE
        if name == "common_cpu":
            return None, Is.CPU
        if name == "common_comm" and self.rules.common_comm:
            return None, Is.COMM | Is.STRING
        if name == "hitcount" and self.rules.hitcounts:
            return None, Is.HITCOUNT
        field = self.state.field(self.data.event, name)
        if field is not None and field.size:
            return field, NOTHING
        more = self._generic(field, name)
        return (None if Is.STACKTRACE in more else field), more

    def _generic(self, field: KernelField | None, name: str) -> Is:
        kind = None if field is None else field.kind
        if kind is Kind.CPU:
            return Is.CPU
        if kind is Kind.STACK and self.rules.stack_fields:
            return Is.STACKTRACE
        if kind is Kind.COMM and self.rules.common_comm:
            return Is.COMM | Is.STRING
        raise self.state.refuse(HistMessage.FIELD_NOT_FOUND, name)

    def _modifier(self, name: str, modifier: str, flags: Is) -> tuple[Is, int]:
        if modifier in _MODIFIERS:
            return flags | _MODIFIERS[modifier], 0
        if modifier == "execname" and name == "common_pid":
            return flags | Is.EXECNAME, 0
        if modifier == "stacktrace" and self.rules.stack_fields:
            return flags | Is.STACKTRACE, 0
        if modifier.startswith("bucket"):
            rest = modifier.removeprefix("bucket").removeprefix("s")
            width = rest.removeprefix("=")
            try:
                if width != rest and (number := unsigned(width)):
                    return flags | Is.BUCKET, number
            except NumberError:
                pass
            modifier = width
        elif not flags & (Is.VAR | Is.KEY):
            if modifier.startswith("percent"):
                return flags | Is.PERCENT, 0
            if modifier.startswith("graph"):
                return flags | Is.GRAPH, 0
        raise self.state.refuse(HistMessage.BAD_FIELD_MODIFIER, modifier)

    def make(self, field: KernelField | None, flags: Is, variable: str | None = None) -> HistField:
        """Return a histogram's field of what an event's field holds. Raises Refused."""
        found = HistField(flags, self.data, variable)
        found.field = field
        if flags & Is.HITCOUNT or flags & Is.CONST:
            found.size, found.ctype = 8, "u64"
        elif flags & Is.STACKTRACE:
            found.size, found.ctype = STACK_SIZE, "unsigned long[]"
        elif flags & (Is.LOG2 | Is.BUCKET):
            operand = self.make(field, flags & ~(Is.LOG2 | Is.BUCKET))
            found.operands = (operand,)
            found.size, found.ctype = operand.size, operand.ctype
        elif flags & Is.TIMESTAMP:
            found.size, found.ctype = 8, "u64"
        elif flags & Is.CPU:
            found.size, found.ctype = 4, "unsigned int"
        elif flags & Is.COMM:
            found.size, found.ctype = MAX_STRING, "char[]"
        elif field is not None:
            self._take(found, field)
        return found

    def _take(self, found: HistField, field: KernelField) -> None:
        found.ctype = field.ctype
        if field.is_string and field.kind is not Kind.POINTER_STRING:
            found.flags |= Is.STRING
            found.size = field.size if field.kind is Kind.STATIC_STRING else MAX_STRING
        elif field.kind is Kind.STACK and self.rules.stack_fields:
            found.flags |= Is.STACKTRACE
            found.size = MAX_STRING
        elif field.size in _SIZES:
            found.size, found.signed = field.size, field.signed
        else:
            raise Refused(errno.ENOMEM)


def is_reference(text: str) -> bool:
    """Say whether a text is the name of a variable with its ``$``."""
    return len(text) > 1 and text[0] == "$"


def root(text: str) -> int | None:
    """Return where the operator is that is applied last, None where there is none."""
    minus = text.rfind("-")
    if minus == 0:
        return 0
    place = max(minus, text.rfind("+"))
    if place < 0:
        place = max(text.rfind("/"), text.rfind("*"))
    return None if place < 0 else place


def remains(text: str) -> str:
    """Return what the kernel finds of an expression once it has cut it up."""
    while (place := root(text)) is not None:
        if place == 0 and text[0] == "-":
            return text[: text.rfind(")")] if ")" in text else text
        text = text[:place]
    if is_digit(text[:1]) or text.count(".") < 2:
        return text
    return text.partition(".")[0]


def _compute(operator: str, first: int, second: int) -> int:
    """Return the value of constants; division by a number below 2**20 is approximate."""
    match operator:
        case "+":
            return (first + second) % U64
        case "-":
            return (first - second) % U64
        case "*":
            return first * second % U64
        case _:
            power = not second & (second - 1)
            if power or second > 1 << _DIVIDE_BITS or first >= 1 << _DIVIDE_BITS:
                return first // second
            factor = (1 << _DIVIDE_BITS) // second
            return (first * factor + (1 << _DIVIDE_BITS) - 1) >> _DIVIDE_BITS


def find_variable(
    state: State, data: HistData, system: str | None, event: str | None, name: str
) -> HistField | None:
    """Return the variable of another histogram that a name stands for, or None.

    Without an event it is one of the event that an onmatch waits for, or the only one there is.
    """
    if system is None or event is None:
        found = None
        for action in data.actions:
            if action.handler != "onmatch":
                continue
            on = f"{restore(action.system)}/{restore(action.event)}"
            variable = state.variable(on, name)
            if variable is not None and found is not None:
                state.log(HistMessage.VAR_NOT_UNIQUE, name)
                return None
            found = variable or found
        if found is not None:
            return found
        place = state.event_of(name)
    else:
        place = f"{restore(system)}/{restore(event)}"
    return None if place is None else state.variable(place, name)


def refer(
    data: HistData,
    variable: HistField,
    system: str | None = None,
    event: str | None = None,
) -> HistField | None:
    """Return the one reference of a histogram to a variable; None if there are too many."""
    for known in data.references:
        if known.index == variable.index and known.owner is variable.owner:
            return known
    if len(data.references) >= VARIABLES_MAX:
        return None
    found = HistField(Is.VAR_REF, variable.owner)
    _describe(found, variable, system, event)
    data.references.append(found)
    return found


def _describe(found: HistField, variable: HistField, system: str | None, event: str | None) -> None:
    found.index, found.owner = variable.index, variable.owner
    found.size, found.signed, found.ctype = variable.size, variable.signed, variable.ctype
    found.flags |= variable.flags & (Is.TIMESTAMP | Is.USECS)
    found.system, found.event = system, event
    found.name = variable.variable or variable.name


def is_unknown(field: HistField) -> bool:
    """Say whether nothing is known of the type of what a field is computed from."""
    return field.ctype is not None and UNKNOWN in field.ctype
