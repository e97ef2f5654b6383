"""Helpers, called by programs: what is in r0 afterwards, and in memory."""

import struct
from errno import E2BIG, EAGAIN, EEXIST, EFAULT, EINVAL, ENOENT

import pytest

from pybpf.errors import VmFault
from pybpf.isa.abi import MapType
from pybpf.isa.assembler import assemble
from pybpf.isa.helpers import HELPERS
from pybpf.script import MapRole, MapSpec
from pybpf.vm.helpers import EMULATED
from pybpf.vm.machine import Machine
from pybpf.vm.world import World

KERNEL, USER = 0xFFFF888000001000, 0x7FFE00001000
U64 = 1 << 64


def spec(name, kind, entries=2, value=8):
    return MapSpec(name, MapRole.MAP, kind, 4, value, entries)


def signed(value):
    return value - U64 if value >> 63 else value


class Bench:
    """A machine with one map of each kind and 64 bytes of memory that programs are given."""

    def __init__(self):
        self.world = World(
            cpu=1, cpus=2, time=10**9, suspended=500, pid=7, tid=8, uid=1000, gid=100,
            comm=b"a-process-with-a-long-name", task=0xFFFF888012340000, cgroup=77,
            random=iter(range(5, 100)).__next__, stack=(0x11, 0x22, 0x33), user_stack=(0x44,),
            memory={KERNEL: b"kernel\0", USER: b"user text\0"},
        )  # fmt: skip
        self.machine = Machine(
            [
                spec("hash", MapType.HASH),
                spec("percpu", MapType.PERCPU_HASH),
                spec("array", MapType.ARRAY),
                spec("ring", MapType.RINGBUF, 4096, 0),
                spec("perf", MapType.PERF_EVENT_ARRAY, 2, 4),
                spec("stacks", MapType.STACK_TRACE, 8, 16),
            ],
            self.world,
        )
        self.memory = bytearray(64)

    def run(self, text, **values):
        """Run a program with r1 and r6 pointing to the memory; ``{name}`` stands for a number."""
        region = self.machine.memory.add(self.memory, "memory")
        code = text.format(**values)
        return signed(self.machine.run(assemble(f"r6 = r1; {code}\nexit"), region.address))

    def values(self, name):
        return list(self.machine.maps[name].items())


@pytest.fixture
def bench():
    return Bench()


def test_the_table_names_only_real_helpers():
    assert EMULATED.keys() <= HELPERS.keys()


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("ktime_get_ns", 10**9),
        ("ktime_get_coarse_ns", 10**9),
        ("ktime_get_boot_ns", 10**9 + 500),
        ("jiffies64", 250),
        ("get_current_pid_tgid", 7 << 32 | 8),
        ("get_current_uid_gid", 100 << 32 | 1000),
        ("get_smp_processor_id", 1),
        ("get_numa_node_id", 0),
        ("get_prandom_u32", 5),
        ("get_current_task", 0xFFFF888012340000 - U64),
        ("get_current_task_btf", 0xFFFF888012340000 - U64),
        ("get_current_cgroup_id", 77),
    ],
)
def test_a_helper_without_arguments_asks_the_world(bench, name, result):
    assert bench.run(f"call bpf_{name}") == result


@pytest.mark.parametrize(
    ("size", "result", "memory"),
    [
        (16, 0, b"a-process-with-\0"),
        (4, 0, b"a-p\0"),
        (20, 0, b"a-process-with-\0\0\0\0\0"),
        (0, -EINVAL, b""),
    ],
)
def test_get_current_comm_cuts_and_pads(bench, size, result, memory):
    bench.memory[:] = b"\xff" * 64

    assert bench.run(f"r2 = {size}; call bpf_get_current_comm") == result
    assert bench.memory == memory.ljust(64, b"\xff")


UPDATE = """
    *(u32 *)(r10 - 4) = {key}
    *(u64 *)(r10 - 16) = {value}
    r1 = map:{map} ll
    r2 = r10
    r2 += -4
    r3 = r10
    r3 += -16
    r4 = {flags}
    call bpf_map_update_elem
"""
LOOKUP = """
    *(u32 *)(r10 - 4) = {key}
    r1 = map:{map} ll
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto out
    r0 = *(u64 *)(r0 + 0)
    out: r0 = r0
"""


