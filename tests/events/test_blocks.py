"""Batches are split into blocks and other rows without changing what is said, and in what order."""

from __future__ import annotations

import struct
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import EventError
from pybpf.events.blocks import BlockReader
from pybpf.events.decode import Decoder
from pybpf.isa.abi import MapType
from pybpf.kernel.ringbuf import records
from pybpf.rows import Block, Cell, ExitRow, MapRow, PrintfRow, PrintRow
from pybpf.script import (
    CompiledScript,
    ConstArg,
    EventKind,
    EventSchema,
    FieldArg,
    MapArg,
    MapRole,
    MapSpec,
    Text,
)
from pybpf.source import Source
from pybpf.types import CHAR, INT, S32, U8, U32, U64, Array, Show, Typedef, struct_of

STACK = Typedef("stack_t", S32, Show.STACK)
KEY = struct_of("", [("0", U64)])
TABLE = MapSpec("m", MapRole.MAP, MapType.HASH, 8, 8, 64, 0, KEY, U64)

PLAIN, OTHER_SIZE, CONSTANT, NESTED, EXIT, CLEAR, TABLE_PRINT = range(7)


def event(number, kind, *fields, args=None, pieces=()):
    payload = struct_of("", [(str(i), t) for i, t in enumerate(fields)], start=4, align=8)
    args = tuple(FieldArg(f.name) for f in payload.fields) if args is None else args
    return EventSchema(number, kind, payload, args, pieces)


EVENTS = (
    event(PLAIN, EventKind.PRINT, U32),
    event(OTHER_SIZE, EventKind.PRINTF, Array(CHAR, 16), U8),
    event(CONSTANT, EventKind.PRINTF, args=(ConstArg(5, INT),), pieces=(Text(b"x\n"),)),
    event(NESTED, EventKind.PRINT, struct_of("pair", [("a", U8), ("b", Array(U8, 2))]), STACK),
    event(EXIT, EventKind.EXIT, INT),
    event(CLEAR, EventKind.CLEAR, args=(MapArg("m"),)),
    event(TABLE_PRINT, EventKind.PRINT, U32, args=(FieldArg("0"), MapArg("m"))),
)


class Maps:
    """One map, one entry of which comes back whenever the map is read."""

    def __init__(self):
        self.reads = self.clears = 0

    def items(self, _name, /):
        self.reads += 1
        return [(struct.pack("<Q", self.clears), [struct.pack("<Q", self.reads)])]

    def clear(self, _name, /):
        self.clears += 1

    def stack(self, stack_id, /):
        return (stack_id, 7)


def decoder():
    script = CompiledScript(Source("x", ""), "x86_64", (), (TABLE,), EVENTS)
    return Decoder(script, Maps())


def record(number, content=b"", more=0):
    """Return a record of an event as it lies in a batch, with ``more`` bytes behind it."""
    size = EVENTS[number].payload.size if number < len(EVENTS) else 8
    data = struct.pack("<I", number) + content.ljust(size, b"\0")[: size - 4] + b"\xee" * more
    return struct.pack("=II", len(data), 99) + data + bytes(-len(data) % 8)


def expanded(found):
    """Yield the rows that blocks stand for, and the other rows."""
    for row in found:
        if not isinstance(row, Block):
            yield row
            continue
        rows = {n: iter(_rows(n, row.events.count(n), c)) for n, c in row.columns.items()}
        yield from (next(rows[number]) for number in row.events)
        assert not [left for it in rows.values() for left in it]


def _rows(number, count, columns):
    schema = EVENTS[number]
    fields = {f.name: f.type for f in schema.payload.fields}
    types = [a.type if isinstance(a, ConstArg) else fields[a.field] for a in schema.args]
    assert [len(column) for column in columns] == [count] * len(types)
    for values in zip(*columns, strict=True):
        cells = tuple(Cell(v, t) for v, t in zip(values, types, strict=True))
        kind = schema.kind
        yield PrintfRow(schema.format, cells) if kind is EventKind.PRINTF else PrintRow(cells)


