"""One comparison of a filter: the text from its field on in, the value and its length out.

comparison: FIELD ['.ustring' | '.function'] OPERATOR OPERAND

Source: parse_pred() of kernel/trace/trace_events_filter.c.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import cast

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevents.ctext import (
    NumberError,
    is_digit,
    is_letter,
    restore,
    signed,
    skip_spaces,
    unsigned,
    words,
)
from pybpf.tracefs.filters.fields import Fields, KernelField, Kind
from pybpf.tracefs.filters.messages import FilterFault, FilterMessage
from pybpf.tracefs.filters.rules import MAX_STRING, TracingRules
from pybpf.tracefs.filters.value import (
    Comparison,
    Cpus,
    Function,
    Modifier,
    Operand,
    Operator,
    Text,
)

_OPERATORS = ("~", "!=", "==", "<=", "<", ">=", ">", "&")
_EQUALITY = frozenset({"==", "!="})
_NUMBER = 24
"""How long a number may be, its NUL counted."""
_KERNEL_CODE = 0xFFFFFFFF80000000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a comparison is judged by.

    ``fields`` is None where they are not known: then any name is taken, as any kind of field.
    ``cpus`` counts the CPUs the kernel may have, None: any number. ``is_function`` says whether
    the kernel has a function of that name, or at that address where it begins with a digit.
    """

    rules: TracingRules
    fields: Fields | None
    cpus: int | None
    is_function: Callable[[str], bool]


class _Reader:
    """The text of a comparison; ``position`` is where its first byte is in the kernel's count."""

    def __init__(self, text: str, position: int, around: Surroundings) -> None:
        self.text, self.position, self.around = text, position, around
        self.at = 0

    def rest(self) -> str:
        return self.text[self.at :]

    def char(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, prefix: str) -> bool:
        found = self.text.startswith(prefix, self.at)
        self.at += len(prefix) if found else 0
        return found

    def skip_spaces(self) -> None:
        self.at = len(self.text) - len(skip_spaces(self.rest()))

    def word(self, *, underscore: bool = False) -> str:
        start = self.at
        while _is_word(self.char()) or (underscore and self.char() == "_"):
            self.at += 1
        return self.text[start : self.at]

    def refuse(self, message: FilterMessage, at: int | None = None) -> FilterFault:
        place = self.position + (self.at if at is None else at)
        return FilterFault(errno.EINVAL, message, place)


def _is_word(char: str) -> bool:
    return bool(char) and (is_letter(char) or is_digit(char))


def read_comparison(text: str, position: int, around: Surroundings) -> tuple[Comparison, int]:
    """Return the comparison that ``text`` begins with, and how long it is.

    ``position`` is added to the places of faults. Raises FilterFault.
    """
    reader = _Reader(text, position, around)
    reader.skip_spaces()
    name = reader.word(underscore=True)
    if not name:
        raise FilterFault(errno.EPERM)
    field = None
    if around.fields is not None:
        field = around.fields.get(restore(name))
        if field is None:
            raise reader.refuse(FilterMessage.FIELD_NOT_FOUND)
    modifiers = [reader.skip(".ustring") and "ustring"]
    if around.rules.functions:
        modifiers.append(reader.skip(".function") and "function")
    modifier = cast("Modifier", modifiers[-1] or modifiers[0] or "")
    reader.skip_spaces()
    operator = next((op for op in _OPERATORS if reader.skip(op)), None)
    if operator is None:
        raise reader.refuse(FilterMessage.INVALID_OP)
    reader.skip_spaces()
    operand = _operand(reader, field, operator, modifier)
    value = Comparison(restore(name), cast("Operator", operator), operand, modifier)
    return value, reader.at


def _operand(
    reader: _Reader, field: KernelField | None, operator: str, modifier: Modifier
) -> Operand:
    char = reader.char()
    if modifier == "function":
        return _function(reader, field, operator)
    if reader.around.rules.cpu_lists and reader.rest().startswith("CPUS"):
        return _cpus(reader, field, operator)
    if char in {'"', "'"}:
        return _string(reader, field, operator)
    if is_digit(char) or char == "-":
        return _number(reader, field, operator)
    raise reader.refuse(FilterMessage.INVALID_VALUE)


