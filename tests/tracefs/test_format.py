import re
from pathlib import Path

import pytest

from pybpf.errors import TargetError
from pybpf.events.ftrace.record import Decoder
from pybpf.target.snapshot import SnapshotTarget
from pybpf.tracefs.format import Declaration, parse_declaration, parse_format
from pybpf.types import (
    U8,
    ULONG,
    VOID,
    Array,
    DataLoc,
    Int,
    Ptr,
    Space,
    Typedef,
    is_string,
    size_of,
    strip,
)

KERNELS = ("6.1", "6.12", "7.3")
OPAQUE = Typedef("struct page", VOID)


def target(kernel):
    return SnapshotTarget.load(Path(__file__).parent.parent / f"data/targets/{kernel}.tar.gz")


def field(line, event="sched/test", byteorder="little"):
    text = f'name: test\nID: 7\nformat:\n\tfield:{line}\n\nprint fmt: ""\n'
    return parse_format(text, event, byteorder).fields[0]


def type_of(declaration, size, signed=0, event="sched/test"):
    return field(f"{declaration};\toffset:8;\tsize:{size};\tsigned:{signed};", event).type


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("int x", Declaration("x", ("int",))),
        ("const char * name", Declaration("name", ("char",), 1)),
        ("const char *const * argv", Declaration("argv", ("char",), 2)),
        ("char *name", Declaration("name", ("char",), 1)),
        ("struct page * page", Declaration("page", ("struct", "page"), 1)),
        ("void __seg_gs * ptr", Declaration("ptr", ("void",), 1)),
        ("char __user * buf", Declaration("buf", ("char",), 1, user=True)),
        (
            'const char __attribute__((btf_type_tag("user"))) * path',
            Declaration("path", ("char",), 1, user=True),
        ),
        ("void (*fn)(struct rcu_head *, int)", Declaration("fn", ("void",), 1)),
        ("int (* const fn)(void)", Declaration("fn", ("void",), 1)),
        ("u8 mac[6]", Declaration("mac", ("u8",), 0, ("6",))),
        ("u32 m[2][3]", Declaration("m", ("u32",), 0, ("2", "3"))),
        ("char comm[TASK_COMM_LEN]", Declaration("comm", ("char",), 0, ("TASK_COMM_LEN",))),
        ("__data_loc char[] name", Declaration("name", ("char",), 0, ("",), "__data_loc")),
        ("__rel_loc u8 data[]", Declaration("data", ("u8",), 0, ("",), "__rel_loc")),
        ("__data_loc cpumask_t m", Declaration("m", ("cpumask_t",), 0, (), "__data_loc")),
    ],
)
def test_declaration(text, want):
    assert parse_declaration(text) == want


@pytest.mark.parametrize(
    "text", ["", "int", "*", "const int", "int x = 1", "a b; c", "u8 [", "1 2"]
)
def test_declaration_refused(text):
    with pytest.raises(TargetError) as error:
        parse_declaration(text)
    assert str(error.value) == f"no field declaration: {text!r}"


