"""Merge what each CPU counted, and put map entries in ply's order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pybpf.events.layout import Plain
from pybpf.types import Int

Entry = tuple[tuple[Plain, ...], Plain]
"""(key fields, value)."""


def add(counters: Iterable[Sequence[int]], t: Int) -> tuple[int, ...]:
    """Add the CPUs' counters place by place; every sum wraps as the type does."""
    return tuple(t.wrap(sum(column)) for column in zip(*counters, strict=True))


def order(entries: Iterable[Entry]) -> list[Entry]:
    """Sort by value, then key: fields in order, integers by value, arrays element by element.

    A histogram is the tuple of its buckets, so histograms compare from bucket 0 up.
    """
    return sorted(entries, key=_rank)


def _rank(entry: Entry) -> tuple[Plain, tuple[Plain, ...]]:
    return entry[1], entry[0]
