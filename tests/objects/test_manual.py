"""Run what docs/objects.md shows, in a mount and network namespace of its own."""

import re
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/objects.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.kernel


def blocks(language):
    return [
        pytest.param(text, id=text.splitlines()[0]) for kind, text in BLOCKS if kind == language
    ]


def pattern(expected):
    return ".*".join(re.escape(part) for part in re.split(r"…\n?", expected))


LINKS = "cd $FS/..; for o in $OBJECTS/*.el.o; do n=${o##*/}; ln -sf $o ${n%.el.o}.o; done\n"


@pytest.mark.parametrize("block", blocks("console"))
def test_a_console_shows_what_happens(block, apart):
    line, expected = block.split("\n", 1)
    assert line.startswith("# pybpf load ")
    done = apart(f'{LINKS}pybpf() {{ shift; load "$@"; }}\n{line[2:]} 2>&1', check=False)
    assert re.fullmatch(pattern(expected), done.stdout, re.DOTALL), done.stdout + done.stderr
    assert done.returncode == (1 if "error: " in expected else 0)


@pytest.mark.parametrize("block", blocks("python"))
def test_python_does_what_it_says(block, apart):
    done = apart(f"{LINKS}{sys.executable} -W error - <<'END'\n{block}END\n", check=False)
    assert done.stderr == ""
    assert done.returncode == 0
