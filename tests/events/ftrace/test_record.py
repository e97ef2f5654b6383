import os
import struct

import pytest

from pybpf.errors import EventError
from pybpf.events.ftrace.record import Decoder
from pybpf.tracefs.format import EventField, EventFormat, parse_format
from pybpf.types import CHAR, S8, S32, U8, U16, U32, ULONG, VOID, Array, DataLoc, Ptr, Typedef


def decoder(*fields, order="little"):
    made, offset = [], 8
    for name, t, size in fields:
        made.append(EventField(name, "", t, offset, size, common=False))
        offset += size
    return Decoder(EventFormat("grp/evt", 7, tuple(made)), order)


def decode(t, data, size=None, order="little"):
    made = decoder(("value", t, size or len(data)), order=order)
    payload = bytes(8) + data
    return made(1, 2, b"junk" + payload + b"more", 4, 4 + len(payload))["value"]


@pytest.mark.parametrize(
    ("t", "data", "value"),
    [
        (S8, b"\xff", -1),
        (U8, b"\xff", 255),
        (S32, b"\xfe\xff\xff\xff", -2),
        (Ptr(VOID), b"\1" + bytes(7), 1),
        (Array(CHAR, 4), b"ab\0d", "ab"),
        (Array(CHAR, 4), b"abcd", "abcd"),
        (Array(CHAR, 3), "é\0".encode(), "é"),
        (Array(CHAR, 2), b"\xff\0", "\udcff"),
        (Array(U16, 2), b"\1\0\2\0", (1, 2)),
        (Array(ULONG, 0), b"", ()),
        (Array(Array(U8, 2), 2), b"\1\2\3\4", ((1, 2), (3, 4))),
        (Array(Ptr(VOID), 1), b"\1" + bytes(7), (1,)),
        (Typedef("uuid_t", Array(U8, 4)), b"\1\2\3\4", b"\1\2\3\4"),
    ],
)
def test_values(t, data, value):
    assert decode(t, data) == value


@pytest.mark.parametrize(
    ("t", "data", "value"),
    [
        (DataLoc(CHAR), struct.pack("<HH", 12, 3) + b"hi\0", "hi"),
        (DataLoc(CHAR), struct.pack("<HH", 12, 0), ""),
        (DataLoc(CHAR, relative=True), struct.pack("<HH", 0, 3) + b"hi\0", "hi"),
        (DataLoc(U32), struct.pack("<HHII", 12, 8, 5, 6), (5, 6)),
        (DataLoc(U32), struct.pack("<HHII", 12, 7, 5, 6), (5,)),
        (Array(DataLoc(CHAR), 2), struct.pack("<HHHH", 16, 2, 18, 3) + b"a\0bc\0", ("a", "bc")),
    ],
)
def test_located_values(t, data, value):
    assert decode(t, data, size=8 if isinstance(t, Array) else 4) == value


def test_big_endian():
    assert decode(U32, b"\0\0\1\0", order="big") == 256
    assert decode(Array(U16, 2), b"\0\1\0\2", order="big") == (1, 2)
    assert decode(DataLoc(CHAR), struct.pack(">I", 2 << 16 | 12) + b"a\0", 4, "big") == "a"


@pytest.mark.parametrize(
    ("t", "data", "size", "message"),
    [
        (U32, b"\0\0\0", 4, "grp/evt: 11 bytes where 12 are expected"),
        (DataLoc(CHAR), struct.pack("<HH", 12, 5) + b"hi\0", 4,
         "grp/evt.value: 5 bytes at 12, in a record of 15"),
        (DataLoc(U32), struct.pack("<HH", 65535, 4), 4,
         "grp/evt.value: 4 bytes at 65535, in a record of 12"),
    ],
)  # fmt: skip
def test_payloads_that_do_not_hold_their_fields(t, data, size, message):
    with pytest.raises(EventError) as error:
        decode(t, data, size)
    assert str(error.value) == message


def test_fields_that_overlap_are_refused():
    fields = (EventField("a", "", U32, 8, 4, common=False),)
    fields += (EventField("b", "", U32, 10, 4, common=False),)
    with pytest.raises(EventError, match=r"^grp/evt\.b: overlaps the field before it$"):
        Decoder(EventFormat("grp/evt", 7, fields))


def test_a_record_has_attributes_items_and_a_text():
    made = decoder(("pid", U32, 4), ("cpu", U32, 4), ("count", U32, 4))
    record = made(5, 3, bytes(8) + struct.pack("<III", 1, 2, 4), 0, 20)
    assert (record.timestamp, record.cpu, record.pid, record["cpu"], record.count) == (
        5,
        3,
        1,
        2,
        4,
    )
    assert record == (5, 3, 1, 2, 4)
    assert record.fields() == {"pid": 1, "cpu": 2, "count": 4}
    assert (record.event, record.id) == ("grp/evt", 7)
    assert repr(record) == "<grp/evt at 5 on CPU 3: pid=1, cpu=2, count=4>"
    with pytest.raises(AttributeError):
        record.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        record.pid = 2


def test_names_that_are_no_text():
    field = EventField("\udcc3x", "", U32, 8, 4, common=False)
    made = Decoder(EventFormat("grp/\udcc3", 7, (field,)))
    record = made(5, 3, bytes(8) + struct.pack("<I", 1), 0, 12)
    assert record["\udcc3x"] == 1
    assert type(record).__name__ == "\\udcc3"


def test_captured_records(capture):
    made = next(f for f in capture.formats.by_id.values() if f.name.endswith("/sched_switch"))
    assert Decoder(made).record.places["next_comm"] > Decoder(made).record.places["prev_comm"]


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_fields_are_what_the_kernel_printed(golden, kernel):
    compared = 0
    for row in golden[kernel]:
        made = Decoder(parse_format(row["parent_format"]))
        if made.format.name not in {"sched_switch", "sched_process_exec", "sched_process_fork"}:
            continue
        for record in row["records"]:
            payload = bytes.fromhex(record["parent_raw"])
            values = made(0, 0, payload, 0, len(payload)).fields()
            names = (
                {"comm": "parent_comm", "pid": "parent_pid"} if "fork" in made.format.name else {}
            )
            printed = record["parent_text"].partition(f"{made.format.name}: ")[2]
            for pair in printed.replace(" ==> ", " ").split(" "):
                name, _, text = pair.partition("=")
                if name != "prev_state":
                    assert str(values[names.get(name, name)]) == text
                    compared += 1
    assert compared > 200


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "7.3"])
def test_every_format_has_a_decoder(formats, kernel):
    for format_ in formats[kernel]:
        made = Decoder(format_)
        record = made(0, 0, bytes(made.size), 0, made.size)
        assert set(record.fields()) == {field.name for field in format_.fields}


def test_text_gives_its_bytes_back():
    assert os.fsencode(decode(Array(CHAR, 2), b"\xe9\xff")) == b"\xe9\xff"
