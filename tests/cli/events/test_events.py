"""`pybpf events`, natively: verdicts, and the tracing that every kernel has."""

import gzip
import json
import os
import re
import shlex
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from pybpf.errors import PybpfError
from pybpf.kernel.ftrace.instance import instance
from pybpf.kernel.ftrace.owner import new_owner
from pybpf.kernel.tracefs import open_tracefs

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs/events.md").read_text()
FORMAT = """\
FILE sched/wake/format
name: wake
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;

print fmt: "pid=%d", REC->pid
"""


@pytest.fixture
def _tracing():
    try:
        with open_tracefs() as tree, instance(tree, str(new_owner())):
            pass
    except PybpfError as error:
        pytest.skip(f"no tracing here: {error}")


@pytest.fixture
def formats(tmp_path):
    path = tmp_path / "formats.gz"
    path.write_bytes(gzip.compress(FORMAT.encode()))
    return path


def test_the_checks_of_the_documentation(pybpf):
    blocks = re.findall(r"^```console\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    (shown,) = [block for block in blocks if "events check" in block]
    _, *parts = re.split(r"^\$ pybpf (.*)\n", shown, flags=re.MULTILINE)
    for command, output in zip(parts[::2], parts[1::2], strict=True):
        said = pybpf(*shlex.split(command))
        assert said.out + said.err == output


PURE = [
    code
    for code in re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    if "pybpf.kernel" not in code and "pybpf.eprobes" not in code
]


@pytest.mark.parametrize("code", PURE)
def test_the_python_of_the_documentation_that_needs_no_kernel(code, capsys):
    exec(compile(code, "docs/events.md", "exec"), {})
    assert not capsys.readouterr().err


def test_no_command(pybpf):
    said = pybpf("events")
    assert said.status == 1
    assert said.err.startswith("error: no command given: check, trace, ")
    assert said.err.endswith("\n  hint: try `pybpf events -h`\n")


def test_a_command_that_is_none(pybpf):
    assert pybpf("events", "tracee").err == (
        "error: 'tracee' is no command; did you mean 'trace'?\n  hint: try `pybpf events -h`\n"
    )


def test_help(pybpf):
    said = pybpf("events", "-h")
    assert said.status == 0
    assert said.out.startswith("usage: pybpf events [-h] COMMAND ...\n")
    assert "\n  cleanup  remove what" in said.out
    assert pybpf("events", "trace", "-h").out.startswith("usage: pybpf events trace ")


def test_checks_as_json(pybpf, formats):
    said = pybpf(
        "events", "check", "--kernel", "7.3", "--json", "--formats", formats,
        "e:t/x sched.wake p=$pid:u32", "e:t/x sched.wake p=$pit:u32",
    )  # fmt: skip
    good, bad = map(json.loads, said.out.splitlines())
    assert said.status == 1
    assert said.err == ""
    assert list(good)[:8] == [
        "definition", "accepted", "errno", "message", "column", "listing", "format", "warnings",
    ]  # fmt: skip
    assert good["accepted"] is True
    assert good["listing"] == ["e:t/x sched.wake p=$pid:u32"]
    assert good["format"]["t/x"].startswith("name: x\nID: ")
    assert (bad["accepted"], bad["errno"], bad["listing"]) == (False, "EINVAL", [])
    assert bad["message"] == "Invalid $-variable specified"
    assert bad["column"] == 19


def test_lines_are_judged_alone_or_together(pybpf, formats, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("s:syn u64 x\n\ne:t/x synthetic.syn y=$x:u64\n")
    alone = pybpf("events", "check", "--formats", formats, lines)
    assert alone.status == 1
    assert "Attached event does not exist" in alone.err
    together = pybpf("events", "check", "--together", "--formats", formats, lines)
    assert (together.status, together.err) == (0, "")
    assert together.out == (
        "accepted: s:synthetic/syn\tu64 x\naccepted: e:t/x synthetic.syn y=$x:u64\n"
    )


def test_a_line_is_judged_with_its_end(pybpf):
    longest = "#".ljust(4094, "x")
    assert pybpf("events", "check", longest).status == 0
    assert pybpf("events", "check", f"{longest}x").status == 1


@pytest.mark.parametrize(
    ("path", "status"), [("/bin/cat", 0), ("/bin", 1), ("/nonexistent", 1), ("nonexistent", 0)]
)
def test_a_path_is_what_it_is_here(pybpf, path, status):
    assert pybpf("events", "check", f"p:u/x {path}:0x1000").status == status


@pytest.mark.parametrize(
    ("kernel", "taken"),
    [("5.4", "5.4 was observed: it is taken for 6.1"), ("6.18.1", "6.18 was observed: it is taken"),
     ("6.12.117+deb13", None)],
)  # fmt: skip
def test_a_kernel_that_was_not_observed_is_another(pybpf, kernel, taken):
    said = pybpf("events", "check", "--kernel", kernel, "s:x u64 a")
    assert said.out == "accepted: s:synthetic/x\tu64 a\n"
    assert (f"note: no kernel {taken}" in said.err) if taken else said.err == ""


def test_removals_are_no_options(pybpf, formats):
    lines = ["e:t/x sched.wake p=$pid:u32", "-:t/x", "--together"]
    said = pybpf("events", "check", "--formats", formats, *lines)
    assert (said.status, said.err) == (0, "")
    assert said.out == "accepted: e:t/x sched.wake p=$pid:u32\naccepted: -:t/x\n"
    assert "hint: no event matches" in pybpf("events", "check", "-:t/x").err
    assert "unrecognized arguments: -t" in pybpf("events", "check", "-t", "x").err


def test_filters_and_triggers_are_checked(pybpf, formats):
    options = ["--formats", formats, "--event", "sched/wake"]
    good = pybpf("events", "check", "--kind", "filter", *options, "pid == 1")
    assert (good.status, good.out) == (0, "accepted: pid == 1\n")
    bad = pybpf("events", "check", "--kind", "filter", *options, "pit == 1")
    assert "did you mean pid?" in bad.err
    hist = pybpf("events", "check", "--kind", "trigger", *options, "hist:keys=pid")
    listed = "hist:keys=pid:vals=hitcount:sort=hitcount:size=2048 [active]"
    assert (hist.status, hist.out) == (0, f"accepted: {listed}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "filter", "x"], "--event goes with --kind filter and --kind trigger"),
        (["--event", "a/b", "e:x a.b"], "--event goes with --kind filter and --kind trigger"),
        (["--kernel", "x", "e:x a.b"], "no kernel release: 'x'"),
        (["--kernel", "live", "--formats", "x", "e:x a.b"], "--kernel live knows this machine's"),
        (["--formats", "/nonexistent", "e:x a.b"], "cannot read /nonexistent"),
        (["--formats", "/dev/null", "e:x a.b"], "no format files"),
        ([], "arguments are required"),
    ],
)
def test_what_cannot_be_checked(pybpf, arguments, message):
    said = pybpf("events", "check", *arguments)
    assert said.status == 1
    assert message in said.err


def test_damaged_formats(pybpf, tmp_path):
    path = tmp_path / "formats.gz"
    path.write_bytes(gzip.compress(FORMAT.encode())[:50])
    said = pybpf("events", "check", "--formats", path, "e:x a.b")
    assert said.err.startswith(f"error: {path} is damaged: ")


@pytest.mark.parametrize("compressed", [True, False])
def test_what_is_too_large_for_formats_is_not_read(pybpf, tmp_path, compressed):
    path = tmp_path / "formats.gz"
    with (gzip.open if compressed else open)(path, "wb") as file:
        if compressed:
            for _ in range(65):
                file.write(bytes(1 << 20))
        else:
            file.truncate(65 << 20)
    said = pybpf("events", "check", "--formats", path, "e:x a.b")
    assert said.err == f"error: {path} has more than 64 MB of text: no format files\n"


def test_a_record_without_fields_is_shown(pybpf, tmp_path):
    path = tmp_path / "formats"
    path.write_text('FILE a/b/format\nname: b\nID: 1\nformat:\n\nprint fmt: "x"\n')
    said = pybpf("events", "show", "--formats", path, "a/b")
    assert said.out == 'a/b, ID 1\nprints "x"\n'


def test_a_record_is_shown(pybpf, formats):
    said = pybpf("events", "show", "--formats", formats, "sched.wake")
    assert said.out == (
        "sched/wake, ID 7\n"
        "    0 +2    unsigned short common_type  common\n"
        "    4 +4    int common_pid              common\n"
        "    8 +4    pid_t pid                   signed\n"
        'prints "pid=%d", REC->pid\n'
    )
    said = pybpf("events", "show", "--formats", formats, "sched/wale")
    assert said.err == "error: there is no event sched/wale; did you mean 'sched/wake'?\n"


def test_pages_are_decoded(pybpf, formats, tmp_path):
    record = (3 | 10 << 5).to_bytes(4, "little") + bytes([7, 0, 1, 2]) + bytes([9, 0, 0, 0, 5])
    page = (1000).to_bytes(8, "little") + (16).to_bytes(8, "little") + record
    path = tmp_path / "pages"
    path.write_bytes(page.ljust(4096, b"\0"))
    said = pybpf("events", "show", "--formats", formats, "--pages", path)
    assert json.loads(said.out) == {
        "event": "sched/wake", "timestamp": 1010, "cpu": 0, "fields": {"common_pid": 9, "pid": 5},
    }  # fmt: skip
    said = pybpf(
        "events", "show", "--formats", formats, "--pages", path, "--format", "text", "--cpu", "1"
    )
    assert said.out == "           <...>-9       [001] d..2.     0.000001: wake: pid=5\n"


@pytest.mark.usefixtures("_tracing")
def test_a_command_is_traced_alone(pybpf):
    said = pybpf("events", "trace", "--format", "json", "syscalls/sys_enter_openat", "-c",
                 "cat /dev/null")  # fmt: skip
    records = [json.loads(line) for line in said.out.splitlines()]
    assert (said.status, said.err) == (0, "")
    assert {record["event"] for record in records} == {"syscalls/sys_enter_openat"}
    assert len({record["fields"]["common_pid"] for record in records}) == 1


OPENS = ("-c", "while :; do cat /dev/null; sleep 0.1; done")


@pytest.mark.usefixtures("_tracing")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_trace_ends_by_a_signal_and_leaves_nothing(pybpf, start, number):
    process = start("events", "trace", "--format", "json", "syscalls/sys_enter_openat", *OPENS)
    assert json.loads(process.stdout.readline())["event"] == "syscalls/sys_enter_openat"
    assert f"process {process.pid}\n" in pybpf("events", "list").out
    said = process.end(number)
    assert (said.status, said.err) == (0, "")
    assert [line for line in said.out.splitlines() if not json.loads(line)["fields"]] == []
    assert f"process {process.pid}" not in pybpf("events", "list").out


@pytest.mark.usefixtures("_tracing")
def test_a_trace_of_all_is_not_of_itself(start):
    """What it writes would be recorded, and written, and so on."""
    process = start("events", "trace", "--format", "json", "-a", "syscalls/sys_enter_write",
                    "-c", "echo one; sleep 0.2; echo two; sleep 0.2; echo three")  # fmt: skip
    said = process.end()
    records = [json.loads(line) for line in said.out.splitlines() if line.startswith("{")]
    assert len(records) >= 3
    assert process.pid not in {record["fields"]["common_pid"] for record in records}


@pytest.mark.usefixtures("_tracing", "cleaning")
def test_what_a_killed_trace_leaves_is_cleaned_up(pybpf, start):
    process = start("events", "trace", "--format", "json", "syscalls/sys_enter_openat", *OPENS)
    assert json.loads(process.stdout.readline())["event"] == "syscalls/sys_enter_openat"
    owner = rf"instance (pybpf_{process.pid}_\w+)  # of pybpf, process {process.pid}"
    (name,) = re.findall(rf"^{owner}$", pybpf("events", "list").out, re.MULTILINE)
    assert name not in pybpf("events", "cleanup").out
    process.end(signal.SIGKILL)
    assert (
        f"{name}  # of pybpf, process {process.pid}, which is dead" in pybpf("events", "list").out
    )
    assert f"removed instances/{name}\n" in pybpf("events", "cleanup").out
    assert name not in pybpf("events", "list").out


@pytest.mark.usefixtures("_tracing", "cleaning")
@pytest.mark.parametrize("after", [0, 0.02, 0.1])
def test_a_trace_may_be_killed_at_any_time(pybpf, start, after):
    lines = [f"p:t/{name} /bin/cat:0x1000" for name in ("one", "two", "three")]
    process = start("events", "trace", *lines, "-c", "sleep 60")
    with open_tracefs() as tree:
        while not any(f"pybpf_{process.pid}_" in name for name in tree.names("instances")):
            assert process.poll() is None
        time.sleep(after)
        process.end(signal.SIGKILL)
        assert pybpf("events", "cleanup").status == 0
        assert f"pybpf_{process.pid}_" not in tree.read("dynamic_events")
        assert not any(f"pybpf_{process.pid}_" in name for name in tree.names("instances"))


@pytest.mark.usefixtures("_tracing")
def test_records_without_room_are_counted(pybpf):
    said = pybpf("events", "trace", "--buffer", "8K", "--format", "json", "raw_syscalls/sys_enter",
                 "-c", "dd if=/dev/zero of=/dev/null bs=1 count=200000 status=none")  # fmt: skip
    if said.status == 0:
        pytest.skip("everything found room")
    assert re.fullmatch(r"error: [\d,]+ records? lost for want of room\n  hint: .*\n", said.err)
    assert '{"event":"lost",' in said.out


@pytest.mark.usefixtures("_tracing")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trace"], "error: nothing to trace\n"),
        (["trace", "sched/sched_swich", "-c", "true"], "there is no event sched/sched_swich"),
        (["trace", "sched/sched_switch if x == 1", "-c", "true"], "error: Field not found\n"),
        (["trace", "-f", "/nonexistent"], "cannot read /nonexistent"),
        (["rm", "x"], "'x' is no GROUP/EVENT"),
        (["rm", "a/b"], "there is no dynamic event a/b"),
        (["show", "sched/sched_swich"], "there is no event sched/sched_swich"),
        (["hist", "", "fd"], "'' is no SYS/EVENT, such as sched/sched_switch"),
        (["filter", "sched/../sched/sched_switch"], "is no SYS/EVENT"),
        (
            ["filter", "sched.sched_swich"],
            "there is no event sched/sched_swich; did you mean 'sched/sched_switch'?",
        ),
        (["filter", "--instance", "../..", "sched/sched_switch"], "there is no instance ../.."),
        (["show", "--pages", "x", "--cpu", "-1"], "'-1' is no number of a CPU"),
        (["show", "--pages", "x", "--cpu", "9" * 5000], "is no number of a CPU"),
        (["strings", "open at", "x"], "a system call and its arguments are words"),
    ],
)
def test_what_cannot_be_done(pybpf, arguments, message):
    said = pybpf("events", *arguments)
    assert said.status == 1
    assert message in said.err


