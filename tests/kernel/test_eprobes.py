"""Eprobes as programs on this kernel: the examples of the kernel's documentation, and more."""

import ctypes
import os
import re
import socket
import subprocess
import sys
import threading
from collections import Counter

import pytest

import pybpf
from pybpf.cli import main
from pybpf.eprobes import trace_eprobes, trace_strings
from pybpf.errors import DynEventError, TargetError

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("tracing")]

ACCESS = 21
CAT = "cat /etc/hostname"
needs_x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls")


def access(name, mode=0):
    ctypes.CDLL(None).syscall(ACCESS, ctypes.create_string_buffer(name), mode)


def own(definitions, act, **how):
    """Return what is recorded of this process while it acts."""
    with trace_eprobes(definitions, pids=[os.getpid()], strict=True, **how) as trace:
        act()
        found = [*trace.records(0.1), *trace.finish()]
        return [(record, trace.decode(record), trace.text(record)) for record in found]


def test_example_1_switches():
    """This process waits for another: it is switched from, and to again."""
    definition = "e:sched/switch sched.sched_switch prev=$prev_pid:u32 next=$next_pid:u32"
    with trace_eprobes([definition], strict=True) as trace:
        subprocess.run(["true"], check=True)
        found = [*trace.records(0.2), *trace.finish()]
        records = [trace.decode(record) for record in found]
        texts = [trace.text(record) for record in found]
    shape = re.compile(r"switch: \(sched\.sched_switch\) prev=\d+ next=\d+")
    assert [text for text in texts if not shape.fullmatch(text)] == []
    assert [record for record in records if record.prev != record.common_pid] == []
    assert os.getpid() in {record.prev for record in records} & {record.next for record in records}


@needs_x86
def test_example_2_from_the_arguments_of_any_call():
    definition = (
        "e:openat raw_syscalls.sys_enter nr=$id filename=+0(+0($args)):ustring "
        "address=+0($args) mode=+8($args):u8 if id == 21"
    )
    (record, fields, text), *rest = own([definition], lambda: access(b"/nowhere/at all", 4))
    assert rest == []
    assert (fields.nr, fields.filename, fields.mode) == (ACCESS, "/nowhere/at all", 4)
    assert text == (
        'openat: (raw_syscalls.sys_enter) nr=0x15 filename="/nowhere/at all" '
        f"address=0x{fields.address:x} mode=4"
    )
    assert record.pid == record.raw.payload[4] | record.raw.payload[5] << 8 | (
        record.raw.payload[6] << 16
    )
    assert record.faults == frozenset()


def test_example_3_the_strings_of_a_call():
    with trace_strings("openat", ["filename"], command=CAT, strict=True) as trace:
        found = [trace.decode(record) for record in [*trace.records(20), *trace.finish()]]
    names = {record.filename: record.ret for record in found}
    assert names["/etc/hostname"] >= 0
    assert all(record.filename.startswith("/") for record in found)


@needs_x86
@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("openat", ["filename"]),
        ("syscalls/openat", ["filename"]),
        ("raw_syscalls/257", ["filename=args[1]"]),
    ],
)
def test_the_command_of_strings(call, fields, capfd):
    command = ["events", "strings", "--backend", "bpf", call, *fields, "-c", CAT]
    assert main(command) == 0
    sys.stdout.flush()
    printed = capfd.readouterr().out
    assert "(fault)" not in printed
    assert re.search(r'^ +cat-\d+ +\[\d+\] .*: \w+: .* filename="/etc/hostname" ret=\d+$', printed,
                     re.MULTILINE)  # fmt: skip


def test_the_command_of_tracing(capfd):
    definition = "e:sched/switch sched.sched_switch prev=$prev_pid:u32 next=$next_pid:u32"
    command = ["events", "trace", "--backend", "bpf", definition, "-a", "-c", "sleep 0.2"]
    assert main([*command, "--format", "json"]) == 0
    sys.stdout.flush()
    printed = capfd.readouterr().out
    assert re.search(
        r'^\{"event":"sched/switch",.*"prev":\d+,"next":\d+\}\}$', printed, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trace", "sched/sched_switch"], "programs record event probes only"),
        (["trace", "--filter", "a == 1", "e:a/b sched.sched_switch"], "--filter is for tracefs"),
        (["strings", "openat", "filname"], "did you mean 'filename'?"),
        (["strings", "opena", "filename"], "did you mean 'open' or 'openat'?"),
        (["strings", "raw_syscalls/1", "x=args[6]"], "has no argument"),
    ],
)
def test_refusals(arguments, message, capfd):
    assert main(["events", arguments[0], "--backend", "bpf", *arguments[1:]]) == 1
    assert message in capfd.readouterr().err


@needs_x86
def test_what_cannot_be_read():
    definition = "e:a/b syscalls.sys_enter_access name=$filename:ustring byte=+0($filename):u8"
    ((record, fields, text),) = own(
        [definition], lambda: ctypes.CDLL(None).syscall(ACCESS, ctypes.c_void_p(8), 0)
    )
    assert record.faults == {"name", "byte"}
    assert (fields.name, fields.byte) == ("", 0)
    assert text == "b: (syscalls.sys_enter_access) name=(fault) byte=0"