@pytest.mark.parametrize(
    ("table", "flags", "results"),
    [
        ("hash", 0, [0, 0, 0, -E2BIG]),
        ("hash", 1, [0, -EEXIST, 0, -E2BIG]),
        ("hash", 2, [-ENOENT] * 4),
        ("array", 0, [0, 0, 0, -E2BIG]),
        ("array", 9, [-EINVAL] * 4),
    ],
)
def test_map_update_elem(bench, table, flags, results):
    keys = (0, 0, 1, 2)

    assert [bench.run(UPDATE, map=table, key=k, value=9, flags=flags) for k in keys] == results
    assert bench.run(LOOKUP, map=table, key=1) == (9 if results[2] == 0 else 0)


def test_a_per_cpu_map_is_updated_for_the_current_cpu(bench):
    bench.run(UPDATE, map="percpu", key=3, value=9, flags=0)
    bench.world.cpu = 0
    bench.run(UPDATE, map="percpu", key=3, value=4, flags=0)

    assert bench.values("percpu") == [
        (struct.pack("<I", 3), (struct.pack("<Q", 4), struct.pack("<Q", 9)))
    ]
    assert bench.run(LOOKUP, map="percpu", key=3) == 4
    other = LOOKUP.replace(
        "call bpf_map_lookup_elem", "r3 = {cpu}; call bpf_map_lookup_percpu_elem"
    )
    assert [bench.run(other, map="percpu", key=3, cpu=n) for n in (0, 1, 2)] == [4, 9, 0]


def test_map_delete_elem(bench):
    delete = LOOKUP.partition("call")[0] + "call bpf_map_delete_elem"
    bench.run(UPDATE, map="hash", key=1, value=2, flags=0)

    assert [bench.run(delete, map="hash", key=k) for k in (1, 1)] == [0, -ENOENT]
    assert bench.run(delete, map="array", key=1) == -EINVAL
    assert bench.values("hash") == []


@pytest.mark.parametrize(
    ("helper", "address", "size", "result", "memory"),
    [
        ("probe_read_kernel", KERNEL, 4, 0, b"kern"),
        ("probe_read_kernel", KERNEL + 3, 4, 0, b"nel\0"),
        ("probe_read_kernel", KERNEL, 8, -EFAULT, bytes(8)),
        ("probe_read_kernel", USER, 4, -EFAULT, bytes(4)),
        ("probe_read_kernel", 0, 4, -EFAULT, bytes(4)),
        ("probe_read_user", USER, 4, 0, b"user"),
        ("probe_read_user", KERNEL, 4, -EFAULT, bytes(4)),
        ("copy_from_user", USER, 4, 0, b"user"),
        ("probe_read", USER, 4, 0, b"user"),
        ("probe_read", KERNEL, 4, 0, b"kern"),
        ("probe_read", 1, 0, 0, b""),
        ("probe_read_kernel_str", KERNEL, 16, 7, b"kernel\0"),
        ("probe_read_kernel_str", KERNEL, 7, 7, b"kernel\0"),
        ("probe_read_kernel_str", KERNEL, 4, 4, b"ker\0"),
        ("probe_read_kernel_str", KERNEL, 1, 1, b"\0"),
        ("probe_read_kernel_str", KERNEL, 0, 0, b""),
        ("probe_read_kernel_str", USER, 4, -EFAULT, bytes(4)),
        ("probe_read_user_str", USER + 5, 16, 5, b"text\0"),
        ("probe_read_user_str", KERNEL, 4, -EFAULT, bytes(4)),
        ("probe_read_str", USER, 16, 10, b"user text\0"),
        ("probe_read_str", KERNEL, 16, 7, b"kernel\0"),
    ],
)
def test_a_probe_read_copies_or_zeroes(bench, helper, address, size, result, memory):
    bench.memory[:] = b"\xff" * 64
    text = "r2 = {size}; r3 = {address:#x} ll; call bpf_{helper}"

    assert bench.run(text, size=size, address=address, helper=helper) == result
    assert bench.memory == memory.ljust(64, b"\xff")


