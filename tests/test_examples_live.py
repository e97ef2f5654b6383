"""Run the examples live on a process that the test starts, and check what they find out about it.

Those that need kprobes are in tests/guest/test_examples.py.
"""

import os
import platform
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("tracing")]

ROOT = Path(__file__).resolve().parent.parent
TIME = r"\d\d:\d\d:\d\d\.\d{9}"
TOOK = r"(?:\d|\d\d|\d\d\d|\d\.\d\d|\d\d\.\d)(?:ns|us|ms|[ ]s)"
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers and events of x86")
TWICE = pytest.mark.parametrize("job", ["source", "ahead"], indirect=True)
"""Run the script, and then the object that `pybpf compile -o` makes of it."""
SLEEP = "import time\nfor _ in range(20): time.sleep(0.002)"
MOST = 10
"""Of 20 sleeps: the kernel skips a program where another runs on that CPU."""


def table(lines, heading, row):
    """Take a table apart: one tuple of groups for each row, which must all match."""
    first, *rest = lines
    assert first.split() == heading.split()
    row = row.replace(" ", " +")
    found = [(line, re.fullmatch(row, line)) for line in rest]
    assert [line for line, match in found if not match] == []
    return [match.groups() for _, match in found]


def events(histogram):
    """Return how many values a histogram holds."""
    return sum(count for _, _, count in histogram)


# --- processes ------------------------------------------------------------------------------------
@TWICE
def test_exitsnoop(job):
    code = "import os\nfor _ in range(2): os.fork() or os._exit(0); os.wait()"
    lines = job.watch("exitsnoop.ply", code, text=True)

    *children, parent = table(lines, "COMM PID AGE", rf"{job.name} (\d+) ({TOOK}|-)")
    # The job itself is as old as the run.
    assert parent[1] == "-"
    assert "-" not in {age for _, age in children}
    assert len({parent[0], *(pid for pid, _ in children)}) == 3


def test_threadsnoop(job):
    code = (
        "import threading\nfor _ in range(2): t = threading.Thread(target=int); t.start(); t.join()"
    )
    lines = job.watch("threadsnoop.ply", code, text=True)

    rows = table(lines, "TIME COMM PID THREAD", rf"{TIME} {job.name} (\d+) (\d+)")
    assert len({pid for pid, _ in rows}) == 1
    assert len({*rows[0], *rows[1]}) == 3


@TWICE
def test_forks(job):
    code = (
        "import os, time\nfor _ in range(3): os.fork() or os._exit(0); os.wait()\ntime.sleep(1.1)"
    )
    rows = job.watch("forks.ply", code)

    assert re.fullmatch(TIME + "\n", rows[0]["text"])
    # The second ends when it ends; what was counted since then is printed at the end.
    maps = [value for row in rows if row["event"] == "print" for value in row["values"]]
    maps += [row for row in rows if row["event"] == "map"]
    entries = [entry for found in maps for entry in found["entries"]]
    assert {tuple(entry["key"]) for entry in entries} == {(job.name,)}
    assert sum(entry["value"] for entry in entries) == 3


@TWICE
def test_killsnoop(job):
    code = (
        "import os\n"
        "os.kill(os.getpid(), 0)\n"
        "os.kill(0, 0)\n"
        "try: os.kill(os.getpid(), 99)\n"
        "except OSError: pass\n"
        "os.kill(os.getpid(), 9)"
    )
    lines = job.watch("killsnoop.ply", code, text=True)

    rows = table(lines, "COMM PID SIG TO RET", rf"{job.name} (\d+) (\d+) (\d+) (-?\d+)")
    pid = rows[0][0]
    assert rows == [
        (pid, "0", pid, "0"),
        (pid, "0", "0", "0"),
        (pid, "99", pid, "-22"),
        (pid, "9", pid, "0"),
    ]


@TWICE
def test_signals(job):
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "for _ in range(3): os.kill(os.getpid(), signal.SIGUSR1)"
    )
    assert job.map("signals.ply", code) == {(job.name, job.name, 10): 3}


# --- CPUs -----------------------------------------------------------------------------------------


def test_runqlat(job):
    found = job.map("runqlat.ply", SLEEP)

    assert found.keys() == {job.name}
    assert events(found[job.name]) >= MOST
    assert min(low for low, _, _ in found[job.name]) < 1_000_000_000


@TWICE
def test_cpudist(job):
    found = job.map("cpudist.ply", SLEEP)

    assert found.keys() == {job.name}
    assert events(found[job.name]) >= MOST
    assert sum(low * count for low, _, count in found[job.name]) < 10_000_000_000


@TWICE
def test_offcputime(job):
    found = job.map("offcputime.ply", SLEEP)

    assert {comm for comm, _ in found} == {job.name}
    (slept,) = (t for (_, stack), t in found.items() if "nanosleep" in " ".join(stack))
    # Most of the time asked for: under load a kernel skips a program now and then, and says so.
    assert 20_000_000 <= slept < 10_000_000_000
    (stack,) = (stack for _, stack in found if "nanosleep" in " ".join(stack))
    # Where others trace the event, too, one more function calls the program.
    assert any(frame.startswith("__schedule+") for frame in stack[:2])