# Types compare without the names of integers, so the name is compared with the text form.
@pytest.mark.parametrize(
    ("declaration", "size", "signed", "want", "shown"),
    [
        ("unsigned long x", 8, 0, Int(8, signed=False), "unsigned long"),
        ("long unsigned int x", 8, 0, Int(8, signed=False), "long unsigned int"),
        ("pid_t x", 4, 1, Int(4, signed=True), "pid_t"),
        ("__u16 x", 2, 0, Int(2, signed=False), "__u16"),
        ("bool x", 1, 0, Int(1, signed=False), "bool"),
        ("enum zone_type x", 4, 0, Int(4, signed=False), "enum zone_type"),
        ("size_t x", 8, 0, Int(8, signed=False), "size_t"),
        ("char x", 1, 1, Int(1, signed=True), "char"),
        # The file wins over the name.
        ("enum netfs_failure x", 1, 0, Int(1, signed=False), "enum netfs_failure"),
        ("long x", 4, 0, Int(4, signed=False), "long"),
        ("xen_mc_callback_fn_t fn", 8, 0, Int(8, signed=False), "xen_mc_callback_fn_t"),
        ("const void * p", 8, 0, Ptr(VOID), "void *"),
        ("void (*fn)(int)", 8, 0, Ptr(VOID), "void *"),
        ("const char * p", 8, 0, Ptr(Int(1, signed=True)), "char *"),
        ("char __user * p", 8, 0, Ptr(Int(1, signed=True), Space.USER), "char *"),
        ("struct page * p", 8, 0, Ptr(OPAQUE), "struct page *"),
        ("struct page * * p", 8, 0, Ptr(Ptr(OPAQUE)), "struct page * *"),
        ("void * p", 4, 0, Int(4, signed=False), "void"),  # a 32-bit kernel
        ("char comm[16]", 16, 0, Array(Int(1, signed=False), 16), "char[16]"),
        ("char comm[TASK_COMM_LEN]", 16, 1, Array(Int(1, signed=True), 16), "char[16]"),
        ("u32 x[SOME_SIZE]", 12, 0, Array(Int(4, signed=False), 3), "u32[3]"),
        ("struct page * x[SIZE]", 16, 0, Array(Ptr(OPAQUE), 2), "struct page *[2]"),
        ("strange_t x[SIZE]", 3, 0, Array(U8, 3), "strange_t[3]"),
        ("unsigned long args[6]", 48, 0, Array(ULONG, 6), "unsigned long[6]"),
        ("u8 m[2][3]", 6, 0, Array(Array(U8, 3), 2), "u8[3][2]"),
        ("long a[]", 0, 1, Array(Int(8, signed=True), 0), "long[0]"),
        ("unsigned long __data[0]", 0, 0, Array(ULONG, 0), "unsigned long[0]"),
        ("uuid_t id", 16, 0, Typedef("uuid_t", Array(U8, 16)), "uuid_t"),
        ("struct kuid x", 4, 0, Typedef("struct kuid", Array(U8, 4)), "struct kuid"),
        ("__data_loc char[] s", 4, 1, DataLoc(Int(1, signed=True)), "__data_loc char[]"),
        ("__data_loc char[] s", 4, 0, DataLoc(Int(1, signed=False)), "__data_loc char[]"),
        ("__data_loc u64[] s", 4, 0, DataLoc(Int(8, signed=False)), "__data_loc u64[]"),
        ("__data_loc cpumask_t m", 4, 0, DataLoc(ULONG), "__data_loc unsigned long[]"),
        ("__data_loc strange_t[] m", 4, 0, DataLoc(U8), "__data_loc u8[]"),
        ("__rel_loc u8[] s", 4, 0, DataLoc(U8, relative=True), "__rel_loc u8[]"),
        ("__data_loc char[][2] s", 8, 0, Array(DataLoc(U8), 2), "__data_loc char[][2]"),
    ],
)
def test_type(declaration, size, signed, want, shown):
    found = type_of(declaration, size, signed)
    assert (found, str(found)) == (want, shown)
    assert size_of(found) == size


@pytest.mark.parametrize(
    ("declaration", "want"),
    [
        ("int dfd", Int(4, signed=True)),
        ("umode_t mode", Int(2, signed=False)),
        ("unsigned int flags", Int(4, signed=False)),
        ("loff_t pos", Int(8, signed=True)),
        ("size_t count", Int(8, signed=False)),
        ("const enum landlock_rule_type t", Int(4, signed=False)),
        ("cap_user_header_t header", Int(8, signed=False)),
        ("const char * filename", Ptr(Int(1, signed=True), Space.USER)),
        ("const char *const * argv", Ptr(Ptr(Int(1, signed=True), Space.USER), Space.USER)),
        ("struct stat * buf", Ptr(Typedef("struct stat", VOID), Space.USER)),
    ],
)
def test_system_call_arguments_have_their_c_types(declaration, want):
    found = field(f"{declaration};\toffset:16;\tsize:8;\tsigned:0;", "syscalls/sys_enter_x")
    assert (found.type, found.offset, found.size) == (want, 16, 8)


def test_system_call_argument_lies_at_the_end_of_a_big_endian_register():
    line = "int dfd;\toffset:16;\tsize:8;\tsigned:0;"
    assert field(line, "syscalls/sys_enter_openat", "big").offset == 20
    assert field(line, "sched/test", "big").offset == 16


def test_pointers_of_other_events_are_the_kernels():
    assert type_of("char * name", 8, event="syscalls/sys_exit_x") == Ptr(Int(1, signed=True))


def test_signed_is_missing_in_old_kernels():
    assert field("int x;\toffset:8;\tsize:4;").type == Int(4, signed=False)


