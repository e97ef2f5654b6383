"""What ply's manual promises, run on this kernel; docs/ply.md says which test has which entry.

What needs kprobes runs in a guest: tests/guest/test_manual.py.
"""

import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from pybpf.kernel.maps import online_cpus

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("tracing")]

DD = "dd if=/dev/zero of=/dev/null bs=1 count=100 status=none"
MINE = "pid == $target"


# --- tracepoint -----------------------------------------------------------------------------------


def test_every_wake_up(run):
    """tracepoint:sched/sched_wakeup, the manual's first example."""
    done = run("tracepoint:sched/sched_wakeup { @[data->comm] = count(); }", "sleep 0.1")
    assert done.maps["@"]["sleep"] >= 1


def test_every_interrupt(run):
    """tracepoint:irq/irq_handler_entry: when one comes is not ours to say, that it runs is."""
    done = run(
        "tracepoint:irq/irq_handler_entry { @[data->irq] = count(); }"
        "tracepoint:irq/softirq_entry { @soft[data->vec] = count(); }",
        "sleep 0.3",
    )
    assert all(irq >= 0 for irq in done.maps["@"])
    assert set(done.maps["@soft"]) <= set(range(10))
    assert done.maps["@soft"]


def test_data_has_the_fields_of_the_format(run):
    from pybpf.kernel.live import LiveTarget

    names = [
        field.name
        for field in LiveTarget().event_format("sock/inet_sock_set_state").fields
        if not field.common
    ]
    done = run(f"tracepoint:sock/inet_sock_set_state / {MINE} / {{ print(*data); }}", CONNECT)
    shown = re.findall(r"^\t(\w+) = ", done.printed, re.MULTILINE)
    assert shown[: len(names)] == names
    assert {"sport", "dport", "saddr", "daddr", "saddr_v6", "daddr_v6"} <= set(names)


CONNECT = (
    f"{sys.executable} -I -S -c \"import socket; socket.socket().connect_ex(('127.0.0.1', 1))\""
)


def test_fields_of_data(run):
    """As in the manual's example: ports, and addresses as arrays."""
    done = run(
        f"tracepoint:sock/inet_sock_set_state / {MINE} && data->dport == 1 /"
        "{ print((*data).dport, data->saddr, data->daddr, data->saddr_v6);"
        " @[data->daddr] = count(); }",
        CONNECT,
    )
    mapped = [*[0] * 10, 255, 255, 127, 0, 0, 1]
    assert set(done.lines) <= {
        f"1, {source}, [127, 0, 0, 1], {six}"
        for source in ([0, 0, 0, 0], [127, 0, 0, 1])
        for six in ([0] * 16, mapped)
    }
    assert sum(done.maps["@"].values()) == len(done.lines) >= 1


def test_common_fields_of_data(run):
    from pybpf.kernel.live import LiveTarget

    done = run(
        f"tracepoint:syscalls/sys_*_write / {MINE} / {{"
        " @[data->common_type, data->common_pid == kpid] = count(); }",
        DD,
    )
    numbers = {
        LiveTarget().event_format(f"syscalls/sys_{side}_write").id for side in ("enter", "exit")
    }
    assert set(done.maps["@"]) == {(number, 1) for number in numbers}


def test_a_string_of_a_tracepoint(run):
    done = run(
        f"tracepoint:sched/sched_process_exit / {MINE} && !strcmp(data->comm, comm) /"
        "{ @[data->comm] = count(); }",
        "/bin/true",
    )
    assert done.maps["@"] == {"true": 1}


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        pytest.param("dyn(data->filename)", "/usr/bin/env", id="without a size"),
        pytest.param("dyn(data->filename, 9)", "/usr/bin", id="with a size"),
        pytest.param("data->filename", "/usr/bin/env", id="by itself"),
    ],
)
def test_dyn(run, call, shown):
    done = run(
        f"tracepoint:sched/sched_process_exec / {MINE} / {{ @[{call}] = count(); print({call}); }}",
        "/usr/bin/env true",
    )
    assert done.maps["@"][shown] >= 1  # "/usr/bin" is the beginning of both
    assert done.lines[0].rstrip() == shown


