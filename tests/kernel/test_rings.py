"""The C drain functions against a model, on rings made in memory: no kernel takes part."""

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.kernel.ringbuf import records, share
from pybpf.kernel.syscall import ffi, lib

PAGE = os.sysconf("SC_PAGESIZE")
SIZE = 4096
BUSY, DISCARD = 1 << 31, 1 << 30


def pad(data):
    return data + bytes(-len(data) % 8)


def fake_ringbuf(start, entries):
    """Return a ring that holds (flags, payload) entries from position ``start`` on."""
    stream = b"".join(pad(struct.pack("=II", len(p) | flags, 7) + p) for flags, p in entries)
    data = bytearray(SIZE)
    for i, byte in enumerate(stream):
        data[(start + i) % SIZE] = byte
    memory = ffi.new("char[]", PAGE + SIZE)
    ffi.buffer(memory)[PAGE:] = bytes(data)
    consumer = ffi.new("unsigned long *", start)
    producer = ffi.cast("unsigned long *", memory)
    producer[0] = (start + len(stream)) % (1 << 64)
    ring = ffi.new("struct ringbuf *", (consumer, producer, SIZE))
    return ring, (memory, consumer)


def drain(function, ring, room, *more):
    out = ffi.new("char[]", room)
    used = function(ring, out, room, *more)
    return used, list(map(bytes, records(ffi.buffer(out)[: max(used, 0)])))


payloads = st.binary(max_size=200)
starts = st.integers(0, (1 << 61) - 1).map(lambda n: n * 8)
# At most 18 records of 208 bytes fit the ring.
entries = st.lists(st.tuples(st.sampled_from([0, 0, 0, DISCARD, BUSY]), payloads), max_size=18)


@given(starts, entries)
def test_a_drain_gives_all_records_before_the_first_busy_one(start, entries):
    ring, keep = fake_ringbuf(start, entries)
    done = entries[: next((i for i, (flags, _) in enumerate(entries) if flags == BUSY), None)]
    used, got = drain(lib.ringbuf_drain, ring, SIZE)

    assert [p for flags, p in done if not flags] == got
    assert sum(len(pad(p)) + 8 for flags, p in done if not flags) == used
    assert sum(len(pad(p)) + 8 for _, p in done) == (keep[1][0] - start) % (1 << 64)
    assert sum(len(pad(p)) + 8 for _, p in entries[len(done) :]) == lib.ringbuf_used(ring)


@given(starts, st.lists(payloads, max_size=18), st.integers(208, 1000))
def test_drains_into_little_room_never_split_a_record(start, entries, room):
    ring, _keep = fake_ringbuf(start, [(0, p) for p in entries])
    found = []
    while lib.ringbuf_used(ring):
        used, got = drain(lib.ringbuf_drain, ring, room)

        assert 0 < used <= room
        found += got

    assert entries == found


def test_a_record_too_long_for_the_room_stays_in_the_ring():
    ring, _keep = fake_ringbuf(0, [(DISCARD, b"gone"), (0, b"x" * 100)])

    assert drain(lib.ringbuf_drain, ring, 104) == (-errno.EMSGSIZE, [])
    assert lib.ringbuf_used(ring) == 112
    assert drain(lib.ringbuf_drain, ring, 112) == (112, [b"x" * 100])


def test_positions_may_wrap():
    start = (1 << 64) - 16
    ring, keep = fake_ringbuf(start, [(0, b"before"), (0, b"over"), (0, b"after")])

    assert drain(lib.ringbuf_drain, ring, SIZE) == (48, [b"before", b"over", b"after"])
    assert keep[1][0] == 32


def sample(payload):
    """PERF_RECORD_SAMPLE with PERF_SAMPLE_RAW: its length includes padding to 8 after 4."""
    raw = payload + bytes(-(len(payload) + 4) % 8)
    return struct.pack("=IHHI", 9, 0, 12 + len(raw), len(raw)) + raw


def lost(count):
    return struct.pack("=IHHQQ", 2, 0, 24, 1, count)


def other():
    return struct.pack("=IHHQ", 5, 0, 16, 0)  # PERF_RECORD_THROTTLE, here of an odd length


def fake_perfbuf(start, stream):
    data = bytearray(SIZE)
    for i, byte in enumerate(stream):
        data[(start + i) % SIZE] = byte
    memory = ffi.new("uint8_t[]", PAGE + SIZE)
    ffi.buffer(memory)[PAGE:] = bytes(data)
    ffi.buffer(memory)[1024:1040] = struct.pack("=QQ", (start + len(stream)) % (1 << 64), start)
    return ffi.new("struct perfbuf *", (memory, SIZE)), memory


@given(
    starts,
    st.lists(st.one_of(payloads, st.integers(1, 1 << 40), st.none()), max_size=18),
    st.integers(216, 5000),
)
def test_perf_samples_are_put_together_and_losses_added_up(start, entries, room):
    makers = {bytes: sample, int: lost}
    stream = b"".join(makers[type(e)](e) if e is not None else other() for e in entries)
    ring, _keep = fake_perfbuf(start, stream)
    count = ffi.new("uint64_t *")
    found = []
    while lib.perfbuf_used(ring):
        used, got = drain(lib.perfbuf_drain, ring, room, count)

        assert 0 <= used <= room
        found += got
    wanted = [e for e in entries if isinstance(e, bytes)]

    assert [len(w) + (-len(w) - 4) % 8 for w in wanted] == [len(f) for f in found]
    assert all(f.startswith(w) for w, f in zip(wanted, found, strict=True))
    assert sum(e for e in entries if isinstance(e, int)) == count[0]


def test_a_perf_sample_too_long_for_the_room_stays_in_the_ring():
    ring, _keep = fake_perfbuf(0, sample(b"y" * 100))
    count = ffi.new("uint64_t *")

    assert drain(lib.perfbuf_drain, ring, 104, count) == (-errno.EMSGSIZE, [])
    assert lib.perfbuf_used(ring) == 112


@pytest.mark.parametrize(
    ("batch", "payloads"),
    [
        (b"", []),
        (struct.pack("=II", 0, 0), [b""]),
        (struct.pack("=II", 3, 9) + b"abc\0\0\0\0\0" + struct.pack("=II", 8, 9) + b"12345678",
         [b"abc", b"12345678"]),
    ],
)  # fmt: skip
def test_records_splits_a_batch(batch, payloads):
    assert payloads == [bytes(r) for r in records(batch)]


@pytest.mark.parametrize(
    ("size", "cpus", "each"),
    [
        (1 << 22, 1, 1 << 22),
        (1 << 22, 2, 1 << 21),
        (1 << 22, 3, 1 << 20),
        (1 << 22, 16, 1 << 18),
        (1 << 22, 512, 1 << 18),
        (1 << 16, 512, 1 << 16),
        (4096, 2, 4096),
    ],
)
def test_cpus_share_a_buffer(size, cpus, each):
    assert share(size, cpus) == each
