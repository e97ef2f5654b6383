"""Compiled scripts on recorded events: the whole way from text to rows, without a kernel."""

from pathlib import Path

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.rows import Buckets, ExitRow, MapRow, PrintRow, Stack
from pybpf.source import Source
from pybpf.target.features import ALL, PROBE_READ_KERNEL, RINGBUF
from pybpf.target.snapshot import SnapshotTarget
from pybpf.types import Show, show_of
from pybpf.vm.driver import read_events, run_events

SNAPSHOT = Path(__file__).parents[1] / "data" / "targets" / "6.12.tar.gz"


@pytest.fixture(scope="module")
def target():
    return SnapshotTarget.load(SNAPSHOT)


def run(text, recording, target):
    events = read_events(Source("events.jsonl", recording))
    return list(run_events(compile_script(text, target), target, events))


def values(row):
    """Return what a print printed, without the padding of strings."""
    assert isinstance(row, PrintRow)
    return [_cut(c.value, c.type) if isinstance(c.value, bytes) else c.value for c in row.cells]


def _cut(data, kind):
    return data.rstrip(b"\0") if show_of(kind) is Show.BYTES else data.partition(b"\0")[0]


def test_counts_and_histograms_by_process(target):
    text = """
        tracepoint:syscalls/sys_enter_read / data->count > 1 / {
            @calls[comm] = count();
            @bytes[comm] = sum(data->count);
            @sizes[comm] = quantize(data->count);
        }
    """
    probe = '"probe": "tracepoint:syscalls/sys_enter_read"'
    recording = "\n".join(
        f'{{{probe}, "cpu": {n % 2}, "comm": "dd", "data": {{"count": {n}}}}}' for n in range(8)
    )

    rows = run(text, recording, target)

    assert [row.name for row in rows if isinstance(row, MapRow)] == ["@calls", "@bytes", "@sizes"]
    calls, total, sizes = (row.entries[0][1] for row in rows)
    assert (calls, total) == (6, 27)
    assert isinstance(sizes, Buckets)
    assert sizes.counts[:4] == (0, 2, 4, 0)


def test_latency_of_a_function(target):
    text = """
        kprobe:vfs_read { start[kpid] = time; }
        kretprobe:vfs_read / start[kpid] / {
            print(pid, time - start[kpid], retval);
            delete start[kpid];
        }
    """
    recording = """
        {"probe": "kprobe:vfs_read", "time": 1000, "pid": 7, "tid": 8}
        {"probe": "kretprobe:vfs_read", "time": 1250, "pid": 7, "tid": 8, "retval": -11}
        {"probe": "kretprobe:vfs_read", "time": 1300, "pid": 7, "tid": 9, "retval": 5}
    """

    (row,) = run(text, recording, target)

    assert values(row) == [7, 250, -11]


def test_strings_and_stacks_come_from_the_recording(target):
    text = "kprobe:vfs_read { print(str(arg0), mem(arg1, 4), stack, caller, str(arg2)); }"
    recording = """
        {"probe": "kprobe:vfs_read", "args": ["0xffff888000000000", "0xffff888000001000", 16],
         "stack": ["0xffffffff81000010", "0xffffffff81000020"],
         "memory": {"0xffff888000000000": "file name", "0xffff888000001000": {"hex": "00ff00ff"}}}
    """.replace("\n         ", " ")

    (row,) = run(text, recording, target)

    frames = (0xFFFFFFFF81000010, 0xFFFFFFFF81000020)
    assert values(row) == [b"file name", b"\x00\xff\x00\xff", Stack(0, frames), frames[0], b""]


def test_dynamic_fields_of_a_tracepoint(target):
    text = "tracepoint:sched/sched_process_exec { print(dyn(data->filename), data->pid); }"
    recording = """
        {"probe": "tracepoint:sched/sched_process_exec",
         "data": {"filename": "/bin/true", "pid": 9}}
    """.replace("\n         ", " ")

    (row,) = run(text, recording, target)

    assert values(row) == [b"/bin/true", 9]


def test_output_of_timers_and_the_end(target):
    text = """
        BEGIN { print("begin", time); }
        interval:1s { print("tick", time); }
        tracepoint:syscalls/sys_enter_read { exit(3); }
        END { print("end", time); }
    """
    recording = "\n".join(
        f'{{"probe": "{probe}", "time": {time}}}'
        for probe, time in (
            ("tracepoint:sched/sched_switch", 10**9),
            ("tracepoint:syscalls/sys_enter_read", 3 * 10**9),
            ("tracepoint:sched/sched_switch", 9 * 10**9),
        )
    )

    rows = run(text, recording, target)

    assert [values(row) if row != ExitRow(3) else "exit" for row in rows] == [
        [b"begin", 10**9], [b"tick", 2 * 10**9], [b"tick", 3 * 10**9], "exit", [b"end", 3 * 10**9],
    ]  # fmt: skip


def test_arguments_beyond_the_registers(target):
    recording = '{"probe": "kprobe:vfs_read", "args": [0, 1, 2, 3, 4, 5, 6, 7]}'

    (row,) = run("kprobe:vfs_read { print(arg5, arg6, arg7); }", recording, target)

    assert values(row) == [5, 6, 7]


@pytest.mark.parametrize("features", [ALL, ALL - {RINGBUF}, ALL - {PROBE_READ_KERNEL}, frozenset()])
@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64", "s390x"])
def test_every_architecture_and_old_kernels_give_the_same_rows(arch, features):
    target = SnapshotTarget(arch=arch, cpus=2, features=features, functions=["f"])
    text = """
        kprobe:f { print(arg0, arg1 / 3, str(arg2), comm, cpu); @[arg0, pid] = quantize(arg1); }
        kretprobe:f { print(retval); }
    """
    recording = """
        {"probe": "kprobe:f", "args": [1, 10, "0xffff800000000000"],
         "comm": "x", "cpu": 1, "pid": 4, "memory": {"0xffff800000000000": "text"}}
        {"probe": "kretprobe:f", "retval": -5}
    """.replace(",\n         ", ", ")

    first, second, table = run(text, recording, target)

    assert values(first) == [1, 3, b"text", b"x", 1]
    assert values(second) == [-5]
    (((key, pid), buckets),) = table.entries
    assert (key, pid, [n for n, count in enumerate(buckets.counts) if count]) == (1, 4, [3])