def test_dyn_copies_as_many_bytes_as_strings_have_by_default(run):
    done = run(
        f"tracepoint:sched/sched_process_exec / {MINE} / {{ print(dyn(data->filename)); }}", "true"
    )
    assert len(done.lines[0]) == 127


# --- BEGIN and END --------------------------------------------------------------------------------


def test_begin_and_end(run):
    done = run(
        'BEGIN { printf("hello\\n"); known["x"] = 7; }'
        'END { printf("bye %d\\n", known["x"]); known["y"] = 8; }',
        "true",
    )
    assert done.printed == "hello\nbye 7\n"
    assert done.maps["known"] == {"x": 7, "y": 8}


@pytest.mark.parametrize("name", ["begin", "Begin", "end", "End"])
def test_begin_and_end_are_case_sensitive(vm, name):
    assert vm(f"{name} {{ }}").startswith(
        f"<script>:1:1: error: unexpected '{name}', expected a probe specification"
    )


# --- interval -------------------------------------------------------------------------------------


PERIODS = {
    "1m": 60e9, "1s": 1e9, "1": 1e9, "250ms": 250e6, "100000us": 100e6, "50000000ns": 50e6,
}  # fmt: skip


def test_intervals_of_all_units(run):
    """For a second and a bit: minutes do not fit into it."""
    done = run(
        "BEGIN { t[0] = time; } END { t[1] = time; }"
        + "".join(f'interval:{period} {{ @["{period}"] = count(); }}' for period in PERIODS),
        "sleep 1.1",
    )
    passed = done.maps["t"][1] - done.maps["t"][0]
    ticks = {period: done.maps["@"].get(period, 0) for period in PERIODS}
    assert ticks["1m"] == 0
    assert ticks["1"] == ticks["1s"] >= 1
    assert all(
        passed / ns / 2 - 1 <= ticks[period] <= passed / ns for period, ns in PERIODS.items()
    )


def test_every_half_second(run):
    done = run("interval:500ms { t[1] = time; exit(0); } BEGIN { t[0] = time; }")
    times = done.maps["t"]
    assert 0.5e9 <= times[1] - times[0] < 5e9


# --- profile --------------------------------------------------------------------------------------


def burn(cpus, seconds=0.5):
    """Return a command that keeps CPUs busy, as some kernels leave out those that idle."""
    loops = " ".join(
        f"timeout {seconds} taskset -c {cpu} sh -c 'while :; do :; done' &" for cpu in cpus
    )
    return f"{loops} wait"


def test_profile_on_all_cpus(run):
    cpus = online_cpus()
    done = run("profile:100hz { @[cpu] = count(); }", burn(cpus))
    assert set(done.maps["@"]) == set(cpus)
    assert all(10 <= ticks <= 100 for ticks in done.maps["@"].values())


def test_profile_on_one_cpu(run):
    cpu = online_cpus()[-1]
    done = run(f"profile:{cpu}:100hz {{ @[cpu] = count(); }}", burn([cpu]))
    assert set(done.maps["@"]) == {cpu}


@pytest.mark.parametrize("rate", [1, 1000])
def test_profile_from_1_to_1000_times_a_second(run, rate):
    done = run(f"profile:{rate}hz {{ @[1] = count(); }}", burn(online_cpus()[:1], 0.2))
    assert done.maps["@"].get(1, 0) <= 1 if rate == 1 else done.maps["@"][1] > 50


@pytest.mark.parametrize("rate", [0, 1001])
def test_profile_no_more_nor_less_often(vm, rate):
    assert vm(f"profile:{rate}hz {{ }}") == (
        f"<script>:1:1: error: a profile runs 1 to 1000 times a second, not {rate}"
    )


# --- stack ----------------------------------------------------------------------------------------


