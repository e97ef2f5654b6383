"""Run the command line, in this process or in one of its own."""

import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from pybpf.cli import main

ROOT = Path(__file__).parents[2]


@dataclass
class Said:
    """What a command left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str


@pytest.fixture
def pybpf(capfd):
    """Return a function that runs a command in this process."""

    def run(*arguments):
        capfd.readouterr()
        status = main([str(a) for a in arguments])
        sys.stdout.flush()
        return Said(status, *capfd.readouterr())

    return run


@pytest.fixture
def stdin(monkeypatch):
    """Return a function that gives bytes to commands in this process as standard input."""

    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


class Process(subprocess.Popen):
    """``python -m pybpf`` with a pipe for its standard output."""

    def __init__(self, *arguments, before=(), **options):
        self.ended = False
        # Python's own buffering is part of what is tested.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - end() closes it
        super().__init__(
            [*before, sys.executable, "-m", "pybpf", *map(str, arguments)],
            **{"stdout": subprocess.PIPE, "stderr": self._errors} | options,
            text=True,
            env=environment | {"PYTHONPATH": str(ROOT)},
        )

    def end(self, number=None):
        """Send a signal, wait for the end and return what was said and not read so far."""
        self.ended = True
        if number is not None:
            self.send_signal(number)
        if self.stdin:
            self.stdin.close()
        # Not by communicate(): that forgets what readline() has read ahead.
        out = ""
        if self.stdout and not self.stdout.closed:
            with self.stdout:
                out = self.stdout.read()
        self.wait(timeout=60)
        with self._errors as errors:
            errors.seek(0)
            return Said(self.returncode, out, errors.read())


@pytest.fixture
def start():
    """Return a function that starts a command as a process; what still runs is killed."""
    started = []

    def run(*arguments, **options):
        process = Process(*arguments, **options)
        started.append(process)
        return process

    yield run
    for process in started:
        if not process.ended:
            process.end(signal.SIGKILL)


@pytest.fixture
def ended():
    """Return a function: whether a process is gone, or dead and waits for its parent to look."""

    def check(pid):
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                return True
            if state == "Z":
                return True
            time.sleep(0.01)
        return False

    return check
