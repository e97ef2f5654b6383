"""A script without events says the same on the kernel and in the VM."""

import pytest

from pybpf.compiler.pipeline import Options, compile_script
from pybpf.kernel.live import LiveTarget
from pybpf.output import jsonl
from pybpf.rows import ExitRow
from pybpf.target.symbols import SymbolTable
from pybpf.vm.driver import run_events

pytestmark = pytest.mark.kernel

SCRIPTS = [
    "BEGIN { exit(3); }",
    'BEGIN { print("a", 1); } BEGIN { print("b"); exit(2); print("c"); } END { print("d"); }',
    'BEGIN { m["x"] = 1; print(m); } BEGIN { m["x"] = 2; } END { exit(0); }',
    'BEGIN { exit(1); m["x"] = 1; clear(m); m["y"] = 2; } END { m["z"] = 3; print(m); }',
    'END { print(1); exit(4); print(2); } END { print(3); exit(5); m["k"] = 1; }',
    "BEGIN { exit(1); exit(2); } END { exit(3); print(4); }",
    'BEGIN { @c["k"] = count(); @s["k"] = sum(-7); @q["k"] = quantize(300); } END { exit(0); }',
    "BEGIN { m[1] = 1; m[2] = 2; m[3] = 3; m[4] = 4; exit(0); }",
    "BEGIN { " + "print(str(0, 400)); " * 16 + "} END { exit(0); }",
    'BEGIN { printf("%d %5s|%-5s|%x %c\\n", -1, "ab", "cd", 255, 65); exit(0); }',
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_rows_are_the_same(run, script):
    sizes = {"map_entries": 3, "buffer_size": 4096}
    live = run(script, timeout=0, **sizes)
    target = LiveTarget()
    vm = list(run_events(compile_script(script, target, Options(**sizes)), target, []))
    assert [line(row) for row in live.rows] == [line(row) for row in vm]
    assert live.status == next((row.code for row in vm if isinstance(row, ExitRow)), 0)


def line(row):
    return jsonl.render(row, SymbolTable())
