"""Contexts: where a recorded event's values lie in what the program gets."""

import struct

import pytest

from pybpf.errors import SourceError, TargetError
from pybpf.isa.insn import Program
from pybpf.script import ProbeSpec, Provider
from pybpf.source import Source
from pybpf.target.arch import ARCHES
from pybpf.target.snapshot import SnapshotTarget
from pybpf.vm.context import build_context, stack_arguments
from pybpf.vm.recording import RecordedEvent, read_events

COMMON = """
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
"""
MIXED = f"""name: mixed
ID: 77
format:{COMMON}
\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:s16 small;\toffset:24;\tsize:2;\tsigned:1;
\tfield:u8 mac[6];\toffset:26;\tsize:6;\tsigned:0;
\tfield:unsigned long args[3];\toffset:32;\tsize:24;\tsigned:0;
\tfield:void * ptr;\toffset:56;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:64;\tsize:4;\tsigned:0;
\tfield:__rel_loc char[] other;\toffset:68;\tsize:4;\tsigned:0;
\tfield:__data_loc u32[] list;\toffset:72;\tsize:4;\tsigned:0;

print fmt: ""
"""
SYSCALL = f"""name: sys_enter_openat
ID: 5
format:{COMMON}
\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;

print fmt: ""
"""


def target(arch="x86_64"):
    return SnapshotTarget(
        arch=arch,
        formats={"test/mixed": MIXED, "syscalls/sys_enter_openat": SYSCALL},
        symbols=[(0xFFFFFFFF81000000, "vfs_read"), (0xFFFFFFFF81001000, "vfs_write")],
    )


def probe(provider, **more):
    return ProbeSpec(provider, str(provider), Program(()), **more)


def record(data, name="test/mixed", arch="x86_64", **more):
    event = RecordedEvent(f"tracepoint:{name}", data=data, **more)
    return build_context(probe(Provider.TRACEPOINT, tracepoint=name), event, target(arch))


def test_fixed_fields_lie_where_the_format_says():
    data = {
        "comm": b"dd", "small": -2, "mac": (1, 2, 3, 4, 5, 6), "args": (7, -1), "ptr": b"0x10",
    }  # fmt: skip

    context = record(data, tid=9)

    assert struct.unpack_from("<HBBi", context) == (77, 0, 0, 9)
    assert context[8:24] == b"dd".ljust(16, b"\0")
    assert struct.unpack_from("<h6B", context, 24) == (-2, 1, 2, 3, 4, 5, 6)
    assert struct.unpack_from("<3QQ", context, 32) == (7, (1 << 64) - 1, 0, 16)
    assert len(context) == 80


def test_what_was_not_recorded_is_zero():
    assert record({})[8:] == bytes(72)


def test_dynamic_arrays_lie_behind_the_fixed_fields():
    context = record({"name": b"hello", "other": b"you", "list": (1, 2)})

    name, other, numbers = struct.unpack_from("<3I", context, 64)
    assert (name & 0xFFFF, name >> 16) == (76, 6)
    assert context[76:82] == b"hello\0"
    # A relative offset counts from the end of its own word.
    assert (other & 0xFFFF, other >> 16) == (82 - 72, 4)
    assert context[82:86] == b"you\0"
    assert (numbers & 0xFFFF, numbers >> 16) == (86, 8)
    assert struct.unpack_from("<2I", context, 86) == (1, 2)
    assert len(context) % 8 == 0


def test_bytes_of_an_array_may_be_given_as_text():
    assert record({"mac": b"\1\2"})[26:32] == b"\1\2\0\0\0\0"


@pytest.mark.parametrize(
    ("dfd", "register"), [(3, 3), (-100, (1 << 64) - 100), (0xFFFFFF9C, 0xFFFFFF9C)]
)
def test_a_system_calls_argument_fills_its_register(dfd, register):
    context = record({"dfd": dfd, "__syscall_nr": 257}, "syscalls/sys_enter_openat")

    assert struct.unpack_from("<i", context, 8) == (257,)
    assert struct.unpack_from("<Q", context, 16) == (register,)


