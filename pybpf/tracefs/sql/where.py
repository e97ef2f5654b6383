"""The condition of a query: its tree in, a filter for each event out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from pybpf.tracefs.filters.fields import Kind
from pybpf.tracefs.filters.value import And, Comparison, Filter, Not, Operator, Or, Text
from pybpf.tracefs.sql.parse import fault
from pybpf.tracefs.sql.syntax import Compared, Condition, Logical
from pybpf.tracefs.sql.tables import Side, Tables


def conditions(where: Condition | None, tables: Tables) -> tuple[Filter | None, Filter | None]:
    """Return the filters of the two events that together say what a condition says.

    Raises DynEventError where that cannot be: one part is about both events, not joined by AND.
    """
    found: dict[Side, list[Filter]] = {"start": [], "end": []}
    for part in _parts(where):
        sides = {side for side, _ in _leaves(part, tables)}
        if len(sides) > 1:
            raise fault(
                "the two events are filtered apart from each other",
                part.span,
                "only AND may join conditions on both",
            )
        found[sides.pop()].append(_filter(part, tables))
    return _all(found["start"]), _all(found["end"])


def _parts(where: Condition | None) -> Iterator[Condition]:
    match where:
        case None:
            return
        case Logical("and", parts):
            for part in parts:
                yield from _parts(part)
        case _:
            yield where


def _leaves(condition: Condition, tables: Tables) -> Iterator[tuple[Side, str]]:
    match condition:
        case Compared(name):
            yield tables.side(name)
        case Logical(_, parts):
            for part in parts:
                yield from _leaves(part, tables)


def _filter(condition: Condition, tables: Tables) -> Filter:
    match condition:
        case Compared():
            return _comparison(condition, tables)
        case Logical("not", (inner,)):
            return Not(_filter(inner, tables))
        case Logical("or", parts):
            return Or(tuple(_filter(part, tables) for part in parts))
        case Logical(_, parts):
            return And(tuple(_filter(part, tables) for part in parts))


def _comparison(condition: Compared, tables: Tables) -> Comparison:
    side, name = tables.side(condition.name)
    event = tables.event(side)
    if name not in event.fields:
        # It says what the fields are.
        tables.field(condition.name)
    operator = cast("Operator", condition.operator)
    if isinstance(condition.operand, int):
        return Comparison(name, operator, condition.operand)
    pointer = event.fields[name].kind is Kind.POINTER_STRING
    user = pointer and event.name.startswith("syscalls/")
    return Comparison(name, operator, Text(condition.operand), "ustring" if user else "")


def _all(parts: list[Filter]) -> Filter | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))
