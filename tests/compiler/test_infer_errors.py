"""What is said of scripts whose names or types do not fit, in full.

The files of tests/data/errors hold a script, then what is said of it, and so on. UPDATE_GOLDEN=1
(or ``pytest --update-golden``) rewrites what is said; the diff is for a person to judge.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pybpf.compiler import foreign
from pybpf.compiler.builtins import CALLABLE, VALUES
from pybpf.compiler.infer import infer
from pybpf.compiler.parser import parse_text
from pybpf.errors import ScriptTypeError, TargetError
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


class Locked(SnapshotTarget):
    """A machine whose tracefs we may not read."""

    def event_format(self, _name):
        raise TargetError("cannot read /t: Permission denied", hints=["run as root"])

    event_names = functions = lambda self: self.event_format("")


def test_what_cannot_be_read_is_said_once():
    locked = Locked.load(SNAPSHOT)
    text = "tracepoint:a/b { x(); }\nt:c/* { }\nk:vfs_* { nosuch(); }\nkr:x* { }"
    assert said(text, locked) == (
        "<script>:1:1: error: cannot read /t: Permission denied\n"
        "    tracepoint:a/b { x(); }\n"
        "    ^^^^^^^^^^^^^^\n"
        "  hint: run as root"
    )


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("t:sched/sched_switch { print(args->prev_pid); }", "variable 'args' in tracepoint",
         "bpftrace's args is here data (arg0, arg1 … in kprobe probes)"),
        ("BEGIN { @ = hist(1); }", "function 'hist' in BEGIN", "bpftrace's hist is here quantize"),
        ("BEGIN { @ = lhist(1, 0, 9, 1); }", "function 'lhist' in BEGIN",
         "bpftrace's lhist is here quantize (by powers of two)"),
        ("BEGIN { print(nsecs); }", "variable 'nsecs' in BEGIN", "bpftrace's nsecs is here time"),
        ("BEGIN { print(tid); }", "variable 'tid' in BEGIN", "bpftrace's tid is here kpid"),
        ("BEGIN { @[kstack] = count(); }", "variable 'kstack' in BEGIN",
         "bpftrace's kstack is here stack"),
        ("BEGIN { @[ustack] = count(); }", "variable 'ustack' in BEGIN",
         "there is no ustack as in bpftrace: stack is the kernel's"),
        ("BEGIN { @ = avg(1); }", "function 'avg' in BEGIN",
         "there is no avg as in bpftrace: keep sum() and count() in two maps"),
    ],
)  # fmt: skip
def test_words_of_bpftrace(kernel, text, name, hint):
    first, *_, last = said(text, kernel).splitlines()
    assert first.partition("error: ")[2] == f"unknown {name}"
    assert last == f"  hint: {hint}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("fentry:vfs_read { }", "bpftrace's fentry is here kprobe"),
        ("hardware:cache-misses:1000 { }",
         "bpftrace's hardware is here profile, at times instead of events"),
        ("uprobe:/bin/sh:main { }",
         "there is no uprobe as in bpftrace: probes are put on the kernel only"),
    ],
)  # fmt: skip
def test_providers_of_bpftrace(kernel, text, hint):
    first, *_, advice, known = said(text, kernel).splitlines()
    assert first.partition("error: ")[2] == f"unknown provider '{text.partition(':')[0]}'"
    assert advice == f"  hint: {hint}"
    assert known.startswith("  hint: there are kprobe, ")


def test_words_of_bpftrace_are_no_words_here():
    """Else a misspelt name would not be answered with the nearest ones."""
    assert not {*foreign._RENAMED, *foreign._MISSING} & {*CALLABLE, *VALUES}
