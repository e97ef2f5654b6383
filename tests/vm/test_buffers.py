from errno import E2BIG, EEXIST, EFAULT, ENOENT, ENOSPC

import pytest

from pybpf.isa.abi import MapType
from pybpf.script import MapRole, MapSpec
from pybpf.vm.buffers import PerfEventArray, RingBuffer, StackTraces
from pybpf.vm.machine import Machine
from pybpf.vm.memory import Trap
from pybpf.vm.world import World


def make(kind, entries, value=0):
    machine = Machine([MapSpec("m", MapRole.EVENTS, kind, 4, value, entries)], World(cpus=2))
    return machine.maps["m"], machine.memory


@pytest.fixture
def ring():
    found, _ = make(MapType.RINGBUF, 4096)
    assert isinstance(found, RingBuffer)
    return found


def fill(ring, size):
    count = 0
    while address := ring.reserve(size):
        ring.finish(address, discard=False)
        count += 1
    return count


# A record takes 8 bytes for its header and its size rounded up; one byte must stay free.
@pytest.mark.parametrize(
    ("size", "records"), [(0, 511), (1, 255), (8, 255), (9, 170), (1016, 3), (4080, 1), (4088, 0)]
)
def test_a_ring_takes_as_many_records_as_the_kernels(ring, size, records):
    assert fill(ring, size) == records


def test_draining_makes_room(ring):
    assert fill(ring, 1016) == 3
    assert ring.pending == ring.produced == 3072

    assert ring.drain() == [bytes(1016)] * 3
    assert (ring.pending, ring.consumed) == (0, 3072)
    assert fill(ring, 1016) == 3


def test_records_come_in_the_order_of_their_reservation(ring):
    first, second, third = (ring.reserve(n) for n in (1, 2, 3))

    ring.finish(third, discard=False)
    ring.finish(second, discard=True)
    assert ring.drain() == []
    ring.finish(first, discard=False)
    assert ring.drain() == [bytes(1), bytes(3)]


def test_a_discarded_record_takes_room_until_it_is_skipped(ring):
    ring.finish(ring.reserve(8), discard=True)

    assert ring.pending == 16
    assert ring.drain() == []
    assert ring.pending == 0


def test_only_a_reservation_can_be_finished_and_only_once(ring):
    address = ring.reserve(8)
    ring.finish(address, discard=False)

    with pytest.raises(Trap) as caught:
        ring.finish(address, discard=False)
    assert str(caught.value) == f"cannot submit {address:#x}: no reservation begins there"
    with pytest.raises(Trap) as caught:
        ring.finish(0, discard=True)
    assert str(caught.value) == "cannot discard 0x0: no reservation begins there"


def test_perf_samples_are_kept_per_cpu_until_there_is_no_room():
    buffers, _ = make(MapType.PERF_EVENT_ARRAY, 4)
    assert isinstance(buffers, PerfEventArray)
    buffers.capacity = 64

    results = [buffers.output(0, b"x" * 12) for _ in range(4)]  # each takes 8 + 16 bytes

    assert results == [0, 0, -ENOSPC, -ENOSPC]
    assert buffers.output(1, b"y") == 0
    assert buffers.output(2, b"") == -ENOENT
    assert buffers.output(4, b"") == -E2BIG
    assert buffers.lost == 2
    assert buffers.drain() == [(0, b"x" * 12), (0, b"x" * 12), (1, b"y")]
    assert buffers.output(0, b"z") == 0


def test_stacks_get_an_id_each():
    stacks, _ = make(MapType.STACK_TRACE, 2, value=3 * 8)
    assert isinstance(stacks, StackTraces)

    assert [stacks.record(s) for s in ([1, 2], [1, 2, 3, 4], [1, 2], [5])] == [0, 1, 0, -EEXIST]
    assert stacks.record([]) == -EFAULT
    assert [stacks.stack(n) for n in (0, 1, 2, -1)] == [(1, 2), (1, 2, 3), (), ()]
    stacks.clear()
    assert stacks.stack(0) == ()


def test_a_record_finds_what_older_ones_left():
    machine = Machine([MapSpec("r", MapRole.EVENTS, MapType.RINGBUF, 0, 0, 64)])
    ring, space = machine.maps["r"], machine.memory
    left = []
    for number in range(1, 5):
        address = ring.reserve(16)
        left.append(space.read(address, 16))
        space.write(address, bytes([number]) * 16)
        ring.finish(address, discard=False)
        ring.drain()

    header = (16).to_bytes(8, "little")
    # The third goes round the end of the ring to the first's header, the fourth lies on the first
    # record's second half and the second's header.
    assert left == [bytes(16), bytes(16), bytes(8) + header, b"\1" * 8 + header]
