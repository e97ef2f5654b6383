"""What an instance records, as it is recorded: files of each CPU in, items in order of time out.

``trace_pipe_raw`` gives pages, and takes what it gives out of the buffer; whoever else reads the
same instance gets the rest. Source: Documentation/trace/ftrace.rst.
"""

from __future__ import annotations

import errno
import os
import re
import select
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pybpf.errors import KernelError
from pybpf.events.ftrace.pages import parse_header_page
from pybpf.events.ftrace.reader import Item, Lost, Merger, PageReader, RawRecord, RecordFormats
from pybpf.kernel.fd import Fd
from pybpf.kernel.ftrace.instance import Instance

if TYPE_CHECKING:
    import asyncio

CLOCK = "mono"
_MARGIN = 1_000_000
"""The clock of the trace is read without locks, and may be behind by some nanoseconds."""
_PAUSE = 0.02
"""Between two rounds, in seconds: many records a read, and few wake-ups."""
_PAGES = 64
"""The most pages that are read of one CPU before the next has its turn."""


class Stream:
    """Reads an instance; a context. Give it an instance that nobody else reads.

    ``lost`` counts the records that were lost, exactly once all is read; ``fileno`` polls readable
    when there is something. Raises KernelError, as its methods do.
    """

    def __init__(self, instance: Instance, formats: RecordFormats) -> None:
        self.formats = formats
        self._instance = instance
        self._merger = Merger()
        self._readers: dict[int, tuple[Fd, PageReader]] = {}
        self._before: dict[int, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._epoll = stack.enter_context(select.epoll())
            # Wake up for the first record, not when the buffer is half full.
            stack.enter_context(self._instance.setting("buffer_percent", "0"))
            layout = parse_header_page(self._instance.tree.read("events/header_page"))
            with suppress(FileNotFoundError):  # where each instance has its own size of pages
                path = f"{self._instance.folder}events/header_page"
                layout = parse_header_page(self._instance.tree.read(path))
            for cpu in self._cpus():
                path = f"{self._instance.folder}per_cpu/cpu{cpu}/trace_pipe_raw"
                fd = Fd(self._instance.tree.open(path, os.O_RDONLY | os.O_NONBLOCK))
                stack.enter_context(fd)
                self._readers[cpu] = fd, PageReader(self.formats, cpu, layout)
                self._before[cpu] = self._lost(cpu)
                self._epoll.register(fd.fileno(), select.EPOLLIN)
            self._ordered = "[" + CLOCK + "]" in self._instance.read("trace_clock")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _cpus(self) -> list[int]:
        names = self._instance.tree.names(f"{self._instance.folder}per_cpu")
        return sorted(int(name.removeprefix("cpu")) for name in names)

    def fileno(self) -> int:
        """Return a descriptor that polls readable when there may be something to read."""
        return self._epoll.fileno()

    @property
    def lost(self) -> int:
        """How many records were lost for want of room since the stream was opened."""
        return sum(self._lost(cpu) - before for cpu, before in self._before.items())

    # stats: lines of NAME ': ' NUMBER
    def _lost(self, cpu: int) -> int:
        text = self._instance.read(f"per_cpu/cpu{cpu}/stats")
        found = dict(re.findall(r"^([\w ]+): (\d+)", text, re.MULTILINE))
        return int(found.get("overrun", 0)) + int(found.get("dropped events", 0))

    def poll(self, timeout: float | None = None) -> bool:
        """Wait until there is something to read, seconds at most; say whether there is."""
        return bool(self._epoll.poll(-1 if timeout is None else timeout))

    def read(self, *, last: bool = False) -> Iterator[RawRecord | Lost]:
        """Yield what there is, in order of time, losses where they were.

        What is so new that another CPU might have something older waits for the next time, but for
        the ``last``. Raises EventError for a page that is none.
        """
        until = None if last or not self._ordered else time.monotonic_ns() - _MARGIN
        for cpu, (fd, reader) in self._readers.items():
            for _ in range(self._room(cpu) // reader.layout.size + 2 if last else _PAGES):
                page = self._page(cpu, fd, reader.layout.size)
                if not page:
                    break
                self._merger.push(cpu, reader.feed_raw(page))
        return self._merger.pop(until)  # type: ignore[return-value]  # what feed_raw gave

    def _room(self, cpu: int) -> int:
        """Return how many bytes a CPU's buffer has: ``7 (expanded: 1408)`` where it has grown."""
        text = self._instance.read(f"per_cpu/cpu{cpu}/buffer_size_kb")
        return max(map(int, re.findall(r"\d+", text))) << 10

    @property
    def waiting(self) -> bool:
        """Whether something was read that is too new to be given out."""
        return self._merger.complete() is not None

    def _page(self, cpu: int, fd: Fd, size: int) -> bytes:
        try:
            return os.read(fd.fileno(), size)
        except BlockingIOError:
            return b""
        except OSError as error:
            hints = ("the instance is gone",) if error.errno == errno.ENODEV else ()
            where = f"{self._instance.folder}per_cpu/cpu{cpu}/trace_pipe_raw"
            raise KernelError(
                error.errno or errno.EIO, f"cannot read {where}", hints=hints
            ) from None

    def raw(self, timeout: float | None = None) -> Iterator[RawRecord | Lost]:
        """Yield records, not decoded, and losses as they come, until ``timeout`` seconds are over.

        Without a timeout it goes on until the block is left.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (left := _left(until)) is None or left > 0:
            waiting = self.waiting
            if self.poll(_PAUSE if waiting else left) or waiting:
                yield from self.read()
                time.sleep(_PAUSE)
        yield from self.read(last=True)

    def items(self, timeout: float | None = None) -> Iterator[Item]:
        """Yield typed records and losses as ``raw`` does."""
        for item in self.raw(timeout):
            yield self.decode(item)

    def decode(self, item: RawRecord | Lost) -> Item:
        """Return a record with its fields. Raises EventError."""
        return item if isinstance(item, Lost) else self.formats.decode(item)

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yield typed records and losses as they come, while others of the event loop run."""
        import asyncio

        loop = asyncio.get_running_loop()
        number = self.fileno()
        try:
            while True:
                if not self.waiting:
                    there = loop.create_future()
                    loop.add_reader(number, _once, loop, number, there)
                    await there
                for item in self.read():
                    yield self.decode(item)
                await asyncio.sleep(_PAUSE)
        finally:
            loop.remove_reader(number)


def _once(loop: asyncio.AbstractEventLoop, number: int, there: asyncio.Future[None]) -> None:
    loop.remove_reader(number)
    if not there.done():
        there.set_result(None)


def _left(until: float | None) -> float | None:
    return None if until is None else until - time.monotonic()
