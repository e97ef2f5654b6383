"""What ply prints, byte for byte: its formats are part of what scripts and people rely on.

The expected texts were printed by C ply 2.4 for these values.
"""

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.output.text import render
from pybpf.rows import ExitRow
from pybpf.target.snapshot import SnapshotTarget
from pybpf.testing.tracepoints import target as with_tracepoints
from pybpf.vm.driver import run_events
from pybpf.vm.recording import RecordedEvent

SYMBOLS = [
    (0xFFFFFFFF81000000, "vfs_read"),
    (0xFFFFFFFF81000100, "ksys_read"),
    (0xFFFFFFFF81000200, "vfs_get_link"),
    (0xFFFFFFFF81000300, "vfs_fstatat"),
    (0xFFFFFFFF81000400, "the_end"),
]
FUNCTIONS = ("vfs_read", "vfs_get_link", "vfs_fstatat")


def printed(script, *events, on=None):
    """Return all that a script prints, on a kernel with a few functions."""
    target = on or SnapshotTarget(cpus=2, functions=FUNCTIONS, symbols=SYMBOLS)
    rows = run_events(compile_script(script, target), target, events)
    return "".join(render(row, target.symbols) for row in rows if not isinstance(row, ExitRow))


def call(function, **facts):
    """Return an event: a kprobe that ftrace serves sees the address behind its call."""
    address = next(a for a, name in SYMBOLS if name == function)
    return RecordedEvent(f"kprobe:{function}", regs={"rip": address + 5}, **facts)


def test_maps_are_sorted_by_value_and_then_by_key():
    script = 'BEGIN { a[0, "z"] = 9; a[1, "x"] = 3; a[1, "w"] = 3; }'
    assert printed(script) == "\na:\n{ 1, w       }: 3\n{ 1, x       }: 3\n{ 0, z       }: 9\n"


def test_functions_by_name():
    events = [
        *[call("vfs_fstatat", comm=b"ply")] * 56,
        *[call("vfs_read", comm=b"dd")] * 6,
        call("vfs_get_link", comm=b"dd"),
    ]
    script = "kprobe:vfs_* { @[comm, caller] = count(); }"
    assert printed(script, *events) == (
        "\n"
        "@:\n"
        "{ dd             , vfs_get_link+5 }: 1\n"
        "{ dd             , vfs_read+5 }: 6\n"
        "{ ply            , vfs_fstatat+5 }: 56\n"
    )


def test_stacks_as_keys():
    events = [call("vfs_read", stack=(0xFFFFFFFF81000005, 0xFFFFFFFF8100016B))] * 2
    assert printed("kprobe:vfs_read { @s[stack] = count(); }", *events) == (
        "\n@s:\n{ \n\tvfs_read+5\n\tksys_read+107\n }: 2\n"
    )


def test_stacks_printed():
    event = call("vfs_read", stack=(0xFFFFFFFF81000005, 0x1234))
    assert printed("kprobe:vfs_read { print(stack); }", event) == (
        "\n\tvfs_read+5\n\t<            1234>\n\n"
    )


def test_process_ids_as_keys_and_strings_as_values():
    script = f"{FIRST} {{ p[pid] = data->text; }}"
    library = b"/lib/x86_64-linux-gnu/libc.so.6"
    event = RecordedEvent(FIRST, pid=220, data={"text": library})
    assert printed(script, event, on=with_tracepoints()).rstrip() == (
        "\np:\n{   220 }: /lib/x86_64-linux-gnu/libc.so.6"
    )


FIRST = "tracepoint:test/first"


def test_histograms():
    values = ["-1", "-5", "0", "1", "2", "3", "600", "1024", "65536", "0x40000000"]
    statements = "".join(f"@q[1] = quantize({value}); " for value in values)
    assert printed(f"BEGIN {{ {statements} }}") == (
        "\n"
        "@q:\n"
        "{ 1 }: \n"
        "\t         < 0\t       2 ┤██████▍                         │\n"
        "\t[   0,    1]\t       2 ┤██████▍                         │\n"
        "\t[   2,    3]\t       2 ┤██████▍                         │\n"
        "\t...\n"
        "\t[ 512,   1k)\t       1 ┤███▎                            │\n"
        "\t[  1k,   2k)\t       1 ┤███▎                            │\n"
        "\t...\n"
        "\t[ 64k, 128k)\t       1 ┤███▎                            │\n"
        "\t...\n"
        "\t[  1G,   2G)\t       1 ┤███▎                            │\n"
        "\n"
    )


def test_histograms_of_negative_values_alone():
    bar = 32 * "█"
    assert printed("BEGIN { @q[1] = quantize(-1); }") == (
        f"\n@q:\n{{ 1 }}: \n\t         < 0\t       1 ┤{bar}│\n\t...\n\n"
    )


