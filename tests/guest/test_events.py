"""Event probes, synthetic events and histograms live, by the command line and from Python."""

import ctypes
import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from pybpf import cli
from pybpf.errors import DynEventError, KernelError
from pybpf.kernel.ftrace.dynevents import dynamic_events, remove
from pybpf.kernel.ftrace.instance import Instance, instance
from pybpf.kernel.ftrace.owner import new_owner
from pybpf.kernel.ftrace.trace import trace
from pybpf.kernel.ftrace.world import live_world
from pybpf.kernel.tracefs import open_tracefs

pytestmark = pytest.mark.one_cpu

ROOT = Path(__file__).parents[2]
TRACING = Path("/sys/kernel/tracing")
DOCS = (ROOT / "docs/events.md").read_text()
CAT = "cat /etc/hostname"
GETPPID = 110
NEWEST = ["7.3"]


def state():
    """Return what tracing would change if it left something."""
    files = ("dynamic_events", "set_event", "trace_clock", "tracing_on")
    enabled = (TRACING / "events/enable").read_text()
    return (
        [(TRACING / name).read_text() for name in files],
        enabled,
        sorted((TRACING / "instances").iterdir()),
    )


@pytest.fixture(autouse=True)
def _nothing_is_left():
    if "PYBPF_GUEST" not in os.environ:
        yield
        return
    before = state()
    yield
    assert state() == before


@pytest.fixture(scope="module")
def libc():
    return ctypes.CDLL(None)


@pytest.fixture
def tree():
    with open_tracefs() as tree:
        yield tree


@pytest.fixture
def events(capfd, monkeypatch):
    """Return a function that runs `pybpf events` in this process, and returns what it printed."""
    monkeypatch.chdir(ROOT)

    def events(*arguments, status=0):
        capfd.readouterr()
        assert cli.main(["events", *arguments]) == status, capfd.readouterr()
        sys.stdout.flush()
        return capfd.readouterr()

    return events


def names(printed):
    """Return the file names that were printed."""
    assert "(fault)" not in printed
    return re.findall(r' \w*name="([^"]*)"', printed)


def test_example_1_of_the_documentation(events):
    definition = "e:sched/switch sched.sched_switch prev=$prev_pid:u32 next=$next_pid:u32"
    printed = events("trace", definition, "-c", CAT).out
    line = (
        r" +\S.*-\d+ +\[\d{3}\] \S+ +\d+\.\d{6}: switch: \(sched\.sched_switch\) prev=\d+ next=\d+"
    )
    hostname, *lines = sorted(printed.splitlines(), key=lambda line: "switch:" in line)
    assert "switch" not in hostname
    assert lines
    assert [one for one in lines if not re.fullmatch(line, one)] == []


def test_example_2_by_the_address_of_the_arguments(events):
    if os.environ["PYBPF_GUEST"] not in NEWEST:
        printed = events("trace", "-f", "examples/events/openat-args.txt", "-c", CAT)
        assert "warning: on this kernel $args is its first 8 bytes" in printed.err
        return
    printed = events("trace", "-f", "examples/events/openat-args.txt", "-c", CAT).out
    assert "/etc/hostname" in names(printed)


def test_example_2_by_a_kprobe(events):
    printed = events("trace", "-f", "examples/events/openat-raw.txt", "-c", CAT).out
    assert "/etc/hostname" in names(printed)


def test_example_3_of_the_documentation(events):
    printed = events("trace", "-f", "examples/events/openat.txt", "-c", CAT)
    assert "/etc/hostname" in names(printed.out)
    assert printed.err == ""


def test_names_of_enums(events):
    """The format tells them by their names alone, and the kernel's types what these stand for."""
    printed = events("trace", "timer/hrtimer_start", "-a", "-c", "sleep 0.01").out
    (*_, line) = (line for line in printed.splitlines() if " hrtimer_start: " in line)
    assert re.search(r" hrtimer=\w+ function=\w+\S* expires=\d+ .*mode=(ABS|REL)", line), line


COMMANDS = [line[8:] for line in DOCS.splitlines() if line.startswith("$ pybpf events ")]
LIVE = [command for command in COMMANDS if not command.startswith("events check")]