@TWICE
def test_profile(job):
    code = (
        "import os, time\n"
        "file = os.open('/dev/zero', os.O_RDONLY)\n"
        "until = time.monotonic() + 0.5\n"
        "while time.monotonic() < until: os.read(file, 1 << 20)"
    )
    found = job.map("profile.ply", code)

    assert {comm for comm, _ in found} == {job.name}
    assert any("vfs_read+" in " ".join(stack) for _, stack in found if isinstance(stack, tuple))


def test_wakeups(job):
    other = f"{job.name}-2"
    code = (
        "import os, time\n"
        "out, into = os.pipe()\n"
        "if os.fork() == 0:\n"
        f"    open('/proc/self/comm', 'w').write('{other}')\n"
        "    for _ in range(5): os.read(out, 1)\n"
        "    os._exit(0)\n"
        "for _ in range(5): time.sleep(0.02); os.write(into, b'x')\n"
        "os.wait()"
    )
    found = job.map("wakeups.ply", code)

    assert 0 < found[job.name, other] <= 5
    assert {waker for waker, _ in found} == {job.name}


# --- system calls ---------------------------------------------------------------------------------


@TWICE
@X86
def test_syscount(job):
    maps = job.maps("syscount.ply", "import os\nfor _ in range(5): os.getppid()")

    assert maps["@calls"][110] == 5
    assert maps["@nanoseconds"][110] > 0
    # The call that ends a process is the only one that does not return.
    assert maps["@calls"].keys() - maps["@nanoseconds"].keys() == {231}


def test_syslatency(job):
    found = job.map("syslatency.ply", "import time\ntime.sleep(0.1)")

    assert found.keys() == {job.name}
    assert [low for low, high, _ in found[job.name] if high >= 100_000_000]


@TWICE
@X86
def test_syserrors(job):
    code = (
        "import os\nfor _ in range(3):\n    try: os.kill(os.getpid(), 99)\n    except OSError: pass"
    )
    assert job.map("syserrors.ply", code) == {(job.name, 62, 22): 3}


# --- files and disks ------------------------------------------------------------------------------
@TWICE
def test_statsnoop(job):
    code = (
        "import os\n"
        "os.stat('/etc')\n"
        "os.fstat(0)\n"
        "try: os.stat('/etc/no such')\n"
        "except OSError: pass"
    )
    lines = job.watch("statsnoop.ply", code, text=True)

    rows = table(lines, "COMM PID RET FILE", rf"{job.name} \d+ (-?\d+) (\S.*)")
    assert rows == [("0", "/etc"), ("-2", "/etc/no such")]


@X86
def test_syncsnoop(job, tmp_path):
    code = (
        "import os\n"
        f"file = os.open({str(tmp_path / 'file')!r}, os.O_WRONLY | os.O_CREAT)\n"
        "os.fsync(file)\n"
        "os.fdatasync(file)"
    )
    lines = job.watch("syncsnoop.ply", code, text=True)

    row = rf"{TIME} {job.name} \d+ (\d+) {TOOK}"
    assert table(lines, "TIME COMM PID CALL TOOK", row) == [("74",), ("75",)]


@TWICE
def test_mountsnoop(job):
    code = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.mount(b'no disk', b'/no such', b'ext4', 0, None)\n"
        "libc.mount(None, b'/no such', None, 0, None)\n"
        "libc.umount2(b'/no such', 0)"
    )
    lines = job.watch("mountsnoop.ply", code, text=True)

    rows = table(lines, "COMM PID RET CALL", rf"{job.name} \d+ -2 (\S.*)")
    assert rows == [
        ('mount -t "ext4" "no disk" "/no such"',),
        ('mount -t "" "" "/no such"',),
        ('umount "/no such"',),
    ]


@TWICE
def test_writebytes(job):
    code = (
        "import os\n"
        "null = os.open('/dev/null', os.O_WRONLY)\n"
        "os.write(null, bytes(1000))\n"
        "os.pwrite(null, bytes(100), 0)\n"
        "os.writev(null, [bytes(10), bytes(1)])"
    )
    # The job writes its name first.
    assert job.map("writebytes.ply", code) == {job.name: 1111 + len(job.name)}


