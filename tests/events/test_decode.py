"""Records and map entries become rows."""

from __future__ import annotations

import struct

import pytest

from pybpf.errors import EventError
from pybpf.events.decode import Decoder
from pybpf.isa.abi import MapType
from pybpf.rows import Buckets, Cell, ExitRow, LostRow, MapRow, PrintfRow, PrintRow, Stack
from pybpf.script import (
    CompiledScript,
    ConstArg,
    Conversion,
    EventKind,
    EventSchema,
    FieldArg,
    MapArg,
    MapRole,
    MapSpec,
    Text,
)
from pybpf.source import Source
from pybpf.types import CHAR, INT, S32, S64, U8, U32, U64, Array, Show, Typedef, struct_of

PID = Typedef("pid_t", U32, Show.PID)
COMM = Array(CHAR, 16)
STACK = Typedef("stack_t", S32, Show.STACK)


class Maps:
    """Maps held in memory."""

    def __init__(self, entries=(), stacks=(), cpus=()):
        self.entries = dict(entries)
        self.numbers = cpus
        self.stacks = dict(stacks)

    def items(self, name, /):
        return list(self.entries.get(name, {}).items())

    def clear(self, name, /):
        self.entries[name] = {}

    def stack(self, stack_id, /):
        return self.stacks.get(stack_id, ())

    def cpus(self):
        return self.numbers


def script(*events, maps=()):
    return CompiledScript(Source("x", ""), "x86_64", (), tuple(maps), tuple(events))


def event(kind, *args, fields=(), pieces=(), number=0):
    payload = struct_of("", fields, start=4, align=8)
    return EventSchema(number, kind, payload, args, pieces)


def spec(name, role, *keys, value=U64, size=8, failures=None):
    key = struct_of("", [(str(i), t) for i, t in enumerate(keys)])
    map_type = MapType.HASH if role is MapRole.MAP else MapType.PERCPU_HASH
    return MapSpec(name, role, map_type, key.size, size, 64, 0, key, value, failures)


LOST = MapSpec(".lost", MapRole.LOST, MapType.PERCPU_ARRAY, 4, 8, 3)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def decode(schema, record, maps=(), entries=(), stacks=(), byteorder="little"):
    reader = Maps(entries, stacks)
    return Decoder(script(schema, maps=maps), reader, byteorder=byteorder).decode(record)


def test_a_print_has_its_arguments_in_order():
    schema = event(
        EventKind.PRINT,
        FieldArg("1"),
        ConstArg(5, INT),
        FieldArg("0"),
        fields=[("0", PID), ("1", COMM)],
    )
    row = decode(schema, struct.pack("<II16s", 0, 42, b"dd"))
    assert row == PrintRow((Cell(b"dd".ljust(16, b"\0"), COMM), Cell(5, INT), Cell(42, PID)))


def test_a_record_may_be_a_memoryview_with_the_perf_buffers_padding_behind():
    schema = event(EventKind.PRINT, FieldArg("0"), fields=[("0", S64)])
    record = memoryview(struct.pack("<I4xq4x", 0, -1))
    assert decode(schema, record) == PrintRow((Cell(-1, S64),))


def test_the_byte_order_is_the_targets():
    schema = event(EventKind.PRINT, FieldArg("0"), fields=[("0", U64)])
    record = struct.pack(">I4xQ", 0, 258)
    assert decode(schema, record, byteorder="big") == PrintRow((Cell(258, U64),))


def test_the_id_chooses_the_event():
    first = event(EventKind.PRINT, ConstArg(1, INT))
    second = event(EventKind.PRINT, ConstArg(2, INT), number=1)
    decoder = Decoder(script(first, second), Maps())
    rows = [decoder.decode(struct.pack("<I4x", number)) for number in (1, 0)]
    assert rows == [PrintRow((Cell(2, INT),)), PrintRow((Cell(1, INT),))]


def test_a_printf_carries_its_format():
    pieces = (Text(b"n="), Conversion("", None, None, "d"))
    schema = event(EventKind.PRINTF, FieldArg("0"), fields=[("0", U32)], pieces=pieces)
    assert decode(schema, struct.pack("<II", 0, 7)) == PrintfRow(pieces, (Cell(7, U32),))


def test_arrays_and_structs_are_tuples():
    pair = struct_of("pair", [("a", U8), ("b", Array(U32, 2))])
    schema = event(EventKind.PRINT, FieldArg("0"), fields=[("0", pair)])
    record = struct.pack("<IB3x2I", 0, 1, 2, 3)
    assert decode(schema, record) == PrintRow((Cell((1, (2, 3)), pair),))


