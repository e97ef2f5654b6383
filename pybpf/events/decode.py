"""Decode what a running script emits: record bytes and map contents -> rows."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

from pybpf.dataclass import dataclass
from pybpf.errors import EventError
from pybpf.events.arrays import touched
from pybpf.events.layout import (
    Codec,
    Member,
    Plain,
    Record,
    Scalar,
    declare,
    declare_event,
    declare_struct,
)
from pybpf.events.merge import Entry, add, order
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
from pybpf.script import (
    CompiledScript,
    ConstArg,
    EventArg,
    EventKind,
    EventSchema,
    FieldArg,
    MapArg,
    MapRole,
    MapSpec,
)
from pybpf.types import S32, S64, U32, U64, VOID, Array, Int, Show, Struct, Type, show_of, strip

_SCRIPT_ROLES = {MapRole.MAP, MapRole.COUNT, MapRole.SUM, MapRole.QUANTIZE}


class MapReader(Protocol):
    """Where the decoder reads maps from: the kernel's, or those of the VM."""

    def items(self, name: str, /) -> Iterable[tuple[bytes, Sequence[bytes]]]:
        """Return (key, values) of every entry: one value per possible CPU, or the only one."""

    def clear(self, name: str, /) -> None:
        """Delete every entry."""

    def stack(self, stack_id: int, /) -> tuple[int, ...]:
        """Return a stack's addresses, innermost first; none if there is no such stack."""

    def cpus(self) -> Sequence[int]:
        """Return the number of each CPU that per-CPU maps have a value for."""


@dataclass(frozen=True, slots=True)
class Form:
    """An event's schema made ready. ``fields``: place in the decoded record, type.

    ``simple`` lists the fields in the arguments' place where nothing else has to be looked up.
    """

    schema: EventSchema
    codec: Codec
    fields: dict[str, tuple[int, Type]]
    simple: tuple[tuple[int, Type], ...] | None


@dataclass(frozen=True, slots=True)
class _Table:
    """A script's map made ready. ``keys`` are the types of the key's fields."""

    spec: MapSpec
    keys: tuple[Type, ...]
    value: Type
    key_codec: Codec
    value_codec: Codec


class Decoder:
    """Turns the records of one running script, and its maps, into rows.

    ``byteorder`` is that of the target: ``little`` or ``big``. Raises EventError if the script's
    schemas describe impossible layouts.
    """

    def __init__(
        self, script: CompiledScript, maps: MapReader, *, byteorder: str = "little"
    ) -> None:
        self.order = "<" if byteorder == "little" else ">"
        self._maps = maps
        self._byteorder = byteorder
        self._id = struct.Struct(f"{self.order}I").unpack_from
        self._forms = [_form(schema, byteorder) for schema in script.events]
        self._tables = {
            spec.name: _table(spec, byteorder) for spec in script.maps if spec.role in _SCRIPT_ROLES
        }
        self._lost = next(
            (_losses(spec, byteorder) for spec in script.maps if spec.role is MapRole.LOST), None
        )
        self._failures = [
            (spec.failures, spec.name) for spec in script.maps if spec.failures is not None
        ]

    def form(self, number: int) -> Form | None:
        """Return the event with a number made ready, or None if there is none."""
        return self._forms[number] if 0 <= number < len(self._forms) else None

    def decode(self, record: bytes | memoryview) -> Row | None:
        """Return the row a record stands for; None for a ``clear``, which is performed.

        A map argument is read now. Raises EventError if the bytes fit no event of the script.
        """
        try:
            form: Form = self._forms[self._id(record)[0]]
        except (struct.error, IndexError):
            raise EventError(self._why_unknown(record)) from None
        values = form.codec.decode(record)
        match form.schema.kind:
            case EventKind.PRINT:
                return PrintRow(self._cells(form, values))
            case EventKind.PRINTF:
                return PrintfRow(form.schema.format, self._cells(form, values))
            case EventKind.RECORD:
                return RecordRow(form.schema.id, self._cells(form, values))
            case EventKind.EXIT:
                return ExitRow(_code(form, self._cells(form, values)))
            case EventKind.CLEAR:
                for arg in form.schema.args:
                    if isinstance(arg, MapArg):
                        self._maps.clear(arg.name)
                return None

    def map_rows(self) -> tuple[MapRow, ...]:
        """Return the script's maps that have entries, in the order they appear in its text."""
        rows = (self.map_row(name) for name in self._tables)
        return tuple(row for row in rows if row.entries)

    def map_row(self, name: str) -> MapRow:
        """Return the present content of a map of the script; KeyError if it has no such map."""
        table = self._tables[name]
        entries = order(
            (table.key_codec.decode(key), _merge(table, values))
            for key, values in self._items(table)
        )
        return MapRow(
            name, table.keys, table.value, tuple(self._entry(table, entry) for entry in entries)
        )

    def _items(self, table: _Table) -> Iterable[tuple[bytes, Sequence[bytes]]]:
        """Return a map's entries; of an array those that were ever changed, by their keys."""
        found = self._maps.items(table.spec.name)
        if not table.spec.constants:
            return found
        cpus = self._maps.cpus() if table.spec.filled else ()
        return touched(table.spec, found, cpus, table.value_codec.size, self._byteorder)

    def lost_rows(self) -> tuple[LostRow, ...]:
        """Return the counters of lost records and refused map updates that are not zero."""
        if self._lost is None:
            return ()
        # The counters are numbered through, however many an element of the array holds.
        totals: dict[int, int] = {}
        for key, values in self._maps.items(self._lost.spec.name):
            ((element,),) = _numbers(self._lost.key_codec, [key])
            sums = add(_numbers(self._lost.value_codec, values), U64)
            totals |= enumerate(sums, start=element * len(sums))
        rows = [LostRow(totals.get(0, 0))]
        rows += [LostRow(totals.get(index, 0), name) for index, name in self._failures]
        return tuple(row for row in rows if row.records)

    def _why_unknown(self, record: bytes | memoryview) -> str:
        if len(record) < 4:
            return f"record: {len(record)} bytes hold no event id"
        return f"record: the script has no event {self._id(record)[0]}"

    def _cells(self, form: Form, values: tuple[Plain, ...]) -> tuple[Cell | MapRow, ...]:
        if form.simple is not None:
            return tuple([Cell(values[place], t) for place, t in form.simple])
        return tuple(self._cell(arg, form, values) for arg in form.schema.args)

    def _cell(self, arg: EventArg, form: Form, values: tuple[Plain, ...]) -> Cell | MapRow:
        match arg:
            case FieldArg(field=field):
                place, t = form.fields[field]
                return Cell(self.with_stacks(values[place], t), t)
            case ConstArg(value=value, type=t):
                return Cell(value, t)
            case MapArg(name=name):
                return self.map_row(name)

    def _entry(self, table: _Table, entry: Entry) -> tuple[tuple[Value, ...], Value]:
        key, value = entry
        keys = tuple(self.with_stacks(k, t) for k, t in zip(key, table.keys, strict=True))
        if table.spec.role is MapRole.QUANTIZE:
            return keys, Buckets(cast("tuple[int, ...]", value))
        return keys, self.with_stacks(value, table.value)

    def with_stacks(self, value: Plain, t: Type) -> Value:
        """Return a value with the stack ids in it, however deep, replaced by the stacks."""
        if isinstance(value, int):
            return self._stack(value) if show_of(t) is Show.STACK else value
        if isinstance(value, bytes):
            return value
        return tuple(self.with_stacks(v, u) for v, u in zip(value, _parts(t), strict=True))

    def _stack(self, value: int) -> Stack:
        # bpf_get_stackid() returns an id or a negative errno, whatever the sign of the type.
        stack_id = S32.wrap(value)
        return Stack(stack_id, self._maps.stack(stack_id) if stack_id >= 0 else ())


