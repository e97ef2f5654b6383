"""Histograms of triggers as JSON lines: an event and its histogram in, a JSON object out.

    {"event": "hist", "of": "GROUP/EVENT", "trigger": TEXT, "entries": [ENTRY, ...],
     "hits": N, "dropped": N}

An ENTRY is ``{"keys": {NAME: KEY, ...}, "values": {NAME: N, ...}}``, with ``tracks`` where actions
kept something. A KEY is a number or a string; ``{"address": N, "name": TEXT}`` of a symbol and
``{"number": N, "name": TEXT}`` of a process or system call; ``[LOWEST, HIGHEST]`` of a bucket; the
frames of a stack, innermost first.
"""

from __future__ import annotations

import json
from typing import Any

from pybpf.tracefs.triggers.hist_file import (
    Bucket,
    Entry,
    Histogram,
    Named,
    Power,
    Stack,
    Symbol,
    Value,
)


def to_json(event: str, histogram: Histogram) -> str:
    """Return the object's text."""
    totals = histogram.totals
    return json.dumps(
        {
            "event": "hist",
            "of": event,
            "trigger": histogram.trigger,
            "entries": [_entry(entry) for entry in histogram.entries],
            "hits": None if totals is None else totals.hits,
            "dropped": None if totals is None else totals.dropped,
        }
    )


def _entry(entry: Entry) -> dict[str, Any]:
    columns = ((f"{c.name}.{c.modifier}" if c.modifier else c.name, c) for c in entry.columns)
    shown: dict[str, Any] = {
        "keys": {name: _key(value) for name, value in entry.keys.items()},
        "values": {name: column.value for name, column in columns},
    }
    if entry.tracks:
        shown["tracks"] = [
            {"handler": t.handler, "value": t.value, "saved": dict(t.saved)} for t in entry.tracks
        ]
    return shown


def _key(value: Value) -> Any:
    match value:
        case Symbol(address, name):
            return {"address": address, "name": name}
        case Named(number, name):
            return {"number": number, "name": name}
        case Power(exponent):
            return [(1 << exponent - 1) + 1 if exponent else 0, 1 << exponent]
        case Bucket(low, high):
            return [low, high]
        case Stack(frames):
            return list(frames)
        case _:
            return value
