"""Pages of ``trace_pipe_raw``: bytes in, where each record lies and its time out.

Layouts: ``events/header_page`` and ``events/header_event`` of tracefs, include/linux/ring_buffer.h.
`declare_page` says the same to construct, for tools and tests; `scan` is what reads at speed.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import Any

from pybpf.dataclass import dataclass
from pybpf.errors import EventError, TargetError
from pybpf.events.layout import Codec, Member, Record, Scalar, to_construct
from pybpf.isa.insn import ByteOrder

MISSED = 1 << 31
"""In the commit word: records were lost before this page."""
MISSED_STORED = 1 << 30
"""In the commit word: how many were lost follows the last record, as an unsigned long."""
_COMMITTED = (1 << 27) - 1

# The values of type_len that are no length in words.
LONG = 0
PADDING = 29
TIME_EXTEND = 30
TIME_STAMP = 31
_TIME_SHIFT = 27
_STAMP_BITS = 59

Found = tuple[int, int, int, int]
"""A record: its time, its event's ID, and from where to where in the page it lies, in bytes."""


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The form of a page, sizes in bytes; ``word`` is the size of the kernel's unsigned long."""

    data: int = 16
    """Where the records begin."""
    capacity: int = 4080
    """How many bytes of records there may be."""
    word: int = 8
    byteorder: ByteOrder = "little"

    @property
    def size(self) -> int:
        """The size of a page, which is what one read gives."""
        return self.data + self.capacity


_FIELD = re.compile(r"\s*field:\s*.*?(\w+);\s*offset:(\d{1,6});\s*size:(\d{1,8});")


def parse_header_page(text: str, byteorder: ByteOrder = "little") -> PageLayout:
    """Return the form of pages that the text of ``events/header_page`` describes.

    Raises TargetError for another text.
    """
    fields = {m[1]: (int(m[2]), int(m[3])) for m in map(_FIELD.match, text.splitlines()) if m}
    try:
        (stamp, eight), (at, word) = fields["timestamp"], fields["commit"]
        start, capacity = fields["data"]
    except KeyError as error:
        raise TargetError(f"header_page: no field {error}") from None
    if (stamp, eight, at) != (0, 8, 8) or word not in {4, 8} or start != 8 + word:
        raise TargetError("header_page: a form of pages that is not known")
    return PageLayout(start, capacity, word, byteorder)


#      0           8        8+word                        data+committed
#     +-----------+--------+----------------+-----+------+----------+------
#     | timestamp | commit | record | record | ... | record | [lost]  | zeros
#     +-----------+--------+----------------+-----+------+----------+------
#      commit: bit 31 MISSED, bit 30 MISSED_STORED, bits 26..0 bytes of records; lost: one word
def declare_header(layout: PageLayout) -> Record:
    """Return the layout of what is before the records."""
    commit = Member("commit", 8, Scalar(layout.word, signed=False))
    return Record((Member("timestamp", 0, Scalar(8, signed=False)), commit), layout.data)


class Page:
    """A page: ``timestamp`` in ns, ``committed`` bytes of records, what was lost before them.

    ``lost`` counts records, and is None where the kernel could not store how many. ``behind`` is by
    how much the kernel's own reckoning of time is behind ``timestamp``, see `scan`.
    """

    __slots__ = ("behind", "committed", "lost", "timestamp")

    def __init__(self, timestamp: int, committed: int, lost: int | None) -> None:
        self.timestamp = timestamp
        self.committed = committed
        self.lost = lost
        self.behind = 0


@lru_cache(maxsize=16)
def _header_codec(layout: PageLayout) -> Codec:
    return Codec(declare_header(layout), layout.byteorder, "page")


@lru_cache(maxsize=2048)
def _words(count: int, byteorder: ByteOrder) -> struct.Struct:
    return struct.Struct(f"{'<' if byteorder == 'little' else '>'}{count}I")


def read_header(page: bytes, layout: PageLayout) -> Page:
    """Return what the first bytes of a page say. Raises EventError for what is no page."""
    if len(page) < layout.data:
        raise EventError(f"page: {len(page)} bytes, less than its header")
    timestamp, commit = _header_codec(layout).decode(page[: layout.data])
    assert isinstance(timestamp, int)
    assert isinstance(commit, int)
    committed = commit & _COMMITTED
    end = layout.data + committed
    if committed > layout.capacity or committed % 4:
        raise EventError(f"page: byte 8: {committed} bytes of records cannot be in a page")
    if end > len(page):
        raise EventError(f"page: cut off after {len(page)} bytes of {end}")
    lost: int | None = 0
    if commit & MISSED:
        lost = None
        if commit & MISSED_STORED:
            if end + layout.word > len(page):
                raise EventError(f"page: byte {end}: no room for the number of lost records")
            lost = int.from_bytes(page[end : end + layout.word], layout.byteorder)
    return Page(timestamp, committed, lost)