def test_probe_read_kernel_sees_the_programs_own_memory(bench):
    bench.memory[32:38] = b"hello\0"
    text = "r3 = r6; r3 += {offset}; r2 = {size}; call bpf_probe_read_kernel{str}"

    assert bench.run(text, offset=32, size=5, str="") == 0
    assert bench.memory[:5] == b"hello"
    assert bench.run(text, offset=33, size=9, str="_str") == 5
    assert bench.memory[:5] == b"ello\0"
    assert bench.run(text, offset=60, size=8, str="") == -EFAULT
    assert bench.run(text, offset=70, size=8, str="_str") == -EFAULT


def test_a_string_that_memory_ends_before_is_a_fault(bench):
    bench.world.memory = {KERNEL: b"ab"}
    text = f"r2 = {{size}}; r3 = {KERNEL:#x} ll; call bpf_probe_read_kernel_str"

    assert bench.run(text, size=4) == -EFAULT
    assert bench.run(text, size=3) == 3


def test_pieces_of_memory_that_touch_are_read_across(bench):
    bench.world.memory = {KERNEL: b"ab", KERNEL + 2: b"cd\0"}
    text = f"r2 = 5; r3 = {KERNEL:#x} ll; call bpf_probe_read_kernel"

    assert bench.run(text) == 0
    assert bench.memory[:5] == b"abcd\0"
    assert bench.run(text + "_str") == 5


@pytest.mark.parametrize(
    ("a", "b", "size", "sign"),
    [
        (b"abc", b"abc", 8, 0),
        (b"abc", b"abd", 8, -1),
        (b"abd", b"abc", 8, 1),
        (b"abd", b"abc", 2, 0),
        (b"ab", b"abc", 8, -1),
        (b"", b"", 8, 0),
    ],
)
def test_strncmp(bench, a, b, size, sign):
    bench.memory[:8], bench.memory[8:16] = a.ljust(8, b"\0"), b.ljust(8, b"\0")
    result = bench.run(f"r2 = {size}; r3 = r6; r3 += 8; call bpf_strncmp")

    assert (result > 0) - (result < 0) == sign


def test_get_ns_current_pid_tgid(bench):
    text = "r1 = {dev}; r2 = {ino:#x} ll; r3 = r6; r4 = {size}; call bpf_get_ns_current_pid_tgid"

    assert bench.run(text, dev=4, ino=0xEFFFFFFC, size=8) == 0
    assert struct.unpack_from("<II", bench.memory) == (8, 7)
    assert bench.run(text, dev=4, ino=1, size=8) == -EINVAL
    assert struct.unpack_from("<II", bench.memory) == (0, 0)
    assert bench.run(text, dev=4, ino=0xEFFFFFFC, size=4) == -EINVAL


def test_get_stackid(bench):
    text = "r2 = map:stacks ll; r3 = {flags}; call bpf_get_stackid"

    assert bench.run(text, flags=0) == 0
    assert bench.run(text, flags=0) == 0
    assert bench.run(text, flags=1) == 1
    assert bench.run(text, flags=0x100) == 2
    assert bench.run(text, flags=3) == -EFAULT
    assert bench.run(text, flags=0x800) == -EINVAL
    stacks = bench.machine.maps["stacks"]
    assert [stacks.stack(n) for n in (0, 1, 2)] == [(0x11, 0x22), (0x22, 0x33), (0x44,)]


def test_get_stack(bench):
    text = "r2 = r6; r3 = {size}; r4 = {flags}; call bpf_get_stack"
    bench.memory[:] = b"\xff" * 64

    assert bench.run(text, size=32, flags=0) == 24
    assert struct.unpack_from("<5Q", bench.memory) == (0x11, 0x22, 0x33, 0, U64 - 1)
    assert bench.run(text, size=16, flags=0x102) == -EFAULT
    assert bench.run(text, size=12, flags=0) == -EINVAL
    assert bench.run(text, size=8, flags=0x100) == 8
    assert struct.unpack_from("<2Q", bench.memory) == (0x44, 0)


RESERVE = """
    r1 = map:ring ll
    r2 = {size}
    r3 = {flags}
    call bpf_ringbuf_reserve
    if r0 == 0 goto out
    *(u32 *)(r0 + 0) = 7
    r1 = r0
    r2 = 0
    call bpf_ringbuf_{end}
    r0 = 1
    out: r0 = r0
"""


