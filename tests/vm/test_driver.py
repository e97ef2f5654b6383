"""The driver: which probes run for which events, when, and which rows come of it.

The scripts are written in assembler here, so that nothing but the VM is tested: every probe sends
a record that says which it is.
"""

import pytest

from pybpf.errors import SourceError, VmFault
from pybpf.isa.abi import MapType
from pybpf.isa.assembler import assemble
from pybpf.rows import ExitRow, LostRow, MapRow, PrintRow
from pybpf.script import (
    CompiledScript,
    EventKind,
    EventSchema,
    FieldArg,
    KernelFunction,
    MapArg,
    MapRole,
    MapSpec,
    ProbeSpec,
    Provider,
)
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget
from pybpf.types import U32, U64, Field, Struct, struct_of
from pybpf.vm.coverage import Coverage
from pybpf.vm.driver import RecordedEvent, read_events, run_events
from pybpf.vm.world import World

FORMAT = """name: {name}
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:u64 value;\toffset:8;\tsize:8;\tsigned:0;

print fmt: ""
"""
PAYLOAD = Struct("", (Field("tag", U32, 4), Field("value", U64, 8)), 16, 8)
PRINT, EXIT, CLEAR = range(3)
SCHEMAS = (
    EventSchema(PRINT, EventKind.PRINT, PAYLOAD, (FieldArg("tag"), FieldArg("value"))),
    EventSchema(EXIT, EventKind.EXIT, PAYLOAD, (FieldArg("value"),)),
    EventSchema(CLEAR, EventKind.CLEAR, PAYLOAD, (MapArg("@"),)),
)


def maps(ring=4096):
    return (
        MapSpec("@", MapRole.COUNT, MapType.PERCPU_HASH, 8, 8, 16,
                key=struct_of("", [("0", U64)]), value=U64),
        MapSpec(".events", MapRole.EVENTS, MapType.RINGBUF, 0, 0, ring),
        MapSpec(".lost", MapRole.LOST, MapType.ARRAY, 4, 16, 1),
    )  # fmt: skip


SEND = """
    r8 = {value}
    r1 = map:.events ll
    r2 = 16
    r3 = 0
    call bpf_ringbuf_reserve
    if r0 == 0 goto lost
    *(u32 *)(r0 + 0) = {schema}
    *(u32 *)(r0 + 4) = {tag}
    *(u64 *)(r0 + 8) = r8
    r1 = r0
    r2 = 0
    call bpf_ringbuf_submit
    goto out
lost:
    r1 = map_value:.lost ll
    r2 = 1
    lock *(u64 *)(r1 + 0) += r2
out:
    r0 = 0
    exit
"""
COUNT = """
    r1 = 1
    *(u64 *)(r10 - 8) = 0
    *(u64 *)(r10 - 16) = r1
    r1 = map:@ ll
    r2 = r10
    r2 += -8
    r3 = r10
    r3 += -16
    r4 = 0
    call bpf_map_update_elem
    r0 = 0
    exit
"""


def send(tag, value="0", schema=PRINT, before=""):
    return assemble(before + SEND.format(tag=tag, value=value, schema=schema))


def clock(tag):
    return send(tag, "r0", before="call bpf_ktime_get_ns\n")


def script(*probes, ring=4096):
    return CompiledScript(Source("<script>", ""), "x86_64", probes, maps(ring), SCHEMAS)


def begin(program):
    return ProbeSpec(Provider.BEGIN, "BEGIN", program)


def end(program):
    return ProbeSpec(Provider.END, "END", program)


def tracepoint(name, program):
    return ProbeSpec(Provider.TRACEPOINT, f"t:{name}", program, tracepoint=name)


def interval(spec, period, program):
    return ProbeSpec(Provider.INTERVAL, f"i:{spec}", program, period=period)


TARGET = SnapshotTarget(
    cpus=2, formats={name: FORMAT.format(name=name[2:]) for name in ("a/one", "a/two")}
)
ONE, TWO = "tracepoint:a/one", "tracepoint:a/two"


def run(compiled, events=(), **more):
    return list(run_events(compiled, TARGET, events, **more))