#      31                      5 4        0
#     +-------------------------+----------+     type_len 1..28: a record of so many words follows
#     |       time_delta        | type_len |     0: array[0] is the record's size, and its own 4
#     +-------------------------+----------+     29: array[0] bytes to skip; to the page's end
#     |              array[0]              |         where time_delta is 0
#     +------------------------------------+     30: array[0] are the high bits of time_delta
#     (big endian: type_len is bits 31..27)      31: both are the time, its low 59 bits
def scan(page: bytes, layout: PageLayout, header: Page, found: list[Found]) -> tuple[int, int]:
    """Append the records of a page to ``found``; all before a fault are there if it raises.

    Returns the time at the end, and by how much the kernel's own is behind it: reading, the kernel
    leaves out the time before discarded records (rb_update_read_stamp() of
    kernel/trace/ring_buffer.c). Raises EventError, which names the byte, where the records do not
    fill the page exactly.
    """
    count = header.committed // 4
    little, base, now = layout.byteorder == "little", layout.data, header.timestamp
    words = _words(count, layout.byteorder).unpack_from(page, base)
    append, at, behind = found.append, 0, header.behind
    while at < count:
        word = words[at]
        if not little:
            word = (word << 5 | word >> 27) & 0xFFFFFFFF
        kind = word & 31
        if 0 < kind < PADDING:
            now += word >> 5
            start = at + 1
            at = start + kind
            if at > count:
                raise _too_long(base + 4 * start, 4 * kind, base + 4 * count)
            first = words[start]
            number = first & 0xFFFF if little else first >> 16
            append((now, number, base + 4 * start, base + 4 * at))
            continue
        if at + 1 == count:
            if kind == PADDING and not word >> 5:
                break
            raise EventError(f"page: byte {base + 4 * at}: cut off after a record's first word")
        second = words[at + 1]
        if kind == TIME_EXTEND:
            now += word >> 5 | second << _TIME_SHIFT
            at += 2
        elif kind == TIME_STAMP:
            now, behind = _absolute(word >> 5 | second << _TIME_SHIFT, now), 0
            at += 2
        elif kind == PADDING:
            if not word >> 5:
                break
            # What was discarded took its time: the next delta counts from it.
            now += word >> 5
            behind += word >> 5
            at = _skip(at, second, count, base)
        else:
            now += word >> 5
            start, size = at + 2, second - 4
            at = start + (size + 3) // 4
            if size < 4:
                raise EventError(f"page: byte {base + 4 * start - 4}: a record of {size} bytes")
            if at > count:
                raise _too_long(base + 4 * start, size, base + 4 * count)
            first = words[start]
            number = first & 0xFFFF if little else first >> 16
            append((now, number, base + 4 * start, base + 4 * start + size))
    return now, behind


def _skip(at: int, size: int, count: int, base: int) -> int:
    after = at + 1 + (size + 3) // 4
    if size < 4 or after > count:
        raise EventError(f"page: byte {base + 4 * at}: padding of {size} bytes")
    return after


def _absolute(stamp: int, before: int) -> int:
    """Return a time of which 59 bits are known, with the high bits of the one before it."""
    high = before >> _STAMP_BITS << _STAMP_BITS
    stamp |= high
    return stamp + (1 << _STAMP_BITS) if high and stamp < before else stamp


def _too_long(place: int, size: int, end: int) -> EventError:
    return EventError(f"page: byte {place}: a record of {size} bytes where {end - place} are left")


def declare_page(layout: PageLayout) -> Any:
    """Return the construct declaration of a page.

    It parses to ``timestamp``, ``commit``, ``entries`` (``header.type_len``, ``header.time_delta``,
    ``array`` or None, ``data``) and ``lost`` or None, and builds pages from the same.
    """
    import construct
    from construct import BitsInteger, BitStruct, Bytes, ByteSwapped, FixedSized, GreedyRange

    u32 = construct.Int32ul if layout.byteorder == "little" else construct.Int32ub
    kind, delta = "type_len" / BitsInteger(5), "time_delta" / BitsInteger(27)
    bits = (
        ByteSwapped(BitStruct(delta, kind)) if u32 is construct.Int32ul else BitStruct(kind, delta)
    )
    entry = construct.Struct(
        "header" / bits,
        "array" / construct.If(lambda c: _has_array(c.header), u32),
        "data" / Bytes(lambda c: _data_size(c.header, c.array, c._io)),  # noqa: SLF001 construct calls it so
    )
    word = to_construct(Scalar(layout.word, signed=False), layout.byteorder)
    header = declare_header(layout)
    return construct.Struct(
        *(m.name / to_construct(m.layout, layout.byteorder) for m in header.members),
        "entries" / FixedSized(lambda c: c.commit & _COMMITTED, GreedyRange(entry)),
        "lost" / construct.If(lambda c: c.commit & MISSED and c.commit & MISSED_STORED, word),
    )


def _has_array(header: Any) -> bool:
    kind = header.type_len
    return kind in {LONG, TIME_EXTEND, TIME_STAMP} or (kind == PADDING and header.time_delta > 0)


def _data_size(header: Any, array: int | None, stream: Any) -> int:
    """Return how many bytes follow an entry's words."""
    kind = header.type_len
    if kind in {TIME_EXTEND, TIME_STAMP}:
        return 0
    if kind == PADDING and array is None:
        place = stream.tell()
        rest: int = stream.seek(0, 2) - place
        stream.seek(place)
        return rest
    return kind * 4 if array is None else (array - 1) // 4 * 4