def test_a_reserved_record_is_submitted_or_discarded(bench):
    ring = bench.machine.maps["ring"]

    assert bench.run(RESERVE, size=6, flags=0, end="submit") == 1
    assert bench.run(RESERVE, size=6, flags=0, end="discard") == 1
    assert bench.run(RESERVE, size=6, flags=1, end="submit") == 0
    assert bench.run(RESERVE, size=4096, flags=0, end="submit") == 0
    assert ring.drain() == [b"\7\0\0\0\0\0"]


def test_a_full_ring_refuses(bench):
    results = [bench.run(RESERVE, size=2000, flags=0, end="submit") for _ in range(3)]

    assert results == [1, 1, 0]


def test_only_the_start_of_a_reservation_can_be_submitted(bench):
    text = RESERVE.replace("r1 = r0", "r1 = r0; r1 += 4")

    with pytest.raises(VmFault, match=r"no reservation begins there$"):
        bench.run(text, size=8, flags=0, end="submit")


def test_ringbuf_output_and_query(bench):
    bench.memory[:3] = b"abc"
    output = "r1 = map:ring ll; r2 = r6; r3 = {size}; r4 = {flags}; call bpf_ringbuf_output"
    query = "r1 = map:ring ll; r2 = {what}; call bpf_ringbuf_query"

    assert bench.run(output, size=3, flags=0) == 0
    assert bench.run(output, size=3, flags=4) == -EINVAL
    assert [bench.run(query, what=n) for n in range(5)] == [16, 4096, 0, 16, 0]
    assert bench.machine.maps["ring"].drain() == [b"abc"]
    assert [bench.run(query, what=n) for n in range(4)] == [0, 4096, 16, 16]
    results = [bench.run(output, size=64, flags=0) for _ in range(57)]
    assert results == [0] * 56 + [-EAGAIN]


def test_perf_event_output(bench):
    bench.memory[:3] = b"abc"
    text = "r2 = map:perf ll; r3 = {flags} ll; r4 = r6; r5 = 3; call bpf_perf_event_output"

    assert bench.run(text, flags="0xffffffff") == 0
    assert bench.run(text, flags="0") == 0
    assert bench.run(text, flags="2") == -E2BIG
    assert bench.run(text, flags="0x300000000") == -EINVAL
    assert bench.machine.maps["perf"].drain() == [(1, b"abc"), (0, b"abc")]


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        (b"plain %% text\n", "plain % text\n"),
        (b"%d %u %x", "-1 4294967295 ffffffff"),
        (b"%ld %lu %llx", "-1 18446744073709551615 ffffffffffffffff"),
        (b"[%5d|%-5d|%05d]", "[   -1|-1   |-0001]"),
        (b"%c%c", "\\xff\\xff"),
        (b"%p", "ffffffffffffffff"),
        (b"%s", "(efault)"),
        (b"%q", None),
        (b"%99999999999999999999d", " " * 9997 + "-1"),
        (b"%d%d%d%d", None),
        (b"\xe4", None),
        (b"100%", None),
    ],
)
def test_trace_printk(bench, template, printed):
    bench.memory[: len(template)] = template
    helper = EMULATED["bpf_trace_printk"]
    region = bench.machine.memory.add(bench.memory, "memory")
    bench.machine.regs[3:6] = [U64 - 1] * 3

    result = helper.run(bench.machine, region.address, 32)

    if printed is None:
        assert result == -EINVAL
        assert bench.world.printed == []
    else:
        assert bench.world.printed == [printed]


def test_trace_printk_of_a_program_takes_three_arguments(bench):
    bench.memory[:8] = b"%d %d %s"
    text = f"r2 = 9; r3 = 1; r4 = 2; r5 = {KERNEL:#x} ll; call bpf_trace_printk"

    assert bench.run(text) == 10
    assert bench.world.printed == ["1 2 kernel"]


def test_trace_printk_without_arguments_needs_none_set(bench):
    bench.memory[:2] = b"hi"

    assert bench.run("r2 = 3; call bpf_trace_printk") == 2
    assert bench.world.printed == ["hi"]


