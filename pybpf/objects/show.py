"""Keys, values and variables in; text for people, or plain data for JSON, out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pybpf.errors import KernelError
from pybpf.isa.abi import MapType
from pybpf.objects.object import Object
from pybpf.objects.table import BpfMap
from pybpf.objects.variables import Section
from pybpf.output.escape import escape_text

_WITHOUT_ENTRIES = frozenset(
    {
        MapType.QUEUE, MapType.STACK, MapType.BLOOM_FILTER, MapType.RINGBUF, MapType.USER_RINGBUF,
        MapType.PERF_EVENT_ARRAY, MapType.ARENA, MapType.SK_STORAGE, MapType.TASK_STORAGE,
        MapType.INODE_STORAGE, MapType.CGRP_STORAGE, MapType.REUSEPORT_SOCKARRAY,
    }
)  # fmt: skip


def dumped(held: Object, *, json: bool) -> Iterator[str]:
    """Yield lines about all that maps and variables of a loaded object hold.

    With ``json`` each map, and each section of variables, is a line.
    """
    for table in held.maps.values():
        if table.is_data:
            yield from _section(table.name, held.sections[table.name], json=json)
        elif table.kernel.map_type not in _WITHOUT_ENTRIES:
            yield from _map(table, json=json)


def _section(name: str, section: Section, *, json: bool) -> Iterator[str]:
    values = {variable: section[variable] for variable in section}
    if json:
        yield _json({"section": name, "variables": plain(values)})
    elif values:
        yield f"{name}:"
        yield from (f"  {variable} = {text(value)}" for variable, value in values.items())


def _map(table: BpfMap, *, json: bool) -> Iterator[str]:
    try:
        entries = [(key, _held(value)) for key, value in table.entries()]
    except KernelError as error:
        if not json:
            yield f"{table.name}: cannot be read: {error.strerror}"
        return
    if json:
        rows = [{"key": plain(key), "value": plain(value)} for key, value in entries]
        yield _json({"map": table.name, "entries": rows})
        return
    yield f"{table.name}: {len(entries)} entr{'y' if len(entries) == 1 else 'ies'}"
    yield from (f"  {text(key)}: {text(value)}" for key, value in entries)


def _held(value: Any) -> Any:
    """Return what is shown of a value: of a map its number."""
    if not isinstance(value, BpfMap):
        return value
    number, _ = value.kernel.ids()
    value.close()
    return number


def _json(row: object) -> str:
    import json

    return json.dumps(row)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: structures as objects, bytes in hexadecimal."""
    match value:
        case Mapping():
            return {name: plain(part) for name, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case bytes():
            return value.hex()
        case str():
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        case _:
            return value


def text(value: Any) -> str:
    """Return a value as people read it."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{name}: {text(part)}" for name, part in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(text, value)) + "]"
        case bytes():
            return value.hex(" ")
        case str():
            return f'"{escape_text(value)}"'
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