@pytest.mark.parametrize(
    ("ns", "label"),
    [
        (256, "[ 256ns,  511ns]"),
        (1024, "[1.02us, 2.04us]"),
        (1 << 40, "[  18 M,   36 M]"),
    ],
)
def test_histograms_of_times(ns, label):
    bar = 32 * "█"
    assert printed("interval:1s { @ = quantize(time); }", at(ns)) == (
        f"\n@: \n\t{label}\t       1 ┤{bar}│\n\n"
    )


def at(ns):
    return RecordedEvent("interval:1s", time=ns)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (1024, "1.02us"),
        (27 * 60 * 10**9, "  27 M"),
        (886 * 10**9, " 886 s"),
    ],
)
def test_times(ns, text):
    assert printed("interval:1s { print(time); }", at(ns)) == f"{text}\n"


def test_differences_of_times_are_times_and_sums_with_numbers_are_not():
    script = "interval:1s { t[0] = time; print(time - t[0], time + 1, -time); clear(t); }"
    assert printed(script, at(28)) == "   0ns, 29, -28\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("1, -1, 0xffffffff, 1ul << 63", "1, -1, 4294967295, 9223372036854775808"),
        ("pid, kpid", "  220,   221"),
        ("uid, gid", "1000,  100"),
        ("cpu", " 1"),
        ("comm, execname, 1", "ply            , ply            , 1"),
        ('"m", 1', "m      , 1"),
        ("str(0), 1", " " * 127 + ", 1"),
        ("walltime", "00:00:00.000000005"),
        ("data->words, data->mac", "[1, 2, 3], [1, 2, 3, 4, 5, 6]"),
        ("(*data).c", "-100"),
    ],
)
def test_print(arguments, line):
    event = RecordedEvent(
        FIRST, pid=220, tid=221, uid=1000, gid=100, cpu=1, comm=b"ply", time=5,
        data={"words": (1, 2, 3), "mac": b"\1\2\3\4\5\6", "c": -100},
    )  # fmt: skip
    assert printed(f"{FIRST} {{ print({arguments}); }}", event, on=with_tracepoints()) == (
        f"{line}\n"
    )


def test_registers_and_arguments_are_hexadecimal():
    event = call("vfs_read", args=(0, 255, 0xFFFF888000000000))
    assert printed("kprobe:vfs_read { print(arg0, arg1, arg2, regs->rsi); }", event) == (
        "0, 0xff, 0xffff888000000000, 0xff\n"
    )


def test_pointers():
    event = RecordedEvent(FIRST, data={"number": 0xFFFFE8FFFFD21DF8})
    assert printed(f"{FIRST} {{ print(data->number); }}", event, on=with_tracepoints()) == (
        "<ffffe8ffffd21df8>\n"
    )


def test_a_map_between_other_values():
    script = 'BEGIN { a[1] = 1; print("m", a, 29013); clear(a); }'
    assert printed(script) == "m      , \na:\n{ 1 }: 1\n, 29013\n"


def test_memory_that_is_no_text_is_dumped():
    event = call("vfs_read", args=(0xFFFF888000000000,), memory={0xFFFF888000000000: b"a\tb"})
    assert printed("kprobe:vfs_read { print(mem(arg0, 3)); }", event) == (
        "\n000:  61 09 62                                           a.b\n\n"
    )


def test_structs_have_a_line_for_each_field():
    event = call("vfs_read", args=(1, 2))
    lines = printed("kprobe:vfs_read { print(*regs); }", event).splitlines()
    assert (lines[0], lines[-1]) == ("{", "}")
    assert "\trsi = 0x2," in lines
    assert lines[-2] == "\tss = 0"


def test_printf_prints_strings_without_padding_and_v_with_it():
    event = call("vfs_read", comm=b"ply", pid=7)
    script = 'kprobe:vfs_read { printf("%s|%v|%d|%v\\n", comm, comm, pid, pid); }'
    assert printed(script, event) == "ply|ply            |7|    7\n"


def test_printf_is_that_of_c():
    script = (
        'BEGIN { printf("%d %i %o %u %x %X %c %p [%5d|%-5d|%05d|%+d|% d|%#x|%.3d]\\n",'
        " -1, 2, 8, 4, 255, 255, 65, 4096, 1, 2, 3, 4, 5, 255, 7); }"
    )
    assert printed(script) == "-1 2 10 4 ff FF A 0x1000 [    1|2    |00003|+4| 5|0xff|007]\n"


def test_empty_maps_print_nothing():
    assert printed("BEGIN { m[1] = 1; delete m[1]; @[pid] = count(); delete @[pid]; }") == ""
