"""Where a probe specification leads to."""

from __future__ import annotations

import pytest

from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.errors import SourceError
from pybpf.script import KernelFunction, Provider
from pybpf.source import Source


def resolved(spec, target):
    (probe,) = infer(parse_text(Source("<script>", f"{spec} {{ }}")), target).probes
    return probe.specs


@pytest.mark.parametrize(
    ("short", "provider"),
    [
        ("kprobe:f", Provider.KPROBE), ("k:f", Provider.KPROBE), ("kp:f", Provider.KPROBE),
        ("kretprobe:f", Provider.KRETPROBE), ("kr:f", Provider.KRETPROBE),
        ("tracepoint:sched/sched_switch", Provider.TRACEPOINT),
        ("t:sched/sched_switch", Provider.TRACEPOINT),
        ("BEGIN", Provider.BEGIN), ("B:x", Provider.BEGIN),
        ("END", Provider.END), ("E:x", Provider.END),
        ("interval:1", Provider.INTERVAL), ("i:1", Provider.INTERVAL),
        ("profile:99hz", Provider.PROFILE), ("p:99hz", Provider.PROFILE),
    ],
)  # fmt: skip
def test_a_provider_may_be_cut_short(short, provider, kernel):
    (spec,) = resolved(short, kernel)

    assert (spec.provider, spec.spec) == (provider, short)


@pytest.mark.parametrize(
    ("where", "functions"),
    [
        ("vfs_read", [KernelFunction("vfs_read")]),
        ("f.isra.0", [KernelFunction("f.isra.0")]),
        ("vfs_read+8", [KernelFunction("vfs_read", 8)]),
        ("vfs_read+0x10", [KernelFunction("vfs_read", 16)]),
        ("0xffffffff81000000", [KernelFunction("", 0xFFFFFFFF81000000)]),
        ("vfs_@(read|write)", [KernelFunction("vfs_read"), KernelFunction("vfs_write")]),
    ],
)
@pytest.mark.parametrize("provider", ["kprobe", "kretprobe"])
def test_functions(provider, where, functions, kernel):
    (spec,) = resolved(f"{provider}:{where}", kernel)

    assert list(spec.functions) == functions
    assert spec.glob == ("(" in where)


@pytest.mark.parametrize(
    ("where", "events"),
    [
        ("sched/sched_switch", ["sched/sched_switch"]),
        ("sched:sched_switch", ["sched/sched_switch"]),
        ("sched/sched_wak*ing", ["sched/sched_waking"]),
        ("sch*/sched_wakeup*", ["sched/sched_wakeup", "sched/sched_wakeup_new"]),
    ],
)
def test_tracepoints(where, events, kernel):
    assert [spec.tracepoint for spec in resolved(f"tracepoint:{where}", kernel)] == events


@pytest.mark.parametrize(
    ("where", "period"),
    [
        ("1", 10**9), ("2s", 2 * 10**9), ("3m", 180 * 10**9), ("4ms", 4 * 10**6), ("5us", 5000),
        ("6ns", 6), ("0x10ms", 16 * 10**6), ("153722867m", 153722867 * 60 * 10**9),
    ],
)  # fmt: skip
def test_intervals(where, period, kernel):
    (spec,) = resolved(f"interval:{where}", kernel)

    assert spec.period == period


@pytest.mark.parametrize(
    "spec",
    [
        "interval:1h", "interval:1.5s", "interval:abc", "interval:-1", "interval:0", "interval:0ms",
        "interval:", "interval:153722868m",
        "profile:", "profile:0hz", "profile:1001hz", "profile:99xyz", "profile:2:9hz",
        "profile:-2:9hz",
        "kprobe:", "kretprobe:", "kprobe:f+", "kprobe:f+g", "kprobe:f-1", "kprobe:no*such",
        "tracepoint:", "tracepoint:sched", "tracepoint:sched/", "tracepoint:/x", "tracepoint:a/b/c",
        "tracepoint:sched/nothing", "tracepoint:nothing*/*",
        "x:f", "kretprobes:f", "begin:",
    ],
)  # fmt: skip
def test_no_probes(spec, kernel):
    with pytest.raises(SourceError):
        resolved(spec, kernel)


@pytest.mark.parametrize(
    ("where", "frequency", "cpu"),
    [("99hz", 99, None), ("99", 99, None), ("1000Hz", 1000, None), ("0:1hz", 1, 0),
     ("1:50hz", 50, 1), ("-1:50hz", 50, None)],
)  # fmt: skip
def test_profiles(where, frequency, cpu, kernel):
    (spec,) = resolved(f"profile:{where}", kernel)

    assert (spec.frequency, spec.cpu) == (frequency, cpu)