def prints(rows):
    return [tuple(c.value for c in row.cells) for row in rows if isinstance(row, PrintRow)]


def test_without_events_only_begin_and_end_run():
    compiled = script(end(send(2)), begin(send(1)), tracepoint("a/one", send(3)))

    assert prints(run(compiled)) == [(1, 0), (2, 0)]


def test_every_probe_that_matches_runs_in_the_order_of_the_script():
    compiled = script(
        tracepoint("a/one", send(1)), tracepoint("a/two", send(2)), tracepoint("a/one", send(3))
    )

    rows = run(compiled, [RecordedEvent(ONE), RecordedEvent(TWO), RecordedEvent("kprobe:f")])

    assert prints(rows) == [(1, 0), (3, 0), (2, 0)]


def test_a_program_reads_the_recorded_fields():
    compiled = script(tracepoint("a/one", send(1, "*(u64 *)(r1 + 8)")))

    assert prints(run(compiled, [RecordedEvent(ONE, data={"value": 42})])) == [(1, 42)]


@pytest.mark.parametrize(
    ("probe", "fires"),
    [
        ("kprobe:vfs_read", [1, 2]),
        ("kprobe:vfs_write", [2]),
        ("kprobe:vfs_read+0x10", [3]),
        ("kprobe:vfs_read+16", [3]),
        ("kprobe:0xffffffff81000000", [4]),
        ("kretprobe:vfs_read", [5]),
        ("kprobe:other", []),
        ("profile:99hz", [6]),
        ("profile:100hz", []),
    ],
)
def test_kernel_functions_and_profiles_match(probe, fires):
    read, write = KernelFunction("vfs_read"), KernelFunction("vfs_write")
    places = [
        ("k:vfs_read", (read,)),
        ("k:vfs_*", (read, write)),
        ("k:vfs_read+0x10", (KernelFunction("vfs_read", 16),)),
        ("k:0xffffffff81000000", (KernelFunction("", 0xFFFFFFFF81000000),)),
    ]
    probes = [
        ProbeSpec(Provider.KPROBE, spec, send(n), functions=functions)
        for n, (spec, functions) in enumerate(places, start=1)
    ]
    back = ProbeSpec(Provider.KRETPROBE, "kr:vfs_read", send(5), functions=(read,))
    profile = ProbeSpec(Provider.PROFILE, "profile:99hz", send(6), frequency=99)

    rows = run(script(*probes, back, profile), [RecordedEvent(probe)])

    assert [tag for tag, _ in prints(rows)] == fires


def test_helpers_see_the_process_of_the_event_and_begin_that_of_the_tracer():
    pid = send(1, "r0", before="call bpf_get_current_pid_tgid\n")
    compiled = script(begin(pid), tracepoint("a/one", pid), end(pid))
    event = RecordedEvent(ONE, pid=7, tid=8, cpu=1)

    rows = run(compiled, [event], world=World(pid=100, tid=100))

    assert [value for _, value in prints(rows)] == [100 << 32 | 100, 7 << 32 | 8, 100 << 32 | 100]


def test_begin_has_the_first_events_time_and_end_the_last():
    compiled = script(begin(clock(1)), tracepoint("a/one", clock(2)), end(clock(3)))

    rows = run(compiled, [RecordedEvent(ONE, time=t) for t in (50, 70)])

    assert prints(rows) == [(1, 50), (2, 50), (2, 70), (3, 70)]


def test_intervals_fire_as_the_recorded_time_passes():
    compiled = script(
        interval("3ns", 3, clock(3)), interval("2ns", 2, clock(2)), tracepoint("a/one", clock(1))
    )

    rows = run(compiled, [RecordedEvent(ONE, time=t) for t in (10, 11, 16, 17)])

    assert prints(rows) == [
        (1, 10), (1, 11), (2, 12), (3, 13), (2, 14), (2, 16), (3, 16), (1, 16), (1, 17),
    ]  # fmt: skip