@pytest.mark.parametrize("code", [0, 3, 255])
def test_an_exit(code):
    schema = event(EventKind.EXIT, FieldArg("0"), fields=[("0", INT)])
    assert decode(schema, struct.pack("<Ii", 0, code)) == ExitRow(code)


def test_an_exit_status_is_reduced_to_a_byte():
    assert decode(event(EventKind.EXIT, ConstArg(-1, INT)), bytes(8)) == ExitRow(255)


def test_a_clear_empties_the_map_and_yields_nothing():
    table = spec("m", MapRole.MAP, U64)
    maps = Maps({"m": {u64(1): [u64(2)]}})
    decoder = Decoder(script(event(EventKind.CLEAR, MapArg("m")), maps=[table]), maps)
    assert decoder.decode(bytes(8)) is None
    assert decoder.map_rows() == ()


def test_a_map_is_read_when_the_record_that_prints_it_is():
    table = spec("m", MapRole.MAP, U64)
    maps = Maps({"m": {u64(1): [u64(2)]}})
    decoder = Decoder(script(event(EventKind.PRINT, MapArg("m")), maps=[table]), maps)
    assert decoder.decode(bytes(8)) == PrintRow((MapRow("m", (U64,), U64, (((1,), 2),)),))
    maps.clear("m")
    assert decoder.decode(bytes(8)) == PrintRow((MapRow("m", (U64,), U64, ()),))


@pytest.mark.parametrize(
    ("stack_id", "stack"),
    [
        (3, Stack(3, (0xA, 0xB))),
        (4, Stack(4, ())),
        (-17, Stack(-17, ())),
    ],
    ids=["found", "gone", "never taken"],
)
def test_a_stack_id_becomes_a_stack(stack_id, stack):
    schema = event(EventKind.PRINT, FieldArg("0"), fields=[("0", STACK)])
    record = struct.pack("<Ii", 0, stack_id)
    assert decode(schema, record, stacks={3: (0xA, 0xB)}) == PrintRow((Cell(stack, STACK),))


def test_a_stack_id_is_found_wherever_it_is():
    pair = struct_of("", [("a", Array(STACK, 2))])
    schema = event(EventKind.PRINT, FieldArg("0"), fields=[("0", pair)])
    row = decode(schema, struct.pack("<Iii4x", 0, 1, 2), stacks={1: (5,), 2: (6,)})
    assert row == PrintRow((Cell(((Stack(1, (5,)), Stack(2, (6,))),), pair),))


def test_a_map_is_sorted_by_value_then_key():
    table = spec("m", MapRole.MAP, INT, COMM, value=INT, size=4)
    entries = {
        struct.pack("<i16s", key, name): [struct.pack("<i", value)]
        for key, name, value in [(0, b"z", 9), (1, b"x", 3), (1, b"w", 3), (-1, b"a", 9)]
    }
    row = Decoder(script(maps=[table]), Maps({"m": entries})).map_row("m")
    assert [(key[0], key[1][:1], value) for key, value in row.entries] == [
        (1, b"w", 3),
        (1, b"x", 3),
        (-1, b"a", 9),
        (0, b"z", 9),
    ]


def test_the_stacks_of_a_key_and_a_value_are_looked_up():
    table = spec("m", MapRole.MAP, STACK, value=STACK, size=4)
    entries = {struct.pack("<i", 1): [struct.pack("<i", 2)]}
    maps = Maps({"m": entries}, stacks={1: (5,), 2: (6,)})
    row = Decoder(script(maps=[table]), maps).map_row("m")
    assert row.entries == (((Stack(1, (5,)),), Stack(2, (6,))),)


@pytest.mark.parametrize(
    ("role", "value", "cpus", "merged"),
    [
        (MapRole.COUNT, U64, [u64(3), u64(4)], 7),
        (MapRole.SUM, U64, [u64((1 << 64) - 1), u64(2)], 1),
        (MapRole.SUM, S64, [u64(5), u64((1 << 64) - 7)], -2),
        (MapRole.MAP, U8, [b"\7" + bytes(7)], 7),
    ],
    ids=["count", "sum of unsigned", "sum of signed", "padded value"],
)
def test_a_value_is_merged_over_the_cpus(role, value, cpus, merged):
    size = 1 if role is MapRole.MAP else 8
    table = spec("@", role, U64, value=value, size=size)
    row = Decoder(script(maps=[table]), Maps({"@": {u64(1): cpus}})).map_row("@")
    assert row == MapRow("@", (U64,), value, (((1,), merged),))


