"""The value of a filter: its text in, comparisons combined by not, and, or out.

filter: and {'||' and}   and: not {'&&' not}   not: '!' not | '(' filter ')' | COMPARISON
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence

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
    return _or(_Tokens(tokens))


class _Tokens:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._rest: Iterator[Token | None] = iter([*tokens, None])
        self.next = next(self._rest)

    def take(self, token: str) -> bool:
        if self.next != token:
            return False
        self.next = next(self._rest)
        return True

    def comparison(self) -> Comparison:
        found = self.next
        assert isinstance(found, Comparison)
        self.next = next(self._rest)
        return found


def _or(tokens: _Tokens) -> Filter:
    parts = [_and(tokens)]
    while tokens.take("||"):
        parts.append(_and(tokens))
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _and(tokens: _Tokens) -> Filter:
    parts = [_not(tokens)]
    while tokens.take("&&"):
        parts.append(_not(tokens))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _not(tokens: _Tokens) -> Filter:
    depth = 0
    while tokens.take("!"):
        depth += 1
    if tokens.take("("):
        found = _or(tokens)
        tokens.take(")")
    else:
        found = tokens.comparison()
    for _ in range(depth):
        found = Not(found)
    return found
