"""Blocks print what their rows would print one by one, byte for byte."""

from __future__ import annotations

import struct
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.events.blocks import BlockReader
from pybpf.events.decode import Decoder
from pybpf.kernel.ringbuf import records
from pybpf.output import jsonl, text
from pybpf.output.columns import BlockRenderer, text_form
from pybpf.output.memo import remember
from pybpf.output.values import Style
from pybpf.printf import LETTERS, parse_format
from pybpf.rows import Block
from pybpf.script import (
    CompiledScript,
    ConstArg,
    Conversion,
    EventKind,
    EventSchema,
    FieldArg,
    Text,
)
from pybpf.source import Source
from pybpf.testing.values import types
from pybpf.types import (
    CHAR,
    INT,
    S32,
    S64,
    U8,
    U32,
    U64,
    VOID,
    Array,
    Ptr,
    Show,
    Typedef,
    size_of,
    struct_of,
)

COMM = Array(CHAR, 16)
PID = Typedef("pid_t", U32, Show.PID)
OFFSET = 1_700_000_000_123_456_789


class Maps:
    """Every third stack is missing."""

    def stack(self, stack_id, /):
        return (0xFFFFFFFF81000000 + stack_id, stack_id) if stack_id % 3 else ()


def event(kind, fields, pieces=(), args=None):
    payload = struct_of("", [(str(i), t) for i, t in enumerate(fields)], start=4, align=8)
    args = tuple(FieldArg(f.name) for f in payload.fields) if args is None else args
    return EventSchema(0, kind, payload, args, pieces)


def batch_of(schema, contents):
    """Return a batch of records that have these bytes behind their ids."""
    size = schema.payload.size
    payloads = [struct.pack("<I", schema.id) + c.ljust(size, b"\0")[: size - 4] for c in contents]
    return b"".join(struct.pack("=II", size, i) + p for i, p in enumerate(payloads))


def both(schema, batch, symbols, *, unicode=True, json=False):
    """Return the text of the block that a batch is, and of its rows one by one."""
    decoder = Decoder(CompiledScript(Source("x", ""), "x86_64", (), (), (schema,)), Maps())
    style = Style(symbols, OFFSET, unicode)
    (block,) = BlockReader(decoder).read(batch)
    assert isinstance(block, Block)
    renderer = BlockRenderer((schema,), partial(jsonl.form if json else text_form, style=style))
    render = partial(text.render, unicode=unicode)
    if json:
        render = jsonl.render
    rows = map(decoder.decode, records(batch))
    # Twice: what is remembered must be what was made.
    assert renderer(block) == renderer(block)
    return renderer(block), "".join(render(r, symbols, walltime_offset=OFFSET) for r in rows)


def alike(schema, batch, symbols):
    for options in ({}, {"unicode": False}, {"json": True}):
        fast, slow = both(schema, batch, symbols, **options)
        assert fast == slow


pieces_of_text = st.sampled_from(
    [b"\0", b"\0\0\0\0\0\0", b"a", b"hammer", b"\n", b"\x1b[1m", b"\x7f", b"\xff", b"%", b"%d",
     b"\xe2\x82", "é".encode(), "日本".encode(), "\u0301".encode(), b"\\", b'"', b"\xff" * 8]
)  # fmt: skip
contents = st.lists(st.binary(max_size=24) | pieces_of_text, max_size=12).map(b"".join)
batches = st.lists(contents, min_size=1, max_size=6)
fields = st.lists(types().filter(lambda t: size_of(t) <= 200), max_size=4)
conversions = st.builds(
    Conversion,
    st.text("-+ #0'", max_size=2),
    st.none() | st.integers(0, 20),
    st.none() | st.integers(0, 20),
    st.sampled_from(LETTERS),
)
literals = st.binary(max_size=4).map(Text) | st.sampled_from([Text(b"%"), Text(b"\x7f\n")])
formats = st.lists(conversions | literals, max_size=6).map(tuple)
constants = st.builds(ConstArg, st.integers(-5, 1 << 40), st.sampled_from([INT, U64, PID]))


@st.composite
def events(draw):
    """Draw an event: of its fields all travel, some are printed, and constants too."""
    drawn = draw(fields)
    found = [FieldArg(str(i)) for i in range(len(drawn))]
    args = tuple(draw(st.lists(st.sampled_from(found) | constants if found else constants)))[:5]
    kind = draw(st.sampled_from([EventKind.PRINT, EventKind.PRINTF]))
    pieces = draw(formats) if kind is EventKind.PRINTF else ()
    return event(kind, drawn, pieces, args)


