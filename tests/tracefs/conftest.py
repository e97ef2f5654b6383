"""What tests of dynamic events share: recorded kernels, and what they answered."""

import functools
import json
import lzma
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pybpf.dataclass import replace
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.profiles import profile
from pybpf.tracefs.dynevents.world import read_formats

DATA = Path(__file__).parents[1] / "data" / "dynevents"


def file_kind(path):
    """Stand for the guests' file system, as far as the rows go."""
    if "nosuch" in path:
        return "missing"
    return "other" if path in {"/usr/bin", "/tmp"} else "regular"


@functools.cache
def recorded(kernel):
    """Return the world of a recorded guest: one CPU, no dynamic events."""
    with lzma.open(DATA / f"formats-{kernel}.txt.xz", "rt") as file:
        formats = read_formats(file.read())
    return replace(profile(kernel, formats), files=file_kind)


def rows(kernel):
    """Return the recorded writes of a kernel."""
    with lzma.open(DATA / f"{kernel}.jsonl.xz", "rt") as file:
        return [json.loads(line) for line in file]


def prepared(world, steps):
    """Return the world after steps: definitions, or ``!events/GROUP/EVENT/enable=1``."""
    for step in steps:
        if match := re.fullmatch(r"!events/(\w+/\w+)/enable=1", step):
            events = [
                replace(event, enabled=True) if event.name == match[1] else event
                for event in world.existing
            ]
            world = replace(world, existing=tuple(events))
        else:
            verdict = judge(step, world)
            world = verdict.after
    return world


def answer(row, world):
    """Return the verdict on a row's write."""
    data = row["definition"].encode("utf-8", "surrogateescape")
    if row["size"] == len(data) + 1:
        data += b"\n"
    assert row["size"] == len(data)
    file = row["file"]
    world = prepared(world, row["setup"])
    return judge(data, world, file=file.lstrip(">"), truncate=file.startswith(">"))


def without_id(text):
    """Return a format file without its ID, which depends on what was made before."""
    return None if text is None else re.sub(r"\nID: \d+\n", "\nID: N\n", text)


@pytest.fixture(scope="session")
def record():
    """Give access to what was recorded of kernels."""
    return SimpleNamespace(
        world=recorded, rows=rows, prepared=prepared, answer=answer, without_id=without_id
    )