@pytest.mark.usefixtures("_tracing")
def test_events_are_added_and_removed(pybpf):
    group = f"test_{os.getpid()}"
    lines = [f"p:{group}/{name} /bin/cat:0x1000" for name in ("one", "two")]
    assert pybpf("events", "add", *lines, "p:x/y nowhere").status == 1
    assert group not in pybpf("events", "list").out
    assert pybpf("events", "add", *lines).out.count(f"p:{group}/") == 2
    try:
        with ExitStack() as stack:
            tree = stack.enter_context(open_tracefs())
            made = stack.enter_context(instance(tree, str(new_owner())))
            stack.enter_context(made.enabled(f"{group}/two"))
            said = pybpf("events", "rm", f"{group}/one", f"{group}/two")
            assert said.status == 1
            assert f"hint: it is enabled in instance {made.name}" in said.err
            made.write(f"events/{group}/one/trigger", "traceoff:1 if common_pid == 1")
            made.write(f"events/{group}/one/filter", "common_pid == 1")
            listed = pybpf("events", "list", "--json").out.splitlines()
            rows = {row["name"]: row for row in map(json.loads, listed)}
            assert rows[f"{group}/one"] | {"definition": 0} == {
                    "name": f"{group}/one", "definition": 0, "owner": None, "alive": None,
                    "enabled": [], "filters": {made.name: "common_pid == 1"}, "users": [],
                    "triggers": {made.name: ["traceoff:count=1 if common_pid == 1"]},
                }  # fmt: skip
            assert (
                f"  # filter in instance {made.name}: common_pid == 1; trigger in instance "
                f"{made.name}: traceoff:count=1 if common_pid == 1\n"
            ) in pybpf("events", "list").out
            assert rows[f"{group}/two"]["enabled"] == [made.name]
            assert rows[made.name] | {"definition": 0} == {
                    "name": made.name, "definition": 0, "owner": os.getpid(), "alive": True,
                    "enabled": [], "filters": {}, "triggers": {}, "users": [],
                }  # fmt: skip
    finally:
        said = pybpf("events", "rm", f"{group}/one", f"{group}/two")
    assert (said.status, said.out) == (0, "")
    assert group not in pybpf("events", "list").out


