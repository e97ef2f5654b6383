"""Run the command line, in this process or in one of its own."""

import os
import signal
import subprocess
import sys
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


class Process(subprocess.Popen):
    """``python -m pybpf`` with pipes for its output."""

    def __init__(self, *arguments, before=(), **options):
        # Python's own buffering is part of what is tested.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        super().__init__(
            [*before, sys.executable, "-m", "pybpf", *map(str, arguments)],
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
            text=True,
            env=environment | {"PYTHONPATH": str(ROOT)},
        )

    def end(self, number=None):
        """Send a signal, wait for the end and return what was said since."""
        if number is not None:
            self.send_signal(number)
        out, err = self.communicate(timeout=60)
        return Said(self.returncode, out, err)


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
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


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
