"""Maps: what the kernel answers, and what becomes of pointers into them."""

from errno import E2BIG, EEXIST, EINVAL, ENOENT

import pytest

from pybpf.errors import PybpfError
from pybpf.isa.abi import MapType
from pybpf.isa.insn import Program
from pybpf.script import MapRole, MapSpec
from pybpf.vm.machine import Machine
from pybpf.vm.maps import ANY, EXIST, NOEXIST, MapOfMaps, ProgArray
from pybpf.vm.memory import Trap
from pybpf.vm.world import World

HASHES = [MapType.HASH, MapType.PERCPU_HASH, MapType.LRU_HASH, MapType.LRU_PERCPU_HASH]
ARRAYS = [MapType.ARRAY, MapType.PERCPU_ARRAY]


def spec(kind, entries=2, flags=0, value=8, name="m"):
    return MapSpec(name, MapRole.MAP, kind, 4, value, entries, flags)


def make(kind, entries=2, flags=0):
    machine = Machine([spec(kind, entries, flags)], World(cpus=2))
    return machine.maps["m"], machine.memory


def key(number):
    return number.to_bytes(4, "little")


def value(number):
    return number.to_bytes(8, "little")


@pytest.mark.parametrize("kind", HASHES)
@pytest.mark.parametrize(
    ("present", "flags", "result"),
    [
        (False, ANY, 0),
        (False, NOEXIST, 0),
        (False, EXIST, -ENOENT),
        (True, ANY, 0),
        (True, NOEXIST, -EEXIST),
        (True, EXIST, 0),
        (False, 3, -EINVAL),
        (True, 1 << 40, -EINVAL),
    ],
)
def test_update_of_a_hash_heeds_its_flags(kind, present, flags, result):
    table, memory = make(kind)
    if present:
        table.update(key(1), value(10))

    assert table.update(key(1), value(20), flags, 0) == result

    expected = 20 if result == 0 else 10
    address = table.lookup(key(1), 0)
    if present or result == 0:
        assert memory.load(address, 8) == expected
    else:
        assert address == 0


@pytest.mark.parametrize("kind", [MapType.HASH, MapType.PERCPU_HASH])
def test_a_full_hash_refuses_new_keys_only(kind):
    table, _ = make(kind)

    assert [table.update(key(n), value(n)) for n in range(4)] == [0, 0, -E2BIG, -E2BIG]
    assert table.update(key(1), value(7)) == 0
    assert table.delete(key(0)) == 0
    assert table.update(key(3), value(3)) == 0


@pytest.mark.parametrize("kind", [MapType.LRU_HASH, MapType.LRU_PERCPU_HASH])
def test_a_full_lru_hash_gives_up_what_was_not_used(kind):
    table, _ = make(kind)
    table.update(key(0), value(0))
    table.update(key(1), value(1))
    table.lookup(key(0), 0)

    assert table.update(key(2), value(2)) == 0
    assert sorted(k for k, _ in table.items()) == [key(0), key(2)]


@pytest.mark.parametrize("kind", HASHES)
def test_delete_and_clear_of_a_hash(kind):
    table, _ = make(kind)
    table.update(key(1), value(1))

    assert table.delete(key(2)) == -ENOENT
    assert table.delete(key(1)) == 0
    assert table.delete(key(1)) == -ENOENT
    table.update(key(1), value(1))
    table.clear()
    assert list(table.items()) == []


@pytest.mark.parametrize(
    ("index", "flags", "result"),
    [(0, ANY, 0), (1, EXIST, 0), (1, NOEXIST, -EEXIST), (2, ANY, -E2BIG), (0, 3, -EINVAL)],
)
@pytest.mark.parametrize("kind", ARRAYS)
def test_update_of_an_array(kind, index, flags, result):
    table, _ = make(kind)

    assert table.update(key(index), value(5), flags, 0) == result


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_has_every_index_and_keeps_it(kind):
    table, memory = make(kind)

    assert memory.load(table.lookup(key(1), 0), 8) == 0
    assert table.lookup(key(2), 0) == 0
    assert table.delete(key(1)) == -EINVAL
    table.update(key(1), value(9))
    assert [(k, v[0]) for k, v in table.items()] == [(key(0), value(0)), (key(1), value(9))]
    table.clear()
    assert [v[0] for _, v in table.items()] == [value(0), value(0)]


@pytest.mark.parametrize("kind", [MapType.PERCPU_HASH, MapType.PERCPU_ARRAY])
def test_every_cpu_has_its_own_value(kind):
    table, memory = make(kind, entries=1)

    table.update(key(0), value(1), ANY, 0)
    table.update(key(0), value(2), ANY, 1)

    assert list(table.items()) == [(key(0), (value(1), value(2)))]
    assert memory.load(table.lookup(key(0), 0), 8) == 1
    assert memory.load(table.lookup(key(0), 1), 8) == 2


@pytest.mark.parametrize("kind", [MapType.PERCPU_HASH, MapType.ARRAY, MapType.PERCPU_ARRAY])
def test_an_update_in_place_keeps_pointers_valid(kind):
    table, memory = make(kind)
    table.update(key(1), value(1))
    address = table.lookup(key(1), 0)

    table.update(key(1), value(2))

    assert table.lookup(key(1), 0) == address
    assert memory.load(address, 8) == 2


def test_an_update_of_a_hash_leaves_old_pointers_at_the_old_element():
    table, memory = make(MapType.HASH)
    table.update(key(1), value(1))
    old = table.lookup(key(1), 0)

    table.update(key(1), value(2))

    assert memory.load(old, 8) == 1
    memory.store(old, 8, 3)
    assert memory.load(table.lookup(key(1), 0), 8) == 2
    memory.settle()
    with pytest.raises(Trap):
        memory.load(old, 8)


def test_a_deleted_value_stays_readable_until_the_program_ends():
    table, memory = make(MapType.HASH)
    table.update(key(1), value(1))
    address = table.lookup(key(1), 0)

    table.delete(key(1))

    assert memory.load(address, 8) == 1
    memory.settle()
    with pytest.raises(Trap):
        memory.load(address, 8)


def test_values_of_a_map_that_is_read_only_for_programs_are_so():
    table, memory = make(MapType.ARRAY, flags=1 << 7)

    with pytest.raises(Trap, match="offset 0 of a value of map m: it is read-only"):
        memory.store(table.lookup(key(0), 0), 8, 1)


def test_a_map_of_maps_hands_out_map_pointers():
    machine = Machine([spec(MapType.HASH_OF_MAPS, name="outer"), spec(MapType.HASH, name="inner")])
    outer, inner = machine.maps["outer"], machine.maps["inner"]
    assert isinstance(outer, MapOfMaps)

    outer.put(key(1), inner)

    assert machine.map_at(outer.lookup(key(1), 0)) is inner
    assert outer.lookup(key(2), 0) == 0


def test_a_prog_array_holds_programs():
    machine = Machine([spec(MapType.PROG_ARRAY)])
    table, program = machine.maps["m"], Program(())
    assert isinstance(table, ProgArray)

    table.put(1, program)

    assert table.get(1) is program
    assert table.get(0) is None


def test_a_map_type_that_is_not_emulated_is_refused():
    with pytest.raises(PybpfError, match=r"map m: the VM does not emulate maps of type STRUCT_OPS"):
        Machine([spec(MapType.STRUCT_OPS)])
