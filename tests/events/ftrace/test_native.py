"""A buffer of this machine's kernel, filled by a process of the test's own, is read whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[3]

# Runs in a mount namespace of its own, so that tracefs is mounted for no one else.
CAPTURE = """
import json, os, subprocess, sys
from pathlib import Path
from pybpf.events.ftrace.lines import parse_lines
from pybpf.events.ftrace.pages import parse_header_page
from pybpf.events.ftrace.reader import Lost, PageReader, RecordFormats, merge
from pybpf.tracefs.format import parse_format

tracing = Path("/sys/kernel/tracing")
if not tracing.is_mount():
    subprocess.run(["mount", "-t", "tracefs", "tracefs", tracing], check=True)
names = ("raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "sched/sched_process_exec")
buffer = tracing / f"instances/pybpf_test_{os.getpid()}"
buffer.mkdir()
try:
    (buffer / "buffer_size_kb").write_text(sys.argv[1])
    for name in names:
        (buffer / "events" / name / "enable").write_text("1")
    child = f"echo $$ > {buffer}/set_event_pid; exec dd if=/dev/zero of=/dev/null bs=1 count=500"
    subprocess.run(["sh", "-c", child], check=True, stderr=subprocess.DEVNULL)
    (buffer / "tracing_on").write_text("0")
    layout = parse_header_page((tracing / "events/header_page").read_text())
    texts = {name: (buffer / "events" / name / "format").read_text() for name in names}
    formats = RecordFormats(parse_format(text, name) for name, text in texts.items())
    lines = list(parse_lines((buffer / "trace").read_bytes().splitlines(keepends=True)))
    cpus, readers, overruns = [], [], 0
    for number in range(os.cpu_count()):
        folder = buffer / f"per_cpu/cpu{number}"
        stats = dict(line.split(": ") for line in (folder / "stats").read_text().splitlines())
        overruns += int(stats["overrun"])
        readers.append(PageReader(formats, number, layout))
        fd = os.open(folder / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
        items = []
        while True:
            try:
                page = os.read(fd, layout.size)
            except BlockingIOError:
                break
            if not page:
                break
            items += readers[-1].feed_raw(page)
        os.close(fd)
        cpus.append(items)
finally:
    (buffer / "tracing_on").write_text("0")
    buffer.rmdir()
records = [item for item in merge(cpus) if not isinstance(item, Lost)]
lines = [line for line in lines if not isinstance(line, Lost)]
print(json.dumps({
    "records": [formats.text(raw) for raw in records],
    "lines": [f"{line.event}: {line.text.decode()}" for line in lines],
    "decoded": [formats.decode(raw).event for raw in records],
    "overruns": overruns,
    "lost": sum(reader.lost for reader in readers),
    "unknown": sum(reader.unknown for reader in readers),
}))
"""


@pytest.fixture(autouse=True)
def needs():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    # An instance cannot be made where tracefs cannot be mounted, or is read-only.
    probe = (
        "cd /sys/kernel/tracing && { mountpoint -q . || mount -t tracefs tracefs .; } && "
        "cd . && mkdir instances/pybpf_test_$$ && rmdir instances/pybpf_test_$$"
    )
    run = subprocess.run(["unshare", "-m", "sh", "-c", probe], capture_output=True, check=False)
    if run.returncode:
        pytest.skip(f"no tracefs: {run.stderr.decode().strip()}")


def captured(kilobytes):
    command = ["unshare", "-m", sys.executable, "-c", CAPTURE, str(kilobytes)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_records_are_the_lines_of_trace():
    found = captured(4096)
    assert found["records"] == found["lines"]
    assert len(found["records"]) > 2000
    assert "sched/sched_process_exec" in found["decoded"]
    assert found["lost"] == found["overruns"] == found["unknown"] == 0


def test_the_records_lost_are_counted_as_the_kernel_counts_them():
    found = captured(16)
    assert found["records"] == found["lines"]
    assert found["unknown"] == 0
    assert found["lost"] == found["overruns"] > 1000
