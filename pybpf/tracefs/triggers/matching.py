"""Which histograms the kernel takes for the same: two of them in, whether they match out.

Source: hist_trigger_match(), find_compatible_hist() of kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

from collections.abc import Iterable

from pybpf.tracefs.filters.fields import KernelField
from pybpf.tracefs.triggers.model import HistData, HistField, Trigger


def find_named(triggers: Iterable[Trigger], name: str | None) -> Trigger | None:
    """Return the trigger that was first made with a name, or None."""
    if name is None:
        return None
    return next((t for t in triggers if t.name == name and not t.shares), None)


def matches(data: HistData, condition: str | None, other: Trigger, named: Trigger | None) -> bool:
    """Say whether a histogram of ``data`` with a filter is ``other``.

    ``named`` is the trigger that first had its name, where it has one that exists.
    """
    if other.data is None:
        return False
    if named is not None and other is not named and other.data is not named.data:
        return False
    if named is None and other.name is not None:
        return False
    return condition == other.filter and same(data, other.data)


def same(data: HistData, other: HistData) -> bool:
    """Say whether two histograms are made the same way, whatever their filters and sizes."""
    if (data.values, len(data.fields), data.sort_count) != (
        other.values,
        len(other.fields),
        other.sort_count,
    ):
        return False
    if not all(map(_is_same, data.fields, other.fields)):
        return False
    if _sort(data) != _sort(other) or len(data.actions) != len(other.actions):
        return False
    return all(mine.matches(its) for mine, its in zip(data.actions, other.actions, strict=True))


def _sort(data: HistData) -> list[tuple[int, bool]]:
    return [*data.sort, (0, False)][: data.sort_count]


def _is_same(field: HistField, other: HistField) -> bool:
    mine = (field.flags, field.offset, field.size, field.signed, field.variable)
    its = (other.flags, other.offset, other.size, other.signed, other.variable)
    return mine == its and _is_same_field(field.field, other.field)


def _is_same_field(field: KernelField | None, other: KernelField | None) -> bool:
    if field is None or other is None:
        return field is other
    return (field.name, field.ctype, field.size, field.signed) == (
        other.name,
        other.ctype,
        other.size,
        other.signed,
    )


def find_compatible(data: HistData, triggers: Iterable[Trigger]) -> Trigger | None:
    """Return the first trigger whose histogram has keys of the same types as ``data``."""
    for trigger in triggers:
        if trigger.data is not None and _types(trigger.data) == _types(data):
            return trigger
    return None


def _types(data: HistData) -> list[tuple[str | None, int, bool]]:
    return [(key.ctype, key.size, key.signed) for key in data.keys]