def _function(reader: _Reader, field: KernelField | None, operator: str) -> Function:
    if field is not None and field.size != 8:
        raise reader.refuse(FilterMessage.ILLEGAL_FIELD_OP)
    if operator not in _EQUALITY:
        raise reader.refuse(FilterMessage.INVALID_OP)
    if is_digit(reader.char()):
        text = reader.word()
        if len(text) >= _NUMBER:
            raise reader.refuse(FilterMessage.OPERAND_TOO_LONG)
        try:
            address = unsigned(text)
        except NumberError:
            raise reader.refuse(FilterMessage.INVALID_VALUE) from None
        if address < _KERNEL_CODE or not reader.around.is_function(text):
            raise reader.refuse(FilterMessage.NO_FUNCTION)
        return Function(text)
    start = reader.at
    while reader.char() and skip_spaces(reader.char()):
        reader.at += 1
    name = restore(reader.text[start : reader.at])
    if not name or not reader.around.is_function(name):
        raise reader.refuse(FilterMessage.NO_FUNCTION)
    return Function(name)


def _cpus(reader: _Reader, field: KernelField | None, operator: str) -> Cpus:
    if field is not None and field.kind not in {Kind.CPUMASK, Kind.CPU, Kind.NUMBER}:
        raise reader.refuse(FilterMessage.ILLEGAL_FIELD_OP)
    if operator not in {"==", "!=", "&"}:
        raise reader.refuse(FilterMessage.ILLEGAL_FIELD_OP)
    reader.skip("CPUS")
    opened = reader.char() == "{"
    reader.at += 1
    if not opened:
        raise reader.refuse(FilterMessage.MISSING_BRACE_OPEN)
    inner, brace, _ = reader.rest().partition("}")
    reader.at += len(inner)
    if not brace:
        raise reader.refuse(FilterMessage.MISSING_BRACE_CLOSE)
    if not inner or not is_cpu_list(inner, reader.around.cpus):
        raise reader.refuse(FilterMessage.INVALID_CPULIST)
    reader.at += 1
    return Cpus(restore(inner))


def _string(reader: _Reader, field: KernelField | None, operator: str) -> Text:
    if operator not in {"==", "!=", "~"}:
        raise reader.refuse(FilterMessage.ILLEGAL_FIELD_OP)
    if field is not None and not field.is_string:
        raise reader.refuse(FilterMessage.EXPECT_DIGIT)
    quote = reader.char()
    reader.at += 1
    inner, closing, _ = reader.rest().partition(quote)
    reader.at += len(inner)
    if not closing:
        raise reader.refuse(FilterMessage.MISSING_QUOTE)
    if len(inner) >= MAX_STRING:
        raise reader.refuse(FilterMessage.OPERAND_TOO_LONG)
    reader.at += 1
    return Text(restore(inner))


def _number(reader: _Reader, field: KernelField | None, operator: str) -> int:
    if field is not None and field.is_string:
        raise reader.refuse(FilterMessage.EXPECT_STRING)
    if operator == "~":
        raise reader.refuse(FilterMessage.ILLEGAL_FIELD_OP)
    start = reader.at
    reader.skip("-")
    reader.word()
    text = reader.text[start : reader.at]
    if len(text) >= _NUMBER:
        raise reader.refuse(FilterMessage.OPERAND_TOO_LONG)
    try:
        if field is None:
            return signed(text) if text.startswith("-") else unsigned(text)
        return signed(text) if field.signed else unsigned(text)
    except NumberError:
        raise reader.refuse(FilterMessage.ILLEGAL_INTVAL, start) from None


# list: range {(',' | space) range}   range: 'all' [groups] | N ['-' N [groups]]
# groups: ':' N '/' N   N: digits | 'N'
def is_cpu_list(text: str, cpus: int | None) -> bool:
    """Say whether a text is a list of CPUs as the kernel reads them, each below ``cpus``.

    ``0-31:2/4`` takes two of every four; ``N`` is the last CPU, ``all`` stands for all of them.
    Source: bitmap_parselist() of lib/bitmap-str.c.
    """
    limit = 1 << 16 if cpus is None else cpus
    listed = text.partition("\n")[0].replace(",", " ")
    return all(_is_range(part, limit) for part in words(listed))


def _is_range(text: str, limit: int) -> bool:
    first: int | None = 0
    last: int | None = limit - 1
    if text[:3].lower() == "all":
        text = text[3:]
    else:
        first, text = _cpu(text, limit)
        last = first
        if text:
            last, text = _cpu(text[1:], limit) if text[0] == "-" else (None, text)
    used: int | None = 0
    group: int | None = 1
    if text.startswith(":"):
        used, text = _cpu(text[1:], limit)
        group, text = _cpu(text[1:], limit) if text[:1] == "/" else (None, text)
    if text or first is None or last is None or used is None or group is None:
        return False
    return first <= last < limit and used <= group and group > 0


def _cpu(text: str, limit: int) -> tuple[int | None, str]:
    if text[:1] == "N":
        return limit - 1, text[1:]
    end = 0
    while is_digit(text[end : end + 1]):
        end += 1
    return (int(text[:end][-12:]) if end else None), text[end:]
