"""A compiled script from a file in; PlainError where its parts do not fit each other, out.

What the loader, the decoder and the printer rely on without asking, as the compiler sees to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from pybpf.objfile.plain import PlainError
from pybpf.printf import LETTERS, MAX_WIDTH
from pybpf.script import (
    CompiledScript,
    ConstArg,
    Conversion,
    EventArg,
    EventKind,
    EventSchema,
    FieldArg,
    MapArg,
    MapRole,
    MapSpec,
    ProbeSpec,
    Provider,
    Text,
)
from pybpf.types import (
    Array,
    Func,
    Int,
    Ptr,
    Struct,
    Type,
    Typedef,
    Void,
    is_string,
    size_of,
    strip,
)

_U31 = 1 << 31
_LARGEST = 1 << 24
_COUNTED = frozenset({MapRole.COUNT, MapRole.SUM, MapRole.QUANTIZE})
_PLACE = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
_ONE = frozenset({EventKind.EXIT, EventKind.CLEAR})
"""What has exactly one argument."""


def check(script: CompiledScript) -> None:
    """Raise PlainError for the first thing that cannot be, with its place."""
    names = [spec.name for spec in script.maps]
    if len(set(names)) != len(names):
        raise PlainError("script.maps", "two have the same name")
    for place, spec in _numbered("script.maps", script.maps):
        _map(place, spec)
    shown = {spec.name for spec in script.maps if spec.role in _COUNTED | {MapRole.MAP}}
    for index, (place, event) in enumerate(_numbered("script.events", script.events)):
        if event.id != index:
            raise PlainError(f"{place}.id", f"it is not {index}")
        _event(place, event, shown)
    for place, probe in _numbered("script.probes", script.probes):
        _probe(place, probe)
    if not 0 < script.buffer_size < _U31:
        raise PlainError("script.buffer_size", "it is no size")
    if any(spec.role is MapRole.CGROUP for spec in script.maps) and script.cgroup is None:
        raise PlainError("script.cgroup", "it is missing")


_T = TypeVar("_T")


def _numbered(place: str, each: Iterable[_T]) -> Iterator[tuple[str, _T]]:
    return ((f"{place}[{index}]", one) for index, one in enumerate(each))


def _expect(place: str, condition: object, reason: str) -> None:
    if not condition:
        raise PlainError(place, reason)


def _map(place: str, spec: MapSpec) -> None:
    for name in ("key_size", "value_size", "max_entries", "flags"):
        _expect(f"{place}.{name}", 0 <= getattr(spec, name) < _U31, "it is no size")
    _expect(f"{place}.initial", len(spec.initial) <= spec.value_size, "it is too long")
    _expect(f"{place}.failures", spec.failures is None or 0 <= spec.failures < _U31, "it is none")
    for name in ("key", "value"):
        if (t := getattr(spec, name)) is not None:
            _type(f"{place}.{name}", t)
    if spec.role not in _COUNTED | {MapRole.MAP}:
        return
    if spec.key is None or spec.value is None:
        raise PlainError(place, "its types are missing")
    size = 4 if spec.constants else spec.key.size
    _expect(f"{place}.key_size", spec.key_size == size, "its type has another")
    if spec.role is MapRole.MAP:
        _expect(
            f"{place}.value_size", spec.value_size == size_of(spec.value), "its type has another"
        )
    else:
        numbers = spec.value_size // 8
        _expect(
            f"{place}.value_size", numbers and not spec.value_size % 8, "it is no number of u64"
        )
        _expect(f"{place}.value", isinstance(strip(spec.value), Int), "it is no integer")
        least = 8 * size_of(spec.value) if spec.role is MapRole.QUANTIZE else 1
        _expect(f"{place}.value_size", numbers >= least, "it is too small")
    _keys(place, spec, spec.key)


def _keys(place: str, spec: MapSpec, key: Struct) -> None:
    """Check the keys that are known of a map that is an array."""
    for where, constant in _numbered(f"{place}.constants", spec.constants):
        _expect(where, len(constant) == key.size, f"it has not the {key.size} bytes of a key")
    starts = {field.offset for field in key.fields if size_of(field.type) == 4}
    for where, (offset, _) in _numbered(f"{place}.filled", spec.filled):
        _expect(where, offset in starts, "no field of 4 bytes is there")
    _expect(f"{place}.filled", spec.constants or not spec.filled, "there are no constants")
    if not spec.filled:
        enough = spec.max_entries <= len(spec.constants)
        _expect(f"{place}.max_entries", enough or not spec.constants, "there are fewer constants")
    elif spec.constants:
        _expect(f"{place}.constants", spec.max_entries, "there is no element")


def _type(place: str, t: Type) -> None:
    """Check that a type has a size that can be."""
    match t:
        case Int(size=size):
            _expect(place, size in {1, 2, 4, 8}, "no integer has that size")
        case Array(element=element, count=count):
            _expect(place, 0 <= count <= _LARGEST, "no array is that long")
            _type(place, element)
        case Struct(size=size, align=align, fields=fields):
            _expect(place, 0 <= size <= _LARGEST and align > 0, "no structure has that size")
            _expect(place, len({f.name for f in fields}) == len(fields), "two fields have one name")
            for where, field in _numbered(f"{place}.fields", fields):
                _type(where, field.type)
                inside = 0 <= field.offset <= size - size_of(field.type)
                _expect(where, inside, "it is not within its structure")
        case Ptr(to=to) | Typedef(type=to):
            _type(place, to)
        case Func(returns=returns, params=params):
            for inner in (returns, *(param for _, param in params)):
                _type(place, inner)
        case _:
            pass
    _expect(place, size_of(t) <= _LARGEST, "no value is that large")


def _event(place: str, event: EventSchema, shown: set[str]) -> None:
    payload = event.payload
    _type(f"{place}.payload", payload)
    _expect(
        f"{place}.payload", payload.size % 8 == 0 and payload.size, "its size is no multiple of 8"
    )
    for field in payload.fields:
        _expect(f"{place}.payload", field.offset >= 4, f"'{field.name}' is where the id is")
    fields = {field.name: field.type for field in payload.fields}
    for where, arg in _numbered(f"{place}.args", event.args):
        _argument(where, arg, fields, shown)
    count = len(event.args)
    if event.kind in _ONE:
        _expect(f"{place}.args", count == 1, "it is not one")
        is_map = isinstance(event.args[0], MapArg)
        _expect(
            f"{place}.args[0]", is_map is (event.kind is EventKind.CLEAR), "it is the wrong kind"
        )
    if event.kind is EventKind.EXIT:
        t = strip(_type_of(event.args[0], fields))
        _expect(f"{place}.args[0]", isinstance(t, Int), "it is no integer")
    if event.kind is EventKind.PRINTF:
        _format(place, event)


def _argument(place: str, arg: EventArg, fields: dict[str, Type], shown: set[str]) -> None:
    match arg:
        case FieldArg(field=name):
            _expect(place, name in fields, f"the record has no field '{name[:80]}'")
        case MapArg(name=name):
            _expect(place, name in shown, f"there is no map '{name[:80]}'")
        case ConstArg(value=value, type=t):
            _type(place, t)
            fits = isinstance(value, bytes) == is_string(t) and not isinstance(strip(t), Struct)
            _expect(place, fits, "its value is not of its type")


def _type_of(arg: EventArg, fields: dict[str, Type]) -> Type:
    match arg:
        case FieldArg(field=name):
            return fields[name]
        case ConstArg(type=t):
            return t
        case MapArg():
            return Void()


def _format(place: str, event: EventSchema) -> None:
    conversions = [piece for piece in event.format if not isinstance(piece, Text)]
    count = len(event.args)
    _expect(f"{place}.format", len(conversions) == count, f"it is not for {count} arguments")
    for conversion in conversions:
        _expect(f"{place}.format", _can_be(conversion), "it has a conversion that cannot be")


def _can_be(conversion: Conversion) -> bool:
    numbers = (conversion.width or 0, conversion.precision or 0)
    letter = len(conversion.letter) == 1 and conversion.letter in LETTERS
    return (
        letter
        and not set(conversion.flags) - set("-+ #0'")
        and all(0 <= number <= MAX_WIDTH for number in numbers)
    )


def _probe(place: str, probe: ProbeSpec) -> None:
    match probe.provider:
        case Provider.KPROBE | Provider.KRETPROBE:
            _expect(f"{place}.functions", probe.functions, "there is none")
            for where, function in _numbered(f"{place}.functions", probe.functions):
                _expect(where, 0 <= function.offset < 1 << 64, "no function is that long")
                _expect(where, "\0" not in function.symbol, "no symbol is called so")
        case Provider.TRACEPOINT | Provider.EPROBE:
            known = _PLACE.fullmatch(probe.tracepoint)
            _expect(f"{place}.tracepoint", known, "it is no category/event")
        case Provider.INTERVAL:
            _expect(f"{place}.period", 0 < probe.period < 1 << 63, "it is no time")
        case Provider.PROFILE:
            _expect(f"{place}.frequency", 0 < probe.frequency <= 10**9, "it is no frequency")
            cpu = probe.cpu is None or 0 <= probe.cpu < _U31
            _expect(f"{place}.cpu", cpu, "no CPU has that number")
        case Provider.BEGIN | Provider.END:
            pass
