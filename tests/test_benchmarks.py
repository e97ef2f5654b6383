"""The scripts that are measured: each compiles to golden code, runs in the VM, and has a twin."""

import importlib
import json
import os
import re
from pathlib import Path

import pytest

from pybpf.cli import main
from pybpf.compiler.dump import dump
from pybpf.compiler.pipeline import compile_script
from pybpf.isa.assembler import assemble
from pybpf.source import Source

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "benchmarks" / "scripts"
GOLDEN = ROOT / "tests" / "data" / "golden" / "benchmarks"
TARGET = ROOT / "tests" / "data" / "targets" / "6.12.tar.gz"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.ply"))


def test_there_are_ten_scripts_each_in_both_languages_and_with_its_code():
    assert len(NAMES) == 10
    assert sorted(path.stem for path in SCRIPTS.glob("*.bt")) == NAMES
    assert sorted(path.stem for path in GOLDEN.glob("*.asm")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_script_and_its_twin_say_the_same_of_themselves(name):
    script, twin = ((SCRIPTS / f"{name}.{suffix}").read_text() for suffix in ("ply", "bt"))

    assert script.startswith("# ")
    assert script.splitlines()[0] == twin.splitlines()[0].replace("//", "#")


@pytest.mark.parametrize("name", NAMES)
def test_code(name, target_612):
    golden = GOLDEN / f"{name}.asm"
    source = Source(name, (SCRIPTS / f"{name}.ply").read_text())

    found = dump(source, target_612, "asm")

    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found)
    assert found == golden.read_text()
    _, *texts = re.split(r"^; .*\n", found, flags=re.MULTILINE)
    programs = [probe.program for probe in compile_script(source, target_612).probes]
    assert [bytes(assemble(text)) for text in texts] == [bytes(program) for program in programs]


def call(start, end, **facts):
    """Return the events of a system call."""
    probe = "tracepoint:syscalls/sys_{}_getppid"
    return [
        {"probe": probe.format(side), "time": time, **facts}
        for side, time in (("enter", start), ("exit", end))
    ]


HAMMER = {"pid": 7, "tid": 8, "comm": "hammer", "stack": ["0x10", "0x20"]}
OTHER = {"pid": 1, "tid": 1, "comm": "init", "stack": ["0x30"]}
EVENTS = [
    *call(100, 103, cpu=0, **HAMMER),
    *call(200, 264, cpu=1, **HAMMER),
    *call(300, 301, cpu=1, **OTHER),
]


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("count", {(): 3}),
        ("count-by-comm", {("hammer",): 2, ("init",): 1}),
        ("count-by-pid-comm", {(7, "hammer"): 2, (1, "init"): 1}),
        ("count-by-stack", {((16, 32),): 2, ((48,),): 1}),
        ("sum-by-cpu", {(0,): 7, (1,): 8}),
        ("quantize-by-pid", {(7,): {4: 2}, (1,): {0: 1}}),
        ("filter-pid", {(): 1}),
        ("filter-comm", {(): 2}),
        ("latency", {(): {0: 1, 2: 1, 64: 1}}),
    ],
)
def test_what_a_script_counts(name, entries, tmp_path, capsys):
    (row,) = run(name, tmp_path, capsys)

    assert {keys(entry["key"]): value(entry["value"]) for entry in row["entries"]} == entries


def test_what_printf_prints(tmp_path, capsys):
    rows = run("printf", tmp_path, capsys)

    assert [row["text"] for row in rows] == ["hammer 7\n", "hammer 7\n", "init 1\n"]


def run(name, folder, capsys):
    """Run a script in the VM; return the rows it prints."""
    events = folder / "events.jsonl"
    events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    options = ["--vm", "--events", str(events), "--target", str(TARGET), "--format", "json"]
    assert main(["run", *options, str(SCRIPTS / f"{name}.ply")]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def keys(key):
    """Return a key as a tuple, with the addresses of a stack."""
    return tuple(tuple(k) if isinstance(k, list) else k for k in key)


def value(found):
    """Return a number as it is, a histogram as counts by lowest value."""
    return {low: count for low, _, count in found} if isinstance(found, list) else found


def test_notes_of_tables_are_as_wide_as_the_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    report = importlib.import_module("report")
    table = report.Table("T", ["a", "b"], [["x", "10"]], "word " * 21 + "\n\nshort")

    assert table.markdown() == (
        f"### T\n\n{'word ' * 19}word\nword\n\nshort\n\n| a |  b |\n| - | -: |\n| x | 10 |\n"
    )
