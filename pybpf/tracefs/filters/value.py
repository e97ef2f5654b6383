"""Filters as values: what stands in the ``filter`` file of an event and after ``if``.

``str`` of each is text that a kernel reads back as the same filter. ``&``, ``|`` and ``~`` combine
filters in Python; ``where`` begins a comparison:

    where("prev_pid").gt(0) & ~(where("prev_comm").like("k*") | where("prev_prio").eq(120))
"""

from __future__ import annotations

from typing import Literal

from pybpf.dataclass import dataclass

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
    """The operators that combine filters."""

    __slots__ = ()

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

    def __str__(self) -> str:
        name = f"{self.field}.{self.modifier}" if self.modifier else self.field
        return f"{name} {self.operator} {self.operand}"


@dataclass(frozen=True, slots=True)
class Not(_Combined):
    """What is true where ``inner`` is not."""

    inner: Filter

    def __str__(self) -> str:
        # "!a == 1" is the same, but reads as if only the field were meant.
        return f"!{self.inner}" if isinstance(self.inner, Not) else f"!{_bracketed(self.inner)}"


@dataclass(frozen=True, slots=True)
class And(_Combined):
    """What is true where all of ``parts``, at least two, are."""

    parts: tuple[Filter, ...]

    def __str__(self) -> str:
        return " && ".join(_bracketed(p) if isinstance(p, And | Or) else str(p) for p in self.parts)


@dataclass(frozen=True, slots=True)
class Or(_Combined):
    """What is true where one of ``parts``, at least two, is."""

    parts: tuple[Filter, ...]

    def __str__(self) -> str:
        return " || ".join(_bracketed(p) if isinstance(p, Or) else str(p) for p in self.parts)


Filter = Comparison | Not | And | Or


def _whole(value: object) -> Filter:
    assert isinstance(value, Comparison | Not | And | Or)
    return value


def _bracketed(value: Filter) -> str:
    """Return a filter in brackets; the name of a function would swallow the closing one."""
    last: Filter = value
    while isinstance(last, And | Or):
        nested = And | Or if isinstance(last, And) else Or
        last = last.parts[-1]
        if isinstance(last, nested):
            return f"({value})"
    swallows = isinstance(last, Comparison) and isinstance(last.operand, Function)
    return f"({value} )" if swallows else f"({value})"


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
