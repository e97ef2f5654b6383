"""Render rows as JSON lines: a row -> one JSON object and a line end.

    {"event": "printf", "text": TEXT}
    {"event": "print", "values": [VALUE or MAP, ...]}
    {"event": "map", "name": NAME, "entries": [{"key": [VALUE, ...], "value": VALUE}, ...]}
    {"event": "record", "id": N, "values": [VALUE, ...]}
    {"event": "exit", "code": 0..255}
    {"event": "lost", "records": N}    {"event": "lost", "map": NAME, "updates": N}

A VALUE is a number (pointers and addresses without a symbol too), a string, or a list of VALUEs;
of a struct with a name an object of its fields. Kernel addresses are ``"name+OFFSET"``, a stack is
a list of these, a histogram a list of ``[lowest, highest, count]`` of its buckets that are not
empty. A MAP is the object of a map row without "event".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybpf.dataclass import replace
from pybpf.events.quantize import bounds
from pybpf.output.printf import render_printf
from pybpf.output.values import Style, is_text, string, symbol, unsigned
from pybpf.rows import (
    Buckets,
    Cell,
    ExitRow,
    LostRow,
    MapRow,
    PrintfRow,
    PrintRow,
    RecordRow,
    Row,
    Stack,
    Value,
)
from pybpf.script import EventKind, EventSchema
from pybpf.types import VOID, Array, DataLoc, Int, Ptr, Show, Struct, Type, show_of, strip

if TYPE_CHECKING:
    from pybpf.output.columns import Converter, Form
    from pybpf.target.target import Symbols


def render(row: Row, symbols: Symbols, *, walltime_offset: int = 0) -> str:
    """Return a row's line. ``walltime`` values are nanoseconds since the Unix epoch.

    ``walltime_offset`` is what to add to the monotonic clock for that. Never raises.
    """
    return _dump(_object(row, Style(symbols, walltime_offset))) + "\n"


def form(schema: EventSchema, style: Style) -> Form:
    """Return how the rows of an event are printed where there are many."""
    from json.encoder import encode_basestring_ascii

    from pybpf.output.columns import Form, argument_types, text_form

    if schema.kind is EventKind.PRINTF:
        printed = text_form(schema, style)
        line = '{"event":"printf","text":%s}\n'.__mod__
        return replace(printed, finish=lambda texts: map(line, map(encode_basestring_ascii, texts)))
    cells = [_column(t, style) for t in argument_types(schema)]
    values = ",".join(spec for spec, _ in cells)
    return Form('{"event":"print","values":[' + values + "]}\n", tuple(f for _, f in cells))


def _column(t: Type, style: Style) -> tuple[str, Converter]:
    from pybpf.output.columns import each, same

    special = {Show.SYMBOL, Show.WALLTIME, Show.STACK}
    if isinstance(strip(t), Int | Ptr) and show_of(t) not in special:
        return "%d", same
    return "%s", each(lambda value: _dump(plain(value, t, style)), t)


def _dump(data: Any) -> str:
    import json

    return json.dumps(data, separators=(",", ":"))


def _object(row: Row, style: Style) -> dict[str, Any]:
    match row:
        case PrintRow(cells=cells):
            return {"event": "print", "values": [_cell(cell, style) for cell in cells]}
        case PrintfRow(format=pieces, cells=cells):
            return {"event": "printf", "text": render_printf(pieces, cells, style)}
        case MapRow():
            return {"event": "map", **_map(row, style)}
        case RecordRow(event=event, cells=cells):
            values = [_cell(cell, style) for cell in cells]
            return {"event": "record", "id": event, "values": values}
        case ExitRow(code=code):
            return {"event": "exit", "code": code}
        case LostRow(records=records, map=None):
            return {"event": "lost", "records": records}
        case LostRow(records=updates, map=name):
            return {"event": "lost", "map": name, "updates": updates}


def _cell(cell: Cell | MapRow, style: Style) -> Any:
    if isinstance(cell, MapRow):
        return _map(cell, style)
    return plain(cell.value, cell.type, style)


def _map(row: MapRow, style: Style) -> dict[str, Any]:
    entries = [
        {
            "key": [plain(k, t, style) for k, t in zip(key, row.keys, strict=False)],
            "value": plain(value, row.value, style),
        }
        for key, value in row.entries
    ]
    return {"name": row.name, "entries": entries}


def plain(value: Value, t: Type, style: Style) -> Any:
    """Return a VALUE as plain Python data: numbers, strings, lists and dicts."""
    match value:
        case int():
            return _number(value, t, style)
        case bytes():
            whole = show_of(t) is Show.BYTES and not is_text(value)
            return (value if whole else string(value)).decode("utf-8", "backslashreplace")
        case Stack(frames=frames):
            return [_address(frame, style) for frame in frames]
        case Buckets(counts=counts):
            return sorted([*bounds(i, t), count] for i, count in enumerate(counts) if count)
        case tuple():
            return _compound(value, t, style)


def _number(value: int, t: Type, style: Style) -> Any:
    match show_of(t):
        case Show.SYMBOL:
            return _address(unsigned(value, t), style)
        case Show.WALLTIME:
            return value + style.walltime_offset
        case _ if isinstance(strip(t), DataLoc):
            return {"offset": value & 0xFFFF, "length": value >> 16}
        case _:
            return value


def _address(address: int, style: Style) -> str | int:
    name = symbol(address, style)
    return address if name is None else name


def _compound(values: tuple[Value, ...], t: Type, style: Style) -> Any:
    match strip(t):
        case Struct(name=name, fields=fields):
            pairs = [
                (f.name, plain(v, f.type, style)) for v, f in zip(values, fields, strict=False)
            ]
            return dict(pairs) if name else [shown for _, shown in pairs]
        case Array(element=element):
            return [plain(value, element, style) for value in values]
        case _:
            return [plain(value, VOID, style) for value in values]