def _form(schema: EventSchema, byteorder: str) -> Form:
    path = f"event {schema.id}"
    fields = {f.name: (place, f.type) for place, f in enumerate(schema.payload.fields, start=1)}
    simple: list[tuple[int, Type]] | None = []
    for arg in schema.args:
        if isinstance(arg, FieldArg) and arg.field not in fields:
            raise EventError(f"{path}: the record has no field '{arg.field}'")
        if simple is None or not isinstance(arg, FieldArg) or has_stack(fields[arg.field][1]):
            simple = None
        else:
            simple.append(fields[arg.field])
    codec = Codec(declare_event(schema), byteorder, path)
    return Form(schema, codec, fields, None if simple is None else tuple(simple))


def _table(spec: MapSpec, byteorder: str) -> _Table:
    key = spec.key or Struct("", (), spec.key_size, 1)
    value = spec.value or VOID
    match spec.role:
        case MapRole.COUNT | MapRole.SUM:
            layout = _counters(1, signed=_is_signed(value))
        case MapRole.QUANTIZE:
            layout = _counters(spec.buckets)
        case _:
            layout = Record((Member("value", 0, declare(value, spec.name)),), spec.value_size)
    return _Table(
        spec,
        tuple(f.type for f in key.fields),
        value,
        Codec(declare_struct(key, f"{spec.name} key"), byteorder, f"{spec.name} key"),
        Codec(layout, byteorder, f"{spec.name} value"),
    )


def _losses(spec: MapSpec, byteorder: str) -> _Table:
    return _Table(
        spec,
        (U32,),
        U64,
        Codec(_counters(1, size=4), byteorder, "lost records key"),
        Codec(_counters(spec.value_size // 8), byteorder, "lost records value"),
    )


def _is_signed(t: Type) -> bool:
    base = strip(t)
    return isinstance(base, Int) and base.signed


def _counters(count: int, *, size: int = 8, signed: bool = False) -> Record:
    members = (Member(str(i), size * i, Scalar(size, signed)) for i in range(count))
    return Record(tuple(members), size * count)


def _numbers(codec: Codec, values: Iterable[bytes]) -> Iterator[tuple[int, ...]]:
    for value in values:
        yield cast("tuple[int, ...]", codec.decode(value))


def _merge(table: _Table, values: Sequence[bytes]) -> Plain:
    match table.spec.role:
        case MapRole.COUNT | MapRole.SUM:
            t = S64 if _is_signed(table.value) else U64
            return add(_numbers(table.value_codec, values), t)[0]
        case MapRole.QUANTIZE:
            return add(_numbers(table.value_codec, values), U64)
        case _:
            return table.value_codec.decode(values[0])[0]


def _code(form: Form, cells: tuple[Cell | MapRow, ...]) -> int:
    match cells:
        case (Cell(value=int(code)),):
            return code & 255
        case _:
            raise EventError(f"event {form.schema.id}: an exit needs one integer")


def _parts(t: Type) -> Iterable[Type]:
    """Return the types of the parts of an array or a struct."""
    match strip(t):
        case Array(element=element, count=count):
            return [element] * count
        case Struct(fields=fields):
            return [f.type for f in fields]
        case _:
            return ()


def has_stack(t: Type) -> bool:
    """Whether values of the type are, or contain, ids of stacks."""
    return show_of(t) is Show.STACK or any(has_stack(part) for part in set(_parts(t)))
