"""How runs with kprobes go and end: with probes of other kinds, by signals, without tracefs."""

import ctypes
import os
import re
import signal
from pathlib import Path

import pytest

DD = "dd if=/dev/zero of=/dev/null bs=1 count=1000 status=none"


def test_a_command_is_traced_from_its_start(run):
    done = run(
        "kprobe:vfs_read / pid == $target && arg2 == 1 / { @[comm, arg2] = count(); }"
        "kretprobe:vfs_rea[d] / pid == $target && retval == 1 / { @r[execname] = sum(retval); }",
        command=DD,
    )
    assert done.ending.child
    assert done.maps["@"] == {("dd", 1): 1000}
    assert done.maps["@r"] == {"dd": 1000}


def test_intervals_fire_whatever_stands_before_them(run):
    done = run(
        'BEGIN { printf("begin\\n"); }'
        "kprobe:vfs_read { @k[1] = count(); }"
        "interval:50ms { @i[cpu] = count(); }"
        "kretprobe:vfs_writ[e] {}"
        "tracepoint:sched/sched_switch { @t[1] = count(); }"
        "profile:49hz { @p[cpu] = count(); }"
        'interval:1s { printf("exit\\n"); exit(3); }'
        'END { printf("end\\n"); }'
    )
    assert (done.printed, done.ending.code) == ("begin\nexit\nend\n", 3)
    ((_, ticks),) = done.maps["@i"].items()
    assert ticks > 3
    assert done.maps["@p"]


def test_exit_ends_a_run_from_a_kprobe(run):
    """ply loses what END prints where it comes from the CPU that said exit."""
    done = run(
        'kprobe:vfs_read / pid == $target / { printf("read\\n"); exit(4); }'
        'END { printf("end\\n"); m[1] = 2; }',
        command=DD,
    )
    assert (done.printed, done.ending.code) == ("read\nend\n", 4)
    assert done.maps["m"] == {1: 2}


SCRIPT = (
    "kprobe:do_futex { @[1] = count(); } kretprobe:do_futex {} kprobe:vfs_?ead { @v[1] = count(); }"
    'interval:100ms { printf("tick\\n"); } END { printf("end\\n"); }'
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_leave_nothing(start, in_the_kernel, settled, number):
    before = in_the_kernel()
    process = start(SCRIPT)
    assert process.out.readline() == "tick\n"
    assert in_the_kernel() != before
    status, out = process.end(number)
    if number == signal.SIGKILL:
        assert status == -signal.SIGKILL
    else:
        assert status == (1 if number == signal.SIGINT else 128 + number)
        assert re.match(r"(tick\n)*end\n\n", out)
        assert "@v:\n{ 1 }: " in out
    settled(before)


def hide_tracefs():
    """Take tracefs and debugfs away from this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private, detach = 0x20000, 0x44000, 2
    assert libc.unshare(new_mounts) == 0
    assert libc.mount(b"none", b"/", None, private, None) == 0
    for place in (b"/sys/kernel/tracing", b"/sys/kernel/debug"):
        assert libc.umount2(place, detach) == 0, os.strerror(ctypes.get_errno())
    assert not list(Path("/sys/kernel/debug").iterdir())


def test_tracefs_need_not_be_mounted(start, in_the_kernel, settled):
    before = in_the_kernel()
    process = start(
        "-c",
        DD,
        "kprobe:vfs_read / pid == $target && arg2 == 1 / { @[1] = count(); }"
        "kprobe:vfs_rea[d] / pid == $target && arg2 == 1 / { @[2] = count(); }"
        "tracepoint:syscalls/sys_enter_read / pid == $target && data->count == 1 /"
        "{ @[3] = count(); }",
        first=hide_tracefs,
    )
    assert process.end() == (0, "\n@:\n{ 1 }: 1000\n{ 2 }: 1000\n{ 3 }: 1000\n")
    settled(before)
