"""What type and value inference gives to expressions, map keys and map values."""

from __future__ import annotations

import pytest

from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.compiler.tastdump import dump_types
from pybpf.script import ConstArg, MapArg
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget
from pybpf.testing import tracepoints
from pybpf.testing.evaluator import Evaluator, Facts


def script(text, target):
    return infer(parse_text(Source("<script>", text)), target)


def printed(typed):
    """Return the type and value (None where it depends on the event) of what a print shows."""
    emit = typed.probes[-1].body[-1]
    schema = typed.events[emit.event]
    (arg,) = schema.args
    if isinstance(arg, MapArg):
        return f"map {arg.name}", None
    if isinstance(arg, ConstArg):
        return str(arg.type), arg.value
    try:
        value = Evaluator(typed).value(emit.values[0], Facts({}))
    except KeyError:
        value = None
    return str(emit.values[0].type), value


CONSTANTS = [
    # Literals: the first type that holds them, and decimals stay signed as in C.
    ("0", "int", 0),
    ("2147483647", "int", 2**31 - 1),
    ("2147483648", "long", 2**31),
    ("0x7fffffff", "int", 2**31 - 1),
    ("0x80000000", "unsigned int", 2**31),
    ("0xffffffff", "unsigned int", 2**32 - 1),
    ("(0xffffffff)", "unsigned int", 2**32 - 1),
    ("((0xffffffff))", "unsigned int", 2**32 - 1),
    ("0b11111111111111111111111111111111", "unsigned int", 2**32 - 1),
    ("037777777777", "unsigned int", 2**32 - 1),
    ("0x100000000", "long", 2**32),
    ("9223372036854775807", "long", 2**63 - 1),
    ("9223372036854775808", "unsigned long", 2**63),
    ("0xffffffffffffffff", "unsigned long", 2**64 - 1),
    ("1_000_000", "int", 10**6),
    ("'a'", "int", 97),
    # Suffixes.
    ("1u", "unsigned int", 1),
    ("1U", "unsigned int", 1),
    ("4294967296u", "unsigned long", 2**32),
    ("1l", "long", 1),
    ("1ll", "long", 1),
    ("1ul", "unsigned long", 1),
    ("0xffl", "long", 255),
    ("9223372036854775808l", "unsigned long", 2**63),
    # Unary operators promote.
    ("-1", "int", -1),
    ("-0", "int", 0),
    ("-2147483648", "long", -(2**31)),
    ("-2147483649", "long", -(2**31) - 1),
    ("-1u", "unsigned int", 2**32 - 1),
    ("-0x80000000", "unsigned int", 2**31),
    ("- - 1", "int", 1),
    ("~0", "int", -1),
    ("~0u", "unsigned int", 2**32 - 1),
    ("~0l", "long", -1),
    ("~'a'", "int", -98),
    ("!5", "int", 0),
    ("!0ul", "int", 1),
    # The usual arithmetic conversions.
    ("1 + 1", "int", 2),
    ("1 + 1u", "unsigned int", 2),
    ("1 - 2u", "unsigned int", 2**32 - 1),
    ("1u + 1l", "long", 2),
    ("1l + 1ul", "unsigned long", 2),
    ("-1 + 0ul", "unsigned long", 2**64 - 1),
    ("0xffffffff + 1", "unsigned int", 0),
    ("2147483647 + 1", "int", -(2**31)),
    ("65536 * 65536", "int", 0),
    ("65536l * 65536", "long", 2**32),
    # Division and remainder go towards zero; by zero they are what the instruction set says.
    ("-7 / 2", "int", -3),
    ("-7 % 2", "int", -1),
    ("7 / -2", "int", -3),
    ("7 % -2", "int", 1),
    ("-7u / 2", "unsigned int", 2147483644),
    ("-7 / 2u", "unsigned int", 2147483644),
    ("1 / 0", "int", 0),
    ("7 % 0", "int", 7),
    ("-2147483648 / -1", "long", 2**31),
    # A shift has the type of its left side, and its count is taken modulo the width.
    ("1 << 4ul", "int", 16),
    ("1ul << 63", "unsigned long", 2**63),
    ("1 << 31", "int", -(2**31)),
    ("1 << 40", "int", 256),
    ("1 << -1", "int", -(2**31)),
    ("-8 >> 1", "int", -4),
    ("-8u >> 1", "unsigned int", 2147483644),
    ("-1 >> 31", "int", -1),
    # Bits, in C's precedence.
    ("5 & 4 == 4", "int", 1),
    ("1 < 2 == 1", "int", 1),
    ("6 | 1 ^ 3 & 2", "int", 7),
    ("1 + 2 << 3", "int", 24),
    ("2 - 1 - 1", "int", 0),
    # Comparisons and logic are 0 or 1.
    ("-1 < 0", "int", 1),
    ("-1 < 0u", "int", 0),
    ("-1 < 0ul", "int", 0),
    ("-1l < 0u", "int", 1),
    ("-1 == 0xffffffff", "int", 1),
    ("-1l == 0xffffffff", "int", 0),
    ("2 && 3ul", "int", 1),
    ("0 || 0", "int", 0),
    ("2 ^^ 3", "int", 0),
    ("2 ^^ 0", "int", 1),
    ("1 || 0 && 0", "int", 1),
    # Strings: whole words, with room for a NUL.
    ('""', "char[8]", b""),
    ('"1234567"', "char[8]", b"1234567"),
    ('"12345678"', "char[16]", b"12345678"),
    (r'"a\x41\0b"', "char[8]", b"aA\0b"),
    ('"a" "b"', "char[8]", b"ab"),
    ('strcmp("a", "b")', "int", -1),
    ('strcmp("b", "a")', "int", 1),
    ('strcmp("a", "")', "int", 97),
    (r'strcmp("a\0x", "a\0y")', "int", 0),
    (r'strcmp("\xff", "a")', "int", 255 - 97),
    # What is given from outside: strtoll() with base 0, or else a string.
    ("$N", "int", 5),
    ("$N + 1", "int", 6),
    ('strcmp($N, "5")', "int", 0),
    ('strcmp("0xffffffff", $HEX)', "int", 0),
    ("strcmp($NEG, $PADDED)", "int", ord("-") - ord(" ")),
    ("$NEG", "int", -5),
    ("$HEX", "unsigned int", 2**32 - 1),
    ("$OCT", "int", 8),
    ("$BIG", "unsigned long", 2**64 - 1),
    ("$TOO_BIG", "char[24]", b"18446744073709551616"),
    ("$PADDED", "int", 7),
    ("$TRAILING", "char[8]", b"7 "),
    ("$NO_OCT", "char[8]", b"099"),
    ("$WORD", "char[8]", b"dd"),
    ("$EMPTY", "char[8]", b""),
    ("$UNSET", "char[8]", b""),
    ("$1", "int", 42),
    ("$2", "char[8]", b""),
    ("$target", "int", 1234),
]


