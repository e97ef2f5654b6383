"""Reading what was traced: pages of ``trace_pipe_raw`` in, records, losses and text out.

Nothing here opens a file. `PageReader.feed` takes one page of one CPU at a time, wherever it came
from; `read_pages` and `read_pages_async` take files and streams of them; `merge` puts what
several CPUs traced in order, `Merger` does while it is being traced.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from operator import attrgetter
from typing import BinaryIO, NamedTuple, cast

from pybpf.dataclass import dataclass
from pybpf.errors import EventError
from pybpf.events.ftrace.expressions import Constants
from pybpf.events.ftrace.pages import Found, PageLayout, read_header, scan
from pybpf.events.ftrace.printer import Printer, Symbols
from pybpf.events.ftrace.record import Decoder, TraceRecord
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.format import EventFormat


class RawRecord(NamedTuple):
    """A record not decoded: ``timestamp`` in ns, ``id`` of its event, ``payload`` from common_type.

    It is also what becomes of a record whose event has no known format.
    """

    timestamp: int
    cpu: int
    id: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """Records that a CPU's buffer lost before ``timestamp``; None where nobody knows how many."""

    timestamp: int
    cpu: int
    count: int | None

    def __str__(self) -> str:
        count = "" if self.count is None else f" {self.count}"
        return f"CPU:{self.cpu} [LOST{count} EVENTS]"


Item = TraceRecord | RawRecord | Lost


class RecordFormats:
    """The formats of events by ID, and what decodes and prints their records, made when needed.

    Of formats that share an ID, which the kernel gives again once an event is gone, the last
    counts. ``heads`` are texts by ID that precede what an event prints: of an eprobe
    ``(GROUP.EVENT)``, its parent, which is not in its format.
    """

    __slots__ = ("_decoders", "_printers", "by_id", "byteorder", "constants", "heads", "symbols")

    def __init__(
        self,
        formats: Iterable[EventFormat],
        byteorder: ByteOrder = "little",
        symbols: Symbols | None = None,
        constants: Constants | None = None,
    ) -> None:
        self.by_id = {format_.id: format_ for format_ in formats}
        self.byteorder = byteorder
        self.symbols = symbols
        self.constants = constants
        self.heads: dict[int, str] = {}
        self._decoders: dict[int, Decoder | None] = {}
        self._printers: dict[int, Printer] = {}

    def add(self, format_: EventFormat, head: str = "") -> None:
        """Add a format, in place of one with the same ID, and its head."""
        self.by_id[format_.id] = format_
        self.heads[format_.id] = head
        self._decoders.pop(format_.id, None)
        self._printers.pop(format_.id, None)

    def decoder(self, number: int) -> Decoder | None:
        """Return what decodes the records of the event with an ID, or None. Raises EventError."""
        try:
            return self._decoders[number]
        except KeyError:
            format_ = self.by_id.get(number)
            made = None if format_ is None else Decoder(format_, self.byteorder)
            self._decoders[number] = made
            return made

    def decode(self, raw: RawRecord) -> TraceRecord | RawRecord:
        """Return a record with its fields; as it is, if there is no format. Raises EventError."""
        decoder = self.decoder(raw.id)
        if decoder is None:
            return raw
        return decoder(raw.timestamp, raw.cpu, raw.payload, 0, len(raw.payload))

    def printer(self, number: int) -> Printer | None:
        """Return what prints the records of the event with an ID, or None. Raises EventError."""
        if number not in self._printers:
            if number not in self.by_id:
                return None
            format_ = self.by_id[number]
            self._printers[number] = Printer(format_, self.byteorder, self.symbols, self.constants)
        return self._printers[number]

    def text(self, raw: RawRecord) -> str:
        """Return ``EVENT: TEXT`` as the kernel prints it. Raises EventError.

        A record without a format is its bytes.
        """
        printer = self.printer(raw.id)
        if printer is None:
            return f"[{raw.id}]: {raw.payload.hex()}"
        name = printer.format.name.rpartition("/")[2]
        text = printer(raw.payload)
        if head := self.heads.get(raw.id):
            return f"{name}: {head}{text}"
        # What probes print begins with a space.
        return f"{name}: {text.removeprefix(' ')}"


