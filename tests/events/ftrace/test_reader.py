import asyncio
import io
import struct

import pytest

from pybpf.errors import EventError
from pybpf.events.ftrace.pages import MISSED, MISSED_STORED, PageLayout
from pybpf.events.ftrace.reader import (
    Lost,
    Merger,
    PageReader,
    RawRecord,
    RecordFormats,
    merge,
    read_pages,
    read_pages_async,
)
from pybpf.events.ftrace.record import TraceRecord
from pybpf.tracefs.format import EventField, EventFormat
from pybpf.types import CHAR, U16, DataLoc

FORMATS = RecordFormats(
    [
        EventFormat(
            "grp/evt",
            7,
            (
                EventField("common_type", "", U16, 0, 2, common=True),
                EventField("s", "", DataLoc(CHAR), 4, 4, common=False),
            ),
            '"s=%s", __get_str(s)',
        )
    ]
)


def record(number, length=2, delta=10):
    payload = struct.pack("<HHHH", number, 0, 8, length) + b"x\0\0\0"
    return struct.pack("<I", 3 | delta << 5) + payload


def page(*records, timestamp=1000, lost=0):
    data = b"".join(records)
    commit = len(data)
    if lost is None:
        commit |= MISSED
    elif lost:
        commit |= MISSED | MISSED_STORED
        data += lost.to_bytes(8, "little")
    return (struct.pack("<QQ", timestamp, commit) + data).ljust(4096, b"\0")


def test_records_losses_and_unknown_events():
    reader = PageReader(FORMATS, cpu=3)
    items = [*reader.feed(page(record(7), record(8), lost=5)), *reader.feed(page(lost=None))]
    lost, known, unknown, more = items
    assert lost == Lost(1000, 3, 5)
    assert str(lost) == "CPU:3 [LOST 5 EVENTS]"
    assert isinstance(known, TraceRecord)
    assert (known.timestamp, known.cpu, known.s) == (1010, 3, "x")
    assert unknown == RawRecord(1020, 3, 8, record(8)[4:])
    assert str(more) == "CPU:3 [LOST EVENTS]"
    assert (reader.lost, reader.unknown, reader.pages) == (5, 1, 2)


def discarded(delta):
    return struct.pack("<II", 29 | delta << 5, 8) + bytes(4)


def test_the_rest_of_a_page_begins_when_what_was_read_of_it_ended():
    """Reading, the kernel leaves out the time that what was discarded took."""
    reader = PageReader(FORMATS)
    first = page(record(7, delta=5), discarded(400), record(7, delta=1))
    second = page(discarded(300), record(7, delta=2), timestamp=1006)
    third = page(record(7, delta=3), timestamp=1008)
    fresh = page(record(7, delta=0), timestamp=2000)
    times = [i.timestamp for data in (first, second, third, fresh) for i in reader.feed(data)]
    assert times == [1005, 1406, 1708, 1711, 2000]


def test_raw_records_decode_and_print_later():
    (raw,) = PageReader(FORMATS).feed_raw(page(record(7)))
    assert FORMATS.decode(raw).s == "x"
    assert FORMATS.text(raw) == "evt: s=x"
    other = raw._replace(id=9)
    assert FORMATS.decode(other) is other
    assert FORMATS.text(other) == "[9]: 070000000800020078000000"


def test_what_is_decodable_of_a_bad_page_comes_before_its_error():
    reader, items = PageReader(FORMATS, cpu=1), []
    list(reader.feed(page()))
    with pytest.raises(EventError) as error:
        items.extend(reader.feed(page(record(7), record(7, length=400), record(7))))
    assert str(error.value) == (
        "CPU 1, page 1: byte 36: grp/evt.s: 400 bytes at 8, in a record of 12"
    )
    assert [type(item).__name__ for item in items] == ["evt", "RawRecord", "evt"]


def test_several_faults_in_a_page():
    bad = record(7, length=400)
    with pytest.raises(EventError, match=r"in a record of 12 \(and 1 more\)$"):
        list(PageReader(FORMATS).feed(page(bad, bad)))


def test_a_file_cut_off():
    data = page(record(7)) + page(record(7))
    assert len(list(read_pages(io.BytesIO(data), FORMATS))) == 2
    # What is cut off is no record: the page is whole as far as it was filled.
    assert len(list(read_pages(io.BytesIO(data[: 4096 + 40]), FORMATS))) == 2
    with pytest.raises(EventError, match=r"^CPU 0, page 1: cut off after 20 bytes of 32$"):
        list(read_pages(io.BytesIO(data[: 4096 + 20]), FORMATS))


class Dribble(io.RawIOBase):
    """Gives few bytes at a time, as a pipe does."""

    def __init__(self, data):
        self.data = io.BytesIO(data)

    def read(self, size=-1):
        return self.data.read(min(size, 1000))


def test_a_pipe_gives_pages_in_pieces():
    stream = Dribble(page(record(7)) * 3)
    assert len(list(read_pages(stream, FORMATS, layout=PageLayout()))) == 3


def test_several_cpus_are_merged_by_time():
    first = read_pages([page(record(7), record(7, delta=50))], FORMATS, cpu=0)
    second = read_pages([page(record(7, delta=20), lost=2)], FORMATS, cpu=1)
    assert [(item.timestamp, item.cpu) for item in merge([first, second])] == [
        (1000, 1), (1010, 0), (1020, 1), (1060, 0)
    ]  # fmt: skip


def test_merging_while_it_is_traced():
    merger = Merger()
    assert merger.complete() is None
    merger.push(0, [Lost(1, 0, 1), Lost(9, 0, 1)])
    merger.push(1, [Lost(2, 1, 1), Lost(5, 1, 1)])
    assert merger.complete() == 5
    assert [item.timestamp for item in merger.pop(until=5)] == [1, 2, 5]
    merger.push(1, [Lost(7, 1, 1)])
    assert [item.timestamp for item in merger.pop()] == [7, 9]
    assert list(merger.pop()) == []


def test_asyncio():
    async def pages():
        for _ in range(2):
            await asyncio.sleep(0)
            yield page(record(7))

    async def collect():
        return [item async for item in read_pages_async(pages(), FORMATS, cpu=4)]

    assert [item.cpu for item in asyncio.run(collect())] == [4, 4]


def test_a_format_takes_the_place_of_one_with_its_id():
    formats = RecordFormats(FORMATS.by_id.values())
    (raw,) = PageReader(formats).feed_raw(page(record(7)))
    assert formats.text(raw) == "evt: s=x"
    formats.add(EventFormat("other/new", 7, (), '"new"'))
    assert formats.text(raw) == "new: new"
    assert formats.decode(raw).event == "other/new"


def test_captured_pages_give_as_many_records_as_lines(capture):
    items = merge(
        read_pages(io.BytesIO(data), capture.formats, cpu=cpu)
        for cpu, data in enumerate(capture.cpus)
    )
    lines = [line for line in capture.trace.splitlines() if not line.startswith(b"#")]
    names = [item.event.rpartition("/")[2] for item in items]
    assert len(names) == len(lines) > 500
    for name, line in zip(names, lines, strict=True):
        if not name.startswith("sys_") or not name.endswith("openat"):
            assert f": {name}: ".encode() in line
