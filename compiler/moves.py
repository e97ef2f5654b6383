"""Moves that are to happen at once -> the same, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def in_order(moves: Mapping[int, int], spare: int) -> Iterator[tuple[int, int]]:
    """Yield (to, from) pairs that bring ``moves[to]`` to each ``to`` without losing a value.

    A move may go once nothing waits for what its target holds. When all targets are waited for,
    they form circles, and a circle is opened by setting one value aside in ``spare``. That must
    not be a target; it may be a source, as by then its value has been moved.
    """
    waiting = {to: source for to, source in moves.items() if to != source}
    while waiting:
        wanted = set(waiting.values())
        ready = next((to for to in waiting if to not in wanted), None)
        if ready is None:
            to, source = next(iter(waiting.items()))
            yield spare, source
            waiting[to] = spare
        else:
            yield ready, waiting.pop(ready)
