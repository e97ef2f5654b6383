"""Whether a filter lets a record through: a filter and a parent's record in, yes, no or None out.

Source: kernel/trace/trace_events_filter.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate

from pybpf.events.eprobes.fetching import Fetcher, string_kind
from pybpf.events.eprobes.memory import (
    FAULT,
    UNKNOWN,
    USER_END,
    Outcome,
    Pointer,
    read_string,
)
from pybpf.tracefs.fetch import Field
from pybpf.tracefs.filters.value import And, Comparison, Filter, Not, Or, Text, fold
from pybpf.tracefs.format import EventField
from pybpf.types import Int


def holds(value: Filter, fetcher: Fetcher) -> bool | None:
    """Return whether a filter on the parent's fields holds; None where that is not known."""
    return fold(value, lambda one, parts: _holds(one, parts, fetcher))


def _holds(value: Filter, parts: list[bool | None], fetcher: Fetcher) -> bool | None:
    match value:
        case Not():
            return _NOT[parts[0]]
        case And():
            return _every(parts)
        case Or():
            return _NOT[_every([_NOT[part] for part in parts])]
        case Comparison(operand=Text(text=text)):
            return _compare_text(value, text, fetcher)
        case Comparison(operand=int() as number):
            return _compare_number(value, number, fetcher)
        case _:
            return None


_NOT: Mapping[bool | None, bool | None] = {True: False, False: True, None: None}


def _every(values: list[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True


def _compare_text(value: Comparison, text: str, fetcher: Fetcher) -> bool | None:
    found: bytes | Outcome
    field = fetcher.fields.get(value.field)
    if field is None:
        comm = fetcher.known.comm if value.field in {"comm", "COMM"} else None
        found = UNKNOWN if comm is None else comm
    else:
        found = _string(field, value, fetcher)
    if isinstance(found, Outcome):
        # What cannot be read matches nothing, nor does it differ from anything.
        return False if found is FAULT else None
    have, wanted = found.partition(b"\0")[0].decode("utf-8", "surrogateescape"), text
    if value.operator == "~":
        return re.fullmatch(translate(wanted), have, re.DOTALL) is not None
    return (have == wanted) == (value.operator == "==")


def _string(field: EventField, value: Comparison, fetcher: Fetcher) -> bytes | Outcome:
    pointer = fetcher.value(Field(field.name))
    user = value.modifier == "ustring"
    if isinstance(pointer, int) and not user and pointer < USER_END:
        return FAULT
    # Unlike filters, eprobes count relative locations from the location itself.
    ahead = 4 if string_kind(field) == "relative" else 0
    return read_string(pointer, ahead, fetcher.known.memory, user=user)


def _compare_number(value: Comparison, number: int, fetcher: Fetcher) -> bool | None:
    field = fetcher.fields.get(value.field)
    if field is None:
        known = fetcher.known.cpu if value.field in {"cpu", "CPU"} else None
        if known is None:
            return None
        have, t = known, Int(4, signed=True)
    else:
        found = fetcher.value(Field(value.field))
        if isinstance(found, Outcome | Pointer) or string_kind(field):
            return None
        t = Int(field.size if field.size in {1, 2, 4, 8} else 8, field.signed)
        have = t.wrap(found)
    wanted = t.wrap(number)
    match value.operator:
        case "==":
            return have == wanted
        case "!=":
            return have != wanted
        case "<":
            return have < wanted
        case "<=":
            return have <= wanted
        case ">":
            return have > wanted
        case ">=":
            return have >= wanted
        case "&":
            return bool(have & wanted)
        case _:
            return None
