"""Tracing from inside a container: its own pids and cgroup, nothing to write to, few rights."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXEC = "tracepoint:sched/sched_process_exec"
GETPPID = "tracepoint:syscalls/sys_enter_getppid"
MINE = f'{GETPPID} / pid == $target && !strcmp(comm, "python3") /'
LOOP = "python3 -I -S -c 'import os\nfor _ in range(1000): os.getppid()'"


def assert_all_counted(said):
    """Linux 7 skips events while another program runs on that CPU; a warning tells how many."""
    counted = int(re.search(r"^\{ python3 +\}: (\d+)$", said.out, re.MULTILINE)[1])
    skipped = re.fullmatch(r"(?:warning: (\d+) events? came while .*\n)?", said.err)
    assert counted <= 1000 <= counted + int(skipped[1] or 0)


def test_there_is_nothing_to_write_to_nor_a_compiler(container):
    said = container(
        "sh",
        "-c",
        "touch /tmp/a /opt/a /root/a; ls /dev; ls /sys/kernel/tracing; command -v cc gcc clang ld",
    )
    assert said.out == "null\n"
    assert said.err.count("Read-only file system") == 3


def test_a_script_without_probes_of_the_kernel(pybpf):
    said = pybpf('BEGIN { printf("%d\\n", pid); } interval:1ms { exit(3); } profile:99hz { }')
    assert (said.status, said.out, said.err) == (3, "1\n", "")


def test_the_command_has_the_number_that_the_script_sees(pybpf):
    said = pybpf(
        "-c",
        "/bin/true",
        'BEGIN { printf("%d\\n", $target); }'
        f"{EXEC} / pid == $target / {{"
        ' printf("%d %d %s %d\\n", pid, kpid, comm, data->pid == pid); }',
    )
    assert (said.status, said.err) == (0, "")
    target, pid, kpid, comm, same = said.out.split()
    assert (pid, kpid, comm) == (target, target, "true")
    assert int(target) < 100  # so many there are at most in a container that has just begun
    assert same == "0"  # a field of the kernel holds the kernel's number


def test_events_of_the_command_are_counted_exactly(pybpf):
    said = pybpf("-c", LOOP, f"{MINE} {{ @[comm] = count(); }}")
    assert said.status == 0
    assert_all_counted(said)


@pytest.fixture
def outside():
    """Return the name of a process outside the container, which calls getppid all the time."""
    name = "outside-of-it"
    code = f"import os\nopen('/proc/self/comm', 'w').write('{name}')\nwhile True: os.getppid()"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) as process:
        yield name
        process.kill()


def test_processes_outside_have_no_number(pybpf, outside):
    theirs = f'{GETPPID} / !strcmp(comm, "{outside}") / {{ @[pid] = 1; }}'
    said = pybpf(f"interval:200ms {{ exit(0); }} {theirs}")
    assert (said.status, said.out, said.err) == (0, "\n@:\n{     0 }: 1\n", "")


def test_only_the_own_cgroup_is_traced(pybpf, outside, group):
    if group is None:
        pytest.skip("no cgroup2 is mounted where we may make one")
    script = f"{GETPPID} {{ @[comm] = count(); }}"
    said = pybpf("--cgroup", "self", "-c", LOOP, script)
    assert said.status == 0
    assert re.findall(r"(\S+) +}", said.out) == ["sh", "python3"]
    assert_all_counted(said)
    assert f"{{ {outside}" in pybpf("-c", LOOP, script).out


@pytest.mark.parametrize("rights", ["limited root", "limited nobody"])
def test_two_capabilities_are_enough(pybpf, rights):
    said = pybpf(
        "-c",
        "/bin/sleep 0.1",
        "BEGIN { @[$target > pid] = count(); } profile:99hz { @p = count(); } interval:10ms { }",
        rights=rights,
    )
    if "perf_event_paranoid" in said.err:
        pytest.skip(said.err)
    assert (said.status, said.err) == (0, "")
    assert "{ 1 }: 1\n" in said.out


def test_tracepoints_take_a_tracefs_to_read(pybpf):
    said = pybpf(
        "-c",
        LOOP,
        f"{MINE} {{ @[comm] = count(); }}",
        rights="limited root",
        tracefs=True,
    )
    if "perf_event_paranoid" in said.err:
        pytest.skip(said.err)
    assert said.status == 0
    assert_all_counted(said)


@pytest.mark.parametrize(
    ("rights", "tracefs", "reason", "advice"),
    [
        (
            "limited root",
            False,
            "tracefs is not mounted, and mounting it failed: Operation not permitted",
            [
                "compile for a saved machine: --target FILE",
                "it is mounted by: mount -t tracefs none /sys/kernel/tracing",
                (
                    "a container can be given the host's: "
                    "--volume /sys/kernel/tracing:/sys/kernel/tracing:ro"
                ),
            ],
        ),
        (
            "limited nobody",
            True,
            "cannot read /sys/kernel/tracing: Permission denied",
            [
                "run as root, or compile for a saved machine: --target FILE",
                "root can let a group in: mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing",
            ],
        ),
    ],
)
def test_what_tracepoints_lack_is_said(pybpf, rights, tracefs, reason, advice):
    said = pybpf(f"{EXEC} {{ exit(0); }}", rights=rights, tracefs=tracefs)
    assert (said.status, said.out) == (1, "")
    assert said.err.splitlines() == [
        f"<script>:1:1: error: {reason}",
        f"    {EXEC} {{ exit(0); }}",
        f"    {'^' * len(EXEC)}",
        *(f"  hint: {hint}" for hint in advice),
    ]


def test_without_any_right_it_says_which_are_lacking(pybpf):
    said = pybpf("BEGIN { exit(0); }", rights="nobody")
    assert said.status == 1
    assert "this process lacks CAP_BPF and CAP_PERFMON" in said.err


@pytest.mark.parametrize("lacking", ["/proc", "/dev/null"])
def test_little_is_needed_of_the_file_system(pybpf, container, lacking):
    script = 'BEGIN { printf("%d\\n", pid); } interval:1ms { exit(0); }'
    said = pybpf(script, no=[lacking])
    if lacking == "/proc" and said.out != "1\n":
        pytest.skip("without /proc the kernel does not tell the namespace (Linux 6.11)")
    assert (said.status, said.out, said.err) == (0, "1\n", "")
    closed = container(
        "sh", "-c", 'exec python3 -m pybpf run "$1" <&- >&- 2>&-', "sh", script, no=[lacking]
    )
    assert (closed.status, closed.out, closed.err) == (0, "", "")


def test_without_sys_it_says_so(pybpf):
    said = pybpf("BEGIN { @ = count(); exit(0); }", no=["/sys"])
    assert (said.status, said.out) == (1, "")
    assert said.err == (
        "error: cannot read /sys/devices/system/cpu/possible: No such file or directory (errno 2)\n"
        "  hint: mount -t sysfs none /sys\n"
    )


PAGE = (Path(__file__).parents[2] / "docs/containers.md").read_text()
SHOWN = re.findall(r"^# pybpf run (.*)\n((?:[^#`].*\n|\n)*)", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("words", "printed"), SHOWN, ids=[words for words, _ in SHOWN])
def test_commands_of_the_page_print_what_it_shows(container, group, words, printed):
    if "--cgroup" in words and group is None:
        pytest.skip("no cgroup2 is mounted where we may make one")
    said = container("sh", "-c", f"exec python3 -m pybpf run {words}")
    assert (said.status, said.err) == (0, "")
    assert re.sub(r"\d+", "0", said.out) == re.sub(r"\d+", "0", printed)


def test_the_page_shows_commands():
    assert len(SHOWN) == PAGE.count("\n# pybpf run ") > 1
