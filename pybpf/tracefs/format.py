"""A tracepoint's ``format`` file: text in, fields with C types out."""

from __future__ import annotations

from dataclasses import dataclass

from pybpf.types import Type


@dataclass(frozen=True, slots=True)
class EventField:
    """One field: ``offset`` and ``size`` in bytes as the file says; ``common`` for common_*."""

    name: str
    declaration: str
    type: Type
    offset: int
    size: int
    common: bool


@dataclass(frozen=True, slots=True)
class EventFormat:
    """An event's record layout. ``id`` is what perf_event_open takes as config."""

    name: str
    id: int
    fields: tuple[EventField, ...]
    print_fmt: str = ""

    def field(self, name: str) -> EventField | None:
        """Return the field called ``name``, or None."""
        return next((f for f in self.fields if f.name == name), None)