def test_records_of_a_big_endian_machine():
    context = record({"dfd": 3, "__syscall_nr": 5}, "syscalls/sys_enter_openat", "s390x")

    assert struct.unpack_from(">i", context, 8) == (5,)
    assert struct.unpack_from(">Q", context, 16) == (3,)
    assert record({"name": b"x"}, arch="s390x")[64:68] == struct.pack(">HH", 2, 76)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"smal": 1}', "test/mixed has no field 'smal'; did you mean 'small'?"),
        ('{"small": 70000}', "'small' of test/mixed is of type 's16', which cannot hold 70000"),
        ('{"small": "x"}', "'small' of test/mixed is of type 's16': give an integer"),
        ('{"small": [1]}', "'small' of test/mixed is of type 's16': give an integer"),
        ('{"comm": "seventeen letters"}', "'comm' of test/mixed has room for 16 bytes, not 17"),
        ('{"args": [1, 2, 3, 4]}', "'args' of test/mixed has 3 elements, not 4"),
        ('{"args": 1}', "'args' of test/mixed is an array: give a list"),
        ('{"name": 1}', "'name' of test/mixed is a dynamic array: give a string or a list"),
        (
            '{"name": "' + "x" * 70000 + '"}',
            "'name' of test/mixed is too long for a record",
        ),
    ],
)
def test_what_does_not_fit_the_format_is_refused(data, message):
    line = f'{{"probe": "tracepoint:test/mixed", "data": {data}}}'
    (event,) = read_events(Source("events.jsonl", line))
    spec = probe(Provider.TRACEPOINT, tracepoint="test/mixed")

    with pytest.raises(SourceError) as caught:
        build_context(spec, event, target())

    head, _, caret = str(caught.value).splitlines()
    assert head == f"events.jsonl:1:45: error: {message}"
    assert caret.strip() == "^" * len(data[1:].partition(":")[0])


def test_an_unknown_tracepoint_is_the_targets_error():
    with pytest.raises(TargetError):
        record({}, "test/nosuch")


def registers(event, arch="x86_64", provider=Provider.KPROBE):
    context = build_context(probe(provider), event, target(arch))
    return {
        f.name: int.from_bytes(context[f.offset : f.offset + 8], ARCHES[arch].byteorder)
        for f in ARCHES[arch].regs.fields
    }


@pytest.mark.parametrize("arch", sorted(ARCHES))
def test_arguments_and_the_return_value_are_in_their_registers(arch):
    names = ARCHES[arch].arguments
    values = tuple(range(1, len(names) + 1))

    entry = registers(RecordedEvent("kprobe:vfs_read", args=values), arch)
    back = registers(RecordedEvent("kretprobe:vfs_read", retval=-22), arch, Provider.KRETPROBE)

    assert tuple(entry[name] for name in names) == values
    assert back[ARCHES[arch].retval] == (1 << 64) - 22
    assert back[ARCHES[arch].ip] == 0


def test_single_registers_override():
    regs = registers(RecordedEvent("kprobe:vfs_read", args=(1, 2), regs={"rsi": 7, "rbx": -1}))

    assert (regs["rdi"], regs["rsi"], regs["rbx"]) == (1, 7, (1 << 64) - 1)


@pytest.mark.parametrize(
    ("event", "rip"),
    [
        (RecordedEvent("kprobe:vfs_read"), 0xFFFFFFFF81000000),
        (RecordedEvent("kprobe:vfs_read+0x10"), 0xFFFFFFFF81000010),
        (RecordedEvent("kprobe:0xffffffff81000020"), 0xFFFFFFFF81000020),
        (RecordedEvent("kprobe:vfs_read", stack=(5, 6)), 5),
        (RecordedEvent("kprobe:vfs_read", stack=(5, 6), regs={"rip": 9}), 9),
        (RecordedEvent("kprobe:nosuch"), 0),
    ],
)
def test_the_instruction_pointer_is_where_the_event_happened(event, rip):
    assert registers(event)["rip"] == rip


def test_an_unknown_register_is_refused():
    event = RecordedEvent("kprobe:vfs_read", regs={"rxa": 1})

    with pytest.raises(SourceError, match="x86_64 has no register 'rxa'; did you mean 'rax'"):
        registers(event)


def test_arguments_beyond_the_registers_lie_on_the_stack():
    event = RecordedEvent("kprobe:f", args=(1, 2, 3, 4, 5, 6, 7, 8), regs={"rsp": 0x1000})

    assert stack_arguments(event, ARCHES["x86_64"]) == {0x1008: struct.pack("<2Q", 7, 8)}
    assert stack_arguments(event, ARCHES["aarch64"]) == {}


def test_a_stack_is_made_up_where_none_was_recorded():
    event = RecordedEvent("kprobe:f", args=(1, 2, 3, 4, 5, 6, 7))

    ((address, data),) = stack_arguments(event, ARCHES["x86_64"]).items()

    assert address == registers(event)["rsp"] + 8
    assert data == struct.pack("<Q", 7)


@pytest.mark.parametrize(
    ("spec", "period"),
    [
        (probe(Provider.INTERVAL, period=10**9), 10**9),
        (probe(Provider.PROFILE, frequency=100), 10**7),
    ],
)
def test_a_timers_context_ends_in_its_period(spec, period):
    size = ARCHES["x86_64"].regs.size
    context = build_context(spec, RecordedEvent("interval:1s", stack=(7,)), target())

    assert struct.unpack_from("<Q", context, ARCHES["x86_64"].regs.field("rip").offset) == (7,)
    assert struct.unpack("<QQ", context[size:]) == (period, 0)


def test_begin_and_end_have_an_empty_context():
    assert build_context(probe(Provider.BEGIN), RecordedEvent("BEGIN"), target()) == b""
