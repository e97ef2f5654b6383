"""Run the examples that need kprobes, or a machine of their own; and load all of them."""

import os
import re
import socket
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TWICE = pytest.mark.parametrize("job", ["source", "ahead"], indirect=True)
"""Run the script, and then the object that `pybpf compile -o` makes of it."""
TIME = r"\d\d:\d\d:\d\d\.\d{9}"


def functions(entries):
    """Return counts by function, without the offset that `caller` shows."""
    return {name.partition("+")[0]: count for name, count in entries.items()}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ply")), ids=lambda path: path.stem)
def test_the_kernel_takes_every_example(run, path):
    done = run(path.read_text(), environment={"1": "nobody", "target": "1"}, act=lambda: None)

    assert done.skipped == []


@TWICE
def test_vfsstat(job):
    code = (
        "import os, time\n"
        "file = os.open('/dev/zero', os.O_RDONLY)\n"
        "for _ in range(7): os.read(file, 1)\n"
        "time.sleep(2)"
    )
    printed, *rest = job.watch("vfsstat.ply", code)

    assert re.fullmatch(TIME + "\n", printed["text"])
    # More than one of them if the job was slow.
    found = {}
    for row in rest:
        for value in row.get("values", ()):
            for entry in value["entries"]:
                name = entry["key"][0].partition("+")[0]
                found[name] = found.get(name, 0) + entry["value"]
    assert found["vfs_read"] == 7
    assert found["vfs_open"] == 1


@TWICE
@pytest.mark.usefixtures("loopback")
def test_funccount(job):
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket\nsocket.create_connection({server.getsockname()!r})"
        found = functions(job.map("funccount.ply", code))

    assert found["tcp_v4_connect"] == 1
    # In its own soft interrupts, both ends of the connection.
    assert found["tcp_v4_rcv"] >= 3


@TWICE
def test_funclatency(job):
    code = (
        "import os\n"
        "null = os.open('/dev/null', os.O_WRONLY)\n"
        "for _ in range(5): os.write(null, b'x')"
    )
    found = job.map("funclatency.ply", code)

    assert found.keys() == {job.name}
    # The job writes its name first, which is when it gets it.
    assert sum(count for _, _, count in found[job.name]) == 5
    assert all(1 < low < 1_000_000_000 for low, _, _ in found[job.name])


@TWICE
def test_readslower(job):
    code = (
        "import os, time\n"
        "out, into = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    time.sleep(1)\n"
        "    os.write(into, b'three')\n"
        "    os._exit(0)\n"
        "os.read(out, 100)\n"
        "os.wait()"
    )
    heading, *lines = job.watch("readslower.ply", code, text=True)

    assert heading.split() == ["COMM", "PID", "RET", "TOOK"]
    found = [re.fullmatch(rf"{job.name} +\d+ +(\d+) +([0-9.]+) ?(ms|s)", line) for line in lines]
    assert all(found)
    size, took, unit = found[-1].groups()
    assert size == "5"
    assert float(took) * {"ms": 1, "s": 1000}[unit] > 500


@TWICE
def test_capable(job):
    # CAP_SYS_CHROOT is 18.
    found = job.map("capable.ply", "import os\nos.chroot('/')")

    assert found[job.name, 18] == 1


@pytest.fixture
def small_cgroup(tmp_path):
    """Return a cgroup whose processes may use 32 MB together."""
    root = tmp_path / "cgroup"
    root.mkdir()
    assert os.system(f"mount -t cgroup2 none {root}") == 0
    group = root / "small"
    try:
        (root / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
        (group / "memory.max").write_text("32M")
        yield group
        group.rmdir()
    finally:
        os.system(f"umount {root}")


def test_oomkill(job, small_cgroup):
    code = f"open('{small_cgroup}/cgroup.procs', 'w').write('0')\nm = bytearray(1 << 28)"
    heading, line = job.watch("oomkill.ply", code, text=True)

    assert heading.split() == ["TIME", "KILLED", "PID", "KB", "FOR"]
    held = re.fullmatch(rf"{TIME} {job.name} +\d+ +(\d+) {job.name}", line)[1]
    # Some of it is from before the job went into the group.
    assert 16_000 < int(held) < 64_000
