"""pybpf btf: types of files are printed; what cannot be is one message."""

import json
from pathlib import Path

import pytest

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
from pybpf.btf.reader import Btf
from pybpf.btf.types import Composite, Field, Func, FuncProto, Int, Reference


@pytest.fixture
def file(tmp_path):
    """Return the name of a file with a few types."""
    builder = Builder()
    for t in (
        Int("int", 4, Encoding.SIGNED, 32),
        Composite(Kind.STRUCT, "point", 8, (Field("x", 1, 0), Field("y", 1, 32))),
        Reference(Kind.TYPEDEF, 2, "point_t"),
        FuncProto(1, (("p", 3),)),
        Func("length", 4, 1),
    ):
        builder.add(t)
    (tmp_path / "types").write_bytes(builder.blob())
    return str(tmp_path / "types")


def test_a_header(pybpf, file):
    said = pybpf("btf", file)
    assert (said.status, said.err) == (0, "")
    assert "struct point {\n\tint x;\n\tint y;\n};\n\ntypedef struct point point_t;\n" in said.out
    assert "length" not in said.out


def test_what_is_asked_for(pybpf, file):
    said = pybpf("btf", file, "--type", "length")
    assert "struct point;\n\ntypedef struct point point_t;\n\nint length(point_t p);\n" in said.out
    assert pybpf("btf", file, "--type", "point_t", "--type", "int", "--format", "raw").out == (
        "[3] TYPEDEF 'point_t' type_id=2\n"
        "[1] INT 'int' size=4 bits_offset=0 nr_bits=32 encoding=SIGNED\n"
    )


def test_json(pybpf, file):
    rows = [json.loads(line) for line in pybpf("btf", file, "--format", "json").out.splitlines()]
    assert [row["kind"] for row in rows] == ["INT", "STRUCT", "TYPEDEF", "FUNC_PROTO", "FUNC"]
    assert rows[4] == {
        "id": 5, "kind": "FUNC", "name": "length", "type_id": 4, "linkage": "global",
    }  # fmt: skip


def test_what_goes_on_from_another(pybpf, file, tmp_path):
    builder = Builder(base=Btf(Path(file).read_bytes()))
    builder.add(Reference(Kind.TYPEDEF, 2, "own_t"))
    (tmp_path / "module").write_bytes(builder.blob())
    said = pybpf("btf", str(tmp_path / "module"), "--base", file, "--format", "raw")
    assert said.out == "[6] TYPEDEF 'own_t' type_id=2\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nosuch"], "there is no file 'nosuch', and no such module with types"),
        (["./nosuch"], "there is no file './nosuch', and no such module with types"),
        ([""], "there is no file '', and no such module with types"),
        (["/"], "cannot read /: Is a directory"),
        (["/proc/self/mem"], "cannot read /proc/self/mem: Input/output error"),
        (["FILE", "--base", ""], "cannot read '': No such file or directory"),
        (["/dev/zero"], "/dev/zero: offset 0x0: no BTF: its first two bytes are not 0xeb9f"),
        (["/dev/null"], "/dev/null: offset 0x0: no BTF: its first two bytes are not 0xeb9f"),
        (["FILE", "--type", "piont"], "no type is called 'piont'; did you mean 'point'?"),
    ],
)
def test_what_cannot_be(pybpf, file, arguments, error):
    said = pybpf("btf", *(file if word == "FILE" else word for word in arguments))
    assert (said.status, said.out, said.err) == (1, "", f"error: {error}\n")


def test_types_that_cannot_be_are_those_of_the_file(pybpf, tmp_path):
    builder = Builder()
    builder.add(Reference(Kind.TYPEDEF, 2, "one"))
    builder.add(Reference(Kind.TYPEDEF, 1, "other"))
    (tmp_path / "ring").write_bytes(builder.blob())
    said = pybpf("btf", str(tmp_path / "ring"))
    error = f"error: {tmp_path}/ring: section .BTF: type 1 holds itself\n"
    assert (said.status, said.out, said.err) == (1, "", error)


def test_a_link_to_itself_is_a_file(pybpf, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    said = pybpf("btf", str(tmp_path / "loop"))
    assert said.err == f"error: cannot read {tmp_path}/loop: Too many levels of symbolic links\n"
