"""Whose numbers a process has, and whose tasks are traced: pid namespaces and cgroups."""

import pytest

from pybpf.compiler.dump import dump
from pybpf.compiler.pipeline import Options, compile_script
from pybpf.errors import PybpfError
from pybpf.isa.abi import MapType
from pybpf.isa.disassembler import disassemble
from pybpf.rows import PrintRow
from pybpf.script import MapRole
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget, snapshot
from pybpf.vm.driver import run_events
from pybpf.vm.recording import RecordedEvent
from pybpf.vm.world import World

KERNEL = {"functions": ["f"], "formats": {"a/b": ""}}
INITIAL = SnapshotTarget(**KERNEL)
CONTAINER = SnapshotTarget(**KERNEL, pid_namespace=(4, 0xF000_0123))
IDS = RecordedEvent("kprobe:f", pid=7, tid=8)
EVERY = """BEGIN { a[1] = 1; } END { a[2] = 1; } interval:1s { a[3] = 1; }
kprobe:f / pid == 1 / { a[4] = 1; } kretprobe:f { a[5] = 1; } profile:99hz { a[6] = 1; }"""


def assembly(text, target, options=None):
    return dump(Source("<script>", text), target, "asm", options)


def printed(text, target, **options):
    rows = run_events(compile_script(text, target), target, [IDS], **options)
    return [tuple(cell.value for cell in row.cells) for row in rows if isinstance(row, PrintRow)]


@pytest.mark.parametrize("target", [INITIAL, CONTAINER], ids=["initial", "container"])
def test_process_and_thread_have_the_numbers_of_the_namespace(target):
    assert printed("kprobe:f / pid == 7 && kpid == 8 / { print(pid, kpid); }", target) == [(7, 8)]


def test_processes_of_other_namespaces_have_no_numbers():
    script = compile_script("kprobe:f { print(pid, kpid); }", CONTAINER)
    rows = list(run_events(script, INITIAL, [IDS], world=World()))
    assert [cell.value for cell in rows[0].cells] == [0, 0]


def test_the_initial_namespace_costs_nothing():
    assert assembly("kprobe:f / pid == 7 / { @ = count(); }", INITIAL).splitlines()[1:4] == [
        "    call bpf_get_current_pid_tgid",
        "    r0 >>= 32",
        "    if r0 != 7 goto leave",
    ]


def test_another_namespace_takes_one_call():
    assert assembly("kprobe:f / pid == 7 / { @ = count(); }", CONTAINER).splitlines()[1:8] == [
        "    r1 = 4",
        "    w2 = -268435165",
        "    r3 = r10",
        "    r3 += -8",
        "    r4 = 8",
        "    call bpf_get_ns_current_pid_tgid",
        "    r0 = *(u32 *)(r10 - 4)",
    ]


def test_a_snapshot_knows_the_namespace():
    assert SnapshotTarget.load(snapshot(CONTAINER)).pid_namespace == (4, 0xF000_0123)
    assert SnapshotTarget.load(snapshot(INITIAL)).pid_namespace is None


def test_a_cgroup_is_looked_at_first_by_what_is_about_a_task():
    script = compile_script(EVERY, INITIAL, Options(cgroup="self"))
    first = {probe.spec: disassemble(probe.program).splitlines()[1:4] for probe in script.probes}
    look = ["    r2 = 0", "    call bpf_current_task_under_cgroup", "    if r0 != 1 goto leave"]
    assert [spec for spec, code in first.items() if code == look] == [
        "kprobe:f", "kretprobe:f", "profile:99hz",
    ]  # fmt: skip
    assert script.cgroup == "self"
    (array,) = (spec for spec in script.maps if spec.role is MapRole.CGROUP)
    assert (array.type, array.key_size, array.value_size) == (MapType.CGROUP_ARRAY, 4, 4)


@pytest.mark.parametrize("stage", ["ir", "alloc", "asm"])
def test_dumps_show_the_cgroup(stage):
    text = dump(Source("<script>", EVERY), INITIAL, stage, Options(cgroup="/a"))
    assert text.count("bpf_current_task_under_cgroup") == 3


def test_all_tasks_are_traced_without_a_cgroup():
    script = compile_script(EVERY, INITIAL)
    assert "under_cgroup" not in assembly(EVERY, INITIAL)
    assert MapRole.CGROUP not in {spec.role for spec in script.maps}


def test_where_no_probe_is_about_a_task_no_cgroup_is_needed():
    script = compile_script("BEGIN { exit(0); }", INITIAL, Options(cgroup="/nonsense"))
    assert MapRole.CGROUP not in {spec.role for spec in script.maps}


def test_the_vm_has_no_cgroups():
    script = compile_script("kprobe:f { print(1); }", INITIAL, Options(cgroup="self"))
    with pytest.raises(PybpfError, match="recorded events do not say which cgroup a task is in"):
        list(run_events(script, INITIAL, [IDS]))
