"""Kernels that were built without some kinds of events refuse these, and say what is missing."""

import errno

import pytest

from pybpf.dataclass import replace
from pybpf.tracefs.dynevents.explain import explain
from pybpf.tracefs.dynevents.judge import judge

EPROBES = {"eprobe": "event probes (CONFIG_EPROBE_EVENTS)"}
PROBES = {"kprobe": "kprobe events (A)", "uprobe": "uprobe events (B)"}


@pytest.mark.parametrize(
    ("kernel", "lacking", "text", "hints"),
    [
        ("6.12", EPROBES, "e:t/x sched.sched_switch", ["this kernel has no event probes (CONFIG_"]),
        ("7.3", EPROBES, "e:t/x sched.sched_switch", ["this kernel has no event probes (CONFIG_"]),
        ("6.1", PROBES, "r:t/x vfs_read", ["no kprobe events (A)", "no uprobe events (B)"]),
        ("6.12", {"synthetic": "any (S)"}, "s:x u64 a", ["this kernel has no any (S)"]),
        ("6.12", {"fprobe": "any (F)"}, "t:t/x sched_switch", ["this kernel has no any (F)"]),
    ],
)
def test_what_is_missing_is_refused(record, kernel, lacking, text, hints):
    world = record.world(kernel)
    assert judge(text, world).accepted
    world = replace(world, lacking=lacking)
    verdict = judge(text, world)
    assert (verdict.errno, verdict.made) == (errno.EINVAL, ())
    (found,) = explain(text, verdict, world).diagnostics
    assert len(found.hints) == len(hints)
    assert all(hint in shown for hint, shown in zip(hints, found.hints, strict=True))


def test_what_is_there_is_not(record):
    world = replace(record.world("6.12"), lacking=EPROBES | {"synthetic": "x"})
    assert judge("p:t/x vfs_read", world).accepted
    assert judge("p:t/y /bin/cat:0x10\n", world).accepted
