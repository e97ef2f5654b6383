"""What typical scripts are understood as and compile to, as text; each of them also runs.

A script NAME.ply runs on the events of NAME.jsonl, and prints NAME.out, which a person checked.
NAME.txt holds the dumps: UPDATE_GOLDEN=1 (or ``pytest --update-golden``) rewrites it, and the diff
is for a person to judge. All are for Linux 6.12 on x86-64.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybpf.compiler.dump import dump
from pybpf.compiler.pipeline import compile_script
from pybpf.output.text import render
from pybpf.rows import ExitRow
from pybpf.source import Source
from pybpf.vm.driver import read_events, run_events

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "scripts"
SCRIPTS = sorted(GOLDEN.glob("*.ply"))


def read(path):
    return Source(path.name, path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_dumps(path, target_612):
    found = "".join(
        f"-- {stage}\n{dump(read(path), target_612, stage)}" for stage in ("types", "asm")
    )

    wanted = path.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        wanted.write_text(found)
    assert found == wanted.read_text()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_runs(path, target_612):
    script = compile_script(read(path), target_612)
    events = list(read_events(read(path.with_suffix(".jsonl"))))

    rows = list(run_events(script, target_612, events))

    printed = "".join(
        f"exit {row.code}\n" if isinstance(row, ExitRow) else render(row, target_612.symbols)
        for row in rows
    )
    assert printed == path.with_suffix(".out").read_text()
