"""Decode many records at once: a batch of them in; blocks of what prints, and other rows, out.

Decoding a record costs microseconds, and a batch holds thousands. So records that only print are
taken apart by columns, each column by one call that runs in C. Whatever reads or clears a map or
ends the run is decoded by itself, in its place between the blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.events.decode import has_stack
from pybpf.rows import Block, Row, Value
from pybpf.script import ConstArg, EventKind, FieldArg, MapArg
from pybpf.types import Type

if TYPE_CHECKING:
    from pybpf.events.decode import Decoder, Form
    from pybpf.events.layout import Plain

# A record in a batch begins with its length and 4 bytes that say nothing; then comes the event's
# id. It ends on a multiple of 8.
_HEAD = 8


@dataclass(frozen=True, slots=True)
class _Kind:
    """What takes apart the records of one event, which have one length.

    ``unpack``: the values of records that lie one behind the other, by record; the first are the
    length, the id, then the fields in order. ``width`` is their number.
    """

    number: int
    length: int
    step: int
    width: int
    unpack: Callable[[bytes], Iterable[tuple[Plain, ...]]]
    column: tuple[Callable[[Sequence[Plain], int], Sequence[Value]], ...]

    def columns(self, records: bytes) -> tuple[Sequence[Value], ...] | None:
        """Return the values of each argument; None if not all records are of this kind."""
        flat: list[Plain] = list(chain.from_iterable(self.unpack(records)))
        count = len(flat) // self.width
        lengths, numbers = flat[:: self.width], flat[1 :: self.width]
        if lengths.count(self.length) != count or numbers.count(self.number) != count:
            return None
        return tuple([column(flat, count) for column in self.column])


class BlockReader:
    """Decodes the batches of one running script, with the help of the decoder of its records."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._head = struct.Struct(f"{decoder.order}I4xI").unpack_from
        self._kinds: dict[int, _Kind | None] = {}

    def read(self, batch: bytes) -> Iterator[Row | Block]:
        """Yield what the records of a batch stand for, in their order; ``clear`` is performed.

        Maps are cleared and read when the iterator gets there. Raises EventError where the bytes
        fit no event of the script.
        """
        block = self._uniform(batch)
        if block is None:
            yield from self._mixed(batch)
        else:
            yield block

    def _uniform(self, batch: bytes) -> Block | None:
        """Return a batch as one block if its records are all of one kind."""
        if len(batch) < _HEAD + 4:
            return None
        length, number = self._head(batch)
        kind = self._kind(number, length)
        # If all heads of a row of steps are those of the first record, records do begin there. To
        # look at the last one keeps most batches of several kinds from being unpacked in vain.
        if kind is None or len(batch) % kind.step:
            return None
        if self._head(batch, len(batch) - kind.step) != (length, number):
            return None
        columns = kind.columns(batch)
        if columns is None:
            return None
        return Block((number,) * (len(batch) // kind.step), {number: columns})

    def _mixed(self, batch: bytes) -> Iterator[Row | Block]:
        """Sort the records between those that do not only print by their events."""
        events: list[int] = []
        parts: dict[int, list[bytes]] = {}
        at, end = 0, len(batch)
        while at < end:
            # Without an id, which no program leaves out, a record is its head.
            length, number = self._head(batch, at) if at + _HEAD < end else (0, -1)
            following = at + (length + 15 & ~7)
            if self._kind(number, length) is not None:
                events.append(number)
                parts.setdefault(number, []).append(batch[at:following])
            else:
                if events:
                    yield self._block(events, parts)
                    events, parts = [], {}
                row = self._decoder.decode(batch[at + _HEAD : at + _HEAD + length])
                if row is not None:
                    yield row
            at = following
        if events:
            yield self._block(events, parts)

    def _block(self, events: list[int], parts: dict[int, list[bytes]]) -> Block:
        columns = {}
        for number, records in parts.items():
            kind = self._kinds[number]
            assert kind is not None
            found = kind.columns(b"".join(records))
            assert found is not None, "the records were chosen by their kind"
            columns[number] = found
        return Block(tuple(events), columns)

    def _kind(self, number: int, length: int) -> _Kind | None:
        """Return what takes such a record apart; None if it has to be decoded by itself."""
        try:
            kind = self._kinds[number]
        except KeyError:
            form = self._decoder.form(number)
            kind = None if form is None else _kind(form, length, self._decoder)
            if form is not None:
                self._kinds[number] = kind
        return kind if kind is not None and kind.length == length else None


def _kind(form: Form, length: int, decoder: Decoder) -> _Kind | None:
    schema, codec = form.schema, form.codec
    if schema.kind not in {EventKind.PRINT, EventKind.PRINTF}:
        return None
    if not codec.size <= length < codec.size + 8:
        return None
    step = length + 15 & ~7
    width = 2 + len(form.fields)
    columns: list[Callable[[Sequence[Plain], int], Sequence[Value]]] = []
    for arg in schema.args:
        match arg:
            case FieldArg(field=field):
                place, t = form.fields[field]
                columns.append(_field(1 + place, width, t, decoder))
            case ConstArg(value=value):
                columns.append(_constant(value))
            case MapArg():
                return None
    return _Kind(schema.id, length, step, width, _unpacker(form, step), tuple(columns))


def _unpacker(form: Form, step: int) -> Callable[[bytes], Iterable[tuple[Plain, ...]]]:
    order, head = form.codec.format[0], struct.Struct(f"{form.codec.format[0]}I")
    if form.codec.flat:
        padding = step - _HEAD - form.codec.size
        return struct.Struct(f"{order}I4x{form.codec.format[1:]}{padding}x").iter_unpack

    def unpack(records: bytes) -> Iterator[tuple[Plain, ...]]:
        view = memoryview(records)
        for at in range(0, len(records), step):
            payload = view[at + _HEAD : at + _HEAD + form.codec.size]
            yield head.unpack_from(records, at) + form.codec.decode(payload)

    return unpack


def _field(
    place: int, width: int, t: Type, decoder: Decoder
) -> Callable[[Sequence[Plain], int], Sequence[Value]]:
    if not has_stack(t):
        return lambda flat, _: flat[place::width]
    return lambda flat, _: [decoder.with_stacks(value, t) for value in flat[place::width]]


def _constant(value: int | bytes) -> Callable[[Sequence[Plain], int], Sequence[Value]]:
    return lambda _, count: (value,) * count
