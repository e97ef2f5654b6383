"""Hold the documentation to the code: links, names, tables, and the examples in it."""

import argparse
import json
import re
import tomllib
from pathlib import Path

import pytest

import pybpf
from pybpf import cli
from pybpf.cli import compile as compiling
from pybpf.cli import run
from pybpf.compiler.builtins import ACTIONS, AGGREGATIONS, FUNCTIONS, VALUES
from pybpf.compiler.dump import dump
from pybpf.compiler.pipeline import compile_script
from pybpf.compiler.providers import PROVIDERS
from pybpf.output import jsonl
from pybpf.rows import ExitRow, LostRow, MapRow, PrintfRow, PrintRow
from pybpf.script import Text
from pybpf.source import Source
from pybpf.target import snapshot
from pybpf.target.snapshot import SnapshotTarget
from pybpf.types import U32, strip
from pybpf.vm import recording
from pybpf.vm.driver import read_events, run_events

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
PLY = (ROOT / "docs/ply.md").read_text()
RECORDS = (ROOT / "docs/records.md").read_text()
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()

per_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(text):
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def sections(text):
    """Return what stands under each heading of the second level, by that heading."""
    _, *found = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(found[::2], found[1::2], strict=True))


def cells(text):
    """Yield the rows of the tables in a text, as lists of cells, without their headings."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            parts = re.split(r"(?<!\\)\|", line.strip("|"))
            yield [part.strip().replace("\\|", "|") for part in parts]


def rows(text):
    _, *found = cells(text)
    return found


def code(cell):
    """Return what stands between backquotes in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def anchor(heading):
    """Return the name that a heading gets as the target of links."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@per_page
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if link.startswith("https://"):
            continue
        path, _, fragment = link.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), link
        if fragment:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            assert fragment in map(anchor, headings), link


@per_page
def test_files_that_are_named_exist(page):
    named = re.findall(
        r"(?<![\w/.])((?:compiler|docs|examples|pybpf|src|tests|tools)/[\w./-]*\w)",
        page.read_text(),
    )

    assert [name for name in named if not (ROOT / name).exists()] == []


@per_page
def test_targets_of_make_that_are_named_exist(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text())) <= set(targets)


@per_page
def test_lines_are_no_longer_than_those_of_code(page):
    long = [line for line in prose(page.read_text()).splitlines() if len(line) > 100]

    assert [line for line in long if not line.startswith("|")] == []


def names(section):
    """Return the names that the first column of a section's table defines."""
    return {
        re.match(r"\w+", entry)[0] for row in rows(sections(PLY)[section]) for entry in code(row[0])
    }


def test_every_provider_is_described_and_no_other():
    assert names("Probes") == {str(row.provider) for row in PROVIDERS}


def test_every_value_is_described_and_no_other():
    fields = {field for row in PROVIDERS for field in row.fields}

    assert {re.sub(r"^arg\d$", "arg", name) for name in names("Values")} == {*VALUES, *fields}


def test_values_have_the_types_that_are_described():
    described = {code(row[0])[0]: row[2] for row in rows(sections(PLY)["Values"])}

    assert {name: described[name] for name in VALUES} == {
        name: str(strip(row.type)) for name, row in VALUES.items()
    }
    assert str(U32) == "u32"


def test_every_function_is_described_and_no_other():
    assert names("Functions") == set(FUNCTIONS)


def test_every_action_is_described_and_no_other():
    assert names("Actions") == set(ACTIONS)


def test_every_aggregation_is_described_and_no_other():
    assert names("Aggregations") == set(AGGREGATIONS)


EXAMPLES = [
    example
    for title in ("Scripts", "Maps", "Aggregations", "Probes", "Values", "Functions", "Actions")
    for row in rows(sections(PLY)[title])
    for example in code(row[-1])
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_language_compiles(example):
    target = SnapshotTarget.load(
        ROOT / "tests/data/targets/6.12.tar.gz", environment={"target": "7", "HOME": "/root"}
    )
    probe = re.match(r"BEGIN|END|[a-z]+:", example)

    assert compile_script(example if probe else f"BEGIN {{ {example}\n}}", target).probes


def test_every_row_of_the_language_has_one_example():
    others = {"Options", "What a kernel must have", "Exit status", "The manual, entry by entry"}
    tables = [title for title in sections(PLY) if title not in others]

    assert len(EXAMPLES) == sum(len(rows(sections(PLY)[title])) for title in tables)


def test_every_option_of_run_is_described_and_no_other():
    parser = argparse.ArgumentParser()
    run.declare(parser)
    declared = {option for action in parser._actions for option in action.option_strings}

    described = {option for row in rows(sections(PLY)["Options"]) for option in code(row[0])}
    assert described == declared


def test_the_readme_names_every_command_and_no_other():
    table = rows(sections((ROOT / "README.md").read_text())["Commands"])
    shown = {command.split()[1] for row in table for command in code(row[0])}

    assert shown == set(cli._COMMANDS)


def test_the_layers_are_those_that_are_checked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]

    shown = re.search(r"^```\n(__main__\n.*?)```", ARCHITECTURE, re.MULTILINE | re.DOTALL)[1]
    assert shown.splitlines() == [re.sub(r"[()]", "", layer) for layer in layers]


