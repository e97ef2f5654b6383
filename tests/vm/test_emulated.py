"""Helpers of tracing, strings and dynptrs: a table of calls, and what each returns and writes."""

import re
from dataclasses import replace
from errno import E2BIG, EINVAL, ENOENT, EPERM, ERANGE

import pytest

from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.helpers import HELPERS
from pybpf.script import MapRole, MapSpec
from pybpf.vm import testrun
from pybpf.vm.emulated.registry import EMULATED
from pybpf.vm.machine import Machine
from pybpf.vm.world import World

U64 = 1 << 64
TEXT, OUT, WORK = 0, 64, 128
"""Where in the memory of a run a text begins, and what helpers write."""


class Bench:
    """A machine, and 192 bytes that r6 points to while helpers are called."""

    def __init__(self, world=None, maps=()):
        self.machine = Machine(maps, world)
        self.memory = bytearray(192)
        self.address = self.machine.memory.add(self.memory, "memory").address

    def __call__(self, name, *arguments):
        """Call a helper: an argument "+N" is that place in the memory, "ctx" the context."""
        lines = []
        for number, value in enumerate(arguments, start=1):
            if str(value).startswith("map"):
                lines.append(f"r{number} = {value} ll")
            elif str(value).startswith("+"):
                lines += [f"r{number} = r6", f"r{number} += {value}"]
            else:
                lines.append(
                    f"r{number} = {'r6' if value == 'ctx' else value}"
                    + " ll" * (isinstance(value, int) and abs(value) >> 31 > 0)
                )
        text = "\n".join(["r6 = r1", *lines, f"call bpf_{name}", "exit"])
        result = self.machine.run(assemble(text), self.address)
        return result - U64 if result >> 63 else result

    def word(self, place=OUT):
        return int.from_bytes(self.memory[place : place + 8], "little")


@pytest.fixture
def bench():
    return Bench()


@pytest.mark.parametrize(
    ("text", "base", "taken", "value"),
    [
        (b"123", 10, 3, 123), (b"  -45x", 0, 5, -45), (b"0x1F", 0, 4, 31), (b"0x1f", 16, 4, 31),
        (b"1f", 16, 2, 31), (b"017", 0, 3, 15), (b"0", 0, 1, 0), (b"9", 8, -EINVAL, 0),
        (b"", 10, -EINVAL, 0), (b"   ", 10, -EINVAL, 0), (b"-", 10, -EINVAL, 0),
        (b"1", 7, -EINVAL, 0), (b"1", 32, -EINVAL, 0), (b"9223372036854775807", 10, 19, 2**63 - 1),
        (b"9223372036854775808", 10, -ERANGE, 0), (b"-9223372036854775808", 10, 20, -(2**63)),
        (b"99999999999999999999", 10, -ERANGE, 0), (b"0xg", 0, 1, 0),
    ],
)  # fmt: skip
def test_strtol(bench, text, base, taken, value):
    bench.memory[: len(text)] = text
    assert bench("strtol", "+0", len(text), base, f"+{OUT}") == taken
    assert bench.word() == value % U64


@pytest.mark.parametrize(
    ("text", "taken", "value"),
    [(b"18446744073709551615", 20, U64 - 1), (b"18446744073709551616", -ERANGE, 0),
     (b"-1", -EINVAL, 0), (b"12 ", 2, 12)],
)  # fmt: skip
def test_strtoul(bench, text, taken, value):
    bench.memory[: len(text)] = text
    assert bench("strtoul", "+0", len(text), 10, f"+{OUT}") == taken
    assert bench.word() == value


def test_older_kernels_leave_what_cannot_be_parsed_alone():
    bench = Bench(World(release=(6, 1)))
    bench.memory[OUT] = 9
    assert bench("strtol", "+0", 1, 10, f"+{OUT}") == -EINVAL
    assert bench.word() == 9


def test_printing(bench):
    bench.memory[:11] = b"a=%d b=%x!\0"
    bench.memory[WORK : WORK + 16] = (5).to_bytes(8, "little") + (255).to_bytes(8, "little")
    assert bench("trace_vprintk", "+0", 11, f"+{WORK}", 16) == len("a=5 b=ff!")
    assert bench("seq_printf", 1, "+0", 11, f"+{WORK}", 16) == 0
    assert bench("seq_write", 1, "+0", 3) == 0
    assert bench("trace_vprintk", "+0", 11, f"+{WORK}", 15) == -EINVAL
    assert bench.machine.world.printed == ["a=5 b=ff!", "a=5 b=ff!", "a=%"]