def test_print_of_a_stack_is_a_string_with_the_trace(run):
    """At a tracepoint of system calls, Linux 6.1 has no stack."""
    done = run(
        f"tracepoint:sched/sched_process_exec / {MINE} / {{ print(stack); @[stack] = count(); }}",
        "/bin/true",
    )
    first, *frames, last = done.printed.split("\n")[:-1]
    assert (first, last) == ("", "")
    assert all(re.fullmatch(r"\t[\w.]+( \[\w+\])?(\+\d+)?", frame) for frame in frames)
    assert frames[-1].startswith("\tentry_SYSCALL_64_after_hwframe+")
    assert list(done.maps["@"].values()) == [1]


# --- what every provider has ----------------------------------------------------------------------


VALUES = {
    "pid": lambda: {os.getpid()},
    "kpid": lambda: {threading.get_native_id()},
    "uid": lambda: {os.getuid()},
    "gid": lambda: {os.getgid()},
    "cpu": lambda: set(online_cpus()),
    "comm": lambda: {Path("/proc/thread-self/comm").read_text().rstrip("\n")},
    "execname": lambda: {Path("/proc/thread-self/comm").read_text().rstrip("\n")},
    "stack != 0": lambda: {1},
    "ctx == ctx": lambda: {1},
}
"""What BEGIN, which runs in this thread, may see."""


@pytest.mark.parametrize("value", VALUES)
def test_values(run, value):
    assert run(f"BEGIN {{ m[1] = {value}; exit(0); }}").maps["m"][1] in VALUES[value]()


FORMATS = {
    "pid": r"[ \d]{4,}\d",
    "kpid": r"[ \d]{4,}\d",
    "uid": r"[ \d]{3,}\d",
    "gid": r"[ \d]{3,}\d",
    "cpu": r"[ \d]\d",
    "comm": r".{15}",
    "execname": r".{15}",
    "time": r"[ \d.]{4}(ns|us|ms| s| M| H| D| Y)",
    "walltime": r"\d\d:\d\d:\d\d\.\d{9}",
    "stack": r"\n(\t\S.*\n)+",
    "ctx": r"<[ 0-9a-f]+>",
}


@pytest.mark.parametrize("value", FORMATS)
def test_values_have_formats(run, value):
    line = FORMATS[value]
    assert re.fullmatch(f"{line}\n", run(f"BEGIN {{ print({value}); exit(0); }}").printed)


def test_times(run):
    before = time.monotonic_ns()
    done = run('BEGIN { t["m"] = time; t["w"] = walltime; print(walltime); exit(0); }')
    now = time.monotonic_ns()
    assert before <= done.maps["t"]["m"] <= done.maps["t"]["w"] <= now
    hours, minutes, _ = done.printed.split(":")
    offset = time.time() - time.monotonic()
    local = [time.localtime(ns / 1e9 + offset) for ns in (before, now)]
    assert (int(hours), int(minutes)) in {(t.tm_hour, t.tm_min) for t in local}


OPEN = "tracepoint:syscalls/sys_enter_openat / pid == $target / "


MEMORY = {
    "str(data->filename)": "/no/such",
    "str(data->filename, 4)": "/no",
    "str(uptr(data->filename))": "/no/such",
    "mem(uptr(data->filename), 3)": "/no",
    "mem(data->filename, 3)": "/no",
}


@pytest.mark.parametrize("call", MEMORY)
def test_memory(run, call):
    done = run(f"{OPEN} {{ @[{call}] = count(); }}", "cat /no/such 2>&-")
    assert MEMORY[call] in done.maps["@"]


def test_strcmp_as_predicate(run):
    done = run(
        'tracepoint:syscalls/sys_enter_write / !strcmp(execname, "dd") && pid == $target /'
        "{ @[comm, pid == $target] = count(); }",
        DD,
    )
    assert done.maps["@"] == {("dd", 1): 100}