@needs_x86
def test_constants_and_names():
    definition = 'e:a/b syscalls.sys_enter_access who=$comm:string three=\\3:u16 it=\\"is":string'
    ((record, fields, _),) = own([definition], lambda: access(b"/"))
    assert fields.who == record.comm.decode()
    assert (fields.three, fields.it) == (3, "is")


def test_casts_by_the_kernels_types():
    definition = (
        "e:a/b net.net_dev_queue want=$len:u32 len=(sk_buff)skbaddr->len "
        "name=(sk_buff)skbaddr->dev->name:string dev=$name:string "
        "untyped=(sk_buff)skbaddr->dev->mtu thread=(task_struct,comm)$comm->pid"
    )

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x" * 100, ("127.0.0.1", 9))

    (record, fields, _), *_ = own([definition], send)
    assert record.faults == frozenset()
    assert fields.len == fields.want > 100
    assert fields.untyped == 65536
    assert fields.thread == record.pid


def test_symbols_are_named():
    definition = "e:a/b timer.hrtimer_start what=$function:symbol"
    with trace_eprobes([definition], symbols=lambda address: f"at {address:x}") as trace:
        texts = [trace.text(record) for record in trace.records(0.2)]
    assert texts
    assert all(re.fullmatch(r"b: \(timer\.hrtimer_start\) what=at f[0-9a-f]+", t) for t in texts)


@needs_x86
def test_two_tracers_see_every_hit():
    definition = "e:a/b syscalls.sys_enter_access mode=$mode:u32 name=$filename:ustring"
    counts = []

    def follow(barrier):
        found = Counter()
        with trace_eprobes([definition], pids=[os.getpid()], strict=True) as trace:
            barrier.wait()
            barrier.wait()
            for record in [*trace.records(0.1), *trace.finish()]:
                found[trace.decode(record).mode] += 1
        counts.append(found)

    barrier = threading.Barrier(3)
    tracers = [threading.Thread(target=follow, args=(barrier,)) for _ in range(2)]
    for tracer in tracers:
        tracer.start()
    barrier.wait()
    for number in range(3000):
        access(b"/nowhere", number)
    barrier.wait()
    for tracer in tracers:
        tracer.join()
    assert counts == [Counter(range(3000))] * 2


@needs_x86
def test_what_a_process_starts_is_traced_with_it():
    definition = "e:a/b sched.sched_process_exec name=$filename:string"
    command = "sh -c '/bin/true; /bin/true'"
    with trace_eprobes([definition], command=command, strict=True) as trace:
        subprocess.run(["/bin/false"], check=False)
        found = [*trace.records(20), *trace.finish()]
        names = Counter(trace.decode(record).name for record in found)
    assert names["/bin/true"] == 2
    assert "/bin/false" not in names


@needs_x86
def test_several_eprobes_and_filters():
    definitions = [
        "e:a/even syscalls.sys_enter_access mode=$mode:u32 if !(mode & 1)",
        "e:a/named syscalls.sys_enter_access name=$filename:ustring if filename.ustring ~ '/b*'",
    ]
    found = own(
        definitions, lambda: [access(name, at) for at, name in enumerate((b"/a", b"/b", b"/bc"))]
    )
    assert [text.partition(":")[0] for _, _, text in found] == ["even", "named", "even", "named"]
    assert [fields.name for _, fields, text in found if "named" in text] == ["/b", "/bc"]


def test_a_bad_definition_leaves_nothing_behind():
    bad = trace_eprobes(["e:a/b sched.sched_switch", "e:a/c no.such"], command="false")
    with pytest.raises(DynEventError, match=r"Attached event does not exist"), bad:
        pass
    with pytest.raises(TargetError, match="is no system call"), trace_strings("no call", ["x"]):
        pass
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@needs_x86
def test_eprobes_in_scripts():
    script = (
        'eprobe:"syscalls.sys_enter_access mode=$mode:u32 name=$filename:ustring if mode > 1" '
        f"/ pid == {os.getpid()} / {{ @[data->name] = sum(data->mode); }}"
    )
    with pybpf.trace(script) as trace:
        for mode in range(5):
            access(b"/nowhere", mode)
        assert trace.maps["@"] == {"/nowhere": 2 + 3 + 4}


def test_programs_stand_in_where_the_kernel_has_no_event_probes(monkeypatch, capfd):
    from pybpf.kernel.ftrace import trace as tracefs

    def lacking(*_args, **_how):
        raise TargetError("this kernel takes no event probes (CONFIG_EPROBE_EVENTS)")

    monkeypatch.setattr(tracefs, "trace", lacking)
    definition = "e:a/b sched.sched_process_exec name=$filename:string"
    trace = ["events", "trace"]
    assert main([*trace, definition, "-c", "true"]) == 0
    assert main([*trace, "-q", "--backend", "tracefs", definition, "-c", "true"]) == 1
    assert main([*trace, "-q", definition, "sched/sched_waking", "-c", "true"]) == 1
    sys.stdout.flush()
    printed = capfd.readouterr()
    assert re.search(r'b: \(sched\.sched_process_exec\) name="\S+"\n$', printed.out)
    message = "this kernel takes no event probes (CONFIG_EPROBE_EVENTS)"
    assert printed.err.splitlines() == [
        f"pybpf: {message}: using programs (--backend bpf)",
        *[f"error: {message}"] * 2,
        "  hint: programs can do `pybpf events strings`, and `trace` of event probes alone",
    ]
