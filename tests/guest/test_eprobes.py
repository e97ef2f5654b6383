"""Eprobes as programs beside the kernel's own, on the same hits; scripts on dynamic events."""

import ctypes
import os
import threading
from collections import defaultdict

import pytest

from pybpf.eprobes import trace_eprobes
from pybpf.events.ftrace.reader import RawRecord
from pybpf.kernel.ftrace.trace import trace
from pybpf.kernel.tracefs import open_tracefs

HITS = 10_000
ROUND = 500
ACCESS = 21
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


def by_cpu(records):
    """Return what was recorded on each CPU, in order: the payload but for what all begin with.

    How deep preemption is off and the like differ, as does the event's number.
    """
    found = defaultdict(list)
    for record in records:
        found[record.cpu].append(record.payload[4:])
    return found


def test_the_same_records_as_the_kernels_own(tree):
    ours, theirs = [], []
    with (
        trace([DEFINITION], pids=[os.getpid()], buffer_kb=8192, tree=tree) as kernel,
        trace_eprobes([DEFINITION], pids=[os.getpid()], strict=True) as programs,
    ):
        for start in range(0, HITS, ROUND):
            calls(range(start, start + ROUND))
            ours += (record.raw for record in programs.records(0.05))
        ours += (record.raw for record in programs.finish())
        theirs += kernel.stream.read(last=True)
        assert (kernel.stream.lost, programs.lost, programs.skipped) == (0, 0, 0)
    assert all(isinstance(item, RawRecord) for item in theirs)
    assert len(ours) == len(theirs) == HITS
    assert by_cpu(ours) == by_cpu(theirs)
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
    # A thread that loses its CPU within a program keeps others there from running one.
    assert (len(ours) + skipped, len(theirs), lost) == (2000, 2000, 0)
    for cpu, payloads in by_cpu(ours).items():
        rest = iter(by_cpu(theirs)[cpu])
        assert all(payload in rest for payload in payloads)


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