@pytest.fixture
def disk(tmp_path):
    """Return a disk of 1 MB: its file in /dev, its major and minor number."""
    file = tmp_path / "disk"
    file.write_bytes(bytes(1 << 20))
    if shutil.which("modprobe"):
        subprocess.run(["modprobe", "--quiet", "loop"], check=False)
    if not shutil.which("losetup"):
        pytest.skip("losetup is missing")
    attach = ["losetup", "--find", "--show", file]
    done = subprocess.run(attach, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop devices here: {done.stderr}")
    path = done.stdout.strip()
    number = Path(path).stat().st_rdev
    yield path, os.major(number), os.minor(number)
    subprocess.run(["losetup", "--detach", path], check=True)


def read_directly(path):
    """Return Python that reads a disk's bytes 4096 to 12288, with no cache between."""
    return (
        "import mmap, os\n"
        f"file = os.open({path!r}, os.O_RDONLY | os.O_DIRECT)\n"
        "assert os.preadv(file, [mmap.mmap(-1, 8192)], 4096) == 8192"
    )


def test_biolatency(job, disk):
    path, _, _ = disk
    found = job.map("biolatency.ply", read_directly(path))

    assert found.keys() == {"RS"}
    assert events(found["RS"]) == 1


def test_biosnoop(job, disk):
    path, major, minor = disk
    lines = job.watch("biosnoop.ply", read_directly(path), text=True)

    row = rf"{job.name} {major}:{minor} +RS 8 8192 {TOOK}"
    assert table(lines, "COMM DISK DOES SECTOR BYTES TOOK", row) == [()]


# --- network --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    ("family", "host", "printed"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", str([*[0] * 15, 1])),
    ],
    ids=["IPv4", "IPv6"],
)
def test_tcpconnect(job, family, host, printed):
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError as error:
        pytest.skip(f"no {host} here: {error}")
    with server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(({host!r}, {port}))"
        lines = job.watch("tcpconnect.ply", code, text=True)

    rows = table(lines, "COMM PID PORT ADDRESS", rf"{job.name} \d+ (\d+) (\S.*)")
    assert rows == [(str(port), printed)]


@pytest.mark.usefixtures("loopback")
def test_tcplife(job):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import socket, struct\n"
            f"a = socket.create_connection(('127.0.0.1', {port}))\n"
            f"b = socket.create_connection(('127.0.0.1', {port}))\n"
            # So that nobody waits for the other end, which the kernel would do for it.
            "for s in (a, b):\n"
            "    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n"
            "    s.close()\n"
        )
        lines = job.watch("tcplife.ply", code, text=True)

    row = rf"{job.name} \d+ (\d+) {port} {TOOK} 127\.0\.0\.1"
    rows = table(lines, "COMM PID FROM TO LASTED ADDRESS", row)
    assert len(set(rows)) == 2


def test_tcpretrans(job):
    if not shutil.which("ip"):
        pytest.skip("ip is missing")
    code = (
        "import ctypes, os, socket\n"
        "assert ctypes.CDLL(None).unshare(0x40000000) == 0  # CLONE_NEWNET\n"
        # Packets to others that come in by the loopback device are dropped.
        "os.system('ip link set lo up && ip route add 198.51.100.0/24 dev lo')\n"
        "s = socket.socket()\n"
        "s.settimeout(1.5)\n"
        "try: s.connect(('198.51.100.7', 80))\n"
        "except TimeoutError: pass"
    )
    heading, *lines = job.watch("tcpretrans.ply", code, text=True)

    mine = [heading, *(line for line in lines if line.endswith(" 198.51.100.7"))]
    (row,) = table(mine, "TIME STATE FROM TO ADDRESS", rf"{TIME} 2 (\d+) 80 \S+")
    assert int(row[0]) > 1023


# --- memory and interrupts ------------------------------------------------------------------------


@X86
def test_pagefaults(job):
    code = (
        "import mmap\n"
        "m = mmap.mmap(-1, 16 * mmap.PAGESIZE)\n"
        "for i in range(16): m[i * mmap.PAGESIZE] = 1"
    )
    maps = job.maps("pagefaults.ply", code)

    assert maps["@writes"].keys() == {job.name}
    assert 16 <= maps["@writes"][job.name] < 1000
    assert maps.keys() <= {"@reads", "@writes"}


@pytest.mark.usefixtures("loopback")
def test_softirqs(job):
    code = (
        "import socket\n"
        "a, b = (socket.socket(type=socket.SOCK_DGRAM) for _ in 'ab')\n"
        "b.bind(('127.0.0.1', 0))\n"
        "for _ in range(10): a.sendto(b'x', b.getsockname()); b.recv(1)"
    )
    found = job.map("softirqs.ply", code)

    assert found.keys() <= set(range(10))
    assert events(found[3]) >= 1


def test_hardirqs(job, tmp_path):
    # Where tmp_path is no disk, the checkout may be on a device.
    code = (
        "import os\n"
        f"file = os.open({str(tmp_path / 'file')!r}, os.O_WRONLY | os.O_CREAT)\n"
        "for _ in range(5): os.write(file, b'x'); os.fsync(file)\n"
        f"for n in range(5): os.path.exists({str(ROOT)!r} + f'/no such {{n}}')"
    )
    maps = job.maps("hardirqs.ply", code, "")

    if not maps:
        pytest.skip("no device interrupts here")
    known = Path("/proc/interrupts").read_text()
    assert [name for name in maps["@"] if name in known] == list(maps["@"])
