"""The value of a filter: its text in, comparisons combined by not, and, or out.

filter: and {'||' and}   and: not {'&&' not}   not: '!' not | '(' filter ')' | COMPARISON
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from pybpf.errors import Diagnostic, DynEventError
from pybpf.source import Source, Span
from pybpf.tracefs.dynevents.ctext import as_bytes, restore
from pybpf.tracefs.dynevents.rules import NEWEST, Rules, rules_for
from pybpf.tracefs.filters.messages import FilterFault, FilterMessage
from pybpf.tracefs.filters.predicate import Surroundings
from pybpf.tracefs.filters.rules import tracing_rules
from pybpf.tracefs.filters.scan import Token, scan
from pybpf.tracefs.filters.value import And, Comparison, Filter, Not, Or


def parse_filter(text: str | bytes, kernel: str | Rules = NEWEST) -> Filter:
    """Return the value of a filter, as far as it can be told without the event's fields.

    ``parse_filter(str(value)) == value``. Raises DynEventError for text that is no filter of that
    kernel, TargetError for a ``kernel`` that is none.
    """
    rules = kernel if isinstance(kernel, Rules) else rules_for(kernel)
    raw = as_bytes(text)
    around = Surroundings(tracing_rules(rules), None, None, lambda _: True)
    try:
        return combine(scan(raw, around))
    except FilterFault as fault:
        source = Source("<filter>", restore(raw))
        place = min(len(restore(raw[: shown_place(fault)])), len(source.text))
        message = (fault.message or FilterMessage.ERRNO).value
        if fault.message is None:
            message = "no filter: a comparison is FIELD OPERATOR VALUE"
        raise DynEventError(Diagnostic(message, Span(source, place, place)), fault.errno) from None


def checked(value: Filter, kernel: str | Rules = NEWEST) -> Filter:
    """Return a filter made in Python, if that kernel reads its text as the same filter.

    Raises DynEventError otherwise: a string with both kinds of quotes, a conjunction of one part.
    """
    if parse_filter(str(value), kernel) == value:
        return value
    source = Source("<filter>", str(value))
    reason = "the kernel would read this filter as another one"
    raise DynEventError(Diagnostic(reason, Span(source, 0, len(source.text))), errno.EINVAL)


def shown_place(fault: FilterFault) -> int:
    """Return the place of a fault, in bytes from 0.

    The kernel counts most places from 1, since it has read the character by then.
    """
    exact = {
        FilterMessage.TOO_MANY_PREDS,
        FilterMessage.INVALID_FILTER,
        FilterMessage.NO_FILTER,
        FilterMessage.TOO_MANY_OPEN,
        FilterMessage.TOO_MANY_CLOSE,
        None,
    }
    return fault.place if fault.message in exact else max(fault.place - 1, 0)


def combine(tokens: Sequence[Token]) -> Filter:
    """Return the filter that tokens make."""
    outer: list[_Open] = []
    now = _Open()
    for token in tokens:
        match token:
            case "(":
                outer.append(now)
                now = _Open()
            case ")":
                found, now = now.close(), outer.pop()
                now.add(found)
            case "!":
                now.inverted += 1
            case "||":
                now.alternatives.append([])
            case Comparison():
                now.add(token)
            case _:  # && is between what add() takes
                pass
    return now.close()


class _Open:
    """What is between brackets up to now: ``alternatives`` of what all must be, then ``!``."""

    __slots__ = ("alternatives", "inverted")

    def __init__(self) -> None:
        self.alternatives: list[list[Filter]] = [[]]
        self.inverted = 0

    def add(self, value: Filter) -> None:
        for _ in range(self.inverted):
            value = Not(value)
        self.inverted = 0
        self.alternatives[-1].append(value)

    def close(self) -> Filter:
        each = [parts[0] if len(parts) == 1 else And(tuple(parts)) for parts in self.alternatives]
        return each[0] if len(each) == 1 else Or(tuple(each))
