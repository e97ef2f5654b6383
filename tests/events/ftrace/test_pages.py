import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.errors import EventError, TargetError
from pybpf.events.ftrace.pages import (
    MISSED,
    MISSED_STORED,
    PageLayout,
    declare_page,
    parse_header_page,
    read_header,
    scan,
)

LITTLE, BIG = PageLayout(), PageLayout(byteorder="big")
SMALL = PageLayout(12, 244, 4)

HEADER_PAGE = (
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
)


def test_header_page():
    assert parse_header_page(HEADER_PAGE) == LITTLE
    text = HEADER_PAGE.replace("4080", "65520")
    assert parse_header_page(text, "big") == PageLayout(16, 65520, byteorder="big")
    narrow = HEADER_PAGE.replace("size:8;\tsigned:1", "size:4;\tsigned:1")
    assert parse_header_page(narrow.replace("offset:16", "offset:12")) == PageLayout(12, 4080, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "header_page: no field 'timestamp'"),
        (HEADER_PAGE.replace("data", "stuff"), "header_page: no field 'data'"),
        (HEADER_PAGE.replace("offset:16", "offset:20"),
         "header_page: a form of pages that is not known"),
    ],
)  # fmt: skip
def test_header_page_refused(text, message):
    with pytest.raises(TargetError, match=f"^{message}$"):
        parse_header_page(text)


def word(kind, delta, layout=LITTLE):
    if layout.byteorder == "little":
        return struct.pack("<I", kind | delta << 5)
    return struct.pack(">I", kind << 27 | delta)


def page(*entries, layout=LITTLE, commit=None, timestamp=1000, flags=0, after=b""):
    data = b"".join(entries)
    committed = (len(data) if commit is None else commit) | flags
    order = layout.byteorder
    head = timestamp.to_bytes(8, order) + committed.to_bytes(layout.word, order)
    return (head + data + after).ljust(layout.size, b"\0")


def found_in(data, layout=LITTLE):
    found = []
    scan(data, layout, read_header(data, layout), found)
    return found


def test_each_type_of_entry():
    data = page(
        word(2, 5) + struct.pack("<HHI", 7, 0, 0),
        word(30, 3) + struct.pack("<I", 1),
        word(29, 4) + struct.pack("<I", 8) + bytes(4),
        word(0, 1) + struct.pack("<IHHI", 12, 9, 0, 0),
        word(31, 1) + struct.pack("<I", 2),
        word(1, 0) + struct.pack("<HH", 11, 0),
        word(29, 0),
        b"what is behind padding is nothing...",
    )
    extended = 1005 + 3 + (1 << 27)
    assert found_in(data) == [
        (1005, 7, 20, 28),
        (extended + 5, 9, 56, 64),
        (1 + (2 << 27), 11, 76, 80),
    ]


def test_absolute_time_keeps_its_high_bits():
    stamp = (3 << 59) + 5000
    data = page(word(31, 7) + struct.pack("<I", 0), word(1, 0) + bytes(4), timestamp=stamp)
    assert found_in(data)[0][0] == (4 << 59) + 7
    data = page(word(31, 7) + struct.pack("<I", 1), word(1, 0) + bytes(4), timestamp=stamp)
    assert found_in(data)[0][0] == (3 << 59) + (1 << 27) + 7


@pytest.mark.parametrize(
    ("flags", "after", "lost"),
    [
        (0, b"\xff" * 8, 0),
        (MISSED, b"\xff" * 8, None),
        (MISSED | MISSED_STORED, (7243).to_bytes(8, "little"), 7243),
    ],
)
def test_lost_records(flags, after, lost):
    data = page(word(1, 0) + bytes(4), flags=flags, after=after)
    assert read_header(data, LITTLE).lost == lost
    assert len(found_in(data)) == 1


FULL = page(word(0, 0) + struct.pack("<I", 4076) + bytes(4072))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "page: 0 bytes, less than its header"),
        (page(commit=4084), "page: byte 8: 4084 bytes of records cannot be in a page"),
        (page(commit=6), "page: byte 8: 6 bytes of records cannot be in a page"),
        (page(commit=64)[:40], "page: cut off after 40 bytes of 80"),
        (FULL[:11] + b"\xc0" + FULL[12:],
         "page: byte 4096: no room for the number of lost records"),
        (page(word(5, 0) + bytes(8)), "page: byte 20: a record of 20 bytes where 8 are left"),
        (page(word(0, 0) + struct.pack("<II", 400, 0)),
         "page: byte 24: a record of 396 bytes where 4 are left"),
        (page(word(0, 0) + struct.pack("<II", 3, 0)), "page: byte 20: a record of -1 bytes"),
        (page(word(0, 0) + struct.pack("<II", 0, 0)), "page: byte 20: a record of -4 bytes"),
        (page(word(29, 1) + struct.pack("<I", 0)), "page: byte 16: padding of 0 bytes"),
        (page(word(29, 1) + struct.pack("<I", 1 << 31)),
         "page: byte 16: padding of 2147483648 bytes"),
        (page(word(30, 1)), "page: byte 16: cut off after a record's first word"),
        (page(word(0, 1)), "page: byte 16: cut off after a record's first word"),
    ],
)  # fmt: skip
def test_what_is_no_page(data, message):
    with pytest.raises(EventError) as error:
        found_in(data)
    assert str(error.value) == message


