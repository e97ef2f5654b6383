"""`pybpf diff`: 0 where two are the same, 1 where they differ, 2 where one cannot be read."""

from __future__ import annotations

import json

import pytest

from pybpf.isa.assembler import assemble


def test_an_object_is_the_same_as_itself(pybpf, c_objects):
    for name in ("loops.el.o", "maps_inner.eb.o", "kfuncs.el.o", "no_btf.el.o"):
        said = pybpf("diff", c_objects / name, c_objects / name)
        assert (said.status, said.out, said.err) == (0, "", "")


def test_both_byte_orders_of_a_program_differ_in_that_only(pybpf, c_objects):
    said = pybpf("diff", c_objects / "loops.el.o", c_objects / "loops.eb.o")
    assert (said.status, said.out) == (1, "byte order: little -> big\n")


def test_bytes(pybpf, tmp_path):
    for name, text in (("a", "r0 = 1\nexit"), ("b", "r0 = 2\nexit")):
        (tmp_path / name).write_bytes(bytes(assemble(text)))
    said = pybpf("diff", tmp_path / "a", tmp_path / "b")
    assert said.status == 1
    assert said.out == (
        "program b: 1 removed, 1 added, 1 the same\n  0   - r0 = 1\n    0 + r0 = 2\n  1 1   exit\n"
    )
    said = pybpf("diff", "--json", tmp_path / "a", tmp_path / "a")
    assert said.status == 0
    assert json.loads(said.out) == {
        "same": True, "changes": [], "maps": [], "externs": [], "programs": [],
    }  # fmt: skip


def test_one_program(pybpf, c_objects):
    said = pybpf("diff", "--prog", "bounded", *[c_objects / "loops.el.o"] * 2)
    assert said.status == 0
    said = pybpf("diff", "--prog", "bounced", *[c_objects / "loops.el.o"] * 2)
    assert (said.status, said.out) == (2, "")
    assert said.err == "error: no program is called 'bounced'; did you mean 'bounded'?\n"


@pytest.mark.parametrize("order", [0, 1])
def test_what_cannot_be_read(pybpf, c_objects, tmp_path, order):
    missing = tmp_path / "missing"
    names = [c_objects / "loops.el.o", missing]
    said = pybpf("diff", *(reversed(names) if order else names))
    assert (said.status, said.out) == (2, "")
    assert said.err == f"error: cannot read {missing}: No such file or directory\n"