def test_the_commands_of_the_documentation(events):
    for command in LIVE:
        printed = events(*shlex.split(command)[1:]).out
        assert printed or command == "events cleanup" or command.startswith("events rm")
        if "openat" in command and "hist" not in command:
            assert "/etc/hostname" in names(printed)


PYTHON = re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", PYTHON)
def test_the_python_of_the_documentation(code):
    exec(compile(code, "docs/events.md", "exec"), {})


def test_an_explained_query_is_commands_that_do_it(events):
    query = next(shlex.split(c)[-1] for c in COMMANDS if "--explain" in c)
    done, undone = events("query", "--explain", query).out.split("# and to take it away again:\n")
    for commands in (done, undone):
        subprocess.run(["sh", "-ec", commands], check=True)
    (TRACING / "trace_clock").write_text("local")  # histograms of times set another


def test_a_histogram_as_json(events):
    keys = "keys=common_pid.execname:vals=hitcount"
    printed = events("hist", "syscalls.sys_enter_openat", keys, "--format", "json", "-a", "-c", CAT)
    histogram = json.loads(printed.out.splitlines()[-1])
    (cat,) = (e for e in histogram["entries"] if e["keys"]["common_pid"]["name"] == "cat")
    assert cat["values"]["hitcount"] > 1


def test_a_kprobe_at_an_address_is_known_though_its_listing_hides_it(tree):
    lines = Path("/proc/kallsyms").read_text().splitlines()
    address = next(line.split()[0] for line in lines if line.endswith(" T vfs_read"))
    with dynamic_events(f"p:t/read 0x{address}", tree=tree):
        (event,) = live_world(tree).existing
        assert (event.name, event.kind, event.enabled) == ("t/read", "kprobe", False)
        assert event.format.startswith("name: read\n")
        with pytest.raises(DynEventError), dynamic_events("p:t/read vfs_write", tree=tree):
            pass


class Tracer:
    """`pybpf events trace` in a process of its own: forked, as Python starts slowly."""

    def __init__(self, *arguments):
        out, of_the_child = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 99
            try:
                os.dup2(of_the_child, 1)
                os.dup2(of_the_child, 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                status = cli.main(["events", "trace", *arguments])
                sys.stdout.flush()
            finally:
                os._exit(status)
        os.close(of_the_child)
        self.out = os.fdopen(out)

    def end(self, number):
        os.kill(self.pid, number)
        with self.out:
            text = self.out.read()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), text


def recording(count):
    """Wait until so many instances record an event of ours."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        paths = (TRACING / "instances").glob("pybpf_*/events/pybpf_*/*/enable")
        if sum(path.read_text() == "1\n" for path in paths) == count:
            return
        time.sleep(0.1)
    raise AssertionError("nothing is recorded")


def test_two_tracers_at_once_both_see_every_hit(libc):
    arguments = ("-q", "e:t/call syscalls.sys_enter_getppid nr=$__syscall_nr:s32",
                 "-p", str(os.getpid()))  # fmt: skip
    tracers = [Tracer(*arguments), Tracer(*arguments)]
    recording(2)
    for _ in range(500):
        libc.syscall(GETPPID)
    for tracer in tracers:
        status, text = tracer.end(signal.SIGINT)
        assert status == 0, text
        assert text.count(" call: (syscalls.sys_enter_getppid) nr=110\n") == 500


def test_what_a_killed_tracer_left_is_cleaned_up(events, tree):
    before = state()
    lines = (ROOT / "examples/events/openat.txt").read_text().splitlines()[1:]
    tracer = Tracer(
        *lines, "sched/sched_switch if prev_pid == 1", "raw_syscalls/sys_enter stacktrace:3"
    )
    recording(1)
    with dynamic_events("e:other/waking sched.sched_waking pid=$pid:u32", tree=tree):
        assert "which is dead" not in events("list").out
        assert tracer.end(signal.SIGKILL)[0] == -signal.SIGKILL
        assert events("list").out.count("which is dead") == 3
        assert events("cleanup").out.count("removed ") == 3
        assert events("list").out == "e:other/waking sched.sched_waking pid=$pid:u32\n"
        assert events("cleanup").out == ""
    assert state() == before


def test_the_buffer_of_the_top_instance_stays(libc):
    """Removing an event that was recorded empties buffers: that of the trace's own instance."""
    (TRACING / "trace_marker").write_text("it stays\n")
    with trace("e:t/call syscalls.sys_enter_getppid", pids=[os.getpid()]) as t:
        libc.syscall(GETPPID)
        assert len(list(t.stream.items(0.1))) == 1
    assert "it stays" in (TRACING / "trace").read_text()
    (TRACING / "trace").write_text("")