def test_records_before_a_fault_are_found():
    data, found = page(word(1, 5) + bytes(4), word(9, 0)), []
    with pytest.raises(EventError):
        scan(data, LITTLE, read_header(data, LITTLE), found)
    assert found == [(1005, 0, 20, 24)]


layouts = st.sampled_from([LITTLE, BIG, SMALL])


@st.composite
def entries(draw, layout):
    """Draw an entry: its bytes, and its payload or None."""
    order = layout.byteorder
    delta = draw(st.integers(0, (1 << 27) - 1))
    kind = draw(st.sampled_from(["short", "long", "padding", "extend", "stamp"]))
    if kind in {"extend", "stamp"}:
        high = draw(st.integers(0, 0xFFFFFFFF))
        return word(30 if kind == "extend" else 31, delta, layout) + high.to_bytes(4, order), None
    words = draw(st.integers(1, 28 if kind == "short" else 40))
    payload = draw(st.binary(min_size=4 * words, max_size=4 * words))
    if kind == "short":
        return word(words, delta, layout) + payload, payload
    size = (4 * words + 4).to_bytes(4, order)
    if kind == "padding":
        return word(29, max(delta, 1), layout) + size + payload, None
    return word(0, delta, layout) + size + payload, payload


@st.composite
def pages(draw):
    """Draw a page: its layout, the payloads in it, what was lost, and its bytes."""
    layout = draw(layouts)
    data, payloads = b"", []
    for entry, payload in draw(st.lists(entries(layout), max_size=30)):
        if len(data) + len(entry) > layout.capacity:
            break
        data += entry
        payloads += [] if payload is None else [payload]
    lost = draw(st.sampled_from([0, None, 1, 1 << 31]))
    flags, after = (0 if lost == 0 else MISSED), b""
    if lost and len(data) + layout.word <= layout.capacity:
        flags, after = flags | MISSED_STORED, lost.to_bytes(layout.word, layout.byteorder)
    elif lost:
        lost = None
    timestamp = draw(st.integers(0, (1 << 60) - 1))
    image = page(data, layout=layout, timestamp=timestamp, flags=flags, after=after)
    return layout, payloads, lost, image


@given(pages())
def test_encoded_pages_decode_to_the_same(drawn):
    layout, payloads, lost, image = drawn
    assert read_header(image, layout).lost == lost
    found = found_in(image, layout)
    assert [image[start:end] for _, _, start, end in found] == payloads
    order = layout.byteorder
    assert [number for _, number, _, _ in found] == [
        int.from_bytes(payload[:2], order) for payload in payloads
    ]
    declared = declare_page(layout).parse(image)
    assert declared.lost == (lost or None)
    assert declared_records(declared) == [(now, image[start:end]) for now, _, start, end in found]


def declared_records(declared):
    """Return what a page parsed by construct holds, by the rules of include/linux/ring_buffer.h."""
    now, found = declared.timestamp, []
    for entry in declared.entries:
        kind, delta = entry.header.type_len, entry.header.time_delta
        if kind == 29 and entry.array is None:
            break
        if kind == 31:
            before, high = now, now >> 59 << 59
            now = delta | entry.array << 27 | high
            now += 1 << 59 if high and now < before else 0
            continue
        now += delta | (entry.array << 27 if kind == 30 else 0)
        if kind < 29:
            found.append((now, entry.data))
    return found


def test_captured_pages_are_what_construct_makes_of_them(capture):
    declared = declare_page(LITTLE)
    for data in capture.cpus:
        image = data[: LITTLE.size]
        found = [(now, image[start:end]) for now, _, start, end in found_in(image)]
        assert declared_records(declared.parse(image)) == found
        assert len(found) > 20


@given(st.binary(max_size=300), st.integers(0, 200), layouts)
def test_hostile_pages_raise_nothing_but_event_errors(data, commit, layout):
    commit = commit * 4 if commit % 2 else commit
    image = bytes(8) + commit.to_bytes(layout.word, layout.byteorder) + data
    try:
        found = found_in(image, layout)
    except EventError:
        return
    assert all(layout.data < start <= end <= len(image) for _, _, start, end in found)