def one_by_one(batch):
    one = decoder()
    return [row for row in map(one.decode, records(batch)) if row is not None]


def in_blocks(batch):
    return list(expanded(BlockReader(decoder()).read(batch)))


drawn = st.builds(record, st.integers(0, len(EVENTS) - 1), st.binary(max_size=24))
runs = st.tuples(drawn, st.integers(1, 5)).map(lambda run: run[0] * run[1])


@given(st.lists(runs, max_size=12).map(b"".join))
def test_blocks_stand_for_the_rows_in_their_order(batch):
    assert in_blocks(batch) == one_by_one(batch)


@given(st.lists(st.builds(record, st.just(PLAIN), st.binary(max_size=8)), min_size=1))
def test_records_of_one_event_are_one_block(batch):
    (block,) = BlockReader(decoder()).read(b"".join(batch))
    assert block.events == (PLAIN,) * len(batch)


@pytest.mark.parametrize("more", range(8))
def test_perf_buffers_padding_is_not_looked_at(more):
    batch = b"".join(record(PLAIN, bytes([n]), more) for n in range(5))
    assert in_blocks(batch) == [PrintRow((Cell(n, U32),)) for n in range(5)]
    mixed = batch + record(CONSTANT) + record(PLAIN, b"\7") + batch
    assert in_blocks(mixed) == one_by_one(mixed)


def test_records_as_long_as_others_are_told_apart():
    same = event(1, EventKind.PRINTF, U32)
    script = CompiledScript(Source("x", ""), "x86_64", (), (), (EVENTS[PLAIN], same))
    batch = b"".join(record(PLAIN) for _ in range(3))
    other = record(PLAIN)[:8] + struct.pack("<II", 1, 5)
    (block,) = BlockReader(Decoder(script, Maps())).read(batch + other + batch)
    assert block.events == (0, 0, 0, 1, 0, 0, 0)
    assert {n: [list(column) for column in c] for n, c in block.columns.items()} == {
        0: [[0] * 6],
        1: [[5]],
    }


def test_maps_are_read_and_cleared_where_the_records_say():
    order = [PLAIN, TABLE_PRINT, PLAIN, CLEAR, PLAIN, TABLE_PRINT, EXIT]
    found = list(BlockReader(decoder()).read(b"".join(map(record, order))))
    maps = [row.cells[1] for row in found if isinstance(row, PrintRow)]
    assert [type(row) for row in found] == [Block, PrintRow, Block, Block, PrintRow, ExitRow]
    assert maps == [
        MapRow("m", (U64,), U64, (((0,), 1),)),
        MapRow("m", (U64,), U64, (((1,), 2),)),
    ]


def test_a_map_is_not_read_before_what_precedes_it_was_taken():
    one = decoder()
    found = BlockReader(one).read(record(PLAIN) + record(TABLE_PRINT))
    assert isinstance(next(found), Block)
    assert one._maps.reads == 0


BAD = [
    (record(99), "record: the script has no event 99"),
    (struct.pack("=II", 0, 0), "record: 0 bytes hold no event id"),
    (struct.pack("=II2s6x", 2, 0, b"ab"), "record: 2 bytes hold no event id"),
    (struct.pack("=IIIQQ4x", 20, 0, PLAIN, 1, 1), "event 0: 20 bytes where 8 are expected"),
    (struct.pack("=IIQ", 8, 0, OTHER_SIZE), "event 1: 8 bytes where 24 are expected"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
@pytest.mark.parametrize("place", range(3))
def test_records_that_fit_no_event_are_refused_in_their_place(bad, message, place):
    good = [record(PLAIN, bytes([n])) for n in range(2)]
    found = expanded(BlockReader(decoder()).read(b"".join([*good[:place], bad, *good])))
    assert list(islice(found, place)) == [PrintRow((Cell(n, U32),)) for n in range(place)]
    with pytest.raises(EventError) as error:
        next(found)
    assert str(error.value) == message