class PageReader:
    """Reads the pages of one CPU, in order. ``lost`` and ``unknown`` sum up what was lost.

    ``lost`` counts records; ``unknown`` how many times the kernel could not say how many.
    """

    __slots__ = ("_before", "cpu", "formats", "layout", "lost", "pages", "unknown")

    def __init__(
        self, formats: RecordFormats, cpu: int = 0, layout: PageLayout | None = None
    ) -> None:
        self.formats = formats
        self.cpu = cpu
        self.layout = layout or PageLayout(byteorder=formats.byteorder)
        self._before = (0, 0)
        self.pages = 0
        self.lost = 0
        self.unknown = 0

    def feed(self, page: bytes) -> Iterator[Item]:
        """Yield what a page holds, a loss before it first.

        Raises EventError, when all that could be decoded was given, for a page or a record that is
        none; it names the CPU, the page and the byte.
        """
        faults: list[str] = []
        found: list[Found] = []
        yield from self._begin(page, found, faults)
        cpu, decoder_of = self.cpu, self.formats.decoder
        for now, number, start, end in found:
            try:
                decoder = decoder_of(number)
                if decoder is not None:
                    yield decoder(now, cpu, page, start, end)
                    continue
            except EventError as error:
                faults.append(f"byte {start}: {error}")
            yield RawRecord(now, cpu, number, page[start:end])
        self._end(faults)

    def feed_raw(self, page: bytes) -> Iterator[RawRecord | Lost]:
        """Yield what a page holds, not decoded. Raises EventError as ``feed`` does."""
        faults: list[str] = []
        found: list[Found] = []
        yield from self._begin(page, found, faults)
        for now, number, start, end in found:
            yield RawRecord(now, self.cpu, number, page[start:end])
        self._end(faults)

    def _begin(self, page: bytes, found: list[Found], faults: list[str]) -> Iterator[Lost]:
        try:
            header = read_header(page, self.layout)
            now, behind = self._before
            if behind and header.timestamp == now - behind:
                # The page before was not full, and this is the rest of it, by the kernel's time.
                header.timestamp, header.behind = now, behind
            if header.lost != 0:
                if header.lost is None:
                    self.unknown += 1
                else:
                    self.lost += header.lost
                yield Lost(header.timestamp, self.cpu, header.lost)
            self._before = (0, 0)
            self._before = scan(page, self.layout, header, found)
        except EventError as error:
            faults.append(str(error).removeprefix("page: "))

    def _end(self, faults: list[str]) -> None:
        page = self.pages
        self.pages += 1
        if faults:
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            raise EventError(f"CPU {self.cpu}, page {page}: {faults[0]}{more}")


def pages_of(stream: BinaryIO, layout: PageLayout) -> Iterator[bytes]:
    """Yield the pages in a file or pipe up to its end; the last may be cut off."""
    while page := stream.read(layout.size):
        while len(page) < layout.size and (more := stream.read(layout.size - len(page))):
            page += more
        yield page


def read_pages(
    stream: BinaryIO | Iterable[bytes],
    formats: RecordFormats,
    *,
    cpu: int = 0,
    layout: PageLayout | None = None,
) -> Iterator[Item]:
    """Yield the records and losses of one CPU from a file of pages, or from pages.

    Raises EventError where a page is none.
    """
    reader = PageReader(formats, cpu, layout)
    pages = pages_of(cast("BinaryIO", stream), reader.layout) if hasattr(stream, "read") else stream
    for page in pages:
        yield from reader.feed(page)


async def read_pages_async(
    pages: AsyncIterable[bytes],
    formats: RecordFormats,
    *,
    cpu: int = 0,
    layout: PageLayout | None = None,
) -> AsyncIterator[Item]:
    """Yield the records and losses of one CPU from pages that come as they are traced.

    Raises EventError where a page is none.
    """
    reader = PageReader(formats, cpu, layout)
    async for page in pages:
        for item in reader.feed(page):
            yield item


_time = attrgetter("timestamp")


def merge(streams: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """Yield the items of several CPUs by time; of those at one time, by the streams' order."""
    return heapq.merge(*streams, key=_time)


class Merger:
    """Puts in order what several CPUs trace while they are read, page by page.

    The buffers of all CPUs are read in turn. What is older than the start of a round is complete
    when the round is: ``pop(until=start)`` then gives it, in order.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Item]] = {}

    def push(self, cpu: int, items: Iterable[Item]) -> None:
        """Add what a CPU's buffer gave, in its order."""
        self._waiting.setdefault(cpu, deque()).extend(items)

    def pop(self, until: int | None = None) -> Iterator[Item]:
        """Yield, by time, all items up to the time ``until`` in ns, all there are without it."""
        heads = [(queue[0].timestamp, cpu) for cpu, queue in self._waiting.items() if queue]
        heapq.heapify(heads)
        while heads and (until is None or heads[0][0] <= until):
            cpu = heads[0][1]
            queue = self._waiting[cpu]
            yield queue.popleft()
            if queue:
                heapq.heapreplace(heads, (queue[0].timestamp, cpu))
            else:
                heapq.heappop(heads)

    def complete(self) -> int | None:
        """Return up to which time all CPUs that gave something have given it; None if none has."""
        ends = [queue[-1].timestamp for queue in self._waiting.values() if queue]
        return min(ends, default=None)
