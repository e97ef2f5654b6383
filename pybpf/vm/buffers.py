"""Maps that carry records to user space, and the map of stack traces."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from errno import E2BIG, EEXIST, EFAULT, ENOENT, ENOSPC

from pybpf.script import MapSpec
from pybpf.vm.maps import Kept
from pybpf.vm.memory import AddressSpace, Region, Trap

_HEADER = 8
_CAPACITY = 64 << 20


class _Record:
    """A record of a ring buffer that user space has not consumed yet; ``start`` in the ring."""

    __slots__ = ("busy", "discarded", "length", "region", "start")

    def __init__(self, region: Region, start: int, length: int) -> None:
        self.region = region
        self.start = start
        self.length = length
        self.busy = True
        self.discarded = False


class RingBuffer(Kept):
    """A BPF ring buffer of ``max_entries`` bytes; it fills up until user space drains it.

    A record takes its size, rounded up to 8, and a header of 8 bytes. The buffer can never be
    filled to the last byte. Like the kernel's, its memory is zero at first, and later holds what
    older records left there. Source: __bpf_ringbuf_reserve in kernel/bpf/ringbuf.c.
    """

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self.consumed = 0
        self.produced = 0
        self._area = bytearray()  # as much of the memory as was used
        self._records: deque[_Record] = deque()
        self._busy: dict[int, _Record] = {}

    @property
    def size(self) -> int:
        """The bytes of the data area."""
        return self.spec.max_entries

    @property
    def pending(self) -> int:
        """The bytes that are taken: unconsumed records and their headers."""
        return self.produced - self.consumed

    def reserve(self, size: int) -> int:
        """Return the address of ``size`` writable bytes, or 0 where there is no room."""
        length = -(-(size + _HEADER) // 8) * 8
        if length > self.size or self.pending + length > self.size - 1:
            return 0
        start = self.produced
        self.produced += length
        self._write(start, size.to_bytes(_HEADER, self._memory.byteorder))
        left = self._read(start + _HEADER, size)
        region = self._memory.add(left, f"a record of ring buffer {self.spec.name}")
        record = _Record(region, start, length)
        self._records.append(record)
        self._busy[region.address] = record
        return region.address

    def finish(self, address: int, *, discard: bool) -> None:
        """Submit or discard the reservation that begins at ``address``; raises Trap for no such."""
        record = self._busy.pop(address, None)
        if record is None:
            raise _no_reservation(address, discard=discard)
        record.busy = False
        record.discarded = discard
        self._write(record.start + _HEADER, record.region.data)
        self._memory.free(record.region, "it was discarded" if discard else "it was submitted")

    def _read(self, start: int, size: int) -> bytearray:
        """Return bytes of the ring, which begins again where it ends."""
        place = start % self.size
        first = min(size, self.size - place)
        left = self._area[place : place + first].ljust(first, b"\0")
        return left + self._area[: size - first]

    def _write(self, start: int, data: bytes | bytearray) -> None:
        place = start % self.size
        first = min(len(data), self.size - place)
        if len(self._area) < place:
            self._area += bytes(place - len(self._area))
        self._area[place : place + first] = data[:first]
        self._area[: len(data) - first] = data[first:]

    def holds(self, address: int) -> bool:
        """Whether a reservation begins at an address."""
        return address in self._busy

    def reserved(self) -> list[Region]:
        """Return the reservations that are neither submitted nor discarded."""
        return [record.region for record in self._busy.values()]

    def drain(self) -> list[bytes]:
        """Consume the records before the first that is still reserved, and skip discarded ones."""
        records = []
        while self._records and not self._records[0].busy:
            record = self._records.popleft()
            self.consumed += record.length
            if not record.discarded:
                records.append(bytes(record.region.data))
        return records


def finish_record(maps: Iterable[object], address: int, *, discard: bool) -> None:
    """Submit or discard a reservation of one of the maps; raises Trap where there is none."""
    for found in maps:
        if isinstance(found, RingBuffer) and found.holds(address):
            found.finish(address, discard=discard)
            return
    raise _no_reservation(address, discard=discard)


def _no_reservation(address: int, *, discard: bool) -> Trap:
    verb = "discard" if discard else "submit"
    return Trap(f"cannot {verb} {address:#x}: no reservation begins there")


class PerfEventArray(Kept):
    """A perf buffer for every CPU, each of ``capacity`` bytes (None: 64 MiB).

    A sample takes its size and a u32 that holds it, together rounded up to 8, and a header of 8
    bytes. Samples of all CPUs are kept in the order they were sent, an order the kernel loses.
    ``lost`` counts the samples for which there was no room.
    """

    def __init__(self, spec: MapSpec, memory: AddressSpace, cpus: int) -> None:
        super().__init__(spec, memory)
        self.capacity: int | None = None
        self.lost = 0
        self._taken = [0] * cpus
        self._samples: list[tuple[int, bytes]] = []

    def output(self, cpu: int, data: bytes) -> int:
        """Append a sample for a CPU; return 0 or a negative errno."""
        if cpu >= self.spec.max_entries:
            return -E2BIG
        if cpu >= len(self._taken):
            return -ENOENT
        length = _HEADER + -(-(len(data) + 4) // 8) * 8
        capacity = _CAPACITY if self.capacity is None else self.capacity
        if self._taken[cpu] + length > capacity:
            self.lost += 1
            return -ENOSPC
        self._taken[cpu] += length
        self._samples.append((cpu, data))
        return 0

    def drain(self) -> list[tuple[int, bytes]]:
        """Consume all samples: (CPU, bytes)."""
        samples = self._samples
        self._samples = []
        self._taken = [0] * len(self._taken)
        return samples


class StackTraces(Kept):
    """Stacks by id. Ids are given in order, so stacks never collide as they can in the kernel.

    A stack beyond ``max_entries`` is refused with EEXIST, as a collision is.
    """

    def __init__(self, spec: MapSpec, memory: AddressSpace) -> None:
        super().__init__(spec, memory)
        self._ids: dict[tuple[int, ...], int] = {}

    def record(self, frames: Sequence[int]) -> int:
        """Return the id of a stack (innermost frame first), or a negative errno."""
        stack = tuple(frames[: self.spec.value_size // 8])
        if not stack:
            return -EFAULT
        found = self._ids.get(stack)
        if found is None:
            if len(self._ids) >= self.spec.max_entries:
                return -EEXIST
            found = self._ids[stack] = len(self._ids)
        return found

    def stack(self, stack_id: int) -> tuple[int, ...]:
        """Return the frames of a stack, innermost first; empty for an unknown id."""
        return next((stack for stack, known in self._ids.items() if known == stack_id), ())

    def clear(self) -> None:
        """Forget every stack."""
        self._ids.clear()
