"""Rings of records: a map in; a descriptor to poll, and the records' bytes, out.

RingBuffer reads a BPF ring buffer: one for all CPUs, in order. PerfBuffer reads perf buffers, one
for each CPU, on kernels before 5.8, and has the same methods; only records of one CPU are in order.
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from pybpf.errors import KernelError
from pybpf.kernel.fd import Fd
from pybpf.kernel.maps import Map, possible_cpus
from pybpf.kernel.syscall import check, ffi, lib, perf_enable, perf_open

if TYPE_CHECKING:
    from collections.abc import Callable

    from pybpf._bpf_syscall import CData  # noqa: TID251 - a type, for mypy only

_LENGTH, _U32 = Struct("=I4x"), Struct("=I")
# A batch: thousands of records, and yet what is made of them stays in the CPU's cache.
_ROOM = 1 << 16
# Of a buffer for all CPUs, each has at least that much, where the buffer is as large.
_LEAST = 1 << 18

_SOFTWARE, _BPF_OUTPUT = 1, 10  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT
_SAMPLE_RAW = 1 << 10


class Ring(Protocol):
    """What RingBuffer and PerfBuffer have in common."""

    @property
    def lost(self) -> int:
        """How many records the kernel said it dropped, among what was drained."""

    @property
    def used(self) -> int:
        """How many bytes wait to be drained."""

    def fileno(self) -> int:
        """Return the descriptor to poll, level-triggered, for EPOLLIN."""

    def batches(self) -> Iterator[bytes]:
        """Yield the records that are complete now, many at once; ``records`` splits them."""

    def drain(self) -> Iterator[memoryview]:
        """Yield the records that are complete now, oldest first."""

    def close(self) -> None:
        """Unmap the memory and close what was opened for it."""


def share(size: int, cpus: int) -> int:
    """Return the bytes that each CPU has of a buffer: at least 256 KiB, where that has as many."""
    return min(size, max(size >> (cpus - 1).bit_length(), _LEAST))


def records(batch: bytes) -> Iterator[memoryview]:
    """Yield the payloads in a batch.

    +------------+-------+---------+------------------+
    | u32 length | 4 B   | payload | up to 7 B        | and so on
    +------------+-------+---------+------------------+
    """
    view = memoryview(batch)
    at = 0
    while at < len(batch):
        (length,) = _LENGTH.unpack_from(batch, at)
        yield view[at + 8 : at + 8 + length]
        at += (length + 15) & ~7


class _Copier:
    """The memory that a C drain function fills, again and again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._out = ffi.new("char[]", min(limit, _ROOM))

    def batches(self, used: int, drain: Callable[[CData, int], int]) -> Iterator[bytes]:
        """Yield copies of batches until ``used`` bytes are read or no record is complete.

        That bound keeps programs that never pause from holding up the reader for ever.
        """
        while used > 0:
            size = drain(self._out, len(self._out))
            if size == -errno.EMSGSIZE and len(self._out) < self._limit:
                self._out = ffi.new("char[]", min(2 * len(self._out), self._limit))
                continue
            if check(size, "cannot drain a ring") == 0:
                return
            used -= size
            yield ffi.buffer(self._out, size)[:]


class RingBuffer(Fd):
    """The reader of a BPF ring buffer map. A ring has one reader.

    ``lost`` is always 0: where the ring is full, it is the program that sees its reservation fail,
    and counts.
    """

    __slots__ = ("_copier", "_ring")

    lost = 0

    def __init__(self, ring: Map) -> None:
        """Map the ring into memory; the map may be closed afterwards."""
        super().__init__(os.dup(ring.fileno()))
        self._ring = ffi.new("struct ringbuf *")
        self._copier = _Copier(ring.max_entries)
        result = lib.ringbuf_map(self._ring, self.fileno(), ring.max_entries)
        if result < 0:
            super().close()
        check(result, f"cannot map the ring buffer {ring.name} into memory")

    @property
    def used(self) -> int:
        """How many bytes wait to be drained, records being written included."""
        self.fileno()
        return lib.ringbuf_used(self._ring)

    def batches(self) -> Iterator[bytes]:
        """Yield the records that are complete now, many at once; ``records`` splits them."""
        return self._copier.batches(self.used, self._drain)

    def _drain(self, out: CData, room: int) -> int:
        self.fileno()  # raises where a reader goes on after close()
        return lib.ringbuf_drain(self._ring, out, room)

    def drain(self) -> Iterator[memoryview]:
        """Yield the records that are complete now, oldest first."""
        for batch in self.batches():
            yield from records(batch)

    def close(self) -> None:
        """Unmap the ring; what was not drained stays in it."""
        if not self.closed:
            lib.ringbuf_unmap(self._ring)
        super().close()


class PerfBuffer(Fd):
    """The reader of a perf event array map: a ring for each online CPU.

    A payload may be followed by up to 7 bytes of padding, which the kernel counts as its own.
    """

    __slots__ = ("_copier", "_lost", "_open", "_rings")

    def __init__(self, events: Map, size: int) -> None:
        """Put a ring on each online CPU, which share ``size`` bytes (a power of 2)."""
        self._lost = ffi.new("uint64_t *")
        self._rings: list[CData] = []
        cpus = possible_cpus()
        size = share(size, len(cpus))
        self._copier = _Copier(size)
        with ExitStack() as stack:
            poll = stack.enter_context(select.epoll())
            for cpu in cpus:
                self._add(stack, poll, events, cpu, size)
            super().__init__(os.dup(poll.fileno()))
            self._open = stack.pop_all()

    def _add(self, stack: ExitStack, poll: select.epoll, events: Map, cpu: int, size: int) -> None:
        try:
            event = perf_open(
                _SOFTWARE, _BPF_OUTPUT, period=1, sample_type=_SAMPLE_RAW, wakeup=1, cpu=cpu
            )
        except KernelError as error:
            if error.errno == errno.ENODEV:  # possible, but not online
                return
            raise
        stack.enter_context(event)
        ring = ffi.new("struct perfbuf *")
        check(lib.perfbuf_map(ring, event.fileno(), size), "cannot map a perf buffer into memory")
        stack.callback(lib.perfbuf_unmap, ring)
        self._rings.append(ring)
        events.update(_U32.pack(cpu), _U32.pack(event.fileno()))
        perf_enable(event)
        poll.register(event.fileno(), select.EPOLLIN)

    @property
    def lost(self) -> int:
        """How many records the kernel said it dropped, among what was drained."""
        return int(self._lost[0])

    @property
    def used(self) -> int:
        """How many bytes wait to be drained, on all CPUs."""
        self.fileno()
        return sum(lib.perfbuf_used(ring) for ring in self._rings)

    def batches(self) -> Iterator[bytes]:
        """Yield the records that are complete now, many at once; ``records`` splits them."""
        for ring in self._rings:
            self.fileno()
            yield from self._copier.batches(lib.perfbuf_used(ring), partial(self._drain, ring))

    def _drain(self, ring: CData, out: CData, room: int) -> int:
        self.fileno()  # raises where a reader goes on after close()
        return lib.perfbuf_drain(ring, out, room, self._lost)

    def drain(self) -> Iterator[memoryview]:
        """Yield the records that are complete now, oldest first within each CPU."""
        for batch in self.batches():
            yield from records(batch)

    def close(self) -> None:
        """Unmap and close the rings of all CPUs."""
        if not self.closed:
            self._open.close()
        super().close()
