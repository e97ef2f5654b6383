"""Kprobes from a pid namespace, and with two capabilities instead of all."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
TWO = [
    "setpriv",
    *(f"--{kind}=-all,+bpf,+perfmon" for kind in ("inh-caps", "ambient-caps", "bounding-set")),
]
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"]
SCRIPT = "kprobe:vfs_read / pid == $target / { @[comm, pid == $target] = count(); }"


def pybpf(before, script):
    command = [*before, sys.executable, "-m", "pybpf", "run", "-c", "cat /etc/hostname", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def paranoid():
    """Return a function that sets how much perf events are restricted, until the test is over."""
    before = PARANOID.read_text()
    yield PARANOID.write_text
    PARANOID.write_text(before)


@pytest.mark.parametrize("before", [NAMESPACE, TWO, [*NAMESPACE, *TWO]], ids=["pid", "two", "both"])
def test_functions_are_probed(paranoid, before):
    paranoid("2")
    said = pybpf(before, SCRIPT)
    assert (said.returncode, said.stderr) == (0, "")
    assert re.search(r"^\{ cat +, 1 \}: [1-9]", said.stdout, re.MULTILINE)


def test_debian_restricts_perf_events_further(paranoid):
    paranoid("3")
    said = pybpf(TWO, SCRIPT)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.splitlines()[0].endswith("Permission denied (errno 13)")
    assert said.stderr.splitlines()[-1] == (
        "  hint: kernel.perf_event_paranoid is 3: here perf events take CAP_SYS_ADMIN; "
        "`sysctl kernel.perf_event_paranoid=2` makes CAP_PERFMON do"
    )


@pytest.fixture
def group(tmp_path):
    """Return a fresh cgroup."""
    subprocess.run(["mount", "-t", "cgroup2", "none", tmp_path], check=True)
    folder = tmp_path / "pybpf-test"
    folder.mkdir()
    yield folder
    folder.rmdir()
    subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.parametrize("place", ["vfs_read", "vfs_rea[d]"])
def test_only_what_the_cgroup_does_is_traced(run, group, place):
    """This process reads three times in it, and as often outside."""
    from pybpf.compiler.pipeline import Options

    def read(where):
        (where / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(3):
            Path("/proc/self/comm").read_text()

    def act():
        read(group)
        read(group.parent)

    script = f"kprobe:{place} / pid == $self / {{ @[1] = count(); }}"
    inside = run(script, act, options=Options(cgroup=str(group)))
    everywhere = run(script, act)
    assert inside.maps["@"][1] >= 3
    assert everywhere.maps["@"][1] == 2 * inside.maps["@"][1]