def test_histograms_are_added_bucket_by_bucket_and_sorted_from_bucket_0_up():
    table = spec("@", MapRole.QUANTIZE, U64, value=INT, size=24)
    entries = {
        u64(1): [u64(1, 0, 0), u64(1, 9, 0)],
        u64(2): [u64(0, 5, 0), u64(0, 0, 7)],
    }
    row = Decoder(script(maps=[table]), Maps({"@": entries})).map_row("@")
    assert row.entries == (((2,), Buckets((0, 5, 7))), ((1,), Buckets((2, 9, 0))))


def test_map_rows_are_the_scripts_maps_with_entries_in_the_order_of_the_script():
    tables = [spec(name, MapRole.MAP, U64) for name in ("b", "empty", "a")]
    entries = {name: {u64(1): [u64(2)]} for name in ("a", "b")} | {".lost": {bytes(4): [u64(1)]}}
    rows = Decoder(script(maps=[*tables, LOST]), Maps(entries)).map_rows()
    assert [row.name for row in rows] == ["b", "a"]


def test_an_unknown_map_is_a_key_error():
    with pytest.raises(KeyError):
        Decoder(script(maps=[LOST]), Maps()).map_row(".lost")


@pytest.mark.parametrize(
    ("size", "counters"),
    [
        (8, {0: [u64(1000), u64(1001)], 1: [u64(5), u64(6)], 2: [u64(0), u64(0)]}),
        (24, {0: [u64(2001, 11, 0)]}),
    ],
    ids=["a counter an element, on two CPUs", "all in one element"],
)
def test_lost_rows_are_the_counters_that_are_not_zero(size, counters):
    tables = [
        spec("@x", MapRole.COUNT, U64, failures=1),
        spec("m", MapRole.MAP, U64, failures=2),
        MapSpec(".lost", MapRole.LOST, MapType.ARRAY, 4, size, 1),
    ]
    entries = {struct.pack("<I", index): values for index, values in counters.items()}
    decoder = Decoder(script(maps=tables), Maps({".lost": entries}))
    assert decoder.lost_rows() == (LostRow(2001), LostRow(11, "@x"))


def test_a_script_without_counters_has_lost_nothing():
    assert Decoder(script(), Maps()).lost_rows() == ()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"", "record: 0 bytes hold no event id"),
        (b"\0\0\0", "record: 3 bytes hold no event id"),
        (b"\1\0\0\0" + bytes(12), "record: the script has no event 1"),
        (b"\xff\xff\xff\xff", "record: the script has no event 4294967295"),
        (bytes(15), "event 0: 15 bytes where 16 are expected"),
        (bytes(24), "event 0: 24 bytes where 16 are expected"),
    ],
)
def test_bytes_that_are_no_record_are_refused(record, message):
    schema = event(EventKind.PRINT, FieldArg("0"), fields=[("0", U64)])
    with pytest.raises(EventError) as caught:
        decode(schema, record)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (bytes(7), bytes(8), "@ key: 7 bytes where 8 are expected"),
        (bytes(8), bytes(4), "@ value: 4 bytes where 8 are expected"),
    ],
)
def test_bytes_that_are_no_map_entry_are_refused(key, value, message):
    table = spec("@", MapRole.COUNT, U64)
    with pytest.raises(EventError) as caught:
        Decoder(script(maps=[table]), Maps({"@": {key: [value]}})).map_row("@")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"\0", u64(1), "lost records key: 1 bytes where 4 are expected"),
        (bytes(4), b"\0", "lost records value: 1 bytes where 8 are expected"),
    ],
)
def test_bytes_that_are_no_counter_are_refused(key, value, message):
    with pytest.raises(EventError) as caught:
        Decoder(script(maps=[LOST]), Maps({".lost": {key: [value]}})).lost_rows()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (event(EventKind.PRINT, FieldArg("x")), "event 0: the record has no field 'x'"),
        (event(EventKind.EXIT), "event 0: an exit needs one integer"),
        (event(EventKind.EXIT, ConstArg(b"x", COMM)), "event 0: an exit needs one integer"),
    ],
    ids=["no such field", "no status", "a string"],
)
def test_a_schema_that_makes_no_sense_is_refused(schema, message):
    with pytest.raises(EventError) as caught:
        decode(schema, bytes(8))
    assert str(caught.value) == message