def test_snprintf_cuts_and_says_how_long_it_would_be(bench):
    bench.memory[32:41] = b"%s = %d\0\0"
    text = f"""
        r1 = {KERNEL:#x} ll
        *(u64 *)(r10 - 16) = r1
        *(u64 *)(r10 - 8) = 12
        r1 = r6
        r2 = {{size}}
        r3 = r6
        r3 += 32
        r4 = r10
        r4 += -16
        r5 = {{length}}
        call bpf_snprintf
    """

    assert bench.run(text, size=16, length=16) == 12
    assert bench.memory[:12] == b"kernel = 12\0"
    assert bench.run(text, size=4, length=16) == 12
    assert bench.memory[:4] == b"ker\0"
    assert bench.run(text, size=16, length=12) == -EINVAL
    assert bench.run(text, size=16, length=8) == -EINVAL


LOOP = """
    *(u64 *)(r10 - 8) = 0
    r1 = {count}
    r2 = subprog:body ll
    r3 = r10
    r3 += -8
    r4 = {flags}
    call bpf_loop
    r0 <<= 16
    r1 = *(u64 *)(r10 - 8)
    r0 |= r1
    exit
body:
    r3 = *(u64 *)(r2 + 0)
    r3 += r1
    *(u64 *)(r2 + 0) = r3
    r0 = 0
    if r1 < 4 goto go_on
    r0 = 1
go_on:
    r0 = r0
"""


@pytest.mark.parametrize(
    ("count", "flags", "result"),
    [(0, 0, 0), (3, 0, 3 << 16 | 3), (10, 0, 5 << 16 | 10), (3, 1, -EINVAL << 16),
     (1 << 24, 0, -E2BIG << 16)],
)  # fmt: skip
def test_loop_calls_back_until_it_returns_1(bench, count, flags, result):
    assert bench.run(LOOP, count=count, flags=flags) == result


def test_a_fault_in_a_callback_names_the_instruction_there(bench):
    text = LOOP.replace("r3 += r1", "r3 += r5")

    with pytest.raises(VmFault, match=r"^13: r3 \+= r5: r5 holds nothing"):
        bench.run(text, count=1, flags=0)


def test_an_endless_callback_uses_up_the_budget(bench):
    text = LOOP.replace("go_on:\n    r0 = r0", "go_on: goto go_on")

    with pytest.raises(VmFault, match="the budget of 1000000 instructions is used up"):
        bench.run(text, count=1, flags=0)


def test_a_callback_must_be_a_function(bench):
    with pytest.raises(VmFault, match="call bpf_loop: 0x5 is not the address of a function"):
        bench.run("r1 = 1; r2 = 5; r3 = 0; r4 = 0; call bpf_loop")


def test_for_each_map_elem_visits_every_element(bench):
    for key, value in ((1, 10), (2, 20)):
        bench.run(UPDATE, map="hash", key=key, value=value, flags=0)
    text = """
        *(u64 *)(r10 - 8) = 0
        r1 = map:hash ll
        r2 = subprog:body ll
        r3 = r10
        r3 += -8
        r4 = 0
        call bpf_for_each_map_elem
        r0 <<= 32
        r1 = *(u64 *)(r10 - 8)
        r0 |= r1
        exit
    body:
        r2 = *(u32 *)(r2 + 0)
        r3 = *(u64 *)(r3 + 0)
        r3 *= r2
        r1 = *(u64 *)(r4 + 0)
        r1 += r3
        *(u64 *)(r4 + 0) = r1
        r0 = 0
    """

    assert bench.run(text) == 2 << 32 | (10 + 40)


def test_for_each_stops_in_an_array_of_any_length():
    machine = Machine([MapSpec("m", MapRole.MAP, MapType.ARRAY, 4, 8, (1 << 32) - 1)])
    text = """
        r1 = map:m ll; r2 = subprog:each ll; r3 = 0; r4 = 0
        call bpf_for_each_map_elem; exit
    each: r0 = *(u32 *)(r2 + 0); r0 >>= 1; exit
    """
    assert machine.run(assemble(text)) == 3


def test_what_programs_print_has_an_end():
    world = World()
    for _ in range(3):
        world.print(b"x" * (30 << 20))
    assert [len(line) >> 20 for line in world.printed] == [30, 30]
