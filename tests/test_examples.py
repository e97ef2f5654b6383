"""Compile the examples, run each in the VM and (as root) live on processes that the test starts."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pybpf.cli import main
from pybpf.compiler.pipeline import compile_script
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.ply"))
TARGETS = sorted((ROOT / "tests/data/targets").glob("*.tar.gz"))
TARGET = ROOT / "tests/data/targets/6.12.tar.gz"
EVENTS = EXAMPLES / "demo-events.jsonl"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_an_example_says_what_it_does_and_how_to_run_it(path):
    lines = path.read_text().splitlines()

    assert lines[0] == "#!/usr/bin/env -S pybpf run"
    assert re.fullmatch(r"# [A-Z].*[.?]", lines[1])
    assert any(re.match(rf"#   # pybpf run .*examples/{path.name}", line) for line in lines)
    assert os.access(path, os.X_OK)


@pytest.mark.parametrize("environment", [{"target": "7"}, {"target": "7", "1": "cat"}], ids=str)
@pytest.mark.parametrize("path", TARGETS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_the_examples_compile(path, environment):
    target = SnapshotTarget.load(path, environment=environment)

    for script in SCRIPTS:
        assert compile_script(Source(script.name, script.read_text()), target).probes


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_an_example_is_about_everybody_or_those_called_so(path):
    """All that have somebody to ask for do it in the same way, but for those about a command."""
    text = path.read_text()

    assert ("$target" in text) == (path.stem in {"demo", "record"})
    asked = bool(re.search(r'!strcmp\(\$1, ""\) \|\| !strcmp\([\w>-]+, \$1\)', text))
    assert asked == (path.stem not in {"demo", "record", "softirqs", "tcpretrans"})


def documented():
    """Return what docs/examples.md says, by example."""
    text = (ROOT / "docs/examples.md").read_text()
    return dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))


def test_all_examples_are_documented():
    assert sorted(documented()) == sorted(path.stem for path in SCRIPTS)
    readme = (ROOT / "README.md").read_text()
    assert [path.name for path in SCRIPTS if f"(examples/{path.name})" not in readme] == []


@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS])
def test_an_example_prints_the_heading_that_is_documented(name, replay):
    section = documented()[name]
    assert f"(../examples/{name}.ply)" in section
    heading, *_ = [*replay(f"{name}.ply", []).splitlines(), ""]

    (sample,) = re.findall(r"^```console\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert re.match(rf"# pybpf run (.*\\\n)?.*examples/{name}\.ply", sample)
    assert re.sub(r"\d+", "0", heading) in re.sub(r"\d+", "0", sample)


@pytest.fixture
def replay(tmp_path, monkeypatch, capsys):
    """Run an example in the VM on events; return what it prints."""
    monkeypatch.setenv("target", "7")

    def run(name, events, *arguments):
        recording = tmp_path / "events.jsonl"
        recording.write_text("".join(json.dumps(event) + "\n" for event in events))
        options = ["--vm", "--events", str(recording), "--target", str(TARGET)]
        # In the order in which `#!` would give them.
        assert main(["run", str(EXAMPLES / name), *options, *arguments]) == 0
        return capsys.readouterr().out

    return run


def event(probe, time, data, **facts):
    return {"probe": f"tracepoint:{probe}", "time": time, "pid": 7, "comm": "cat"} | {
        "data": data,
        **facts,
    }


def recorded():
    return [json.loads(line) for line in EVENTS.read_text().splitlines()]


def histogram(values):
    """Return a Counter by the lowest value of a power of two; 0 and 1 fall together."""
    return Counter(1 << value.bit_length() - 1 if value > 1 else 0 for value in values)


def test_the_demo_counts_what_was_recorded(monkeypatch, capsys):
    events = recorded()
    monkeypatch.setenv("target", str(events[0]["pid"]))
    arguments = ["--target", str(EXAMPLES / "demo-target.tar.gz"), "--format", "json"]
    arguments += ["--vm", "--events", str(EVENTS), str(EXAMPLES / "demo.ply")]

    assert main(["run", *arguments]) == 0

    first, *maps = map(json.loads, capsys.readouterr().out.splitlines())
    # One thread, so calls and returns take turns.
    pairs = list(zip(events[::2], events[1::2], strict=True))
    assert first["text"] == f"reads of process {events[0]['pid']}:\n"
    found = {
        row["name"]: {entry["key"][0]: entry["value"] for entry in row["entries"]} for row in maps
    }
    for comm in ("sh", "cat"):
        mine = [pair for pair in pairs if pair[0]["comm"] == comm]
        assert found["@reads"][comm] == len(mine)
        for name, values in (
            ("@bytes", [leave["data"]["ret"] for _, leave in mine]),
            ("@time", [leave["time"] - enter["time"] for enter, leave in mine]),
        ):
            assert {low: count for low, _, count in found[name][comm]} == histogram(values)


def test_opensnoop_prints_files_and_results(replay):
    path = {"0x7f0000": "/etc/hostname"}
    events = [
        event("syscalls/sys_enter_openat", 1, {"filename": "0x7f0000"}),
        event("syscalls/sys_exit_openat", 2, {"ret": -2}, memory=path),
        event("syscalls/sys_enter_openat", 3, {"filename": "0x7f0000"}, comm="dd"),
        event("syscalls/sys_exit_openat", 4, {"ret": 3}, memory=path, comm="dd"),
        event("syscalls/sys_enter_openat", 5, {"filename": "0x7f0000"}),
    ]

    heading = "COMM                PID  RET FILE\n"
    cat = "cat                   7   -2 /etc/hostname\n"
    dd = "dd                    7    3 /etc/hostname\n"
    assert replay("opensnoop.ply", events) == heading + cat + dd
    assert replay("opensnoop.ply", events, "dd") == heading + dd


def test_execsnoop_prints_programs(replay):
    events = [
        event("sched/sched_process_exec", 1, {"filename": "/bin/cat"}),
        event("sched/sched_process_exec", 2, {"filename": "/bin/dd"}, comm="dd"),
    ]

    time = r"\d\d:\d\d:\d\d\.\d{9}"
    heading = "TIME                   PID COMM            FILE\n"
    cat = f"{time}       7 cat             /bin/cat\n"
    dd = f"{time}       7 dd              /bin/dd\n"
    assert re.fullmatch(heading + cat + dd, replay("execsnoop.ply", events))
    assert re.fullmatch(heading + dd, replay("execsnoop.ply", events, "dd"))


def test_syscount_counts_calls_and_their_time(replay):
    events = [
        event("raw_syscalls/sys_enter", 100, {"id": 0}),
        event("raw_syscalls/sys_exit", 150, {"id": 0}),
        event("raw_syscalls/sys_enter", 200, {"id": 0}),
        event("raw_syscalls/sys_exit", 207, {"id": 0}),
        event("raw_syscalls/sys_enter", 300, {"id": 1}, comm="dd"),
        event("raw_syscalls/sys_exit", 400, {"id": 1}, comm="dd"),
        event("raw_syscalls/sys_enter", 500, {"id": 60}),
    ]

    printed = replay("syscount.ply", events, "cat")

    assert printed == "\n@calls:\n{ 60 }: 1\n{ 0 }: 2\n\n@nanoseconds:\n{ 0 }: 57\n"


def test_readdist_draws_what_reads_return(replay):
    events = [event("syscalls/sys_exit_read", 1, {"ret": size}) for size in (-4, 0, 1, 100, 100)]
    other = event("syscalls/sys_exit_read", 2, {"ret": 9}, comm="dd")

    printed = replay("readdist.ply", [*events, other], "cat")

    assert [line.split("\t")[1:3] for line in printed.splitlines() if "┤" in line] == [
        ["         < 0", "       1 ┤██████▍                         │"],
        ["[   0,    1]", "       2 ┤████████████▊                   │"],
        ["[  64,  127]", "       2 ┤████████████▊                   │"],
    ]
    assert "{ dd              }: \n" in replay("readdist.ply", [*events, other])


def test_what_record_prints_is_replayed_as_it_was(replay):
    events = recorded()[:20]
    for given in events:
        given.update(pid=7, tid=7)

    printed = replay("record.ply", events)

    assert [json.loads(line) for line in printed.splitlines()] == events


def demo(python, status=0):
    result = subprocess.run(
        ["sh", str(EXAMPLES / "demo.sh")],
        env={**os.environ, "PYTHON": python, "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == status, result.stdout
    return result.stdout


@pytest.fixture
def refused(tmp_path):
    """Return a function: a Python that runs only ``--vm``, and else ends with a message."""

    def make(message):
        python = tmp_path / "python"
        real = shlex.quote(sys.executable)
        python.write_text(
            f'#!/bin/sh\ncase "$*" in *--vm*) exec {real} "$@";; esac\necho "{message}"; exit 1\n'
        )
        python.chmod(0o755)
        return str(python)

    return make


def test_make_demo_runs_in_the_vm_where_nobody_may_trace(refused):
    why = "error: cannot load: Operation not permitted"

    printed = demo(refused(f"{why}\n  hint: be root"))

    assert f"reads of process {recorded()[0]['pid']}:" in printed
    assert "{ cat             }: \n\t[" in printed
    assert printed.endswith(
        f"This ran in the VM, on recorded events. Live, the answer is:\n{why}\n"
    )


def test_make_demo_fails_where_it_should_have_run_live(refused):
    bug = "internal error: KeyError: 1"

    assert demo(refused(bug), status=1) == f"{bug}\n"


@pytest.mark.kernel
@pytest.mark.usefixtures("tracing")
def test_make_demo_runs_live_where_it_may():
    printed = demo(sys.executable)

    first, _, _ = printed.partition("\n")
    shown = r"[$#] (\.venv/bin/pybpf|\S+ -m pybpf) run -c 'cat compiler/\*\.py > /dev/null' "
    assert re.fullmatch(shown + r"examples/demo\.ply", first)
    assert "{ cat             }: \n\t[" in printed
    assert printed.endswith(f"This ran live on Linux {os.uname().release}.\n")


@pytest.fixture
def live(tmp_path, tracing):  # noqa: ARG001 - skips where nobody may trace
    """Run an example on a `cat` that no other process is called like; return what it prints."""
    name = f"cat-{os.getpid()}"
    shutil.copy(shutil.which("cat"), tmp_path / name)

    def run(example, *arguments, options=()):
        command = f"{tmp_path / name} {ROOT / 'LICENSE'} > /dev/null"
        argv = [sys.executable, "-m", "pybpf", "run", *options, "-c", command, EXAMPLES / example]
        result = subprocess.run(
            [*map(str, argv), *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    run.name = name
    run.path = str(tmp_path / name)
    return run


def rows(printed):
    """Return the maps among JSON lines, as dicts by the first part of the key."""
    found = map(json.loads, printed.splitlines())
    return {
        row["name"]: {entry["key"][0]: entry["value"] for entry in row["entries"]}
        for row in found
        if row["event"] == "map"
    }


@pytest.mark.kernel
def test_opensnoop_live(live):
    heading, *lines = live("opensnoop.ply", live.name).splitlines()

    assert heading.split() == ["COMM", "PID", "RET", "FILE"]
    assert {line.split()[0] for line in lines} == {live.name}
    assert lines[-1].endswith(f" {ROOT / 'LICENSE'}")
    assert int(lines[-1].split()[2]) > 0


@pytest.mark.kernel
def test_execsnoop_live(live):
    heading, line = live("execsnoop.ply", live.name).splitlines()

    assert heading.split() == ["TIME", "PID", "COMM", "FILE"]
    assert line.split()[2:] == [live.name, live.path]


@pytest.mark.kernel
def test_readdist_live(live):
    maps = rows(live("readdist.ply", live.name, options=["--format", "json"]))

    (name,) = maps["@"]
    assert name == live.name
    size = (ROOT / "LICENSE").stat().st_size
    assert any(low <= size <= high for low, high, _ in maps["@"][name])
    assert [0, 1] in [bucket[:2] for bucket in maps["@"][name]]  # the end of the file


@pytest.mark.kernel
def test_a_live_recording_replays(live, replay):
    events = [json.loads(line) for line in live("record.ply").splitlines()]
    for given in events:
        given.update(pid=7, tid=7)

    printed = replay("demo.ply", events)

    assert f"{{ {live.name:15} }}: " in printed
    sizes = [given["data"]["ret"] for given in events if "ret" in given["data"]]
    assert (ROOT / "LICENSE").stat().st_size in sizes
