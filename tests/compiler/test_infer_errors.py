"""What is said of scripts whose names or types do not fit, in full.

The files of tests/data/errors hold a script, then what is said of it, and so on. UPDATE_GOLDEN=1
(or ``pytest --update-golden``) rewrites what is said; the diff is for a person to judge.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.errors import ScriptTypeError
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget

DATA = Path(__file__).parents[1] / "data"
SNAPSHOT = DATA / "targets" / "6.12.tar.gz"
FILES = sorted((DATA / "errors").glob("*.txt"))


def read(path):
    """Return the (script, message) pairs of a file."""
    parts = re.split(r"^---- (?:script|says)\n", path.read_text(), flags=re.MULTILINE)
    texts = [part.removesuffix("\n") for part in parts[1:]]
    return list(zip(texts[::2], texts[1::2], strict=True))


def said(text, target):
    with pytest.raises(ScriptTypeError) as caught:
        infer(parse_text(Source("<script>", text)), target)
    return str(caught.value)


@pytest.fixture(scope="module")
def kernel():
    """Return Linux 6.12 on two CPUs, with two words in the environment."""
    return SnapshotTarget.load(SNAPSHOT, environment={"WORD": "dd", "EMPTY": ""})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_errors(path, kernel):
    wanted = read(path)

    found = [(text, said(text, kernel)) for text, _ in wanted]

    if os.environ.get("UPDATE_GOLDEN"):
        cases = [f"---- script\n{text}\n---- says\n{message}\n" for text, message in found]
        path.write_text("".join(cases))
    for one, other in zip(found, wanted, strict=True):
        assert one == other


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tracepoint:a/b { }",
            """\
<script>:1:1: error: unknown tracepoint 'a/b'
    tracepoint:a/b { }
    ^^^^^^^^^^^^^^""",
        ),
        (
            "tracepoint:a/* { }",
            """\
<script>:1:1: error: the target has no tracepoints
    tracepoint:a/* { }
    ^^^^^^^^^^^^^^""",
        ),
        (
            "tracepoint:ab { }",
            """\
<script>:1:1: error: 'ab' is no tracepoint
    tracepoint:ab { }
    ^^^^^^^^^^^^^
  hint: CATEGORY/EVENT, as in tracepoint:sched/sched_switch""",
        ),
        (
            "kprobe:a* { }",
            """\
<script>:1:1: error: no function of this kernel matches 'a*'
    kprobe:a* { }
    ^^^^^^^^^""",
        ),
        (
            "profile:1:1hz { }",
            """\
<script>:1:1: error: there is no CPU 1; the only one is 0
    profile:1:1hz { }
    ^^^^^^^^^^^^^""",
        ),
    ],
)
def test_a_target_that_knows_nothing(text, message):
    assert said(text, SnapshotTarget()) == message


@pytest.mark.parametrize("spec", ["tracepoint:a/b", "tracepoint:a/*"])
def test_a_format_that_cannot_be_read(spec):
    target = SnapshotTarget(formats={"a/b": "name: b\nfield:int x;\toffset:8;\tsize:4;"})
    text = f"{spec} {{ print(data->x); }}"

    assert said(text, target) == (
        "<script>:1:1: error: format of a/b: no name or ID in it\n"
        f"    {text}\n"
        f"    {'^' * len(spec)}"
    )


def test_a_text_is_only_quoted_in_a_hint_where_it_is_short(kernel):
    long = '"' + "x" * 60 + '"'

    assert said(f"BEGIN {{ comm == {long}; }}", kernel).endswith("hint: write strcmp(comm, b) == 0")


def test_faults_stand_in_the_order_of_the_text(kernel):
    text = "BEGIN { x = 1; }\nEND { print(y[1]); }\nfoo:bar { }\nEND { print(z); }"

    lines = [line for line in said(text, kernel).splitlines() if line.startswith("<script>")]

    assert [line.split(":")[1] for line in lines] == ["2", "3", "4"]