def test_the_stages_are_those_that_can_be_dumped():
    assert f"`pybpf compile -d {'|'.join(compiling._STAGES)} SCRIPT`" in ARCHITECTURE


@pytest.mark.parametrize("stage", compiling._STAGES)
def test_every_stage_can_be_seen(stage, target_612):
    text = (ROOT / "examples/demo.ply").read_text()

    shown = dump(Source("demo.ply", text), target_612, stage)

    assert shown.endswith("\n")
    assert "start" in shown


def test_every_folder_of_code_is_on_the_map():
    table = sections(ARCHITECTURE)["Where things are"]
    folders = {path.parent for path in (ROOT / "pybpf").glob("*/__init__.py")}

    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", table)}
    assert {path.resolve() for path in folders} <= linked


def json_blocks():
    return re.findall(r"^```json\n(.*?)^```$", RECORDS, re.MULTILINE | re.DOTALL)


def test_the_recorded_events_can_be_run():
    target = SnapshotTarget.load(ROOT / "tests/data/targets/6.12.tar.gz")
    script = """
        tracepoint:syscalls/sys_enter_read { print(data->count); }
        kprobe:vfs_read { print(str(arg0), stack, mem(0xffff888000001000, 2)); }
        kretprobe:vfs_read { print(retval); }
    """
    events = read_events(Source("docs/records.md", json_blocks()[0]))

    first, second, third = run_events(compile_script(script, target), target, events)

    assert first.cells[0].value == 512
    text, stack, memory = (cell.value for cell in second.cells)
    assert text.startswith(b"a string\0")
    assert stack.frames == (0xFFFFFFFF81000010,)
    assert memory == b"\x00\xff"
    assert third.cells[0].value == -11


def test_every_field_of_an_event_is_described_and_no_other():
    table = rows(sections(RECORDS)["Recorded events"])

    assert [name for row in table for name in code(row[0])] == list(recording._NAMES)


def test_json_lines_have_the_fields_that_are_described():
    shown = [json.loads(line) for line in json_blocks()[1].splitlines()]
    made = (
        PrintfRow((Text(b"x"),), ()),
        PrintRow(()),
        MapRow("@", (U32,), U32, (((1,), 2),)),
        ExitRow(0),
        LostRow(3),
        LostRow(3, "@"),
    )

    assert [shape(row) for row in shown] == [
        shape(json.loads(jsonl.render(row, SnapshotTarget().symbols))) for row in made
    ]


def shape(value):
    """Return the names in JSON objects, and the text of "event"."""
    if isinstance(value, dict):
        return {k: v if k == "event" else shape(v) for k, v in value.items()}
    return [shape(v) for v in value if isinstance(v, dict)] if isinstance(value, list) else None


def test_members_of_a_snapshot_are_described():
    table = rows(sections(RECORDS)["Snapshots"])

    assert [code(row[0])[0] for row in table] == list(snapshot._MEMBERS)
    assert f"`version` ({snapshot.VERSION})" in table[0][1]


RELEASE = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_changelog_keeps_a_changelog():
    first, *releases = sections(CHANGELOG)

    assert CHANGELOG.startswith("# Changelog\n")
    assert first == "[Unreleased]"
    versions = [tuple(map(int, RELEASE.fullmatch(title).groups())) for title in releases]
    assert versions == sorted(set(versions), reverse=True)


def test_the_changelog_has_only_the_known_kinds_of_change():
    for section in sections(CHANGELOG).values():
        before, *parts = re.split(r"^### (.*)\n", section, flags=re.MULTILINE)
        assert not before.strip()
        assert set(parts[::2]) <= KINDS
        assert len(set(parts[::2])) == len(parts[::2])
        for changes in parts[1::2]:
            assert re.fullmatch(r"\n(- \S.*\n(  \S.*\n)*)+\n?", changes)


def test_the_latest_release_is_the_version_or_the_version_is_unreleased():
    _, *releases = sections(CHANGELOG)
    latest = ".".join(RELEASE.fullmatch(releases[0]).groups()) if releases else "0.0.0"

    def numbers(version):
        return tuple(map(int, version.split(".")))

    assert numbers(latest) <= numbers(pybpf.__version__)
