import os
import select
import struct
import threading

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.kernel import features, programs
from pybpf.kernel.maps import Map
from pybpf.kernel.ringbuf import PerfBuffer, RingBuffer

pytestmark = pytest.mark.kernel

PAGE = os.sysconf("SC_PAGESIZE")

# Context: (u64, length). Sends that many bytes, which begin with the u64; zeros follow it.
RINGBUF_OUTPUT = """
    r6 = r1
    *(u32 *)(r10 - 4) = 0
    r1 = map_fd[{source}] ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto L1
    r1 = *(u64 *)(r6 + 0)
    *(u64 *)(r0 + 0) = r1
    r3 = *(u64 *)(r6 + 8)
    r3 &= {mask}
    r2 = r0
    r1 = map_fd[{ring}] ll
    r4 = 0
    call bpf_ringbuf_output
    exit
L1: r0 = 1
    exit
"""

# Context: (u64, discard). Reserves 24 bytes, writes the u64 to them, and submits or discards.
RESERVE = """
    r6 = r1
    r1 = map_fd[{ring}] ll
    r2 = 24
    r3 = 0
    call bpf_ringbuf_reserve
    if r0 == 0 goto L1
    r1 = *(u64 *)(r6 + 0)
    *(u64 *)(r0 + 0) = r1
    *(u64 *)(r0 + 8) = 8
    *(u64 *)(r0 + 16) = 16
    r7 = *(u64 *)(r6 + 8)
    r1 = r0
    r2 = 0
    if r7 != 0 goto L2
    call bpf_ringbuf_submit
    r0 = 0
    exit
L2: call bpf_ringbuf_discard
    r0 = 0
    exit
L1: r0 = 1
    exit
"""

# Context: (u64, length - 1). Sends that many bytes of three numbers, of which the u64 is the first.
PERF_OUTPUT = """
    r6 = r1
    r1 = *(u64 *)(r6 + 0)
    *(u64 *)(r10 - 24) = r1
    *(u64 *)(r10 - 16) = 8
    *(u64 *)(r10 - 8) = 16
    r5 = *(u64 *)(r6 + 8)
    r5 &= 15
    r5 += 1
    r1 = r6
    r2 = map_fd[{events}] ll
    r3 = 0xffffffff ll
    r4 = r10
    r4 += -24
    call bpf_perf_event_output
    exit
"""


def load(text, name="output", **fds):
    insns = bytes(assemble(text.format(**fds)))
    return programs.load(insns, ProgType.RAW_TRACEPOINT, name)


def send(prog, first, second, cpu=None):
    """Run the program; return whether it found room."""
    return prog.test_run(struct.pack("=QQ", first, second), cpu=cpu).retval == 0


@pytest.fixture
def ring_map():
    if not features.ringbuf():
        pytest.skip("this kernel has no BPF ring buffer")
    with Map(MapType.RINGBUF, "ring", 0, 0, PAGE) as ring:
        yield ring


@pytest.fixture
def ring(ring_map):
    with RingBuffer(ring_map) as ring:
        yield ring


@pytest.fixture
def reserve(ring_map):
    with load(RESERVE, ring=ring_map.fileno()) as prog:
        yield prog


@pytest.fixture
def output(ring_map):
    with (
        Map(MapType.ARRAY, "source", 4, 1024, 1) as source,
        load(RINGBUF_OUTPUT, source=source.fileno(), ring=ring_map.fileno(), mask=1023) as prog,
    ):
        yield prog


def record(number):
    return struct.pack("=QQQ", number, 8, 16)


def test_records_arrive_whole_and_in_order(ring, reserve):
    for n in range(100):
        assert send(reserve, n, 0)

    assert ring.used == 100 * 32
    assert [bytes(r) for r in ring.drain()] == [record(n) for n in range(100)]
    assert ring.used == 0
    assert list(ring.drain()) == []
    assert ring.lost == 0


def test_discarded_records_are_skipped(ring, reserve):
    for n in range(20):
        send(reserve, n, n % 3)

    assert [bytes(r) for r in ring.drain()] == [record(n) for n in range(0, 20, 3)]
    assert ring.used == 0


def test_records_survive_the_end_of_the_ring(ring, output):
    """Ten times around: each length ends at another place, some records wrap."""
    for n in range(200):
        length = 8 + n * 37 % 500

        assert send(output, n, length)
        assert [bytes(r) for r in ring.drain()] == [struct.pack("=Q", n) + bytes(length - 8)]


def test_a_full_ring_refuses_until_it_is_drained(ring, reserve):
    sent = 0
    while send(reserve, sent, 0):
        sent += 1

    assert sent == PAGE // 32 - 1
    assert [bytes(r) for r in ring.drain()] == [record(n) for n in range(sent)]
    assert send(reserve, 7, 0)
    assert [bytes(r) for r in ring.drain()] == [record(7)]


def test_kept_records_do_not_change_under_their_reader(ring, reserve):
    send(reserve, 1, 0)
    (first,) = ring.drain()
    for n in range(2, 200):
        send(reserve, n, 0)
        list(ring.drain())

    assert bytes(first) == record(1)


