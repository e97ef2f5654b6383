"""Run a tracer: a script in; its programs in the kernel, and in the end what it printed, out."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pybpf.errors import KernelError
from pybpf.isa.abi import ProgType
from pybpf.kernel import syscall
from pybpf.kernel.programs import Prog, ProgInfo
from pybpf.kernel.syscall import Kind
from tracers import BenchmarkError, Tracer

_PATIENCE, _SIGNAL_AGAIN = 60.0, 5.0
_QUIET = 0.4
_PROG_ID = re.compile(r"^prog_id:\s*(\d+)$", re.MULTILINE)
# "warning: 12 records lost" is pybpf's, "Lost 12 events" bpftrace's, once or again and again.
_LOST = re.compile(rb"(\d+) records? lost|Lost (\d+) events")


@dataclass(frozen=True, slots=True)
class Running:
    """A tracer that is attached.

    ``programs`` stay readable after its end: the kernel keeps them as long as they are open here.
    """

    process: subprocess.Popen[bytes]
    programs: Sequence[Prog]
    stdout: Path
    stderr: Path

    def infos(self) -> list[ProgInfo]:
        """Return what the kernel says now of each program."""
        return [program.info() for program in self.programs]

    def stop(self) -> None:
        """End the tracer as Ctrl-C does, and wait until it has printed all."""
        # bpftrace 0.17 sleeps on where the signal comes just before it goes to sleep.
        for _ in range(int(_PATIENCE // _SIGNAL_AGAIN)):
            _signal(self.process, signal.SIGINT)
            try:
                self.process.wait(_SIGNAL_AGAIN)
            except subprocess.TimeoutExpired:
                continue
            return
        raise BenchmarkError("it does not end when it is told to")

    def settle(self) -> None:
        """Wait until the output does not grow: what is left may be lost when the tracer ends."""
        size = -1
        while size != (size := self.stdout.stat().st_size):
            time.sleep(_QUIET)

    def output(self, record: re.Pattern[bytes]) -> tuple[int, int]:
        """Return how many lines are records, and how many records were said to be lost."""
        printed = 0
        lost = _lost(self.stderr.read_bytes())
        with self.stdout.open("rb") as lines:
            for line in lines:
                if record.match(line):
                    printed += 1
                else:
                    lost += _lost(line)
        return printed, lost


def _lost(said: bytes) -> int:
    return sum(int(one or other) for one, other in _LOST.findall(said))


@contextmanager
def attached(tracer: Tracer, script: str, *, programs: int = 1) -> Iterator[Running]:
    """Run a script on getppid, from when all of its programs have run once to the end of the block.

    Raises BenchmarkError where the tracer ends, or none of its programs runs.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="pybpf-benchmark-")))
        stdout, stderr = folder / "stdout", folder / "stderr"
        # The kernel counts runs for as long as this is open.
        stack.enter_context(syscall.enable_stats())
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = subprocess.Popen(
                tracer.command(script),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        stack.callback(_end, process)
        found = _wait_for_programs(process, programs, stack)
        if found is None:
            said = stderr.read_text(errors="replace") or stdout.read_text(errors="replace")
            raise BenchmarkError(f"{tracer.name} did not attach: {said.strip()[:500]}")
        yield Running(process, found, stdout, stderr)


def _wait_for_programs(
    process: subprocess.Popen[bytes], count: int, stack: ExitStack
) -> list[Prog] | None:
    """Return the programs of a process once ``count`` of them have run; None where that fails."""
    until = time.monotonic() + _PATIENCE
    opened: dict[int, Prog] = {}
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
        for number in _program_ids(process.pid) - opened.keys():
            if program := _open(number):
                opened[number] = stack.enter_context(program)
        os.getppid()  # an event, which shows who is attached
        ran = [program for program in opened.values() if _has_run(program)]
        if len(ran) == count:
            return ran
    return None


def _open(number: int) -> Prog | None:
    try:
        return Prog(syscall.object_by_id(Kind.PROG, number), "", ProgType.TRACEPOINT)
    except KernelError:  # it has gone: tracers load programs to find out what the kernel can do
        return None


def _has_run(program: Prog) -> bool:
    info = program.info()
    return info.prog_type is ProgType.TRACEPOINT and info.run_cnt > 0


def _program_ids(pid: int) -> set[int]:
    """Return the ids of the programs that a process and its descendants have open."""
    ids: set[int] = set()
    for entry in _entries(Path(f"/proc/{pid}/fdinfo")):
        ids |= {int(number) for number in _PROG_ID.findall(_text(entry))}
    for task in _entries(Path(f"/proc/{pid}/task")):
        for child in _text(task / "children").split():
            ids |= _program_ids(int(child))
    return ids


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # closed meanwhile
        return ""


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a process and what it started; it leads a session of its own."""
    if process.poll() is None:
        os.killpg(process.pid, number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process: politely, then not."""
    for number in (signal.SIGINT, signal.SIGKILL):
        _signal(process, number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue
        return
