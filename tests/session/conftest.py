"""Run scripts on this kernel in the test's own process; afterwards nothing may be left of them."""

import os
import sys
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest


@dataclass
class Result:
    """A run that is over. ``printed`` is its text without maps, ``maps`` are plain dicts.

    ``misses`` are events that the kernel skipped, as another program ran on that CPU; Linux 7 does
    that to system calls of other processes too.
    """

    rows: list
    printed: str
    maps: dict
    status: int
    ending: object
    lost: dict
    misses: int

    def all_but_misses(self, counted, known):
        """Return whether all events were counted that the kernel did not skip."""
        return known - self.misses <= counted <= known


def open_files():
    return sorted(str(p.readlink()) for p in Path("/proc/self/fd").iterdir() if p.is_symlink())


def kernel_mounts():
    text = Path("/proc/self/mounts").read_text()
    return [line for line in text.splitlines() if line.split()[2] in {"tracefs", "debugfs", "bpf"}]


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = open_files(), kernel_mounts(), threading.active_count()
    yield
    assert (open_files(), kernel_mounts(), threading.active_count()) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.fixture
def run(objects_of, gone):
    """Return a function that runs a script to its end, and checks that it takes all with it."""
    from pybpf.compiler.pipeline import Options, compile_script
    from pybpf.kernel.child import Child
    from pybpf.kernel.live import LiveTarget
    from pybpf.output import jsonl
    from pybpf.output.columns import BlockRenderer, text_form
    from pybpf.output.text import render
    from pybpf.output.values import Style
    from pybpf.rows import Block, LostRow, MapRow
    from pybpf.session import Session
    from pybpf.target.symbols import SymbolTable

    style = Style(SymbolTable())

    def plain_key(key, t):
        found = jsonl.plain(key, t, style)
        return tuple(map(str, found)) if isinstance(found, list) else found  # of a stack

    def plain(row):
        parts = [
            [plain_key(k, t) for k, t in zip(key, row.keys, strict=True)] for key, _ in row.entries
        ]
        values = [jsonl.plain(value, row.value, style) for _, value in row.entries]
        keys = [part[0] if len(part) == 1 else tuple(part) for part in parts]
        return dict(zip(keys, values, strict=True))

    class Older(LiveTarget):
        """This machine, as if its kernel lacked features."""

        features = frozenset()

    def run(
        text,
        command=None,
        *,
        strict=False,
        timeout=None,
        environment=(),
        old=False,
        blocks=False,
        **sizes,
    ):
        environment = {"hammer": NAME, **dict(environment)}
        options = Options(**sizes)
        with ExitStack() as stack:
            child = None
            if command is not None:
                child = stack.enter_context(Child(command))
                environment["target"] = str(child.pid)
            target = (Older if old else LiveTarget)(environment)
            script = compile_script(text, target, options)
            session = stack.enter_context(Session(script, target, child=child, strict=strict))
            objects = objects_of()
            assert {kind for kind, _ in objects} >= {"prog"}
            rows = list(session.blocks(timeout) if blocks else session.rows(timeout))
            rows += session.finish_blocks() if blocks else session.finish()
            misses = session.recursion_misses()
        assert gone(objects)
        own = [row for row in rows if not isinstance(row, MapRow | LostRow)]
        in_columns = BlockRenderer(script.events, partial(text_form, style=style))
        return Result(
            rows,
            "".join(
                in_columns(row) if isinstance(row, Block) else render(row, SymbolTable())
                for row in own
            ),
            {row.name: plain(row) for row in rows if isinstance(row, MapRow)},
            session.status,
            session.ending,
            {row.map: row.records for row in rows if isinstance(row, LostRow)},
            misses,
        )

    return run


# Other runs of these tests may hammer at the same time.
NAME = f"hammer{os.getpid()}"
HAMMER = """
import os, sys, time
with open("/proc/self/comm", "w") as file:
    file.write(sys.argv.pop(1))
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        getppid = os.getppid
        for _ in range(int(sys.argv[2])):
            getppid()
            if len(sys.argv) > 3:
                time.sleep(float(sys.argv[3]))
        os._exit(0)
for _ in range(int(sys.argv[1])):
    os.wait()
"""


@pytest.fixture
def hammer(tmp_path):
    """Return a function: a command for ``-c``, whose processes call getppid so many times each.

    They may rest after each call, for some seconds. ``$hammer`` is the name of these processes; the
    command itself calls it never.
    """
    path = tmp_path / "hammer.py"
    path.write_text(HAMMER)
    return lambda *numbers: f"{sys.executable} -I -S {path} {NAME} {' '.join(map(str, numbers))}"