@pytest.mark.parametrize(("text", "kind", "value"), CONSTANTS, ids=[text for text, *_ in CONSTANTS])
def test_constants(text, kind, value, kernel):
    assert printed(script(f"BEGIN {{ print({text}); }}", kernel)) == (kind, value)


def test_a_number_of_many_digits_in_the_environment_is_a_string(kernel):
    assert printed(script("BEGIN { print($DIGITS); }", kernel)) == ("char[5008]", b"9" * 5000)


SWITCH, OPENAT = "tracepoint:sched/sched_switch", "tracepoint:syscalls/sys_enter_openat"
EXEC, ENTER = "tracepoint:sched/sched_process_exec", "tracepoint:raw_syscalls/sys_enter"
VALUES = [
    # Formats are kept as long as nothing is computed, or by a difference of two alike.
    ("BEGIN", "pid", "pid_t"),
    ("BEGIN", "kpid", "pid_t"),
    ("BEGIN", "uid", "uid_t"),
    ("BEGIN", "gid", "uid_t"),
    ("BEGIN", "cpu", "cpu_t"),
    ("BEGIN", "comm", "char[16]"),
    ("BEGIN", "execname", "char[16]"),
    ("BEGIN", "time", "time_t"),
    ("BEGIN", "walltime", "walltime_t"),
    ("BEGIN", "stack", "stack_t"),
    ("BEGIN", "ctx", "void *"),
    ("BEGIN", "pid()", "pid_t"),
    ("BEGIN", "(pid)", "pid_t"),
    ("BEGIN", "time - time", "time_t"),
    ("BEGIN", "time + time", "time_t"),
    ("BEGIN", "time * time", "s64"),
    ("BEGIN", "time + 1", "s64"),
    ("BEGIN", "-time", "s64"),
    ("BEGIN", "time - walltime", "s64"),
    ("BEGIN", "pid - pid", "pid_t"),
    ("BEGIN", "pid - kpid", "pid_t"),
    ("BEGIN", "pid - uid", "u32"),
    ("BEGIN", "pid - 1", "u32"),
    ("BEGIN", "pid - 1l", "long"),
    ("BEGIN", "pid << 1ul", "u32"),
    ("BEGIN", "pid == 1", "int"),
    ("BEGIN", 'strcmp(comm, "dd")', "int"),
    # Reading at an address.
    ("BEGIN", "str(1)", "char[128]"),
    ("BEGIN", "str(1, 5)", "char[5]"),
    ("BEGIN", "str(1, $N)", "char[5]"),
    ("BEGIN", "mem(1)", "mem"),
    ("BEGIN", "uptr(1)", "void *"),
    ("BEGIN", "uptr(1) + 1", "void *"),
    # Registers and arguments.
    ("kprobe:f", "arg0", "reg_t"),
    ("kprobe:f", "arg9", "reg_t"),
    ("kprobe:f", "arg0 + 1", "u64"),
    ("kprobe:f", "arg0 - arg1", "reg_t"),
    ("kprobe:f", "caller", "symbol_t"),
    ("kprobe:f", "regs", "struct pt_regs *"),
    ("kprobe:f", "*regs", "struct pt_regs"),
    ("kprobe:f", "regs->rdi", "reg_t"),
    ("kprobe:f", "(*regs).rdi", "reg_t"),
    ("kprobe:f", "str(arg0)", "char[128]"),
    ("kretprobe:f", "retval", "long"),
    ("kretprobe:f", "regs->rax", "reg_t"),
    ("kretprobe:f", "-retval", "long"),
    # Tracepoints: fields of the format file, promoted where they are computed with.
    (SWITCH, "data", "struct sched/sched_switch *"),
    (SWITCH, "*data", "struct sched/sched_switch"),
    (SWITCH, "data->prev_comm", "char[16]"),
    (SWITCH, "data->prev_pid", "pid_t"),
    (SWITCH, "data->prev_state", "long"),
    (SWITCH, "data->common_pid", "pid_t"),
    (OPENAT, "data->dfd", "int"),
    (OPENAT, "data->filename", "char[128]"),
    (OPENAT, "uptr(data->filename)", "char[128]"),
    (OPENAT, "*data->filename", "char"),
    (OPENAT, "-*data->filename", "int"),
    (OPENAT, "str(data->filename, 4)", "char[4]"),
    (OPENAT, "mem(data->filename, 4)", "mem"),
    (OPENAT, "data->filename == 0", "int"),
    (OPENAT, "data->mode", "umode_t"),
    (OPENAT, "data->mode + 0", "int"),
    (EXEC, "data->filename", "char[128]"),
    (EXEC, "dyn(data->filename)", "char[128]"),
    (EXEC, "dyn(data->filename, 9)", "char[9]"),
    (ENTER, "data->args", "unsigned long[6]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("probe", "text", "kind"), VALUES, ids=[f"{probe} {text}" for probe, text, _ in VALUES]
)
def test_values_of_events(probe, text, kind, kernel):
    assert printed(script(f"{probe} {{ print({text}); }}", kernel))[0] == kind


MAPS = [
    # A literal adapts to what else is stored, where that type holds it.
    ("m[1] = 1;", "m[int] : map of int"),
    ("m[1] = 1; m[2] = 0xffffffff;", "m[int] : map of long"),
    ("m[1] = 1u; m[2] = -1;", "m[int] : map of long"),
    ("m[pid] = 1; m[1] = pid;", "m[pid_t] : map of pid_t"),
    ("m[1] = 0; m[pid] = pid;", "m[pid_t] : map of pid_t"),
    ("m = pid; m = -1;", "m[] : map of long"),
    ("m = pid; m = 0x100000000;", "m[] : map of long"),
    ("m = time; m = 0;", "m[] : map of time_t"),
    ("m = time; m = 0xffffffffffffffff;", "m[] : map of unsigned long"),
    ("m = 18446744073709551615; m = -1;", "m[] : map of unsigned long"),
    # Other integers widen; two formats cancel each other out.
    ("m = pid; m = time;", "m[] : map of s64"),
    ("m = pid; m = uid;", "m[] : map of u32"),
    ("m = pid; m = uid; m = pid;", "m[] : map of u32"),
    ("m = pid; m = uid; m = cpu;", "m[] : map of u32"),
    ("m = pid; m = kpid; m = pid - 1;", "m[] : map of pid_t"),
    ("m = pid; m = -pid; m = time - 1;", "m[] : map of s64"),
    ("m = time; m = time - walltime;", "m[] : map of time_t"),
    ("m = pid == 1; m = pid;", "m[] : map of long"),
    # Keys follow the same rules, wherever they stand.
    ("m[1] = 1; print(m[time]);", "m[time_t] : map of int"),
    ("m[1] = 1; delete m[0x100000000];", "m[long] : map of int"),
    ("m[0xffffffffff] = 3; m[1] = 1;", "m[long] : map of int"),
    ("m[pid, comm, stack] = 1;", "m[pid_t, char[16], stack_t] : map of int"),
    ("m[-1] = 1; m[1u] = 1;", "m[int] : map of int"),
    # Strings lengthen.
    ('m["short"] = 1; m["a much longer key"] = 2;', "m[char[24]] : map of int"),
    ('m["short"] = comm; m[comm] = "x";', "m[char[16]] : map of char[16]"),
    ("m[str(1, 5)] = 1; m[comm] = 1;", "m[char[16]] : map of int"),
    ("m = mem(1, 4);", "m[] : map of mem"),
    # A pointer stays one, so that it can be followed later.
    ("m = uptr(1); m = 0;", "m[] : map of void *"),
    ("m = uptr(1); m = time;", "m[] : map of void *"),
    # Types that are known only later, or never.
    ("m = n; n = o; o = time;", "m[] : map of time_t"),
    ("m[n] = 1; n = comm;", "m[char[16]] : map of int"),
    ("m[1] = m[1] + 1;", "m[int] : map of long"),
    ("m[m[1]] = 1;", "m[int] : map of int"),
    ("m = n; n = m;", "m[] : map of long"),
    ("if (m[1] == 0) { m[1] = time; }", "m[int] : map of time_t"),
    # Aggregations.
    ("@ = count();", "@[] : count of u64"),
    ("@ = count;", "@[] : count of u64"),
    ("@[comm, 1] = count();", "@[char[16], int] : count of u64"),
    ("@ = sum(1);", "@[] : sum of s64"),
    ("@ = sum(1u);", "@[] : sum of u64"),
    ("@ = sum(pid);", "@[] : sum of u64"),
    ("@ = sum(pid - 1l);", "@[] : sum of s64"),
    ("@ = sum(time);", "@[] : sum of s64"),
    ("@ = sum('a');", "@[] : sum of s64"),
    ("@ = sum(1); @ = sum(1u);", "@[] : sum of unsigned long"),
    ("@ = count(); @ = sum(-1);", "@[] : sum of s64"),
    ("@ = sum(-1); @ = count();", "@[] : sum of s64"),
    ("@ = count(); @ = sum(pid);", "@[] : sum of u64"),
    ("@ = quantize(1);", "@[] : quantize of int"),
    ("@ = quantize(pid);", "@[] : quantize of pid_t"),
    ("@ = quantize(time);", "@[] : quantize of time_t"),
    ("@ = quantize(time - time);", "@[] : quantize of time_t"),
    ("@ = quantize(time / 1000);", "@[] : quantize of s64"),
    ("@ = quantize(5); @ = quantize(time);", "@[] : quantize of time_t"),
    ("@ = quantize(pid); @ = quantize(time);", "@[] : quantize of s64"),
    ("@ = quantize(pid - 1); @ = quantize(time);", "@[] : quantize of time_t"),
    ("@ = quantize(pid); @ = quantize(-1);", "@[] : quantize of long"),
    ("@ = quantize(uptr(1));", "@[] : quantize of void *"),
    ("@ = 5; @ = 6;", "@[] : map of int"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "declared"), MAPS, ids=[body for body, _ in MAPS])
def test_maps(body, declared, kernel):
    dump = dump_types(script(f"BEGIN {{ {body} }}", kernel))

    assert dump.splitlines()[0] == f"map {declared}"


EVENT_MAPS = [
    (SWITCH, "m = *data;", "m[] : map of struct sched/sched_switch"),
    (SWITCH, "m = data;", "m[] : map of struct sched/sched_switch *"),
    (SWITCH, "m = data; m = ctx;", "m[] : map of void *"),
    (SWITCH, "m[*data] = 1;", "m[struct sched/sched_switch] : map of int"),
    (SWITCH, "m = *data; n = m.prev_comm;", "m[] : map of struct sched/sched_switch"),
    (SWITCH, "m[data->prev_comm] = 1;", "m[char[16]] : map of int"),
    (SWITCH, "@ = quantize(data->prev_prio);", "@[] : quantize of int"),
    (OPENAT, "m = data->filename;", "m[] : map of char *"),
    (OPENAT, "m = str(data->filename);", "m[] : map of char[128]"),
    (OPENAT, "m[data->filename] = 1;", "m[char[128]] : map of int"),
    (OPENAT, "m = data->mode;", "m[] : map of umode_t"),
    (OPENAT, "@ = quantize(data->mode);", "@[] : quantize of int"),
    (OPENAT, "@ = sum(data->mode);", "@[] : sum of s64"),
    (EXEC, "m[data->filename] = data->filename;", "m[char[128]] : map of char[128]"),
    (ENTER, "m[data->args] = data->args;", "m[unsigned long[6]] : map of unsigned long[6]"),
    ("kprobe:f", "m = caller;", "m[] : map of symbol_t"),
    ("kprobe:f", "m = arg0; m = 0;", "m[] : map of reg_t"),
    ("kprobe:f", "m[stack] = arg0 + 1; m[stack] = arg0;", "m[stack_t] : map of reg_t"),
    ("kretprobe:f", "@ = quantize(retval);", "@[] : quantize of long"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("probe", "body", "declared"), EVENT_MAPS, ids=[f"{p} {body}" for p, body, _ in EVENT_MAPS]
)
def test_maps_of_what_events_hold(probe, body, declared, kernel):
    dump = dump_types(script(f"{probe} {{ {body} }}", kernel))

    assert dump.splitlines()[0] == f"map {declared}"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("data->tail", "char[128]"),
        ("dyn(data->tail, 3)", "char[3]"),
        ("data->blob", "mem"),
        ("data->mac", "unsigned char[6]"),
        ("data->words", "u32[3]"),
        ("data->g", "signed char"),
        ("data->g + data->h", "int"),
        ("data->f << 1", "int"),
        ("data->d + data->c", "unsigned int"),
        ("data->a + data->d", "s64"),
        ("data->a + data->b", "u64"),
        ("data->g == data->h", "int"),
        ("*data->number", "u64"),
        ("data->number + 1", "u64 *"),
        ("1 + data->number", "u64 *"),
        ("data->number - data->g", "u64 *"),
        ("*(data->number + 1)", "u64"),
        ("data->number != 0", "int"),
        ("data->user_text", "char[128]"),
    ],
)
def test_fields_of_every_kind(text, kind):
    probe = f"{tracepoints.FIRST} {{ print({text}); }}"

    assert printed(script(probe, tracepoints.target()))[0] == kind


