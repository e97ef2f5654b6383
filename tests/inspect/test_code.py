"""Programs of objects to code: what instructions refer to has its name."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pybpf.errors import EncodingError
from pybpf.inspect.code import of_bytes, of_program, of_sections
from pybpf.inspect.names import Names
from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.objfile.object import Object


@pytest.fixture
def opened(c_objects):
    def open_object(name):
        found = Object.open(c_objects / f"{name}.o")
        return found, Names(found.btf, found.elf)

    return open_object


def notes(codes):
    return {note for code in codes for note in code.notes.values()}


@pytest.mark.parametrize("order", ["el", "eb"])
def test_core_relocations_are_told(opened, order):
    assert notes(of_sections(*opened(f"core_fields.{order}"))) >= {
        "task_struct.real_parent", "task_struct.comm[1]", "task_struct.children.prev",
        "sizeof task_struct.comm", "exists task_struct.no_such_field", "signed task_struct.pid",
    }  # fmt: skip


@pytest.mark.parametrize("order", ["el", "eb"])
def test_members_of_the_context_and_variables_are_told(opened, order):
    assert {"ctx->data", "ctx->data_end"} <= notes(of_sections(*opened(f"loops.{order}")))
    assert {"limit", "words", "pair", "seed", "zeroed"} <= notes(
        of_sections(*opened(f"data.{order}"))
    )


def test_a_context_that_may_be_something_else_is_not_told():
    """Two ways lead to the load, and r1 is the context on one of them only."""
    from pybpf.inspect.code import Code, Part, _contexts

    class Types(Names):
        def at(self, _number, _offset):
            return ".field"

    def told(text):
        code = Code("f", "", assemble(text), (Part("f", 0),))
        return set(_contexts(code, [(1, "ctx")], Types(None)))

    assert told("r6 = r1\nr0 = *(u32 *)(r6 + 0)\nexit") == {1}
    assert told("if r2 == 0 goto x\nr1 = r10\nx: r0 = *(u32 *)(r1 + 0)\nexit") == set()
    assert told("if r2 == 0 goto x\nr3 = r10\nx: r0 = *(u32 *)(r1 + 0)\nexit") == {2}
    assert told("call 1\nr0 = *(u32 *)(r1 + 0)\nexit") == set()
    assert told("x: r0 = *(u32 *)(r1 + 0)\nr1 += 4\nif r0 == 0 goto x\nexit") == set()


def test_a_section_has_each_function_once_and_a_program_all_that_it_calls(opened):
    found, names = opened("subprogs_deep.el")
    alone = [code for code in of_sections(found, names) if code.section == ".text"]
    assert [code.name for code in alone] == ["level4", "level2", "level3", "level1", "level0"]
    assert [code.base for code in alone] == [0, 5, 14, 20, 29]
    assert [alone[0].text(i) for i in range(5)][1] == "call level3"
    (deep,) = (of_program(program, names) for program in found.programs)
    assert [part.name for part in deep.parts] == [
        "deep", "level4", "level3", "level2", "level1", "level0",
    ]  # fmt: skip
    assert deep.parts[0].prototype == "int deep(struct __sk_buff *skb)"


def test_externs_have_their_names(opened):
    texts = [
        code.text(index)
        for code in of_sections(*opened("kfuncs.el"))
        for index in range(len(code.program.insns))
    ]
    assert "call bpf_task_from_pid" in texts
    assert any(text.startswith("r1 = &") for text in texts)


def test_raw_instructions_have_the_functions_that_they_call():
    data = encode(assemble("call f\nexit\nf: r0 = 1\nexit"))
    assert [(part.name, part.index) for part in of_bytes(data, "little", "x").parts] == [
        ("x", 0), ("sub1", 2),
    ]  # fmt: skip
    with pytest.raises(EncodingError, match="only 3 of 8 bytes"):
        of_bytes(data[:-5], "little", "x")


def test_jumps_by_distance_lead_where_labels_would():
    from pybpf.inspect.code import Code, Part

    text = "r1 = 1 ll\nif r1 == 0 goto +2\nr2 = 2 ll\ngoto -6\nexit"
    found = Code("f", "", assemble(text), (Part("f", 0),))
    assert list(found.jumps()) == [(1, 3), (3, 0)]
    assert len(found.blocks()) == 4


def test_the_first_argument_has_its_name(tmp_path):
    """That of a global function is no context."""
    clang = shutil.which("clang")
    if clang is None:
        pytest.skip("clang is not installed")
    (tmp_path / "a.c").write_text(
        "struct pair { int a, n; };\n"
        "__attribute__((noinline)) int sum(const struct pair *v) { return v ? v->n + 1 : 0; }\n"
        '__attribute__((section("socket"), used)) int main_(void *ctx)\n'
        "{ struct pair p = {1, 2}; return sum(&p); }\n"
    )
    subprocess.run(
        [clang, "-O2", "-g", "-target", "bpf", "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True
    )
    found = Object.parse((tmp_path / "a.o").read_bytes(), "a.o")
    assert "v->n" in notes(of_sections(found, Names(found.btf, found.elf)))
