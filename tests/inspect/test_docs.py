"""Run what docs/inspect.md shows; its C is compiled as it says. ``…`` stands for anything."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pybpf.inspect.facts import Facts, Judged, ProgramFacts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/inspect.md").read_text()
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def run(tmp_path):
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    (source,) = re.findall(r"^```c\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "demo.c").write_text(source)
    command = tmp_path / "pybpf"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pybpf "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1",
    }  # fmt: skip

    def run_line(line):
        done = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env=environment, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return done.stdout

    return run_line


def test_what_the_page_shows_happens(run):
    """One test for all: what a block makes, later ones look at."""
    assert BLOCKS
    for block in BLOCKS:
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            pattern = ".*".join(re.escape(part) for part in re.split(r"…\n?", expected))
            printed = run(command)
            assert re.fullmatch(pattern, printed, re.DOTALL), (command, printed)


def test_members_of_json_are_described():
    """Each field of the values that become JSON stands in the section about it."""
    (section,) = re.findall(r"^## JSON\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    described = set(re.findall(r"`(\w+)`", section))
    for kind in (Facts, Judged):
        assert set(kind.__slots__) <= described
    counted = {"mix", "helpers", "kfuncs", "maps", "core", "needs", "first", "verdict"}
    assert counted <= described & set(ProgramFacts.__slots__)