def test_an_event_that_somebody_added_is_traced(events, tree):
    with dynamic_events("e:t/open syscalls.sys_enter_openat flags=$flags:u32", tree=tree):
        printed = events("trace", "t/open if flags & 0x80000", "-c", CAT).out
    assert " open: (syscalls.sys_enter_openat) flags=524288\n" in printed


def test_an_eprobe_records_in_one_instance(tree):
    with ExitStack() as stack:
        (event,) = stack.enter_context(
            dynamic_events("e:t/waking sched.sched_waking pid=$pid:u32", tree=tree)
        )
        one, other = (stack.enter_context(instance(tree, str(new_owner()))) for _ in range(2))
        stack.enter_context(one.enabled(event.name))
        with pytest.raises(KernelError) as caught:
            stack.enter_context(other.enabled(event.name))
    assert caught.value.errno == errno.EBUSY
    assert f"it is enabled in instance {one.name}" in str(caught.value)


def test_what_holds_an_event_is_named(tree):
    lines = ["s:t_syn u64 x", "e:t/on synthetic.t_syn x=$x:u64"]
    with dynamic_events(lines, tree=tree), pytest.raises(KernelError) as caught:
        remove(tree, "synthetic/t_syn")
    assert caught.value.errno == errno.EBUSY
    assert "hint: t/on is attached to it" in str(caught.value)


def test_triggers_are_gone_in_the_order_they_need(tree):
    with instance(tree, str(new_owner())) as made:
        world = live_world(tree)
        with made.triggered("sched/sched_waking", "hist:keys=pid:ts0=common_timestamp", world) as w:
            text = "hist:keys=next_pid:lat=common_timestamp-$ts0"
            with made.triggered("sched/sched_switch", text, w):
                assert "lat=" in made.read("events/sched/sched_switch/trigger")
            assert "lat=" not in made.read("events/sched/sched_switch/trigger")


def test_a_trigger_that_another_refers_to_is_busy(tree):
    with instance(tree, str(new_owner())) as made:
        text = "hist:keys=next_pid:lat=common_timestamp-$ts0"
        with (
            pytest.raises(KernelError) as caught,
            made.triggered(
                "sched/sched_waking", "hist:keys=pid:ts0=common_timestamp", live_world(tree)
            ),
        ):
            made.write("events/sched/sched_switch/trigger", text)
        assert caught.value.errno == errno.EBUSY
        assert "another histogram refers to its variables" in str(caught.value)
        made.clear()
        assert made.read("events/sched/sched_waking/trigger").startswith("# Available")


def test_all_of_a_list_or_none(tree):
    lines = ["s:t_syn u64 x", "e:t/on synthetic.t_syn x=$x:u64", "e:t/no synthetic.t_syn y=$y"]
    with pytest.raises(DynEventError), dynamic_events(lines, tree=tree):
        pass
    assert Instance(tree).read("dynamic_events") == ""


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["e:t/x sched.sched_swich"], "Attached event does not exist"),
        (["e:t/x sched.sched_switch p=$prev_pif"], "did you mean $prev_pid"),
        (["sched/sched_switch if prev_pif == 1"], "did you mean prev_pid"),
        (["sched/sched_switch hist:keys=prev_pif"], "did you mean prev_pid"),
        (["sched/sched_swich"], "there is no event sched/sched_swich"),
        (["s:t_syn u64 x", "e:t/x synthetic.t_syn x=$x", "t/x if x == 1", "t/y"], "no event t/y"),
    ],
)
def test_what_cannot_be_traced(events, lines, message):
    assert message in events("trace", *lines, "-c", "true", status=1).err