def test_an_interval_that_was_recorded_fires_only_there():
    compiled = script(interval("3ns", 3, clock(3)), interval("2ns", 2, clock(2)))
    times = [RecordedEvent(ONE, time=10), RecordedEvent("interval:3ns", time=15)]

    assert prints(run(compiled, times)) == [(2, 12), (2, 14), (3, 15)]


def test_two_clauses_of_one_interval_fire_together():
    compiled = script(interval("5ns", 5, clock(1)), interval("5ns", 5, clock(2)))

    assert prints(run(compiled, [RecordedEvent(ONE, time=t) for t in (0, 5)])) == [(1, 5), (2, 5)]


def test_exit_ends_the_run_but_not_the_probes_of_its_event():
    compiled = script(
        tracepoint("a/one", send(0, "3", EXIT)),
        tracepoint("a/one", assemble(COUNT)),
        tracepoint("a/one", send(1)),
        tracepoint("a/two", send(2)),
        end(send(3)),
    )

    rows = run(compiled, [RecordedEvent(ONE), RecordedEvent(TWO)])

    assert [type(row) for row in rows] == [ExitRow, PrintRow, MapRow]
    assert rows[0] == ExitRow(3)
    assert prints(rows) == [(3, 0)]
    assert rows[2].entries == (((0,), 1),)


def test_exit_in_begin_leaves_every_event_out():
    compiled = script(begin(send(0, "7", EXIT)), tracepoint("a/one", send(1)), end(send(2)))

    rows = run(compiled, [RecordedEvent(ONE)])

    assert rows[0] == ExitRow(7)
    assert prints(rows) == [(2, 0)]


def test_exit_in_end_counts_unless_there_was_one():
    twice = (end(send(0, "5", EXIT)), end(send(1)))

    assert run(script(*twice)) == [ExitRow(5)]
    assert run(script(begin(send(0, "4", EXIT)), *twice)) == [ExitRow(4)]


def test_maps_are_cleared_where_the_script_says_so():
    compiled = script(
        tracepoint("a/one", assemble(COUNT)), tracepoint("a/two", send(0, schema=CLEAR))
    )

    assert [type(row) for row in run(compiled, [RecordedEvent(ONE)])] == [MapRow]
    assert run(compiled, [RecordedEvent(ONE), RecordedEvent(TWO)]) == []


def test_values_of_all_cpus_are_merged():
    compiled = script(tracepoint("a/one", assemble(COUNT)))

    (row,) = run(compiled, [RecordedEvent(ONE), RecordedEvent(ONE, cpu=1)])

    assert row.entries == (((0,), 2),)


def test_a_ring_that_is_read_too_late_loses_records():
    compiled = script(tracepoint("a/one", send(1)), ring=4096)
    events = [RecordedEvent(ONE)] * 200  # each takes 24 bytes, so 170 fit

    assert len(prints(run(compiled, events))) == 200
    rows = run(compiled, events, batch=200)
    assert len(prints(rows)) == 170
    assert rows[-1] == LostRow(30)


def test_a_cpu_the_target_lacks_is_refused():
    line = '{"probe": "tracepoint:a/one", "cpu": 2}'

    with pytest.raises(SourceError) as caught:
        run(script(), read_events(Source("events.jsonl", line)))

    assert (
        str(caught.value)
        == """\
events.jsonl:1:31: error: 'cpu' is 2, but the target has CPUs 0 to 1
    {"probe": "tracepoint:a/one", "cpu": 2}
                                  ^^^^^"""
    )


def test_a_program_that_goes_wrong_ends_the_run():
    compiled = script(tracepoint("a/one", assemble("*(u64 *)(r1 + 8) = 1; r0 = 0; exit")))

    with pytest.raises(VmFault) as caught:
        run(compiled, [RecordedEvent(ONE)])

    assert str(caught.value) == (
        "0: *(u64 *)(r1 + 8) = 1: cannot store 8 bytes at offset 8 of the context: it is read-only"
    )


def test_a_trace_sees_all_programs():
    compiled, coverage = script(begin(send(1))), Coverage()

    run(compiled, trace=coverage)

    assert coverage.missed(compiled.probes[0].program) == (13, 14, 15)