def test_pointers_move_by_what_they_point_to():
    probe = f"{tracepoints.FIRST} {{ m = data->number + 3; n = data->kernel_text - 3; }}"

    dump = dump_types(script(probe, tracepoints.target()))

    assert "+ ((3:long * 8:long):long):unsigned long):u64 *" in dump
    assert "- 3:unsigned long):char *" in dump


@pytest.mark.parametrize(
    ("arch", "last", "offset"),
    [
        ("x86_64", "arg5", 64),
        ("aarch64", "arg7", 56),
        ("riscv64", "arg7", 136),
        ("s390x", "arg4", 72),
    ],
)
def test_arguments_lie_in_registers_then_on_the_stack(arch, last, offset):
    target = SnapshotTarget(arch=arch)
    following = f"arg{int(last[3:]) + 1}"

    dump = dump_types(script(f"kprobe:f {{ print({last}, {following}); }}", target))

    assert f"ctx[{offset}]:reg_t, *(ctx[" in dump


def test_a_map_without_keys_is_a_variable_and_an_aggregation_a_whole_map(kernel):
    typed = script("BEGIN { x = 5; @ = count(); print(x, @, y); y[1] = 2; }", kernel)

    assert "print #0(x[]:int, map @, map y)" in dump_types(typed)


def test_a_pattern_is_one_program_unless_it_looks_at_the_data(kernel):
    shared = script("tracepoint:sched/sched_wak@(eup|ing) { @[comm] = count(); }", kernel)
    apart = script("tracepoint:sched/sched_wak@(eup|ing) { @[data->comm] = count(); }", kernel)

    assert [len(p.specs) for p in shared.probes] == [2]
    assert [[s.tracepoint for s in p.specs] for p in apart.probes] == [
        ["sched/sched_wakeup"], ["sched/sched_waking"],
    ]  # fmt: skip