@pytest.mark.parametrize(
    ("statements", "maps"),
    [
        ("m[1] = 2;", {"m": {1: 2}}),
        ('m[1, "a", pid] = m[1, "b", 0] + 1;', {"m": {(1, "a", os.getpid()): 1}}),
        ("m[1] = 2; m[2] = 3; delete m[1];", {"m": {2: 3}}),
        ("@[1] = count(); @[1] = count();", {"@": {1: 2}}),
        ('@n["x"] = sum(40); @n["x"] = sum(2);', {"@n": {"x": 42}}),
        ("@[1] = quantize(5); @[1] = quantize(6);", {"@": {1: [[4, 7, 2]]}}),
        ("if (1 < 2) m[1] = 1; else m[1] = 2;", {"m": {1: 1}}),
        ("m[1] = 1; m[1] = $SEVEN + 1;", {"m": {1: 8}}),
    ],
)
def test_maps_and_statements(run, statements, maps):
    done = run(f"BEGIN {{ {statements} exit(0); }}", environment={"SEVEN": "7"})
    assert done.maps == maps


def test_clear(run):
    done = run("BEGIN { m[1] = 1; @[1] = count(); clear(m); } END { n[1] = m[1]; }", "true")
    assert (done.maps["m"], done.maps["n"], done.maps["@"]) == ({}, {1: 0}, {1: 1})


def test_print_and_printf(run):
    done = run(
        'BEGIN { m["k"] = 1; print("a", 1, -1, m); printf("%5d|%-5s|%x|%v\\n", 42, "ab", 255, cpu);'
        " exit(0); }"
    )
    first, *rest = done.printed.split("\n")
    assert first == "a      , 1, -1, "
    assert rest[:3] == ["m:", "{ k       }: 1", ""]
    assert re.fullmatch(r"   42\|ab   \|ff\|[ \d]\d", rest[3])


@pytest.mark.parametrize("status", [0, 3, 256 + 5, -1])
def test_exit(run, status):
    assert run(f"BEGIN {{ exit({status}); }}").status == status & 255


# --- the manual's scripts, on tracepoints; with kprobes see tests/guest ---------------------------


def test_opened_files_and_who_opened_them(run):
    done = run(
        "tracepoint:syscalls/sys_enter_openat { print(comm, pid, str(data->filename)); }",
        "cat /dev/null",
    )
    name, pid, file = next(line for line in done.lines if line.startswith("cat ")).split(", ")
    assert (name, pid.strip().isdigit(), file[0]) == ("cat            ", True, "/")
    assert any(line.rstrip().endswith(", /dev/null") for line in done.lines)


def test_the_distribution_of_what_read_returns(run):
    done = run(
        f'tracepoint:syscalls/sys_exit_read / {MINE} / {{ @["dist"] = quantize(data->ret); }}', DD
    )
    (small, *_) = done.maps["@"]["dist"]
    assert (small[:2], small[2] >= 100) == ([0, 1], True)


def test_all_system_calls(run):
    """There is no `caller` in a tracepoint: the number says which call it was."""
    done = run(
        f"tracepoint:raw_syscalls/sys_enter / {MINE} / {{ @[data->id] = count(); }}"
        f"tracepoint:syscalls/sys_enter_[rw]* / {MINE} /"
        "{ @some[data->__syscall_nr] = count(); }",
        DD,
    )
    assert done.maps["@"][1] == done.maps["@some"][1] == 100
    assert done.maps["@some"][0] >= 100


def test_the_time_something_takes_on_its_way(run):
    """From a datagram's start to its arrival, told from others by the address of its buffer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        send = f"s = socket.socket(2, 2); s.sendto(b'x' * 100, ('127.0.0.1', {port}))"
        done = run(
            f"tracepoint:net/net_dev_queue / {MINE} / {{ rx[data->skbaddr] = time; }}"
            "tracepoint:net/netif_receive_skb / rx[data->skbaddr] /"
            '{ @["diff"] = quantize(time - rx[data->skbaddr]); delete rx[data->skbaddr]; }',
            f'{sys.executable} -I -S -c "import socket; {send}"',
        )
    assert [count for *_, count in done.maps["@"]["diff"]] == [1]
