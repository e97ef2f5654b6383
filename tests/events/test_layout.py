"""One declaration of a layout, two decoders that agree."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import EventError
from pybpf.events.layout import (
    Chars,
    Codec,
    Record,
    Repeat,
    Scalar,
    declare,
    declare_event,
    declare_struct,
    to_construct,
)
from pybpf.script import EventKind, EventSchema
from pybpf.testing.values import plain_values, structs, types
from pybpf.types import (
    CHAR,
    S64,
    U8,
    U16,
    U32,
    U64,
    VOID,
    Array,
    Field,
    Int,
    Struct,
    size_of,
    strip,
    struct_of,
)

PAYLOADS = structs(types())
BYTEORDERS = st.sampled_from(("little", "big"))


def plain(layout, parsed):
    """Turn what construct returns into what Codec does."""
    match layout:
        case Scalar() | Chars():
            return parsed
        case Repeat(element=element):
            return tuple(plain(element, part) for part in parsed)
        case Record(members=members):
            return tuple(plain(member.layout, parsed[member.name]) for member in members)


def encode(value, t, byteorder):
    """Lay a value out in memory from its type alone."""
    match strip(t):
        case Int(size=size, signed=signed):
            return value.to_bytes(size, byteorder, signed=signed)
        case Array(element=element) if not isinstance(value, bytes):
            return b"".join(encode(part, element, byteorder) for part in value)
        case Struct(fields=fields, size=size):
            memory = bytearray(b"\xaa" * size)
            for field, part in zip(fields, value, strict=True):
                encoded = encode(part, field.type, byteorder)
                memory[field.offset : field.offset + len(encoded)] = encoded
            return bytes(memory)
        case _ if isinstance(value, bytes):
            return value
        case _:
            return value.to_bytes(size_of(t), byteorder)


@given(PAYLOADS, BYTEORDERS, st.data())
def test_construct_and_struct_decode_any_bytes_alike(payload, byteorder, data):
    layout = declare_struct(payload, "record")
    memory = data.draw(st.binary(min_size=payload.size, max_size=payload.size))
    parsed = to_construct(layout, byteorder).parse(memory)
    assert Codec(layout, byteorder, "record").decode(memory) == plain(layout, parsed)


@given(PAYLOADS, BYTEORDERS, st.data())
def test_values_laid_out_by_their_type_are_decoded(payload, byteorder, data):
    value = data.draw(plain_values(payload))
    codec = Codec(declare_struct(payload, "record"), byteorder, "record")
    assert codec.decode(encode(value, payload, byteorder)) == value


@given(PAYLOADS)
def test_construct_and_struct_agree_on_the_size(payload):
    layout = declare_struct(payload, "record")
    assert to_construct(layout, "little").sizeof() == payload.size


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("a", U32)], "<4xI"),
        ([("a", U64)], "<8xQ"),
        ([("a", U8), ("b", U16)], "<4xB1xH"),
        ([("comm", Array(CHAR, 16)), ("n", S64)], "<4x16s4xq"),
        ([("a", Array(U16, 3))], "<4x3H2x"),
        ([("a", Array(struct_of("", [("x", U8), ("y", U16)]), 2))], "<4xB1xHB1xH"),
    ],
)
def test_the_hot_path_has_one_flat_format(fields, expected):
    payload = struct_of("", fields, start=4, align=4)
    assert Codec(declare_struct(payload, "record"), "little", "record").format == expected


def test_the_construct_declaration_has_the_fields_names():
    payload = struct_of("", [("pid", U32), ("pair", Array(U16, 2))], start=4, align=8)
    schema = EventSchema(7, EventKind.PRINT, payload)
    memory = bytes.fromhex("07000000 2a000000 0100ffff 00000000")
    parsed = to_construct(declare_event(schema), "little").parse(memory)
    assert (parsed.id, parsed.pid, list(parsed.pair)) == (7, 42, [1, 0xFFFF])


@pytest.mark.parametrize("size", [16, 17, 20, 23])
def test_the_kernels_padding_may_follow(size):
    codec = Codec(declare_struct(struct_of("", [("a", U64), ("b", U64)]), "x"), "little", "x")
    assert codec.decode(bytes(size)) == (0, 0)


@pytest.mark.parametrize("size", [0, 15, 24])
def test_any_other_size_is_refused(size):
    codec = Codec(declare_struct(struct_of("", [("a", U64), ("b", U64)]), "@x key"), "little", "@x")
    with pytest.raises(EventError, match=rf"^@x: {size} bytes where 16 are expected$"):
        codec.decode(bytes(size))


@pytest.mark.parametrize(
    ("t", "message"),
    [
        (VOID, "event 0.x: a value of type 'void' has no bytes"),
        (Array(VOID, 2), "event 0.x[]: a value of type 'void' has no bytes"),
        (struct_of("s", [("v", VOID)]), "event 0.x.v: a value of type 'void' has no bytes"),
    ],
    ids=["void", "array", "struct"],
)
def test_a_type_without_bytes_is_refused(t, message):
    with pytest.raises(EventError) as caught:
        declare(t, "event 0.x")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("fields", "size", "message"),
    [
        ((Field("a", U64, 8), Field("b", U32, 12)), 16, "event 3.b: overlaps the field before it"),
        ((Field("a", U64, 8),), 12, "event 3: 16 bytes of fields in 12 bytes"),
        ((Field("a", U32, 0),), 8, "event 3.a: overlaps the event's id"),
    ],
    ids=["overlap", "too long", "id"],
)
def test_an_impossible_layout_is_refused(fields, size, message):
    schema = EventSchema(3, EventKind.PRINT, Struct("", fields, size, 8))
    with pytest.raises(EventError) as caught:
        declare_event(schema)
    assert str(caught.value) == message


def test_decoding_and_rendering_do_without_construct():
    code = (
        "import sys, pybpf.events.decode, pybpf.output.text, pybpf.output.jsonl\n"
        "print('construct' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
