"""Nearest names: a misspelt name and the names there are in, the likely meant ones out.

The distance is that of optimal string alignment: how many characters must be inserted, deleted,
replaced or swapped with their neighbour. Two cheap tests go before it, so that 100,000 kernel
functions take a fraction of a second: the lengths, and the pigeonhole principle. A name cut into
2k+1 pieces keeps one of them whole after k edits, as an edit touches two pieces at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise


def suggest(name: str, candidates: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Return up to ``limit`` of the candidates that ``name`` may be meant to be.

    All of them are equally near, at most one edit away for every three characters of the name and
    never more than three. A name that differs in case only, or lacks just what stands before a
    ``/`` (a tracepoint's category), is nearest of all.
    """
    allowed = min(3, max(1, len(name) // 3))
    pieces = _pieces(name, 2 * allowed + 1)
    folded = name.casefold()
    found: set[str] = set()
    for candidate in candidates:
        if name and candidate.endswith(name) and candidate[: -len(name)].endswith("/"):
            distance = 0
        elif abs(len(candidate) - len(name)) > allowed or candidate == name:
            continue
        elif candidate.casefold() == folded:
            distance = 0
        elif pieces and not any(piece in candidate for piece in pieces):
            continue
        else:
            distance = _distance(name, candidate, allowed)
        if distance < allowed:
            allowed = distance
            found.clear()
        if distance <= allowed:
            found.add(candidate)
    return tuple(sorted(found)[:limit])


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'a', 'b' or 'c'?`` to append to a message, or an empty string."""
    *others, last = [f"'{candidate}'" for candidate in suggest(name, candidates)] or [""]
    if not last:
        return ""
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def _pieces(name: str, count: int) -> tuple[str, ...]:
    """Cut ``name`` into ``count`` pieces of about the same length; none if it is too short."""
    if len(name) < count:
        return ()
    bounds = [len(name) * i // count for i in range(count + 1)]
    return tuple(name[start:end] for start, end in pairwise(bounds))


def _distance(a: str, b: str, limit: int) -> int:
    """Return the distance of two strings, or a number above ``limit`` once that is exceeded.

    Only cells within ``limit`` of the diagonal can hold a number that small.
    """
    far = limit + 1
    before: list[int] = []
    previous = [min(j, far) for j in range(len(b) + 1)]
    for i, ch in enumerate(a, start=1):
        row = [far] * (len(b) + 1)
        row[0] = min(i, far)
        for j in range(max(1, i - limit), min(len(b), i + limit) + 1):
            other = b[j - 1]
            if ch == other:
                row[j] = previous[j - 1]
                continue
            row[j] = 1 + min(previous[j - 1], previous[j], row[j - 1])
            if i > 1 and j > 1 and ch == b[j - 2] and a[i - 2] == other:
                row[j] = min(row[j], 1 + before[j - 2])
        if min(row) > limit and min(previous) >= limit:
            return far
        before, previous = previous, row
    return previous[-1]
