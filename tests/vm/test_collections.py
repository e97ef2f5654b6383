"""Maps that are no tables of keys and values alone, through the helpers that programs use."""

from errno import E2BIG, EEXIST, EINVAL, ENOENT, ENOSPC

import pytest

from pybpf.errors import PybpfError
from pybpf.isa.abi import MapType
from pybpf.isa.assembler import assemble
from pybpf.script import MapRole, MapSpec
from pybpf.vm import memory
from pybpf.vm.kinds import make_map
from pybpf.vm.machine import Machine
from pybpf.vm.memory import AddressSpace, Trap

U64 = 1 << 64


def spec(kind, key=4, value=4, entries=2, name="m"):
    return MapSpec(name, MapRole.MAP, kind, key, value, entries)


def made(kind, **sizes):
    return make_map(spec(kind, **sizes), AddressSpace(), 1)


def prefix(length, *octets):
    return length.to_bytes(4, "little") + bytes(octets)


@pytest.fixture
def routes():
    trie = made(MapType.LPM_TRIE, key=8, value=1, entries=4)
    for number, key in enumerate(
        [prefix(0, 0, 0, 0, 0), prefix(8, 10, 0, 0, 0), prefix(12, 10, 16, 0, 0)], start=1
    ):
        assert trie.update(key, bytes([number])) == 0
    return trie


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (prefix(32, 10, 17, 1, 1), 3), (prefix(32, 10, 32, 1, 1), 2), (prefix(32, 11, 0, 0, 1), 1),
        (prefix(8, 10, 16, 0, 0), 2), (prefix(7, 10, 0, 0, 0), 1), (prefix(33, 10, 0, 0, 0), None),
    ],
)  # fmt: skip
def test_the_longest_prefix_wins(routes, key, value):
    address = routes.lookup(key, 0)

    found = None if address == 0 else routes._memory.load(address, 1)
    assert found == value


def test_prefixes_come_and_go(routes):
    ten = prefix(8, 10, 0, 0, 0)
    assert routes.update(ten, b"x", 1) == -EEXIST
    assert routes.update(prefix(9, 10, 0, 0, 0), b"x", 2) == -ENOENT
    assert routes.update(prefix(33, 10, 0, 0, 0), b"x") == -EINVAL
    assert routes.update(ten, b"x", 3) == -EINVAL
    assert routes.update(prefix(9, 10, 0, 0, 0), b"x") == 0
    assert routes.update(prefix(10, 10, 0, 0, 0), b"x") == -ENOSPC
    assert routes.delete(ten) == 0
    assert routes.delete(ten) == -ENOENT
    assert routes.delete(prefix(33, 0, 0, 0, 0)) == -EINVAL
    assert dict(routes.items())[prefix(9, 10, 0, 0, 0)] == (b"x",)


@pytest.mark.parametrize(
    ("kind", "taken", "kept"),
    [(MapType.QUEUE, b"a", [b"b", b"c"]), (MapType.STACK, b"b", [b"a", b"c"])],
)
def test_queues_and_stacks(kind, taken, kept):
    queue = made(kind, key=0, value=1)
    assert queue.pop() is None
    assert [queue.push(value, 0) for value in (b"a", b"b", b"c")] == [0, 0, -E2BIG]
    assert queue.push(b"d", 1) == queue.push(b"d", 4) == -EINVAL
    assert (queue.peek(), queue.pop()) == (taken, taken)
    assert queue.push(b"c", 0) == 0
    assert list(queue.values()) == kept
    assert queue.push(b"d", 2) == 0
    assert list(queue.values()) == [kept[1], b"d"]


CALL = """
    r6 = r1
    *(u64 *)(r10 - 8) = 7
    *(u64 *)(r10 - 24) = -1
    {arguments}
    call bpf_{name}
    {after}
    exit
"""
READ = "r0 = *(u32 *)(r10 - 8)"


def call(machine, name, *arguments, after=""):
    """Call a helper on the map m; "fp-8" is the address of a 7."""
    lines = ["r1 = map:m ll"]
    for number, value in enumerate(arguments, start=2):
        if str(value).startswith("fp"):
            lines += [f"r{number} = r10", f"r{number} += {value[2:]}"]
        else:
            lines.append(f"r{number} = {value}")
    text = CALL.format(arguments="\n".join(lines), name=name, after=after)
    result = machine.run(assemble(text), 0)
    return result - U64 if result >> 63 else result


