import errno
import struct

import pytest

from pybpf.errors import KernelError
from pybpf.isa.abi import MapType
from pybpf.kernel import maps
from pybpf.kernel.maps import Map, Update, possible_cpus
from pybpf.kernel.syscall import ENOTSUPP, lib

pytestmark = pytest.mark.kernel


def key(number):
    return struct.pack("=I", number)


@pytest.fixture
def table():
    with Map(MapType.HASH, "@reads", 4, 8, 100) as table:
        yield table


@pytest.fixture(params=["batches", "one by one"])
def walk(request, monkeypatch):
    """Walk through a map as on a new kernel, and as on one that cannot do batches."""
    if request.param == "one by one":
        monkeypatch.setattr(maps, "lib", Unbatched())
    return request.param


class Unbatched:
    def bpf_map_lookup_batch(self, *_args):
        return -ENOTSUPP

    def __getattr__(self, name):
        return getattr(lib, name)


def test_entries_are_written_read_and_deleted(table):
    assert table.lookup(key(1)) is None
    table.update(key(1), b"12345678")
    assert table.lookup(key(1)) == (b"12345678",)
    assert table.delete(key(1)) is True
    assert table.delete(key(1)) is False
    assert table.lookup(key(1)) is None


def test_updates_may_ask_for_a_new_or_an_existing_entry(table):
    with pytest.raises(KernelError, match="cannot update map @reads: No such file or directory"):
        table.update(key(1), bytes(8), how=Update.EXISTING)
    table.update(key(1), bytes(8), how=Update.NEW)
    table.update(key(1), b"changed!", how=Update.EXISTING)
    with pytest.raises(KernelError, match="cannot update map @reads: File exists"):
        table.update(key(1), bytes(8), how=Update.NEW)

    assert table.lookup(key(1)) == (b"changed!",)


def test_a_full_map_refuses_more(table):
    for n in range(100):
        table.update(key(n), bytes(8))
    with pytest.raises(KernelError) as caught:
        table.update(key(100), bytes(8))

    assert caught.value.errno == errno.E2BIG


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.lookup(b"123"), "a key of map @reads has 4 bytes, not 3"),
        (lambda m: m.delete(b""), "a key of map @reads has 4 bytes, not 0"),
        (lambda m: m.update(b"12345", bytes(8)), "a key of map @reads has 4 bytes, not 5"),
        (lambda m: m.update(b"1234", bytes(7)), "a value of map @reads has 8 bytes"),
        (lambda m: m.update(b"1234"), "a value of map @reads has 8 bytes"),
        (lambda m: m.update(b"1234", bytes(8), bytes(8)), "a value of map @reads has 8 bytes"),
    ],
)
def test_sizes_are_checked_before_the_kernel_reads_beyond_them(table, call, message):
    with pytest.raises(ValueError, match=message):
        call(table)


@pytest.mark.parametrize("map_type", [MapType.PERCPU_HASH, MapType.PERCPU_ARRAY])
def test_each_cpu_has_a_value_of_its_own(map_type):
    cpus = len(possible_cpus())
    values = tuple(bytes([cpu + 1]) * 12 for cpu in range(cpus))
    with Map(map_type, "percpu", 4, 12, 2) as table:
        table.update(key(1), *values)

        assert table.lookup(key(1)) == values
        assert dict(table.items())[key(1)] == values

        table.update(key(1), b"everybody's.")

        assert table.lookup(key(1)) == (b"everybody's.",) * cpus


@pytest.mark.parametrize("map_type", [MapType.HASH, MapType.PERCPU_HASH, MapType.LRU_HASH])
@pytest.mark.parametrize(("count", "batch"), [(0, 4096), (1, 4096), (50, 4096), (5000, 64)])
def test_all_entries_are_read_once(map_type, count, batch, walk, monkeypatch):
    monkeypatch.setattr(maps, "_BATCH", batch)
    with Map(map_type, walk, 4, 8, max(2 * count, 1)) as table:
        for n in range(count):
            table.update(key(n), struct.pack("=Q", n * n))
        items = table.items()

        assert len(items) == count
        assert {k: v[0] for k, v in items} == {
            key(n): struct.pack("=Q", n * n) for n in range(count)
        }
        assert sorted(table.keys()) == sorted(map(key, range(count)))


def test_a_batch_that_is_smaller_than_a_bucket_grows(monkeypatch):
    monkeypatch.setattr(maps, "_BATCH", 1)
    with Map(MapType.HASH, "crowded", 4, 8, 1000) as table:
        for n in range(1000):
            table.update(key(n), bytes(8))

        assert len(dict(table.items())) == 1000


@pytest.mark.parametrize("map_type", [MapType.ARRAY, MapType.PERCPU_ARRAY])
def test_arrays_have_all_their_entries_from_the_start(map_type, walk):
    with Map(map_type, walk, 4, 5, 10) as array:
        array.update(key(3), b"three")
        items = array.items()

        assert [k for k, _ in items] == [key(n) for n in range(10)]
        assert items[3][1][0] == b"three"
        assert items[4][1][0] == bytes(5)


@pytest.mark.parametrize(
    "map_type", [MapType.HASH, MapType.PERCPU_HASH, MapType.ARRAY, MapType.PERCPU_ARRAY]
)
def test_a_cleared_map_holds_nothing(map_type):
    with Map(map_type, "cleared", 4, 8, 100) as table:
        for n in range(100):
            table.update(key(n), b"x" * 8)
        table.clear()

        assert not any(any(any(v) for v in values) for _, values in table.items())


def test_a_frozen_map_can_only_be_read():
    with Map(MapType.ARRAY, "frozen", 4, 8, 1) as array:
        array.update(key(0), b"constant")
        array.freeze()
        with pytest.raises(KernelError, match="cannot update map frozen: Operation not permitted"):
            array.update(key(0), bytes(8))

        assert array.lookup(key(0)) == (b"constant",)


def test_a_refused_map_is_named_with_its_type():
    with pytest.raises(KernelError, match="cannot create the percpu_hash map @x: Invalid argument"):
        Map(MapType.PERCPU_HASH, "@x", 0, 8, 1)


def test_a_closed_map_is_not_used_by_accident(table):
    table.close()
    with pytest.raises(ValueError, match="the file descriptor is closed"):
        table.lookup(key(1))


def test_values_of_a_single_cpu_are_aligned_as_those_of_many(monkeypatch):
    monkeypatch.setattr(maps, "possible_cpus", lambda: (0,))
    with Map(MapType.PERCPU_ARRAY, "@x", 4, 4, 3) as table:
        assert table._stride == 8
    with Map(MapType.ARRAY, "@x", 4, 4, 3) as table:
        assert table._stride == 4