def test_openat():
    event = target("6.12").event_format("syscalls/sys_enter_openat")
    assert (event.name, event.id) == ("syscalls/sys_enter_openat", 749)
    rows = [(f.name, str(f.type), f.offset, f.size, f.common) for f in event.fields]
    assert rows == [
        ("common_type", "unsigned short", 0, 2, True),
        ("common_flags", "unsigned char", 2, 1, True),
        ("common_preempt_count", "unsigned char", 3, 1, True),
        ("common_pid", "int", 4, 4, True),
        ("__syscall_nr", "int", 8, 4, False),
        ("dfd", "int", 16, 8, False),
        ("filename", "char *", 24, 8, False),
        ("flags", "int", 32, 8, False),
        ("mode", "umode_t", 40, 8, False),
    ]
    assert event.field("dfd") is event.fields[5]
    assert event.field("nothing") is None
    assert event.print_fmt.startswith('"dfd: 0x%08lx, filename: 0x%08lx')


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_format_of_a_real_kernel(kernel):
    snapshot = target(kernel)
    lines = re.compile(r"(?m)^\tfield:(.+?);\toffset:(\d+);\tsize:(\d+);\tsigned:[01];$")
    for name in snapshot.event_names():
        event = snapshot.event_format(name)
        want = [(d, int(o), int(s)) for d, o, s in lines.findall(snapshot.event_text(name))]
        assert [(f.declaration, f.offset, f.size) for f in event.fields] == want, name
        assert event.name == name
        for f in event.fields:
            assert f.name in f.declaration
            if size_of(f.type) != f.size:
                assert name.startswith("syscalls/sys_enter_"), (name, f)


@pytest.mark.parametrize("kernel", KERNELS)
def test_char_arrays_are_strings_and_byte_arrays_are_not(kernel):
    event = target(kernel).event_format("sched/sched_switch")
    assert is_string(event.field("prev_comm").type)
    addresses = target(kernel).event_format("tcp/tcp_probe")
    assert not is_string(addresses.field("saddr").type)
    assert isinstance(strip(addresses.field("saddr").type), Array)


HUGE = "field:int c;offset:9;size:999999;"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "format of a/b: no name or ID in it"),
        ("name: b\nID: x\n", "format of a/b: line 2: no field: 'ID: x'"),
        ("name: b\nID: 1\nhello\n", "format of a/b: line 3: no field: 'hello'"),
        (
            "name: b\nID: 1\n\tfield:int;\toffset:0;\tsize:4;\tsigned:1;\n",
            "format of a/b: line 3: no field declaration: 'int'",
        ),
        (
            "name: b\nID: 1\n\tfield:int x;\toffset:-1;\tsize:4;\n",
            "format of a/b: line 3: no field: '\\tfield:int x;\\toffset:-1;\\tsize:4;'",
        ),
        (
            f"name: b\nID: 1\n{HUGE}\n",
            f"format of a/b: line 3: no record has such a field: '{HUGE}'",
        ),
        (f"name: b\nID: {'9' * 5000}\n", f"format of a/b: line 2: no field: 'ID: {'9' * 76}'"),
    ],
)
def test_refused(text, want):
    with pytest.raises(TargetError) as error:
        parse_format(text, "a/b")
    assert str(error.value) == want


def test_print_fmt_may_have_several_lines():
    event = parse_format('name: b\nID: 3\nformat:\n\nprint fmt: "x\n y", REC->z\n', "a/b")
    assert event.print_fmt == '"x\n y", REC->z'


def test_without_a_category_the_name_is_the_files():
    assert parse_format("name: b\nID: 3\n").name == "b"


@pytest.mark.parametrize(
    "declaration", ["void " + "*" * 9 + "x", "void " + "*" * 5000 + "x", "u8 x" + "[1]" * 2000]
)
def test_declarations_nest_as_far_as_c_does(declaration):
    with pytest.raises(TargetError, match="no field declaration"):
        parse_declaration(declaration)


@pytest.mark.parametrize(
    "declaration", ["u32 x[99999999999]", "struct foo x[9999999999]", "u8 x[99999999][99999999]"]
)
def test_fields_of_no_bytes_have_no_elements(declaration):
    text = f"name: x\nID: 1\nformat:\n\tfield:{declaration};\toffset:8;\tsize:0;\tsigned:0;\n"
    (field,) = parse_format(text).fields
    assert size_of(field.type) == 0
    assert Decoder(parse_format(text))(0, 0, bytes(8), 0, 8)["x"] == ()
