"""What is told of all types is what bpftool tells: of the kernel's, and of objects."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.builder import Builder
from pybpf.btf.listing import facts, lines
from pybpf.btf.reader import Btf
from pybpf.btf.source import read_btf
from pybpf.btf.types import Composite, DeclTag, Field, Int, Reference

KERNEL = Path("/sys/kernel/btf/vmlinux")
NAMES = sorted(p.stem for p in (Path(__file__).parents[1] / "objects/src").glob("*.c"))


def theirs(path, *options):
    if shutil.which("bpftool") is None:
        pytest.skip("bpftool is not installed")
    command = ["bpftool", "btf", "dump", "file", str(path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def plain(types):
    """Return the rows without what bpftool's differ in, or leave out.

    It does not name a section's variables, writes 32 unsigned bits as 64, and some versions do not
    know attributes.
    """
    for row in types:
        row.pop("attribute", None)
        for variable in row.get("vars", ()):
            variable.pop("name", None)
        if row["kind"] == "ENUM" and row["encoding"] == "UNSIGNED":
            for value in row["values"]:
                value["val"] &= 0xFFFFFFFF
    return types


def test_the_running_kernel():
    if not KERNEL.exists():
        pytest.skip("this kernel has no BTF")
    told = json.loads(theirs(KERNEL, "-j"))["types"]
    for ours, other in zip(facts(Btf(KERNEL.read_bytes())), told, strict=True):
        assert plain([ours]) == plain([other])


@pytest.mark.parametrize("order", ["el", "eb"])
@pytest.mark.parametrize("name", NAMES)
def test_objects(c_objects, name, order):
    path = c_objects / f"{name}.{order}.o"
    if not path.exists():
        pytest.skip("this clang cannot compile it")
    if name == "no_btf":
        pytest.skip("it has no BTF")
    told = json.loads(theirs(path, "-j"))["types"]
    assert plain(list(facts(read_btf(str(path))))) == plain(told)


def test_lines_and_what_bpftool_does_not_know():
    builder = Builder()
    for t in (
        Int("int", 4, Encoding.SIGNED, 32),
        Composite(Kind.STRUCT, "", 4, (Field("a", 1, 0, 3), Field("", 1, 8)), bit_fields=True),
        Reference(Kind.TYPE_TAG, 1, "noderef", attribute=True),
        DeclTag("note", 2, -1),
    ):
        builder.add(t)
    assert list(lines(Btf(builder.blob()))) == [
        "[1] INT 'int' size=4 bits_offset=0 nr_bits=32 encoding=SIGNED",
        "[2] STRUCT '(anon)' size=4 vlen=2",
        "\t'a' type_id=1 bits_offset=0 bitfield_size=3",
        "\t'(anon)' type_id=1 bits_offset=8",
        "[3] TYPE_TAG 'noderef' type_id=1 attribute=True",
        "[4] DECL_TAG 'note' type_id=2 component_idx=-1",
    ]
