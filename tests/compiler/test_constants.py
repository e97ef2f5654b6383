"""Aggregations with constant keys become arrays, and nobody can tell from the result."""

from __future__ import annotations

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.isa.abi import MapType
from pybpf.rows import MapRow
from pybpf.vm.driver import run_events


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
    "body",
    [
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
