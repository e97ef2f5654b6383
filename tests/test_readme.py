"""Run what the README shows: each command of its consoles, each line of its Python.

Of other pages, the consoles are run.

A comment in front of a block says what is special about it: ``live`` wants a kernel that lets us
trace; where ``numbers vary``, digits and the rows of histograms are not compared; ``not run`` gives
a reason. ``…`` stands for anything. A prompt ``#`` is root's, so it only occurs in live blocks.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


@dataclass(frozen=True)
class Block:
    note: str
    language: str
    text: str

    @property
    def live(self):
        return self.note.startswith("live")

    @property
    def title(self):
        return self.text.splitlines()[0]


def blocks_of(text):
    """Return the blocks of a page."""
    form = r"^(?:<!-- ([^\n]*) -->\n)?```(\w*)\n(.*?)^```$"
    return [Block(*found) for found in re.findall(form, text, re.MULTILINE | re.DOTALL)]


BLOCKS = blocks_of(README)
OTHERS = [
    block
    for page in ("assembler", "btf")
    for block in blocks_of((ROOT / f"docs/{page}.md").read_text())
    if block.language == "console"
]


def blocks(language):
    """Return parameters of a test: the blocks of a language, those of root marked ``kernel``."""
    return [
        pytest.param(b, id=b.title, marks=[pytest.mark.kernel] * b.live)
        for b in [*BLOCKS, *OTHERS]
        if b.language == language
    ]


def commands(text):
    """Yield each prompt, the command behind it, and what it is said to print."""
    lines = text.splitlines(keepends=True)
    while lines:
        prompt, command = lines[0][0], lines.pop(0)[2:]
        while is_open(command):
            command += lines.pop(0)
        output = ""
        while lines and not lines[0].startswith(("$ ", "# ")):
            output += lines.pop(0)
        yield prompt, command, output


def is_open(command):
    """Whether the shell would wait for another line."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    return command.rstrip().endswith(("\\", "|"))


def pattern(expected):
    """Return an expression that matches a text in which ``…`` may stand for anything."""
    return ".*".join(re.escape(part) for part in re.split(r"…\n?", expected))


def without_numbers(text):
    lines = [line for line in text.splitlines() if not line.startswith("\t")]
    return "\n".join(re.sub(r"\s+", " ", re.sub(r"[0-9]+", "0", line)).strip() for line in lines)


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Run a command with this checkout's pybpf on its path; return its status and output."""
    command = tmp_path / "pybpf"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pybpf "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONUTF8", "1")

    def run(line):
        result = subprocess.run(
            ["sh", "-c", line],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
        return result.returncode, result.stdout

    return run


def test_every_block_is_of_a_kind_that_is_run():
    assert {block.language for block in BLOCKS} == {"console", "pycon"}
    assert len(BLOCKS) == README.count("\n```") / 2
    assert {block.note.partition(":")[0] for block in BLOCKS} <= {"", "live", "not run"}


def test_what_needs_root_says_so():
    for block in BLOCKS:
        if block.language == "console" and not block.live:
            assert {prompt for prompt, _, _ in commands(block.text)} == {"$"}


@pytest.mark.parametrize("block", blocks("console"))
def test_a_console_shows_what_happens(block, shell, request):
    kind, _, reason = block.note.partition(": ")
    if kind == "not run":
        pytest.skip(f"not run: {reason}")
    if block.live:
        request.getfixturevalue("tracing")
    if ".venv" in block.text or "make" in block.text:
        require_venv()
    for _, command, expected in commands(block.text):
        status, printed = shell(command)
        compared = without_numbers if "numbers vary" in block.note else str

        assert re.fullmatch(pattern(compared(expected)), compared(printed), re.DOTALL), printed
        assert status == (1 if ": error: " in printed else 0)


def require_venv():
    """Skip where `make` would first build something."""
    query = ["make", "--question", ".venv/.installed"]
    if subprocess.run(query, cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("`make` has not installed the checkout in .venv")


def run_python(chosen, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = "".join(block.text for block in BLOCKS if block.language == "pycon" and chosen(block))
    example = doctest.DocTestParser().get_doctest(text, {}, "README.md", "README.md", 0)
    report = []
    result = doctest.DocTestRunner().run(example, out=report.append)

    assert result.attempted > 0
    assert not result.failed, "".join(report)


def test_the_python_examples_run(monkeypatch):
    run_python(lambda block: not block.live, monkeypatch)


@pytest.mark.kernel
@pytest.mark.usefixtures("tracing")
def test_the_python_examples_that_trace_run(monkeypatch):
    run_python(lambda _: True, monkeypatch)