def test_dynptrs(bench):
    bench.memory[:8] = b"abcdefgh"
    assert bench("dynptr_from_mem", "+0", 8, 0, f"+{WORK}") == 0
    assert bench("dynptr_read", f"+{OUT}", 3, f"+{WORK}", 2, 0) == 0
    assert bench.memory[OUT : OUT + 3] == b"cde"
    assert bench("dynptr_read", f"+{OUT}", 7, f"+{WORK}", 2, 0) == -E2BIG
    assert bench("dynptr_read", f"+{OUT}", 1, f"+{WORK}", 2, 1) == -EINVAL
    assert bench("dynptr_write", f"+{WORK}", 6, f"+{OUT}", 2, 0) == 0
    assert bench.memory[:8] == b"abcdefcd"
    assert bench("dynptr_write", f"+{WORK}", 9, f"+{OUT}", 0, 0) == -E2BIG
    assert bench("dynptr_data", f"+{WORK}", 4, 4) % U64 == bench.address + 4
    assert bench("dynptr_data", f"+{WORK}", 5, 4) == 0
    assert bench("dynptr_from_mem", "+0", 8, 1, f"+{WORK}") == -EINVAL
    assert bench("dynptr_read", f"+{OUT}", 1, f"+{WORK}", 0, 0) == -EINVAL


def test_a_dynptr_to_a_record():
    ring = MapSpec("m", MapRole.EVENTS, MapType.RINGBUF, 0, 0, 4096)
    bench = Bench(maps=[ring])
    bench.memory[:4] = b"data"
    text = """
        r6 = r1
        r1 = map:m ll
        r2 = {size}
        r3 = 0
        r4 = r6
        r4 += 128
        call bpf_ringbuf_reserve_dynptr
        r7 = r0
        r1 = r6
        r1 += 128
        r2 = 0
        r3 = r6
        r4 = 4
        r5 = 0
        call bpf_dynptr_write
        r7 += r0
        r1 = r6
        r1 += 128
        r2 = 0
        call bpf_ringbuf_{verb}_dynptr
        r0 = r7
        exit
    """
    for size, verb, result in ((4, "submit", 0), (4, "discard", 0), (8000, "submit", -44)):
        found = bench.machine.run(assemble(text.format(size=size, verb=verb)), bench.address)
        assert found == result % U64
    assert bench.machine.maps["m"].drain() == [b"data"]


def world():
    return World(
    pid=7, cgroup=30, ancestors=(1, 20), arguments=(11, 22), function=0x1000, cookie=5, time=3,
    suspended=4, registers=99, symbols={"f": 0xFFFF_8000_0000_1000}, memory={0x5000: b"abcdef"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("get_func_ip", ("ctx",), 0x1000), ("get_attach_cookie", ("ctx",), 5),
        ("get_func_arg_cnt", ("ctx",), 2), ("get_func_arg", ("ctx", 1, f"+{OUT}"), 0),
        ("get_func_arg", ("ctx", 2, f"+{OUT}"), -EINVAL),
        ("get_func_ret", ("ctx", f"+{OUT}"), -95),
        ("get_current_ancestor_cgroup_id", (0,), 1), ("get_current_ancestor_cgroup_id", (2,), 30),
        ("get_current_ancestor_cgroup_id", (3,), 0), ("ktime_get_tai_ns", (), 37 * 10**9 + 7),
        ("send_signal", (9,), 0), ("send_signal", (0,), -EINVAL), ("send_signal", (65,), -EINVAL),
        ("per_cpu_ptr", (8, 0), 8), ("per_cpu_ptr", (8, 1), 0), ("this_cpu_ptr", (8,), 8),
        ("task_pt_regs", (1,), 99), ("get_branch_snapshot", (0, 0, 0), -ENOENT),
        ("read_branch_records", ("ctx", 0, 0, 2), -EINVAL),
        ("copy_from_user_task", (f"+{OUT}", 4, 0x5001, 0, 0), 0),
        ("copy_from_user_task", (f"+{OUT}", 4, 0x6000, 0, 0), -14),
        ("probe_write_user", (0x5002, "+0", 2), 0), ("probe_write_user", (0x5005, "+0", 2), -EPERM),
        ("set_retval", (3,), 0), ("sk_lookup_tcp", (0, 0, 0, 0, 0), 0), ("sk_fullsock", (4,), 4),
    ],
)  # fmt: skip
def test_what_a_helper_returns(name, arguments, result):
    assert Bench(world())(name, *arguments) == result