def test_a_record_longer_than_the_first_buffer_arrives():
    size = 1 << 20
    with (
        Map(MapType.RINGBUF, "ring", 0, 0, size) as ring_map,
        Map(MapType.ARRAY, "source", 4, 1 << 19, 1) as source,
        RingBuffer(ring_map) as ring,
        load(
            RINGBUF_OUTPUT, source=source.fileno(), ring=ring_map.fileno(), mask=(1 << 19) - 1
        ) as prog,
    ):
        send(prog, 1, 100)
        send(prog, 2, 400_000)
        send(prog, 3, 100)
        got = [(len(r), r[0]) for r in ring.drain()]

    assert got == [(100, 1), (400_000, 2), (100, 3)]


def test_epoll_wakes_for_a_record_and_rests_after_the_drain(ring, reserve):
    with select.epoll() as poll:
        poll.register(ring.fileno(), select.EPOLLIN)

        assert poll.poll(0) == []
        send(reserve, 1, 0)
        assert poll.poll(10) == [(ring.fileno(), select.EPOLLIN)]
        list(ring.drain())
        assert poll.poll(0) == []


def test_two_cpus_lose_nothing_that_was_not_refused(ring, reserve):
    sent = [0, 0]

    def hammer(cpu):
        for n in range(20_000):
            if send(reserve, cpu << 32 | n, 0, cpu):
                sent[cpu] += 1

    threads = [threading.Thread(target=hammer, args=(cpu,)) for cpu in (0, 1)]
    got = []
    with select.epoll() as poll:
        poll.register(ring.fileno(), select.EPOLLIN)
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or ring.used:
            poll.poll(0.01)
            got += [struct.unpack("=QQQ", r) for r in ring.drain()]
    for thread in threads:
        thread.join()

    assert len(got) == sum(sent) > 0
    assert {r[1:] for r in got} == {(8, 16)}
    for cpu in (0, 1):
        numbers = [r[0] & 0xFFFFFFFF for r in got if r[0] >> 32 == cpu]

        assert len(numbers) == sent[cpu]
        assert numbers == sorted(set(numbers))


def test_a_ring_outlives_the_descriptor_of_its_map(ring_map, reserve):
    with RingBuffer(ring_map) as ring:
        ring_map.close()
        send(reserve, 5, 0)

        assert [bytes(r) for r in ring.drain()] == [record(5)]


def test_a_closed_ring_raises_instead_of_reading_unmapped_memory(ring_map, reserve):
    ring = RingBuffer(ring_map)
    send(reserve, 1, 0)
    drain = ring.drain()
    ring.close()
    ring.close()
    with pytest.raises(ValueError, match="closed"):
        next(drain)
    with pytest.raises(ValueError, match="closed"):
        _ = ring.used


def test_a_map_of_another_type_is_no_ring():
    with (
        Map(MapType.ARRAY, "array", 4, 8, 1) as array,
        pytest.raises(KernelError, match="cannot map the ring buffer array into memory"),
    ):
        RingBuffer(array)


@pytest.fixture
def events():
    with Map(MapType.PERF_EVENT_ARRAY, "events", 4, 4, os.cpu_count()) as events:
        yield events


@pytest.fixture
def perf(events):
    with PerfBuffer(events, PAGE) as ring:
        yield ring


@pytest.fixture
def perf_output(events):
    with load(PERF_OUTPUT, events=events.fileno()) as prog:
        yield prog


def test_perf_records_of_each_cpu_arrive_in_order(perf, perf_output):
    for n in range(40):
        assert send(perf_output, n, n, n % 2)
    got = [bytes(r) for r in perf.drain()]
    numbers = [r[0] for r in got]

    assert numbers == [*range(0, 40, 2), *range(1, 40, 2)]
    for r in got:
        length = r[0] % 16 + 1
        assert r[:length] == struct.pack("=QQ", r[0], 8)[:length]
        assert len(r) == length + (-length - 4) % 8
    assert perf.used == 0
    assert perf.lost == 0


def test_lost_perf_records_are_counted(perf, perf_output):
    results = [send(perf_output, n, 15, 0) for n in range(400)]
    got = len(list(perf.drain()))
    # The kernel says how many it dropped with the next record that it does not drop.
    send(perf_output, 1, 15, 0)
    got += len(list(perf.drain()))

    assert 0 < perf.lost == results.count(False)
    assert got + perf.lost == 401


def test_perf_records_survive_the_end_of_the_ring(perf, perf_output):
    for n in range(2000):
        assert send(perf_output, n, n, 0)
        (got,) = perf.drain()
        length = n % 16 + 1

        assert got[:length] == struct.pack("=QQ", n, 8)[:length]


def test_epoll_wakes_for_a_perf_record_on_any_cpu(perf, perf_output):
    with select.epoll() as poll:
        poll.register(perf.fileno(), select.EPOLLIN)
        for cpu in (0, 1):
            assert poll.poll(0) == []
            send(perf_output, 1, 7, cpu)
            assert poll.poll(10) == [(perf.fileno(), select.EPOLLIN)]
            list(perf.drain())


def test_a_closed_perf_buffer_raises(events, perf_output):
    ring = PerfBuffer(events, PAGE)
    send(perf_output, 1, 7)
    drain = ring.drain()
    ring.close()
    ring.close()
    with pytest.raises(ValueError, match="closed"):
        next(drain)


def test_a_size_that_is_no_power_of_two_is_refused_and_nothing_stays_open(events):
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - shorter for names alone
    with pytest.raises(KernelError, match="cannot map a perf buffer into memory"):
        PerfBuffer(events, 3 * PAGE)

    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
