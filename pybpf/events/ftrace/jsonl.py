r"""Items of trace buffers as JSON lines: a record or a loss in, a JSON object out.

    {"event": "GROUP/EVENT", "timestamp": NS, "cpu": N, "fields": {NAME: VALUE, ...}}
    {"event": "lost", "timestamp": NS, "cpu": N, "records": N or null}
    {"event": null, "timestamp": NS, "cpu": N, "id": N, "payload": HEX}

A VALUE is a number, a string (bytes that are no UTF-8 as ``\xNN``), a list of VALUEs, or the bytes
of a struct in hexadecimal. What all records begin with is left out, but for ``common_pid``.
"""

from __future__ import annotations

from typing import Any

from pybpf.events.ftrace.reader import Item, Lost, RawRecord
from pybpf.events.ftrace.record import TraceRecord

_LEFT_OUT = frozenset({"common_type", "common_flags", "common_preempt_count"})


def to_json(item: Item) -> str:
    """Return the object's text. Never raises."""
    import json

    return json.dumps(_object(item), separators=(",", ":"))


def _object(item: Item) -> dict[str, Any]:
    match item:
        case Lost(timestamp=timestamp, cpu=cpu, count=count):
            return {"event": "lost", "timestamp": timestamp, "cpu": cpu, "records": count}
        case RawRecord():
            raw = {"event": None, "timestamp": item.timestamp, "cpu": item.cpu}
            return {**raw, "id": item.id, "payload": item.payload.hex()}
        case TraceRecord():
            fields = {
                name: _plain(value)
                for name, value in item.fields().items()
                if name not in _LEFT_OUT
            }
            place = {"event": item.event, "timestamp": item.timestamp, "cpu": item.cpu}
            return {**place, "fields": fields}


def _plain(value: object) -> Any:
    match value:
        case str():
            if value.isascii():
                return value
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        case bytes():
            return value.hex()
        case tuple():
            return [_plain(part) for part in value]
        case _:
            return value