@pytest.mark.usefixtures("utc")
@given(events(), batches)
def test_a_block_prints_what_its_rows_do(symbols, schema, contents):
    alike(schema, batch_of(schema, contents), symbols)


ODD = [
    b"", b"hammer", b"hammer\0", b"full-sixteen-by", b"full-sixteen-byt", b"a\0b", b"a\0\0\0b",
    b"\n", b"new\nline", b"tab\t", b"\x1b[31m", b"\x7f", b"\xff\xfe", "häh".encode(), b"h\xc3",
    "日本".encode(), "e\u0301".encode(), b"%s %d", b"\\x41", b'"quoted"',
]  # fmt: skip


@pytest.mark.parametrize("t", [COMM, Typedef("mem", COMM, Show.BYTES)])
@pytest.mark.parametrize("spec", ["", "%s", "%20s|", "%-20s|", "%.3s|", "%v|", "%c", "%d", "%x"])
def test_odd_strings(t, spec, symbols):
    kind = EventKind.PRINTF if spec else EventKind.PRINT
    schema = event(kind, [t, PID, t], parse_format(f"a {spec} %u {spec}\n".encode()))
    strings = [text.ljust(16, b"\0") for text in ODD]
    contents = [a + b"\7\0\0\0" + b for a, b in zip(strings, reversed(strings), strict=True)]
    alike(schema, batch_of(schema, contents), symbols)


SHOWN = [Typedef(show.name, t, show) for t in (U32, S64) for show in Show if show is not Show.STACK]


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("t", [U8, CHAR, S32, U32, S64, U64, Ptr(VOID), *SHOWN], ids=str)
@pytest.mark.parametrize("spec", ["", "%d", "%5d|", "%05d", "%u", "%-9u|", "%x", "%X", "%o", "%p"])
def test_numbers_at_the_ends_of_their_types(t, spec, symbols):
    schema = event(EventKind.PRINTF if spec else EventKind.PRINT, [t], parse_format(spec.encode()))
    start = bytes(schema.payload.fields[0].offset - 4)
    ends = [0, 1, (1 << 7) - 1, 1 << 7, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, 1 << 63, -1]
    contents = [start + (n % (1 << 64)).to_bytes(8, "little") for n in ends]
    for chosen in (contents, *([content] for content in contents)):
        alike(schema, batch_of(schema, chosen), symbols)


def test_a_format_without_arguments_is_printed_for_every_row(symbols):
    schema = event(EventKind.PRINTF, [], parse_format(b"100%%\n"))
    assert both(schema, batch_of(schema, [b""] * 3), symbols) == ("100%\n" * 3,) * 2


def test_a_conversion_without_a_value_and_a_value_too_many(symbols):
    schema = event(EventKind.PRINTF, [INT], parse_format(b"%d %05x %%\n"))
    assert both(schema, batch_of(schema, [b"\1"]), symbols)[0] == "1 %05x %\n"
    schema = event(EventKind.PRINTF, [INT, INT], parse_format(b"%d\n"))
    assert both(schema, batch_of(schema, [b"\1"]), symbols)[0] == "1\n"


def test_what_is_remembered_is_bounded():
    made = []
    text_of = remember(lambda value: made.append(value) or str(value), U64)
    assert [text_of(n % 10) for n in range(1000)] == [str(n % 10) for n in range(1000)]
    assert made == list(range(10))
    for n in range(100_000):
        text_of(n)
    assert len(text_of.__self__) <= 4096


def test_longer_strings_are_remembered_less_often():
    text_of = remember(bytes.hex, Array(CHAR, 1 << 14))
    for n in range(100):
        text_of(bytes([n]) * (1 << 14))
    assert len(text_of.__self__) <= 4


def test_rows_of_several_events_keep_their_order(symbols):
    schemas = (
        event(EventKind.PRINT, [PID]),
        EventSchema(1, EventKind.PRINTF, struct_of("", [], start=4, align=8), (), (Text(b"-\n"),)),
    )
    block = Block((1, 0, 0, 1, 0), {0: ([1, 2, 3],), 1: ()})
    renderer = BlockRenderer(schemas, partial(text_form, style=Style(symbols)))
    assert renderer(block) == "-\n    1\n    2\n-\n    3\n"


def test_json_escapes_the_control_character_of_a_format(symbols):
    schema = event(EventKind.PRINTF, [INT], parse_format(b"\x7f%d"))
    fast, slow = both(schema, batch_of(schema, [b"\5"]), symbols, json=True)
    assert fast == slow == '{"event":"printf","text":"\\u007f5"}\n'
