"""Aggregations whose keys are known become arrays, and nobody can tell from the result."""

from __future__ import annotations

import pytest

from pybpf.compiler.pipeline import Options, compile_script
from pybpf.isa.abi import MapType
from pybpf.rows import Buckets, MapRow, Stack
from pybpf.script import STACK_ERRORS, Filled
from pybpf.vm.driver import run_events
from pybpf.vm.recording import RecordedEvent

PROBE = "tracepoint:syscalls/sys_enter_getppid"


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("@ = count();", 1),
        ("@[1] = count();", 1),
        ('@["a", 2] = sum(pid); @["b", 2] = sum(1);', 2),
        ("@[1] = quantize(pid); @[1] = quantize(time);", 1),
        ("if (pid) { @[1] = count(); } else { @[2] = count(); }", 2),
        ("".join(f"@[{i}] = count();" for i in range(64)), 64),
    ],
)
def test_constant_keys_make_an_array(body, keys, target_612):
    script = compile_script(f"BEGIN {{ {body} }}", target_612)

    assert script.map("@").type is MapType.PERCPU_ARRAY
    assert script.map("@").max_entries == len(script.map("@").constants) == keys


@pytest.mark.parametrize(
    ("body", "filled", "keys"),
    [
        ("@[cpu] = count();", [(0, Filled.CPU)], 1),
        ('@["a", cpu] = count(); @["b", cpu] = count();', [(8, Filled.CPU)], 2),
        ("@[stack] = count();", [(0, Filled.STACK)], STACK_ERRORS + 8),
        ("@[stack, cpu, 1] = sum(2);", [(0, Filled.STACK), (4, Filled.CPU)], STACK_ERRORS + 8),
    ],
)
def test_cpus_and_stacks_make_an_array_too(body, filled, keys, target_612):
    script = compile_script(f"{PROBE} {{ {body} }}", target_612, Options(stacks=5))

    assert script.map("@").type is MapType.PERCPU_ARRAY
    assert script.map("@").filled == tuple(filled)
    assert script.map("@").max_entries == keys


@pytest.mark.parametrize(
    "body",
    [
        "@[cpu] = count(); @[1] = count();",
        "@[cpu] = count(); @[pid] = count();",
        "@[cpu + 1] = count();",
        "@[cpu] = count(); delete @[cpu];",
        "@[stack, pid] = count();",
        "@[stack, stack] = count();",
        "@[stack, 1] = count(); @[stack, 2] = count();",
        "@[cpu, 1] = count(); @[1, cpu] = count();",
        "@[pid] = count();",
        "@[1] = count(); @[pid] = count();",
        "@[1] = count(); delete @[1];",
        "".join(f"@[{i}] = count();" for i in range(65)),
    ],
)
def test_other_keys_make_a_hash(body, target_612):
    script = compile_script(f"BEGIN {{ {body} }}", target_612)

    assert script.map("@").type is MapType.PERCPU_HASH
    assert not script.map("@").constants


@pytest.mark.parametrize(
    ("body", "entries"),
    [
        ("@ = count(); @ = count();", [((), 2)]),
        ('@["b"] = count(); @["a"] = count();', [((b"a" + bytes(7),), 1), ((b"b" + bytes(7),), 1)]),
        ("@[1, -2] = sum(-5);", [((1, -2), -5)]),
        ("@[1] = sum(3); @[2] = sum(0);", [((2,), 0), ((1,), 3)]),
        ("if (0) { @[1] = count(); } @[2] = count();", [((2,), 1)]),
        ("if (cpu == 99) { @[1] = sum(0); @[3] = quantize(0); } @x[3] = count();", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_entry_is_there_once_it_was_touched(body, entries, target_612):
    body = body.replace("@[3]", "@h[3]")
    script = compile_script(f"BEGIN {{ {body} }}", target_612)

    rows = {
        r.name: list(r.entries) for r in run_events(script, target_612, ()) if isinstance(r, MapRow)
    }

    assert rows.get("@") == entries


def test_a_cleared_array_is_empty(target_612):
    script = compile_script("BEGIN { @ = sum(0); clear(@); }", target_612)

    assert not list(run_events(script, target_612, ()))


def rows_of(script, target, events):
    return [row for row in run_events(script, target, events) if isinstance(row, MapRow)]


def on(cpu, stack=(), pid=1):
    return RecordedEvent(PROBE, cpu=cpu, pid=pid, stack=stack)


@pytest.mark.parametrize(
    ("body", "entries"),
    [
        ("@[cpu] = count();", [((1,), 1), ((0,), 2)]),
        ("@[cpu] = sum(0);", [((0,), 0), ((1,), 0)]),
        ("@[cpu] = sum(pid);", [((0,), 6), ((1,), 8)]),
        ("@[7, cpu] = sum(-1); @[7, cpu] = sum(-2);", [((7, 0), -6), ((7, 1), -3)]),
        ("if (cpu) { @[cpu] = count(); }", [((1,), 1)]),
        ('@["a", cpu] = count();', [((b"a" + bytes(7), 1), 1), ((b"a" + bytes(7), 0), 2)]),
    ],
)
def test_a_cpu_is_an_entry_of_its_own(body, entries, target_612):
    script = compile_script(f"{PROBE} {{ {body} }}", target_612)

    rows = rows_of(script, target_612, [on(0, pid=2), on(1, pid=8), on(0, pid=4)])

    assert list(rows[0].entries) == entries


def test_each_cpu_has_its_own_histogram(target_612):
    script = compile_script(f"{PROBE} {{ @[cpu] = quantize(pid); }}", target_612)

    (row,) = rows_of(script, target_612, [on(1, pid=3), on(1, pid=2)])

    (((cpu,), buckets),) = row.entries
    assert cpu == 1
    assert isinstance(buckets, Buckets)
    assert buckets.counts[:3] == (0, 2, 0)


def test_a_stack_is_an_entry_and_so_is_one_that_could_not_be_had(target_612):
    script = compile_script(f"{PROBE} {{ @[stack] = count(); }}", target_612, Options(stacks=2))

    events = [
        on(0, (1, 2)),
        on(1, (1, 2)),
        on(0, (3,)),
        on(0, (3,)),
        on(0, (3,)),
        on(0),
        on(1, (4,)),
    ]
    (row,) = rows_of(script, target_612, events)

    assert list(row.entries) == [
        ((Stack(-17, ()),), 1),  # EEXIST: no room
        ((Stack(-14, ()),), 1),  # EFAULT: no stack
        ((Stack(0, (1, 2)),), 2),
        ((Stack(1, (3,)),), 3),
    ]


def test_cleared_arrays_of_cpus_and_stacks_are_empty(target_612):
    body = "@[cpu] = count(); @s[stack] = sum(1); clear(@); clear(@s);"
    script = compile_script(f"{PROBE} {{ {body} }}", target_612)

    assert not rows_of(script, target_612, [on(0, (1,)), on(1, (1,))])