def test_who_may_not_trace_is_told(start):
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    said = start("events", "list", before=nobody).end()
    assert (said.status, said.out) == (1, "")
    assert re.match(r"error: (cannot read|tracefs is not mounted)", said.err)
    assert "hint: run as root" in said.err


@pytest.mark.usefixtures("_tracing")
def test_a_plan_is_explained(pybpf, tmp_path):
    more = tmp_path / "plan.txt"
    more.write_text("# more\n\n  sched/sched_switch stacktrace:3 if prev_pid == 1\n")
    said = pybpf(
        "events", "explain", "p:t/one /bin/cat:0x1000 a=%ax:u32", "t/one if a == 1",
        "sched/sched_switch", "-f", str(more),
    )  # fmt: skip
    assert (said.status, said.err) == (0, "")
    assert said.out.replace("/sys/kernel/tracing", "T") == (
        "echo 'p:t/one /bin/cat:0x1000 a=%ax:u32' >> T/dynamic_events\n"
        "echo 'a == 1' >> T/events/t/one/filter\n"
        "echo 'stacktrace:3 if prev_pid == 1' >> T/events/sched/sched_switch/trigger\n"
        "echo 1 >> T/events/t/one/enable\n"
        "echo 1 >> T/events/sched/sched_switch/enable\n"
        "# and to take it away again:\n"
        "echo 0 >> T/events/sched/sched_switch/enable\n"
        "echo 0 >> T/events/t/one/enable\n"
        "echo '!stacktrace:3 if prev_pid == 1' >> T/events/sched/sched_switch/trigger\n"
        "echo 0 >> T/events/t/one/filter\n"
        "echo -:t/one >> T/dynamic_events\n"
    )


