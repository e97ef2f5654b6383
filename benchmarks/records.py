"""Measure how many records of trace buffers a second are decoded, beside ``trace-cmd report``.

A buffer of an instance of its own is filled with what one process does; its pages, as
``trace_pipe_raw`` gives them, are what all read. ``trace-cmd restore`` makes a file of the same
pages that ``trace-cmd report`` takes.
"""

from __future__ import annotations

import heapq
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from plan import Plan
from pybpf.events.ftrace.jsonl import to_json
from pybpf.events.ftrace.lines import line_of
from pybpf.events.ftrace.reader import Lost, PageReader, RecordFormats, merge, pages_of, read_pages
from pybpf.tracefs.format import parse_format
from report import Finding, Spread, Table
from tracers import BenchmarkError

_TRACING = Path("/sys/kernel/tracing")
_EVENTS = ("raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "sched/sched_switch")
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Capture:
    """The pages of each CPU in a file, the formats, and what ``trace-cmd`` makes of the pages."""

    cpus: tuple[Path, ...]
    formats: RecordFormats
    report: Path | None


def measure(plan: Plan) -> Finding:
    """Time every reader a few times, in turns, on the same pages."""
    with tempfile.TemporaryDirectory() as folder:
        plan.say("records: capturing")
        capture = _capture(Path(folder), copies=20_000 if plan.quick else 250_000)
        readers: dict[str, Callable[[Capture], int]] = {
            "pybpf, typed records": _typed,
            "pybpf, typed records merged by time": _merged,
            "pybpf, JSON lines": _json,
            "pybpf, the lines of trace": _lines,
        }
        if capture.report is not None:
            readers["trace-cmd report"] = _report
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        counts: dict[str, int] = {}
        for number in plan.rounds(full=7, quick=2):
            for name, read in readers.items():
                plan.say(f"records: {number + 1}: {name}")
                start = time.perf_counter()
                counts[name] = read(capture)
                seconds[name].append(time.perf_counter() - start)
    if len(set(counts.values())) > 1:
        raise BenchmarkError(f"not all found the same number of records: {counts}")
    return Finding(_data(counts, seconds), (_table(counts, seconds),))


def _data(counts: dict[str, int], seconds: dict[str, list[float]]) -> list[dict[str, object]]:
    return [
        {"name": name, "records": counts[name], "seconds": Spread(tuple(values)).data()}
        for name, values in seconds.items()
    ]


def _table(counts: dict[str, int], seconds: dict[str, list[float]]) -> Table:
    rows = []
    for name, values in seconds.items():
        spread = Spread(tuple(values))
        rate = counts[name] / spread.median
        rows.append([name, spread.scaled(1000).shown(), f"{rate:,.0f}"])
    number = f"{max(counts.values()):,}"
    note = f"{number} records of system calls and switches, from the pages of trace_pipe_raw."
    return Table("Records of trace buffers", ["reader", "ms", "records a second"], rows, note)


@contextmanager
def _instance() -> Iterator[Path]:
    folder = _TRACING / "instances" / f"pybpf_benchmark_{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        raise BenchmarkError(f"no buffer can be made: {error}") from None
    try:
        yield folder
    finally:
        (folder / "tracing_on").write_text("0")
        folder.rmdir()


def _capture(folder: Path, copies: int) -> Capture:
    """Trace a process that reads and writes ``copies`` times, a byte at a time."""
    with _instance() as instance:
        (instance / "buffer_size_kb").write_text("131072")
        for name in _EVENTS:
            (instance / "events" / name / "enable").write_text("1")
        script = f"echo $$ > '{instance}/set_event_pid'; "
        script += f"exec dd if=/dev/zero of=/dev/null bs=1 count={copies} status=none"
        subprocess.run(["sh", "-c", script], check=True)
        (instance / "tracing_on").write_text("0")
        cpus = []
        for number in range(os.cpu_count() or 1):
            cpus.append(folder / f"cpu{number}")
            _save(instance / f"per_cpu/cpu{number}/trace_pipe_raw", cpus[-1])
        texts = [(name, (instance / "events" / name / "format").read_text()) for name in _EVENTS]
    formats = RecordFormats(parse_format(text, name) for name, text in texts)
    return Capture(tuple(cpus), formats, _restored(folder, cpus))


def _save(source: Path, target: Path) -> None:
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with target.open("wb") as file:
            while page := _page(fd):
                file.write(page)
    finally:
        os.close(fd)


def _page(fd: int) -> bytes:
    try:
        return os.read(fd, _PAGE)
    except BlockingIOError:
        return b""


def _restored(folder: Path, cpus: list[Path]) -> Path | None:
    """Return a file for ``trace-cmd report``; None where there is no trace-cmd."""
    if shutil.which("trace-cmd") is None:
        return None
    head, whole = folder / "head.dat", folder / "trace.dat"
    # It refuses kallsyms that change while it reads them, as they do whenever a program is loaded.
    for _ in range(20):
        if not _restore("-c", "-o", head):
            break
    if message := _restore("-i", head, "-o", whole, *cpus):
        raise BenchmarkError(f"trace-cmd restore: {message}")
    return whole


def _restore(*arguments: str | Path) -> str:
    """Run ``trace-cmd restore`` and return what it says if it fails."""
    command = ["trace-cmd", "restore", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return (run.stderr or run.stdout or "failed").strip() if run.returncode else ""


@contextmanager
def _opened(capture: Capture) -> Iterator[list[BinaryIO]]:
    files: list[BinaryIO] = [path.open("rb") for path in capture.cpus]
    try:
        yield files
    finally:
        for file in files:
            file.close()


def _count(items: Iterable[object]) -> int:
    return sum(1 for item in items if type(item) is not Lost)


def _typed(capture: Capture) -> int:
    with _opened(capture) as files:
        return sum(
            _count(read_pages(file, capture.formats, cpu=cpu)) for cpu, file in enumerate(files)
        )


def _merged(capture: Capture) -> int:
    with _opened(capture) as files:
        streams = [read_pages(file, capture.formats, cpu=cpu) for cpu, file in enumerate(files)]
        return _count(merge(streams))


def _json(capture: Capture) -> int:
    found = 0
    with _opened(capture) as files, Path(os.devnull).open("w") as out:
        streams = [read_pages(file, capture.formats, cpu=cpu) for cpu, file in enumerate(files)]
        for item in merge(streams):
            out.write(to_json(item) + "\n")
            found += type(item) is not Lost
    return found


def _lines(capture: Capture) -> int:
    found, formats = 0, capture.formats
    with _opened(capture) as files, Path(os.devnull).open("wb") as out:
        readers = [PageReader(formats, cpu) for cpu in range(len(files))]
        streams = [
            (raw for page in pages_of(file, reader.layout) for raw in reader.feed_raw(page))
            for reader, file in zip(readers, files, strict=True)
        ]
        for raw in heapq.merge(*streams, key=lambda item: item.timestamp):
            if isinstance(raw, Lost):
                continue
            out.write(line_of(raw, formats.text(raw), {}) + b"\n")
            found += 1
    return found


def _report(capture: Capture) -> int:
    """Let trace-cmd print all; its lines are counted by what writes least of them."""
    command = ["trace-cmd", "report", "-i", str(capture.report)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = run.stdout.splitlines()
    return sum(1 for line in lines if b": " in line and b"EVENTS DROPPED" not in line)
