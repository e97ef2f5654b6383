r"""What tracefs lists has lines that end in ``\n`` alone: strings in it hold what they like."""

import os

import pytest

from pybpf.kernel.fd import Fd
from pybpf.kernel.ftrace.cleanup import found
from pybpf.kernel.ftrace.instance import listed_triggers
from pybpf.kernel.ftrace.world import live_world
from pybpf.kernel.tracefs import Tree

ODD = "\x1c\x1e\x85\x0c\u2028\udcff"


@pytest.fixture
def files(tmp_path):
    """Return files as tracefs has them, and their folder."""
    with Fd(os.open(tmp_path, os.O_PATH)) as fd:
        yield Tree(fd.fileno(), "tracefs"), tmp_path


def test_strings_of_definitions_end_no_line(files):
    tree, folder = files
    lines = [f'p:a/b do_exit x=\\"1{ODD}{ODD}2"', "e:c/d a.b y=$z"]
    text = "".join(f"{line}\n" for line in lines)
    (folder / "dynamic_events").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert [(one.name, one.line) for one in found(tree)] == list(
        zip(["a/b", "c/d"], lines, strict=True)
    )
    assert [one.name for one in live_world(tree).existing] == ["a/b", "c/d"]


def test_strings_of_filters_end_no_line():
    trigger = f'hist:keys=a:vals=hitcount:sort=hitcount:size=2048 if b == "{ODD}#" [active]'
    assert listed_triggers(f"# Available triggers:\n# hist\n\n{trigger}\n") == [trigger]
