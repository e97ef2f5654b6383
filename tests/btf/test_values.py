"""Values of C types: bytes to Python and back, for all kinds of types and either byte order."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
from pybpf.btf.reader import Btf
from pybpf.btf.types import Array, Composite, Enum, Field, Float, Forward, Int, Reference
from pybpf.btf.values import Codec, Struct
from pybpf.errors import TargetError, ValueMismatch

INT, UINT, CHAR, BOOL, U8, U64, DOUBLE, POINTER, STATE, TEXT = range(1, 11)
BYTES, PAIR, INNER, RECORD, BITS, ALIAS, PAIRS, WIDE, NOTHING, UNION, BYTE_BOOLS = range(11, 22)

TYPES = (
    Int("int", 4, Encoding.SIGNED, 32),
    Int("unsigned int", 4, Encoding(0), 32),
    Int("char", 1, Encoding.SIGNED, 8),
    Int("_Bool", 1, Encoding.BOOL, 8),
    Int("unsigned char", 1, Encoding(0), 8),
    Int("unsigned long long", 8, Encoding(0), 64),
    Float("double", 8),
    Reference(Kind.PTR, 0),
    Enum(Kind.ENUM, "state", 4, signed=True, values=(("IDLE", 0), ("GONE", -1))),
    Array(CHAR, UINT, 6),
    Array(U8, UINT, 3),
    Array(INT, UINT, 2),
    Composite(Kind.STRUCT, "", 8, (Field("deep", UINT, 0), Field("low", U8, 32))),
    Composite(
        Kind.STRUCT, "record", 16, (Field("first", INT, 0), Field("", INNER, 32),
                                    Field("state", STATE, 96)),
    ),
    Composite(
        Kind.STRUCT, "bits", 4,
        (Field("a", UINT, 0, 3), Field("b", INT, 3, 7), Field("c", STATE, 10, 2),
         Field("d", UINT, 12, 20)),
        bit_fields=True,
    ),
    Reference(Kind.TYPEDEF, RECORD, "alias"),
    Array(RECORD, UINT, 2),
    Enum(Kind.ENUM64, "wide", 8, signed=False, values=(("MOST", (1 << 64) - 1),)),
    Forward("away"),
    Composite(Kind.UNION, "either", 4, (Field("whole", UINT, 0), Field("parts", BYTES, 0))),
    Array(BOOL, UINT, 2),
)  # fmt: skip


def codec(number, order="little", types=TYPES):
    builder = Builder(order)
    for each in types:
        builder.add(each)
    return Codec(Btf(builder.blob()), number)


CASES = [
    (INT, -2, "feffffff"),
    (UINT, 0xFFFFFFFE, "feffffff"),
    (CHAR, -1, "ff"),
    (BOOL, True, "01"),
    (BOOL, 7, "07"),
    (U64, 1 << 63, "0000000000000080"),
    (DOUBLE, 1.5, "000000000000f83f"),
    (POINTER, 0x1234, "3412000000000000"),
    (STATE, "GONE", "ffffffff"),
    (STATE, 7, "07000000"),
    (WIDE, "MOST", "ffffffffffffffff"),
    (TEXT, "hello", "68656c6c6f00"),
    (TEXT, "\udcff", "ff0000000000"),
    (BYTES, b"\1\2\3", "010203"),
    (BYTE_BOOLS, (True, False), "0100"),
    (PAIR, (1, -1), "01000000ffffffff"),
    (RECORD, Struct({"first": 1, "deep": 2, "low": 3, "state": "IDLE"}),
     "01000000020000000300000000000000"),
    (ALIAS, Struct({"first": 1, "deep": 2, "low": 3, "state": "IDLE"}),
     "01000000020000000300000000000000"),
    (BITS, Struct({"a": 5, "b": -3, "c": "GONE", "d": 0xABCDE}), "edefcdab"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "value", "data"), CASES)
def test_bytes_are_decoded_and_values_encoded(number, value, data):
    own = codec(number)
    raw = bytes.fromhex(data)
    assert own.decode(raw) == value
    assert type(own.decode(raw)) is type(value)
    assert own.encode(value) == raw
    assert own.size == len(raw)


def test_big_endian_machines_number_bits_from_the_other_end():
    own = codec(BITS, "big")
    value = {"a": 5, "b": -3, "c": "GONE", "d": 0xABCDE}
    assert own.encode(value) == bytes.fromhex("bf7abcde")
    assert own.decode(bytes.fromhex("bf7abcde")) == value
    assert codec(INT, "big").decode(b"\0\0\0\1") == 1


@pytest.mark.parametrize(
    ("number", "value", "data"),
    [
        (RECORD, {"low": 1}, "00000000000000000100000000000000"),
        (RECORD, b"0123456789abcdef", b"0123456789abcdef".hex()),
        (PAIRS, [{"first": 1}, {}], "01" + "00" * 31),
        (PAIR, [1, 2], "0100000002000000"),
        (BYTES, [1, 255, -1], "01ffff"),
        (BYTES, b"\1", "010000"),
        (TEXT, b"ab", "616200000000"),
        (STATE, -1, "ffffffff"),
        (UNION, {"parts": b"\1"}, "01000000"),
        (UNION, {"whole": 0x01020304}, "04030201"),
        (DOUBLE, 1, "000000000000f03f"),
    ],
)
def test_other_forms_are_taken_too(number, value, data):
    assert codec(number).encode(value).hex() == data


@pytest.mark.parametrize(
    ("number", "value", "message"),
    [
        (INT, 1 << 31, "2147483648 is not from -2147483648 to 2147483647"),
        (UINT, -1, "-1 is not from 0 to 4294967295"),
        (INT, "1", "'1' is no signed integer of 32 bits"),
        (INT, None, "None is no signed integer of 32 bits"),
        (BOOL, "yes", "'yes' is no bool"),
        (STATE, "GOME", "there is no enumerator GOME; did you mean 'GONE'?"),
        (STATE, 1.5, "1.5 is no enumerator or integer"),
        (TEXT, "too long", "8 bytes, but there is room for 6"),
        (TEXT, 5, "5 is no string of 6 bytes"),
        (BYTES, [1, 2], "2 elements instead of 3"),
        (BYTES, [1, 2, 256], "[1, 2, 256] are no integers of 8 bits"),
        (PAIR, (1,), "1 elements instead of 2"),
        (PAIR, (1, "x"), "[1]: 'x' is no signed integer of 32 bits"),
        (PAIR, "ab", "'ab' is no array of 2 elements"),
        (PAIR, b"ab", "2 bytes instead of 8"),
        (PAIRS, [{}, {"low": 300}], "[1].low: 300 is not from 0 to 255"),
        (RECORD, {"lov": 1}, "there is no member lov; did you mean 'low'?"),
        (RECORD, {1: 1}, "there is no member 1"),
        (RECORD, 5, "5 is no structure"),
        (BITS, {"a": 8}, "a: 8 is not from 0 to 7"),
        (BITS, {"b": -65}, "b: -65 is not from -64 to 63"),
        (BITS, {"a": "x"}, "a: 'x' is no unsigned integer of 32 bits"),
        (BITS, {"c": "LOST"}, "c: there is no enumerator LOST"),
        (DOUBLE, 10**400, f"{10**400} is too large"),
        (DOUBLE, "x", "'x' is no float"),
    ],
)
def test_what_a_type_cannot_hold(number, value, message):
    with pytest.raises(ValueMismatch) as caught:
        codec(number).encode(value)
    assert str(caught.value) == message
    assert isinstance(caught.value, ValueError)


def test_bytes_of_another_length_are_none_of_its_values():
    with pytest.raises(ValueMismatch, match="3 bytes, but the type has 4"):
        codec(INT).decode(b"abc")


def test_structures_are_mappings_with_attributes_and_can_be_keys():
    value = codec(RECORD).decode(bytes(16))
    assert value.first == value["first"] == 0
    assert dict(value) == {"first": 0, "deep": 0, "low": 0, "state": "IDLE"}
    assert {value: 1}[codec(ALIAS).decode(bytes(16))] == 1
    assert value != 5
    assert len(value) == 4
    assert repr(value) == "Struct(first=0, deep=0, low=0, state='IDLE')"
    assert json.dumps(dict(value)) == '{"first": 0, "deep": 0, "low": 0, "state": "IDLE"}'
    with pytest.raises(AttributeError, match=r"no member frist; did you mean 'first'\?"):
        value.frist  # noqa: B018
    with pytest.raises(AttributeError):
        value.first = 1


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ((Forward("away"),), "fwd away has no size, and so no values"),
        ((Int("odd", 3, Encoding(0), 24),), "int odd has 3 bytes, as no integer has"),
        ((Composite(Kind.STRUCT, "s", 4, (Field("self", 1, 0),)),),
         "types are nested more than 32 deep"),
        ((Composite(Kind.STRUCT, "s", 4, (Field("", 1, 0), Field("", 1, 0))),),
         "types are nested more than 32 deep"),
        ((Composite(Kind.STRUCT, "s", 4, (Field("late", 2, 8),)), Int("u", 4, Encoding(0), 32)),
         "late lies behind the end of struct s"),
        ((Array(2, 2, 1 << 31), Int("u", 4, Encoding(0), 32)),
         "a value of 8589934592 bytes is too large"),
        ((Array(2, 3, 1 << 28), Composite(Kind.STRUCT, "s", 4, (Field("a", 3, 0),)),
          Int("u", 4, Encoding(0), 32)), "a value of array (nameless) has too many parts"),
    ],
)  # fmt: skip
def test_types_without_values_are_refused(types, message):
    with pytest.raises(TargetError) as caught:
        codec(1, types=types)
    assert str(caught.value) == message


def test_structures_that_hold_each_other_twice_do_not_explode():
    """Thirty levels of two nameless unions each would be 2**30 members."""
    levels = [
        Composite(Kind.UNION, "", 4, (Field("", n + 2, 0), Field("", n + 2, 0))) for n in range(30)
    ]
    with pytest.raises(TargetError, match="too many parts"):
        codec(1, types=[*levels, Int("u", 4, Encoding(0), 32)])
    named = [
        Composite(Kind.UNION, "", 4, (Field("a", n + 2, 0), Field("b", n + 2, 0)))
        for n in range(30)
    ]
    with pytest.raises(TargetError, match="too many parts"):
        codec(1, types=[*named, Int("u", 4, Encoding(0), 32)])


@given(st.binary(min_size=32, max_size=32), st.sampled_from(["little", "big"]))
def test_what_is_decoded_is_encoded_to_the_same_values(data, order):
    own = codec(PAIRS, order)
    value = own.decode(data)
    assert own.decode(own.encode(value)) == value


@given(st.binary(min_size=4, max_size=4), st.sampled_from(["little", "big"]))
def test_bit_fields_that_fill_their_structure_keep_all_bits(data, order):
    own = codec(BITS, order)
    assert own.encode(own.decode(data)) == data


@given(st.binary(max_size=600))
def test_bytes_as_types_are_refused_or_give_values(data):
    """Whatever stands in a BTF: a TargetError, or a codec that takes back what it gives."""
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(data) // 4 * 4, len(data), 1)
    try:
        btf = Btf(header + data + b"\0")
        own = Codec(btf, 1)
    except TargetError:
        return
    if own.size < 1 << 16:
        value = own.decode(bytes(own.size))
        assert own.decode(own.encode(value)) == value
