"""Filters as values: what stands in the ``filter`` file of an event and after ``if``.

``str`` of each is text that a kernel reads back as the same filter. ``&``, ``|`` and ``~`` combine
filters in Python; ``where`` begins a comparison:

    where("prev_pid").gt(0) & ~(where("prev_comm").like("k*") | where("prev_prio").eq(120))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from pybpf.dataclass import dataclass

_T = TypeVar("_T")

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "&", "~"]
Modifier = Literal["", "ustring", "function"]


@dataclass(frozen=True, slots=True)
class Text:
    """A string to compare with; after ``~`` a pattern of ``*``, ``?`` and ``[]``.

    It cannot have both kinds of quotes in it, as there are no escapes.
    """

    text: str

    def __str__(self) -> str:
        quote = "'" if '"' in self.text else '"'
        return f"{quote}{self.text}{quote}"


@dataclass(frozen=True, slots=True)
class Cpus:
    """A set of CPUs as a list of ranges: ``CPUS{0-3,7}``."""

    list: str

    def __str__(self) -> str:
        return f"CPUS{{{self.list}}}"


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel function, by name or an address in it; any address in it is equal."""

    name: str

    def __str__(self) -> str:
        return self.name


Operand = int | Text | Cpus | Function


class _Combined:
    """The operators that combine filters, and what all filters share."""

    __slots__ = ()

    def __str__(self) -> str:
        return fold(_whole(self), _shown)

    def __and__(self, other: Filter) -> And:
        return And((*(self.parts if isinstance(self, And) else (_whole(self),)), other))

    def __or__(self, other: Filter) -> Or:
        return Or((*(self.parts if isinstance(self, Or) else (_whole(self),)), other))

    def __invert__(self) -> Not:
        return Not(_whole(self))


@dataclass(frozen=True, slots=True)
class Comparison(_Combined):
    """A field compared with a constant; ``modifier`` says how the field is to be taken."""

    field: str
    operator: Operator
    operand: Operand
    modifier: Modifier = ""


@dataclass(frozen=True, slots=True)
class Not(_Combined):
    """What is true where ``inner`` is not."""

    inner: Filter


@dataclass(frozen=True, slots=True)
class And(_Combined):
    """What is true where all of ``parts``, at least two, are."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or(_Combined):
    """What is true where one of ``parts``, at least two, is."""

    parts: tuple[Filter, ...]


Filter = Comparison | Not | And | Or


def _whole(value: object) -> Filter:
    assert isinstance(value, Comparison | Not | And | Or)
    return value


def parts_of(value: Filter) -> tuple[Filter, ...]:
    """Return the filters that one is made of; none for a comparison."""
    match value:
        case Comparison():
            return ()
        case Not(inner):
            return (inner,)
        case And(parts) | Or(parts):
            return parts


def fold(value: Filter, make: Callable[[Filter, list[_T]], _T]) -> _T:
    """Return what ``make`` makes of a filter, given what it made of each of the filter's parts.

    The kernel takes brackets and ``!`` to any depth that 4 kB of text has room for, which is deeper
    than Python calls functions.
    """
    todo, order = [value], []
    while todo:
        one = todo.pop()
        order.append(one)
        todo += parts_of(one)
    made: list[_T] = []
    for one in reversed(order):  # parts before the whole, the first of them first
        start = len(made) - len(parts_of(one))
        made[start:] = [make(one, made[start:])]
    return made[0]


def _shown(value: Filter, parts: list[str]) -> str:
    match value:
        case Comparison(field, operator, operand, modifier):
            name = f"{field}.{modifier}" if modifier else field
            return f"{name} {operator} {operand}"
        case Not(inner):
            # "!a == 1" is the same, but reads as if only the field were meant.
            return f"!{parts[0]}" if isinstance(inner, Not) else f"!{_bracketed(inner, parts[0])}"
        case And():
            return " && ".join(map(_within_and, value.parts, parts))
        case Or():
            return " || ".join(map(_within_or, value.parts, parts))


def _within_and(value: Filter, text: str) -> str:
    return _bracketed(value, text) if isinstance(value, And | Or) else text


def _within_or(value: Filter, text: str) -> str:
    return _bracketed(value, text) if isinstance(value, Or) else text


def _bracketed(value: Filter, text: str) -> str:
    """Return the text of a filter in brackets; the name of a function would swallow the last."""
    last: Filter = value
    while isinstance(last, And | Or):
        nested = And | Or if isinstance(last, And) else Or
        last = last.parts[-1]
        if isinstance(last, nested):
            return f"({text})"
    swallows = isinstance(last, Comparison) and isinstance(last.operand, Function)
    return f"({text} )" if swallows else f"({text})"


@dataclass(frozen=True, slots=True)
class Where:
    """A field to compare; each method returns a Comparison."""

    name: str
    modifier: Modifier = ""

    def eq(self, value: int | str | Cpus | Function) -> Comparison:
        """``==``."""
        return self._compare("==", value)

    def ne(self, value: int | str | Cpus | Function) -> Comparison:
        """``!=``."""
        return self._compare("!=", value)

    def lt(self, value: int) -> Comparison:
        """``<``."""
        return self._compare("<", value)

    def le(self, value: int) -> Comparison:
        """``<=``."""
        return self._compare("<=", value)

    def gt(self, value: int) -> Comparison:
        """``>``."""
        return self._compare(">", value)

    def ge(self, value: int) -> Comparison:
        """``>=``."""
        return self._compare(">=", value)

    def bits(self, value: int | Cpus) -> Comparison:
        """``&``: one of the bits of ``value`` is set, one of the CPUs is in the mask."""
        return self._compare("&", value)

    def like(self, pattern: str) -> Comparison:
        """``~``: the string matches a pattern of ``*``, ``?`` and ``[]``."""
        return self._compare("~", pattern)

    def _compare(self, operator: Operator, value: int | str | Cpus | Function) -> Comparison:
        operand = Text(value) if isinstance(value, str) else value
        return Comparison(self.name, operator, operand, self.modifier)


def where(name: str, *, ustring: bool = False, function: bool = False) -> Where:
    """Return a field to compare.

    ``ustring`` says that it points to a string of user space, ``function`` that it holds an address
    of code, to be compared with a Function.
    """
    return Where(name, "ustring" if ustring else "function" if function else "")