def test_programs_push_and_pop():
    machine = Machine([spec(MapType.QUEUE, key=0)])
    assert call(machine, "map_peek_elem", "fp-8") == -ENOENT
    assert call(machine, "map_pop_elem", "fp-8", after=READ) == 0
    assert call(machine, "map_push_elem", "fp-8", 0) == 0
    assert call(machine, "map_peek_elem", "fp-24", after="r0 = *(u32 *)(r10 - 24)") == 7
    assert call(machine, "map_pop_elem", "fp-24", after="r0 = *(u32 *)(r10 - 24)") == 7


def test_operations_returned_32_bits_before_6_4():
    machine = Machine([spec(MapType.QUEUE, key=0)])
    machine.world.release = (6, 1)

    assert call(machine, "map_pop_elem", "fp-8") == -ENOENT % (1 << 32)


def test_a_bloom_filter_knows_what_was_put_in():
    machine = Machine([spec(MapType.BLOOM_FILTER, key=0)])
    assert call(machine, "map_peek_elem", "fp-8") == -ENOENT
    assert call(machine, "map_push_elem", "fp-8", 1) == -EINVAL
    assert call(machine, "map_push_elem", "fp-8", 0) == 0
    assert call(machine, "map_peek_elem", "fp-8") == 0
    assert call(machine, "map_peek_elem", "fp-24") == -ENOENT


@pytest.mark.parametrize("owner", ["task", "sk", "inode", "cgrp"])
def test_storage_belongs_to_its_owner(owner):
    machine = Machine([spec(MapType[f"{owner.upper()}_STORAGE"])])
    get, drop = f"{owner}_storage_get", f"{owner}_storage_delete"
    assert call(machine, get, 5, 0, 0) == 0
    assert call(machine, get, 0, 0, 1) == 0
    assert call(machine, get, 5, 0, 2) == 0
    assert call(machine, get, 5, "fp-8", 1, after="r0 = *(u32 *)(r0 + 0)") == 7
    assert call(machine, get, 5, 0, 1, after="*(u32 *)(r0 + 0) = 9; r0 = 0") == 0
    assert machine.maps["m"].values() == {5: (9).to_bytes(4, "little")}
    assert [call(machine, drop, owner) for owner in (5, 5, 0)] == [0, -ENOENT, -EINVAL]


def test_a_program_drains_what_user_space_sent():
    machine = Machine([spec(MapType.USER_RINGBUF, entries=4096)])
    for number in (3, 4, 5):
        machine.maps["m"].put(bytes([number]))
    text = """
        *(u64 *)(r10 - 8) = 0
        r1 = map:m ll
        r2 = subprog:each ll
        r3 = r10
        r3 += -8
        r4 = 0
        call bpf_user_ringbuf_drain
        r0 <<= 8
        r1 = *(u64 *)(r10 - 8)
        r0 += r1
        exit
    each:
        r6 = r2
        *(u64 *)(r10 - 8) = 0
        r3 = r1
        r1 = r10
        r1 += -8
        r2 = 1
        r4 = 0
        r5 = 0
        call bpf_dynptr_read
        r1 = *(u8 *)(r10 - 8)
        r2 = *(u64 *)(r6 + 0)
        r2 += r1
        *(u64 *)(r6 + 0) = r2
        r0 = 0
        if r1 != 4 goto out
        r0 = 1
    out:
        exit
    """
    assert machine.run(assemble(text), 0) == 2 << 8 | 7
    assert machine.run(assemble(text), 0) == 1 << 8 | 5


TIMER = """
    *(u32 *)(r10 - 4) = 1
    r1 = map:m ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    r6 = r0
    r1 = r6
    r2 = map:m ll
    r3 = 1
    call bpf_timer_init
    r7 = r0
    r1 = r6
    r2 = subprog:tick ll
    call bpf_timer_set_callback
    r1 = r6
    r2 = 100
    r3 = 0
    call bpf_timer_start
    r0 |= r7
    exit
tick:
    r2 = *(u32 *)(r2 + 0)
    r1 = *(u64 *)(r3 + 16)
    r1 += r2
    *(u64 *)(r3 + 16) = r1
    r0 = 0
    exit
"""