def test_what_helpers_leave_in_the_world():
    bench = Bench(World(pid=7, memory={0x5000: b"abcdef"}))
    bench.memory[:2] = b"XY"
    bench("probe_write_user", 0x5002, "+0", 2)
    bench("send_signal", 9)
    bench("set_retval", 3)
    assert bench.machine.world.memory == {0x5000: b"abXYef"}
    assert bench.machine.world.signals == [9]
    assert bench("get_retval") == 3


def test_a_symbol_is_looked_up():
    bench = Bench(world())
    bench.memory[:4] = b"f\0g\0"
    assert bench("kallsyms_lookup_name", "+0", 2, 0, f"+{OUT}") == 0
    assert bench.word() == 0xFFFF_8000_0000_1000
    assert bench("kallsyms_lookup_name", "+2", 2, 0, f"+{OUT}") == -ENOENT
    assert bench("kallsyms_lookup_name", "+0", 3, 0, f"+{OUT}") == -EINVAL


def test_cgroups_of_an_array():
    bench = Bench(world(), [MapSpec("c", MapRole.MAP, MapType.CGROUP_ARRAY, 4, 4, 4)])
    for index, cgroup in ((0, 20), (1, 31)):
        bench.machine.maps["c"].put(index.to_bytes(4, "little"), cgroup.to_bytes(4, "little"))
    found = [bench("current_task_under_cgroup", "map:c", index) for index in (0, 1, 2, 4)]
    assert found == [1, 0, -11, -E2BIG]


ITERATE = """
    r6 = 0
    r1 = r10
    r1 += -8
    r2 = {first}
    r3 = {last}
    call bpf_iter_num_new
    r7 = r0
again:
    r1 = r10
    r1 += -8
    call bpf_iter_num_next
    if r0 == 0 goto out
    r0 = *(u32 *)(r0 + 0)
    r6 += r0
    goto again
out:
    r1 = r10
    r1 += -8
    call bpf_iter_num_destroy
    r0 = r7
    r0 += r6
    exit
"""


def with_kfuncs(text):
    """Return a program whose calls of bpf_iter_… and the like are of kernel functions."""
    names = re.findall(r"call (bpf_\w+)", text)
    program = assemble(re.sub(r"call bpf_\w+", "call kernel-function#1", text))
    rest = iter(names)
    insns = tuple(
        replace(i, symbol=next(rest), imm=0) if i.op.name == "call_kfunc" else i
        for i in program.insns
    )
    return replace(program, insns=insns)


@pytest.mark.parametrize(
    ("first", "last", "result"),
    [(1, 5, 10), (5, 5, 0), (6, 5, -EINVAL), (0, (1 << 23) + 1, -E2BIG)],
)
def test_an_iterator_over_numbers(first, last, result):
    for fast in (False, True):
        program = with_kfuncs(ITERATE.format(first=first, last=last))
        assert Machine(fast=fast).run(program, 0) == result % U64


PACKET = """
    r2 = 0
    r3 = r10
    r3 += -16
    call bpf_dynptr_from_xdp
    r1 = r10
    r1 += -16
    r2 = 2
    r3 = 20
    call bpf_dynptr_adjust
    r6 = r0
    r1 = r10
    r1 += -16
    call bpf_dynptr_size
    r6 <<= 8
    r6 |= r0
    r1 = r10
    r1 += -16
    r2 = {offset}
    r3 = 0
    r4 = 4
    call bpf_dynptr_slice
    if r0 == 0 goto out
    r0 = *(u8 *)(r0 + 0)
out:
    r6 <<= 8
    r0 |= r6
    exit
"""


@pytest.mark.parametrize(("offset", "byte"), [(0, 3), (14, 17), (15, 0)])
def test_a_dynptr_to_a_packet(offset, byte):
    program = with_kfuncs(PACKET.format(offset=offset))
    found = testrun.run(Machine(), program, bytes(range(1, 31)), prog_type=ProgType.XDP)
    assert (found.fault, found.r0) == (None, 18 << 8 | byte)


def test_every_emulated_helper_is_one():
    assert set(EMULATED) <= set(HELPERS)
    assert len(EMULATED) > 140
