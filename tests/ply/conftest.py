"""Run scripts as a user of ply does: on this kernel, or in the VM where no kernel is needed."""

import json
import sys
from dataclasses import dataclass

import pytest

from pybpf.cli import main
from pybpf.compiler.pipeline import Options, compile_script
from pybpf.errors import PybpfError
from pybpf.output.text import render
from pybpf.rows import ExitRow, LostRow, MapRow
from pybpf.source import Source
from pybpf.target.symbols import SymbolTable
from pybpf.vm.driver import read_events, run_events


@dataclass(frozen=True)
class Said:
    """What a command line left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str


@pytest.fixture
def ply(capfd):
    """Return a function: the arguments of ply in, what it said out."""

    def ply(*arguments):
        capfd.readouterr()
        status = main(["run", *map(str, arguments)])
        sys.stdout.flush()
        return Said(status, *capfd.readouterr())

    return ply


@dataclass(frozen=True)
class Result:
    """A run that is over: what it printed but for the maps, the maps as dicts, and how it ended."""

    printed: str
    maps: dict
    status: int
    lost: dict
    misses: int
    """Events that the kernel skipped, as another program ran on that CPU."""

    @property
    def lines(self):
        return self.printed.splitlines()


@pytest.fixture
def run(tracing):  # noqa: ARG001 - skips where nobody may trace
    """Return a function that runs a script on this kernel until it, or its command, ends."""
    import pybpf

    def run(script, command=None, *, timeout=30, environment=(), **sizes):
        with pybpf.trace(
            script, command=command, environment=dict(environment), options=Options(**sizes)
        ) as t:
            rows = [*t.rows(timeout), *t.finish()]
            own = [row for row in rows if not isinstance(row, MapRow | LostRow)]
            maps = {name: t.maps[name] for name in t.maps}
            lost = {row.map: row.records for row in rows if isinstance(row, LostRow)}
            return Result(
                "".join(map(t.text, own)),
                maps,
                t._session.status,
                lost,
                t._session.recursion_misses(),
            )

    return run


@pytest.fixture
def vm(target_612):
    """Return a function: a script and events in, all that it prints on Linux 6.12 out.

    An error is its text, but for the lines that quote the script.
    """

    def vm(script, *events):
        recorded = read_events(Source("events", "\n".join(map(json.dumps, events))))
        try:
            compiled = compile_script(script, target_612)
        except PybpfError as error:
            return said(error)
        rows = run_events(compiled, target_612, recorded)
        return "".join(render(r, SymbolTable()) for r in rows if not isinstance(r, ExitRow))

    return vm


def said(error):
    """Return an error without the text it quotes: its first line and its hints."""
    return "\n".join(line for line in str(error).splitlines() if not line.startswith("    "))
