"""libbpf loads the objects of the assembler, with their types and lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.assembly.objects import write
from pybpf.assembly.read import read

EVERYTHING = Path(__file__).with_name("everything.s").read_text()
PACKETS = (Path(__file__).parents[2] / "examples/packets.s").read_text()

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="bpftool loads programs as root only"),
    pytest.mark.skipif(shutil.which("bpftool") is None, reason="bpftool is not installed"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed"),
]


@pytest.fixture
def loaded(tmp_path):
    """Return a function: a text, and a shell command run where bpftool has loaded it to ``x``."""

    def run(text: str, command: str) -> str:
        (tmp_path / "x.o").write_bytes(write(read(text, "x.s")))
        (tmp_path / "fs").mkdir()
        script = (
            f"cd {tmp_path} && mount -t bpf bpf fs && mkdir fs/x fs/m && "
            f"bpftool prog loadall x.o fs/x pinmaps fs/m && {command}"
        )
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_libbpf_loads_everything(loaded):
    said = loaded(EVERYTHING, "ls fs/x fs/m && bpftool prog dump xlated pinned fs/x/first")

    assert "libbpf" not in said
    for name in ("first", "second", "third", "hits", "outer", "jumps", "sizes"):
        assert f"{name}\n" in said
    assert "; r4 = *(u32 *)(r1 + 0)\n" in said
    assert "int double()" in said


def test_the_example_counts_packets(loaded):
    run = "bpftool prog run pinned fs/x/count_packets data_in packet"
    packet = "printf '%012d\\010\\000rest' 0 > packet"
    said = loaded(
        PACKETS,
        f"{packet}; {run}; {run}; bpftool -j map dump pinned fs/m/protocols",
    )

    assert "Return value: 2" in said
    (entry,) = json.loads(said.splitlines()[-1])
    assert entry["formatted"] == {"key": 0x800, "value": {"packets": 2, "bytes": 36}}


def test_libbpf_finds_what_is_extern(loaded):
    """Which takes prototypes of kfuncs that are those of the kernel's types."""
    said = loaded(
        """
        .extern bpf_task_from_pid, struct task_struct *(s32 pid)
        .extern bpf_task_release, void (struct task_struct *p)
        .extern CONFIG_HZ, unsigned int, kconfig
        .extern no_such_variable, weak
        .extern no_such_function, void (void), weak
        .prog syscall, ask
            r1 = no_such_variable ll
            r1 = CONFIG_HZ ll
            r6 = *(u32 *)(r1 + 0)
            call kfunc bpf_rcu_read_lock
            call kfunc bpf_rcu_read_unlock
            r1 = 1
            call bpf_task_from_pid
            if r0 == 0 goto 1f
            r1 = r0
            call bpf_task_release
        1:  r0 = r6
            exit
        """,
        "bpftool prog dump xlated pinned fs/x/ask",
    )

    for name in ("bpf_rcu_read_lock", "bpf_task_from_pid", "bpf_task_release"):
        assert f"call {name}#" in said
    assert "r1 = 0x0\n" in said
