r"""Items of trace buffers as JSON lines: a record or a loss in, a JSON object out.

    {"event": "GROUP/EVENT", "timestamp": NS, "cpu": N, "fields": {NAME: VALUE, ...}}
    {"event": "lost", "timestamp": NS, "cpu": N, "records": N or null}
    {"event": null, "timestamp": NS, "cpu": N, "id": N, "payload": HEX}

A VALUE is a number, a string (bytes that are no UTF-8 as ``\xNN``), a list of VALUEs, or the bytes
of a struct in hexadecimal. What all records begin with is left out, but for ``common_pid``.
"""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any

from pybpf.events.ftrace.reader import Item, Lost, RawRecord
from pybpf.events.ftrace.record import TraceRecord

_LEFT_OUT = frozenset({"common_type", "common_flags", "common_preempt_count"})


def to_json(item: Item) -> str:
    """Return the object's text. Never raises."""
    match item:
        case TraceRecord():
            made = _writers.get(type(item))
            if made is None:
                made = _writers[type(item)] = _writer(type(item))
            return made(item)
        case Lost(timestamp=timestamp, cpu=cpu, count=count):
            records = "null" if count is None else count
            return f'{{"event":"lost","timestamp":{timestamp},"cpu":{cpu},"records":{records}}}'
        case RawRecord(timestamp, cpu, number, payload):
            place = f'"event":null,"timestamp":{timestamp},"cpu":{cpu}'
            return f'{{{place},"id":{number},"payload":"{payload.hex()}"}}'


_writers: dict[type[TraceRecord], Callable[[TraceRecord], str]] = {}


def _writer(event: type[TraceRecord]) -> Callable[[TraceRecord], str]:
    """Return what writes the records of one event: a template, filled with the values' texts."""
    shown = [(name, place) for name, place in event.places.items() if name not in _LEFT_OUT]
    fields = ",".join(f"{encode_basestring_ascii(name)}:%s" for name, _ in shown)
    name = encode_basestring_ascii(event.event).replace("%", "%%")
    template = f'{{"event":{name},"timestamp":%s,"cpu":%s,"fields":{{{fields}}}}}'
    places = [0, 1, *(place for _, place in shown)]

    def write(record: TraceRecord) -> str:
        values = tuple(record)
        chosen = [values[place] for place in places]
        return template % tuple([v if type(v) is int else _plain(v) for v in chosen])

    return write


def _plain(value: Any) -> str:
    match value:
        case str():
            if not value.isascii():
                raw = value.encode("utf-8", "surrogateescape")
                value = raw.decode("utf-8", "backslashreplace")
            return encode_basestring_ascii(value)
        case bytes():
            return f'"{value.hex()}"'
        case tuple():
            parts = [str(part) if type(part) is int else _plain(part) for part in value]
            return f"[{','.join(parts)}]"
        case _:
            return str(value)
