"""A query as a tree: what the parser makes, with the place of each part in the text."""

from __future__ import annotations

from typing import Literal

from pybpf.dataclass import dataclass, field
from pybpf.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    """``[[SYSTEM.]TABLE.]FIELD``, or ``[SYSTEM.]EVENT``: the words between the dots."""

    words: tuple[str, ...]
    span: Span = field(compare=False, repr=False)

    def __str__(self) -> str:
        return ".".join(self.words)


@dataclass(frozen=True, slots=True)
class Literally:
    """A number."""

    value: int
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(FIELD AS KIND)``, ``SUM(FIELD)``, ``USTRING(FIELD)`` or ``STRING(FIELD)``.

    ``kind`` is in lower case, ``width`` that of ``buckets=N``.
    """

    name: Name
    kind: str
    width: int | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two expressions combined."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    span: Span = field(compare=False, repr=False)


Expression = Name | Literally | Cast | Arithmetic


@dataclass(frozen=True, slots=True)
class Selected:
    """What is selected, and what it is called."""

    expression: Expression
    label: str | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Table:
    """An event, and what it is called in the query."""

    name: Name
    alias: str | None


@dataclass(frozen=True, slots=True)
class Compared:
    """A field compared with a constant; a string is in ``operand`` without its quotes."""

    name: Name
    operator: str
    operand: int | str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logical:
    """Conditions combined: all of them, one of them, or (of one) its contrary."""

    operator: Literal["and", "or", "not"]
    parts: tuple[Condition, ...]
    span: Span = field(compare=False, repr=False)


Condition = Compared | Logical


@dataclass(frozen=True, slots=True)
class Query:
    """``SELECT … FROM … [JOIN … ON …] [WHERE …]``; ``on`` are pairs of keys."""

    selected: tuple[Selected, ...]
    start: Table
    end: Table | None
    on: tuple[tuple[Name, Name], ...]
    where: Condition | None
    span: Span = field(compare=False, repr=False)