@pytest.mark.parametrize("fast", [False, True])
def test_timers_expire_by_the_clock_of_the_caller(fast):
    machine = Machine([spec(MapType.ARRAY, value=24)], fast=fast)
    machine.world.time = 1000
    assert machine.run(assemble(TIMER), 0) == 0
    machine.world.time = 1099
    assert machine.run_timers() == 0
    machine.world.time = 1100
    assert (machine.run_timers(), machine.run_timers()) == (1, 0)
    assert dict(machine.maps["m"].items())[b"\1\0\0\0"][0][16] == 1


def test_a_lock_is_taken_once():
    text = "*(u64 *)(r10 - 8) = 0; r6 = r10; r6 += -8; r1 = r6; {}; r0 = 0; exit"
    lock, unlock = "r1 = r6; call bpf_spin_lock", "r1 = r6; call bpf_spin_unlock"
    assert Machine().run(assemble(text.format(f"{lock}; {unlock}"))) == 0
    for wrong, reason in ((f"{lock}; {lock}", "held already"), (unlock, "not held")):
        with pytest.raises(Exception, match=reason):
            Machine().run(assemble(text.format(wrong)))


ALL = [kind for kind in MapType if kind not in {MapType.UNSPEC, MapType.STRUCT_OPS, MapType.ARENA}]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_every_map_type_can_be_made(kind):
    key = 4 if kind in {MapType.ARRAY, MapType.PERCPU_ARRAY} else 8
    assert made(kind, key=key, value=8, entries=4096).spec.type is kind


@pytest.mark.parametrize(
    ("kind", "key", "value", "entries", "reason"),
    [
        (MapType.ARRAY, 0, 8, 4, "keys have 4 bytes, not 0"),
        (MapType.PERCPU_ARRAY, 8, 8, 4, "keys have 4 bytes, not 8"),
        (MapType.LPM_TRIE, 4, 8, 4, "keys have 5 to 260 bytes, not 4"),
        (MapType.HASH, 1 << 30, 8, 4, "keys of 1073741824 bytes are more than 4 MiB"),
        (MapType.ARRAY, 4, (1 << 32) - 1, 1, "values of 4294967295 bytes are more than 256 MiB"),
        (MapType.QUEUE, 0, 1 << 31, 4, "values of 2147483648 bytes are more than 256 MiB"),
        (MapType.RINGBUF, 0, 0, 1 << 31, "2147483648 bytes are more than 256 MiB"),
    ],
)
def test_sizes_that_are_not_emulated(kind, key, value, entries, reason):
    with pytest.raises(PybpfError, match=f"map . of type {kind.name}: {reason}"):
        made(kind, key=key, value=value, entries=entries)


def test_no_program_takes_all_memory(monkeypatch):
    """There is so much at most, however many elements it adds."""
    monkeypatch.setattr(memory, "_AT_MOST", 5 << 20)
    machine = Machine([MapSpec("m", MapRole.MAP, MapType.HASH, 4, 2 << 20, 64)])
    found = machine.maps["m"]
    value = bytes(2 << 20)
    assert [found.update(bytes([n, 0, 0, 0]), value) for n in range(2)] == [0, 0]
    with pytest.raises(Trap, match="a value of map m of 2097152 bytes: a machine has 5 MiB in all"):
        found.update(b"abcd", value)
    assert found.delete(bytes(4)) == 0
    machine.memory.settle()
    assert found.update(b"abcd", value) == 0


@pytest.mark.parametrize("kind", [MapType.QUEUE, MapType.STACK, MapType.BLOOM_FILTER])
def test_values_without_regions_count_too(monkeypatch, kind):
    monkeypatch.setattr(memory, "_AT_MOST", 5 << 20)
    space = AddressSpace()
    found = make_map(spec(kind, key=0, value=2 << 20, entries=64), space, 1)
    values = [bytes([number]) * (2 << 20) for number in range(3)]
    assert [found.push(value, 0) for value in values[:2]] == [0, 0]
    with pytest.raises(Trap, match="a value of map m of 2097152 bytes: a machine has 5 MiB"):
        found.push(values[2], 0)
    if kind is not MapType.BLOOM_FILTER:
        assert found.pop() is not None
        assert found.push(values[2], 0) == 0
