"""Tests in this folder run in a guest kernel, where a crash costs nothing, and skip elsewhere.

Emulation is slow and so is the start of Python in it: tests trace their own process, from within.
"""

import ctypes
import os
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

SKIP = pytest.mark.skip(reason="needs kprobes: run make test-kernels")
KPROBES = Path("/sys/kernel/debug/kprobes/list")
EVENTS = Path("/sys/kernel/tracing/kprobe_events")
ENABLED = Path("/sys/kernel/tracing/enabled_functions")


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("guest")
            if "PYBPF_GUEST" not in os.environ:  # set by tools/guest.py
                item.add_marker(SKIP)


@pytest.fixture(scope="session")
def in_the_kernel():
    """Return a function: what the kernel holds out: programs, links, kprobes, traced functions."""
    from pybpf.kernel import syscall

    def in_the_kernel():
        objects = [set(syscall.object_ids(kind)) for kind in (syscall.Kind.PROG, syscall.Kind.LINK)]
        texts = [path.read_text().splitlines() for path in (KPROBES, EVENTS, ENABLED)]
        return *objects, *map(set, texts)

    return in_the_kernel


@pytest.fixture(scope="session")
def settled(in_the_kernel):
    """Return a function that waits until the kernel holds nothing more than it did before.

    It frees in its own time, so that what an earlier test left may have been there before.
    """

    def settled(before):
        until = time.monotonic() + 30
        while more := [now - old for now, old in zip(in_the_kernel(), before, strict=True)]:
            if not any(more):
                return
            assert time.monotonic() < until, more
            time.sleep(0.05)

    return settled


@dataclass
class Result:
    """A run that is over: what it printed but for the maps, and the maps as dicts."""

    printed: str
    maps: dict
    skipped: list
    ending: object
    lost: int


@pytest.fixture(scope="session")
def target():
    """This machine. Its symbols and functions are read once for all tests: that takes seconds."""
    from pybpf.kernel import live

    return live.LiveTarget()


@pytest.fixture(autouse=True)
def _shared_target(request, monkeypatch):
    if "PYBPF_GUEST" not in os.environ:
        return
    from pybpf import tracing
    from pybpf.kernel import live

    target = request.getfixturevalue("target")

    class Shared(live.LiveTarget):
        symbols = property(lambda _: target.symbols)
        functions = target.functions

    monkeypatch.setattr(live, "LiveTarget", Shared)
    monkeypatch.setattr(tracing, "LiveTarget", Shared)


@pytest.fixture
def run(in_the_kernel, settled):
    """Return a function that runs a script while this process acts; $self is its process id.

    Without an act the run lasts until the script or the command ends. Nothing may be left of it.
    """
    import pybpf
    from pybpf.rows import LostRow, MapRow

    before = in_the_kernel()

    def run(script, act=None, *, command=None, timeout=60, **options):
        environment = {"self": str(os.getpid())} | options.pop("environment", {})
        with pybpf.trace(script, command=command, environment=environment, **options) as t:
            if act:
                act()
            rows = [] if act else list(t.rows(timeout))
            rows += t.finish()
            return Result(
                "".join(t.text(row) for row in rows if not isinstance(row, MapRow | LostRow)),
                {name: t.maps[name] for name in t.maps},
                t._session.skipped,
                t.ending,
                sum(row.records for row in rows if isinstance(row, LostRow)),
            )

    yield run
    settled(before)


class Process:
    """The command line in a process of its own."""

    def __init__(self, pid, out):
        self.pid = pid
        self.out = os.fdopen(out)

    def end(self, number=0):
        """Send a signal, if one is given; return the exit status, and what was left to read."""
        os.kill(self.pid, number)
        with self.out:
            text = self.out.read()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), text


@pytest.fixture
def start():
    """Return a function that starts `pybpf run` with arguments: forked, as Python starts slowly."""
    from pybpf import cli

    def main(out, arguments, first):
        status = 99
        try:
            os.dup2(out, 1)
            os.dup2(out, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            first()
            status = cli.main(["run", "-u", *arguments])
            sys.stdout.flush()
        except Exception:  # noqa: BLE001 - whoever reads our output wants to know
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def start(*arguments, first=lambda: None):
        out, of_the_child = os.pipe()
        pid = os.fork()
        if pid == 0:
            main(of_the_child, arguments, first)
        os.close(of_the_child)
        return Process(pid, out)

    return start


@pytest.fixture(scope="session")
def boundary():
    """Return a function: where in a function an instruction begins, after what ftrace replaces."""
    from pybpf.errors import KernelError
    from pybpf.kernel import features, syscall

    def boundary(function):
        for offset in range(5, 25):
            try:
                syscall.perf_open_probe(
                    features.pmu("kprobe").type, 0, function, offset, cpu=0
                ).close()
            except KernelError:
                continue
            return offset
        raise AssertionError(function)

    return boundary


FUTEX = 202
WAKE_BITSET, PRIVATE = 10, 128


@pytest.fixture(scope="session")
def futex():
    """Return a function that calls do_futex(word, 138, 1, 0, 0x66, 0x55, 0x77) in the kernel."""
    libc = ctypes.CDLL(None)
    word = ctypes.byref(ctypes.c_uint())
    rest = [ctypes.c_void_p(n) for n in (0x55, 0x66, 0x77)]

    def futex(times=1):
        for _ in range(times):
            assert libc.syscall(FUTEX, word, WAKE_BITSET | PRIVATE, 1, *rest) == 0

    return futex
