"""pybpf run --vm: recorded events instead of a kernel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TARGET = TESTS / "data" / "targets" / "6.12.tar.gz"
EVENTS = [
    {"probe": "tracepoint:syscalls/sys_enter_read", "time": i * 1000, "cpu": i % 2, "pid": 10 + i,
     "comm": "dd", "data": {"fd": 0, "count": 1 << i}}
    for i in range(6)
]  # fmt: skip
COUNT = (
    "tracepoint:syscalls/sys_enter_read { @[comm] = count(); @q[comm] = quantize(data->count); }"
)


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    return path


@pytest.fixture
def vm(pybpf, events):
    return lambda *arguments: pybpf(
        "run", "--vm", "--events", events, "--target", TARGET, *arguments
    )


def test_events_are_counted(vm):
    said = vm("--format", "json", COUNT)
    assert (said.status, said.err) == (0, "")
    assert [json.loads(line) for line in said.out.splitlines()] == [
        {"event": "map", "name": "@", "entries": [{"key": ["dd"], "value": 6}]},
        {
            "event": "map",
            "name": "@q",
            "entries": [
                {
                    "key": ["dd"],
                    "value": [[0, 1, 1], *([1 << i, (2 << i) - 1, 1] for i in range(1, 6))],
                }
            ],
        },
    ]


def test_events_from_standard_input(pybpf, events, stdin):
    stdin(events.read_bytes())
    said = pybpf("run", "--vm", "--events", "-", "--target", TARGET, COUNT)
    assert "{ dd              }: 6\n" in said.out


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("BEGIN { exit(3); }", 3),
        ("END { exit(4); }", 4),
        ("BEGIN { exit(3); } END { exit(4); }", 3),
        ("tracepoint:syscalls/sys_enter_read / pid == 12 / { exit(pid); }", 12),
        ("END { }", 0),
    ],
)
def test_the_status_is_the_scripts(vm, script, status):
    assert vm(script).status == status


def test_lost_records_are_an_error_without_k(vm):
    flood = "BEGIN { " + "print(str(0, 400)); " * 16 + "}"
    said = vm("--buffer", "4096", flood)
    assert said.status == 1
    assert said.err.endswith(
        "error: records were lost, so the output is not complete\n  hint: -k goes on all the same\n"
    )
    said = vm("--buffer", "4096", "-k", flood)
    lost = int(said.err.split()[1])
    assert (said.status, said.out.count("\n") + lost) == (0, 16)


def test_a_dry_run_reads_the_events_but_runs_nothing(vm):
    said = vm("-e", 'BEGIN { print("x"); }')
    assert (said.status, said.out) == (0, "")


@pytest.mark.parametrize("reason", ["refused", "missing"])
def test_the_vm_is_used_where_there_is_no_bpf(pybpf, events, monkeypatch, reason):
    """By itself, where recorded events are given for that case."""
    from pybpf.errors import KernelError

    if reason == "refused":
        features = pytest.importorskip("pybpf.kernel.features", exc_type=KernelError)
        error = KernelError(1, "cannot load the program")
        monkeypatch.setattr(features, "why_unavailable", lambda: error)
        said = "Operation not permitted"
    else:
        monkeypatch.setitem(sys.modules, "pybpf.kernel.features", Missing())
        said = "Function not implemented"
    said_all = pybpf("run", "--events", events, 'BEGIN { print("x"); exit(2); }')
    assert (said_all.status, said_all.out) == (2, "x      \n")
    assert said_all.err == f"pybpf: no BPF here ({said}): using the VM, on {events}\n"


class Missing:
    """A module that cannot be loaded, as where the extension was not built."""

    def __getattr__(self, name):
        from pybpf.errors import KernelError

        raise KernelError(38, "cannot load the extension")


@pytest.mark.kernel
def test_live_runs_go_before_recorded_events(pybpf, events):
    said = pybpf("run", "--events", events, "BEGIN { print(pid > 100); exit(0); }")
    assert (said.status, said.err) == (0, "")


def test_the_demonstration_runs_in_the_vm():
    root = TESTS.parent
    run = subprocess.run(
        ["unshare", "-Ur", "sh", root / "examples" / "demo.sh"],
        capture_output=True, text=True, check=False, cwd=root, env={"PYTHON": sys.executable},
    )  # fmt: skip
    if "unshare failed" in run.stderr:
        pytest.skip(run.stderr)
    assert run.returncode == 0
    assert "This ran in the VM" in run.stdout


def test_recorded_events_have_no_cgroups(pybpf):
    said = pybpf(
        "run", "--vm", "--events", "events.jsonl", "--cgroup", "self", "BEGIN { exit(0); }"
    )
    assert (said.status, said.err) == (
        1, "error: --cgroup is about this machine: recorded events have no cgroups\n"
    )  # fmt: skip
