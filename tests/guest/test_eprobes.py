"""Eprobes as programs beside the kernel's own, on the same hits; scripts on dynamic events."""

import ctypes
import json
import lzma
import os
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import pybpf
from pybpf.compiler.eprobes.script import compile_eprobes
from pybpf.eprobes import trace_eprobes
from pybpf.errors import DynEventError, KernelError
from pybpf.events.ftrace.reader import RawRecord
from pybpf.kernel.ftrace.dynevents import dynamic_events
from pybpf.kernel.ftrace.trace import trace
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.loader import Loaded
from pybpf.kernel.tracefs import open_tracefs

pytestmark = pytest.mark.one_cpu

HITS = 10_000
ROUND = 500
ACCESS = 21
DATA = Path(__file__).parents[1] / "data/dynevents"
CPUS = sorted(os.sched_getaffinity(0))
DEFINITION = (
    "e:side/access syscalls.sys_enter_access mode=$mode:s32 bits=$mode:b4@2/32 raw=$mode"
    " name=$filename:ustring first=+0($filename):x8 word=+4($filename):u64 low=$mode:u8"
    " who=$comm:string three=\\3:u16 chars=+0($filename):x8[4] twice=$filename:string"
)


def calls(numbers):
    """Ask for files that are not there, each by another name."""
    libc = ctypes.CDLL(None)
    for number in numbers:
        libc.syscall(ACCESS, ctypes.create_string_buffer(f"/nowhere/{number:x}".encode()), number)


@pytest.fixture
def tree():
    with open_tracefs() as tree:
        yield tree
    os.sched_setaffinity(0, CPUS)


def by_cpu(records):
    """Return what was recorded on each CPU, in order: the payload but for what all begin with.

    How deep preemption is off and the like differ, as does the event's number.
    """
    found = defaultdict(list)
    for record in records:
        found[record.cpu].append(record.payload[4:])
    return found


@pytest.mark.slow
def test_the_same_records_as_the_kernels_own(tree):
    ours, theirs = [], []
    with (
        trace([DEFINITION], pids=[os.getpid()], buffer_kb=8192, tree=tree) as kernel,
        trace_eprobes([DEFINITION], pids=[os.getpid()], strict=True) as programs,
    ):
        for number, start in enumerate(range(0, HITS, ROUND)):
            # Where it stays: a system call may go on elsewhere between two events of one hit.
            os.sched_setaffinity(0, {CPUS[number % len(CPUS)]})
            calls(range(start, start + ROUND))
            ours += (record.raw for record in programs.records(0.05))
        ours += (record.raw for record in programs.finish())
        theirs += kernel.stream.read(last=True)
        assert (kernel.stream.lost, programs.lost, programs.skipped) == (0, 0, 0)
    assert all(isinstance(item, RawRecord) for item in theirs)
    assert len(ours) == len(theirs) == HITS
    assert by_cpu(ours) == by_cpu(theirs)
    assert set(by_cpu(ours)) == set(CPUS)
    times = [record.timestamp for record in ours]
    assert times == sorted(times)


def test_the_same_text_as_the_kernels_own(tree):
    with (
        trace([DEFINITION], pids=[os.getpid()], tree=tree) as kernel,
        trace_eprobes([DEFINITION], pids=[os.getpid()]) as programs,
    ):
        calls(range(16))
        ours = [programs.text(record) for record in programs.records(0.5)]
        theirs = [kernel.stream.formats.text(item) for item in kernel.stream.read(last=True)]
    assert ours == theirs
    assert len(ours) == 16
    assert 'name="/nowhere/5" first=0x2f' in ours[5]


@pytest.mark.slow
def test_several_threads_on_several_cpus(tree):
    threads = [threading.Thread(target=calls, args=(range(k, 2000, 4),)) for k in range(4)]
    with (
        trace([DEFINITION], pids=[os.getpid()], buffer_kb=4096, tree=tree) as kernel,
        trace_eprobes([DEFINITION], pids=[os.getpid()], strict=True) as programs,
    ):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ours = [record.raw for record in programs.records(0.5)]
        ours += (record.raw for record in programs.finish())
        theirs = list(kernel.stream.read(last=True))
        lost, skipped = programs.lost, programs.skipped
    # A thread that loses its CPU within a program keeps others there from running one; between the
    # kernel's own event probe and the program, it lets others go first.
    assert (len(ours) + skipped, len(theirs), lost) == (2000, 2000, 0)
    kept = Counter(record.payload[4:] for record in ours)
    assert kept <= Counter(record.payload[4:] for record in theirs)


def test_memory_of_the_kernel(tree):
    definition = (
        "e:side/access syscalls.sys_enter_access banner=@linux_banner:string "
        "word=@linux_banner+6:x8[7] pid=(task_struct)@init_task->pid"
    )
    newest = os.environ["PYBPF_GUEST"] == "7.3"
    if not newest:  # casts are newer, but only for the kernel
        definition = definition.rpartition(" ")[0]
    with (
        trace([definition], pids=[os.getpid()], tree=tree) as kernel,
        trace_eprobes([definition], pids=[os.getpid()]) as programs,
    ):
        calls(range(3))
        ours = [record.raw for record in programs.records(0.5)]
        theirs = list(kernel.stream.read(last=True))
        first = programs.formats.decode(ours[0])
    assert first.banner.startswith("Linux version ")
    assert bytes(first.word) == b"version"
    assert by_cpu(ours) == by_cpu(theirs)
    assert len(ours) == 3


@pytest.mark.parametrize(
    ("definition", "hint"),
    [
        ("e:dyn/a sched.sched_switch p=$prev_pid", 'eprobe:"sched.sched_switch p=$prev_pid"'),
        ("p:dyn/a vfs_read", "write kprobe:vfs_read"),
        ("s:dyn u64 x", "it is a synthetic event, at which the kernel runs no programs"),
    ],
)
def test_programs_are_not_put_where_they_do_not_run(definition, hint, tree):
    with dynamic_events(definition, tree=tree) as (made,):
        script = f"tracepoint:{made.name} {{ @ = count(); }}"
        with pytest.raises(KernelError) as refused, pybpf.trace(script):
            pass
    assert f"cannot attach to tracepoint:{made.name}" in str(refused.value)
    assert hint in str(refused.value)


def is_eprobe(row):
    return row["accepted"] and row["definition"].startswith("e") and not row["setup"]


@pytest.mark.slow
def test_the_verifier_takes_what_kernels_accepted():
    target, loaded, missing = LiveTarget(), 0, 0
    rows = lzma.decompress((DATA / f"{os.environ['PYBPF_GUEST']}.jsonl.xz").read_bytes())
    found = [row for row in map(json.loads, rows.splitlines()) if is_eprobe(row)]
    # Each takes a second or more in an emulated machine; natively all of them have passed.
    for row in found[::6]:
        text = row["definition"]
        try:
            script = compile_eprobes([text], target).script
        except DynEventError:
            missing += 1  # an event of a module, or what newer kernels refuse
            continue
        with Loaded(script) as programs:
            for probe in script.probes:
                programs.program(probe)
        loaded += 1
    assert loaded > 30
    assert missing < 4
