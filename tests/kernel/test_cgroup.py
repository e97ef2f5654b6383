"""Cgroups found and opened, and what a run traces that is told one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.errors import KernelError
from pybpf.kernel import cgroup
from pybpf.kernel.cgroup import open_cgroup, own_path

MOUNTS = cgroup._mounts(Path("/proc/self/mountinfo").read_text())
V1 = "24 20 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
V2 = r"25 20 0:31 / /sys/fs/c\040g rw,nosuid shared:9 - cgroup2 cgroup2 rw" + "\n"
PART = "26 20 0:31 /docker/1 /cg rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/\n", "/"),
        ("9:cpu:/a\n1:name=systemd:/b\n0::/user.slice/a:b c\n", "/user.slice/a:b c"),
    ],
)
def test_the_own_cgroup_is_that_of_version_2(text, path):
    assert own_path(text) == path


@pytest.mark.parametrize("text", ["", "9:cpu:/a\n"])
def test_there_may_be_no_version_2(text):
    with pytest.raises(KernelError) as refused:
        own_path(text)
    assert str(refused.value) == (
        "cannot tell the cgroup of this process: No such file or directory (errno 2)\n"
        "  hint: /proc/self/cgroup has no line that begins with 0:: (CONFIG_CGROUPS, /proc)"
    )


@pytest.mark.parametrize(
    ("mounts", "own", "where"),
    [
        (V1 + V2, "/", "/sys/fs/c g/"),
        (V1 + V2, "/a/b", "/sys/fs/c g/a/b"),
        (PART, "/docker/1", "/cg/"),
        (PART, "/docker/1/x", "/cg/x"),
        (PART + V2, "/docker/12", "/sys/fs/c g/docker/12"),
    ],
)
def test_a_mount_shows_the_own_cgroup(mounts, own, where):
    assert cgroup._visible(own, cgroup._mounts(mounts)) == where


@pytest.mark.parametrize(
    ("mounts", "hint"),
    [
        (V1, "no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup"),
        (PART, "/cg shows /docker/1 only"),
    ],
)
def test_no_mount_may_show_it(mounts, hint):
    with pytest.raises(KernelError) as refused:
        cgroup._visible("/a", cgroup._mounts(mounts))
    assert str(refused.value) == (
        "cannot find the cgroup of this process, /a: No such file or directory (errno 2)\n"
        f"  hint: {hint}"
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/nonsense", "No such file or directory (errno 2)"),
        ("/proc/self/cgroup", "Not a directory (errno 20)"),
        (
            "/proc/self",
            "Invalid argument (errno 22)\n  hint: it is no directory of a cgroup2 file system",
        ),
    ],
)
def test_what_is_no_cgroup_is_refused(monkeypatch, path, reason):
    monkeypatch.setattr(cgroup, "_mounts", lambda _: [("0:31", "/", "/cg")])
    with pytest.raises(KernelError) as refused:
        open_cgroup(path)
    assert str(refused.value) == (
        f"cannot use the cgroup {path}: {reason}\n"
        "  hint: cgroups are the directories in /cg; `--cgroup self` is pybpf's own"
    )


@pytest.fixture
def group():
    """Return a fresh cgroup with another one below it."""
    if not MOUNTS:
        pytest.skip("no cgroup2 is mounted")
    top = Path(MOUNTS[0][2], f"pybpf-test-{os.getpid()}")
    try:
        (top / "below").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"cannot make a cgroup: {error}")
    yield top
    (top / "below").rmdir()
    top.rmdir()


MOVES = """import os, sys
def call(times, where):
    with open(where + "/cgroup.procs", "w") as file: file.write(str(os.getpid()))
    for _ in range(times): os.getppid()
root, top = sys.argv[1:]
call(3, root), call(5, top), call(7, top + "/below"), call(11, root)
"""


@pytest.mark.kernel
@pytest.mark.parametrize("below", [False, True], ids=["all", "below"])
def test_only_tasks_in_the_cgroup_or_below_are_traced(group, below, tmp_path):
    program = tmp_path / "moves.py"
    program.write_text(MOVES)
    command = f"{sys.executable} -I -S {program} {group.parent} {group}"
    script = "tracepoint:syscalls/sys_enter_getppid / pid == $target / { @[1] = count(); }"
    run = [sys.executable, "-m", "pybpf", "run", "--cgroup", group / "below" if below else group]
    said = subprocess.run([*run, "-c", command, script], capture_output=True, text=True, check=True)
    assert said.stdout == f"\n@:\n{{ 1 }}: {7 if below else 12}\n"


@pytest.mark.kernel
def test_timers_that_are_about_no_task_fire_whatever_the_cgroup(group):
    script = "interval:1ms { exit(3); } profile:999hz { exit(4); } END { exit(5); }"
    run = [sys.executable, "-m", "pybpf", "run", "--cgroup", group, script]
    assert subprocess.run(run, check=False).returncode == 3


@pytest.mark.kernel
@pytest.mark.skipif(not MOUNTS, reason="no cgroup2 is mounted")
def test_the_own_cgroup_by_its_short_name():
    with open_cgroup("self") as own:
        inode = os.fstat(own.fileno()).st_ino
    text = own_path(Path("/proc/self/cgroup").read_text())
    assert inode == Path(cgroup._visible(text, MOUNTS)).stat().st_ino