@pytest.mark.usefixtures("_tracing")
def test_a_filter_is_set_or_stays(pybpf):
    with open_tracefs() as tree, instance(tree, str(new_owner())) as made:
        of = ("events", "filter", "--instance", made.name, "sched.sched_switch")
        assert pybpf(*of).out == "none\n"
        assert pybpf(*of, "prev_pid == 1").status == 0
        refused = pybpf(*of, "prev_pit == 1")
        assert refused.status == 1
        assert refused.err.endswith(
            "  hint: did you mean prev_pid?\n  hint: the filter that was set stays\n"
        )
        assert pybpf(*of).out == "prev_pid == 1\n"
        assert pybpf(*of, "0").status == 0
        assert pybpf(*of).out == "none\n"


def test_a_snapshot_says_which_kernel_is_meant(pybpf):
    target = ROOT / "tests/data/targets/6.12.tar.gz"
    said = pybpf("events", "check", "--target", target, "e:t/x sched.sched_switch a=$prev_pid")
    assert (said.status, said.err) == (0, "")
    said = pybpf("events", "check", "--target", target, "e:t/x sched.sched_switch a=$prev_pit")
    assert "hint: did you mean $prev_pid?" in said.err
    said = pybpf("events", "check", "--target", target, "p:t/x type_show")
    assert "The symbol is not unique\n" in said.err
    assert "hint: several symbols have that name: write the address" in said.err


def test_a_profile_says_what_cannot_be_probed(pybpf):
    said = pybpf("events", "check", "--kernel", "6.12", "p:t/x jiffies")
    assert said.err == (
        "<definition>:1:7: error: Failed to register probe event\n"
        "    p:t/x jiffies\n          ^\n"
        "  hint: probes are put on functions that ftrace can trace: not on data, nor on code that"
        " tracing itself needs\n"
    )


READ_ONLY = """
if ! mountpoint -q /sys/kernel/tracing; then mount -t tracefs none /sys/kernel/tracing; fi &&
mount -o remount,bind,ro /sys/kernel/tracing && exec "$@"
"""


@pytest.mark.usefixtures("_tracing")
def test_a_tracefs_that_is_read_only(start):
    if os.geteuid():
        pytest.skip("mounting takes root")
    private = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh"]
    said = start("events", "trace", "sched/sched_switch", "-c", "true", before=private).end()
    assert said.status == 1
    assert re.fullmatch(
        r"error: cannot make /sys/kernel/tracing/instances/pybpf_\w+: Read-only file system"
        r" \(errno 30\)\n"
        r"  hint: tracefs is mounted read-only: mount -o remount,rw /sys/kernel/tracing\n",
        said.err,
    )
