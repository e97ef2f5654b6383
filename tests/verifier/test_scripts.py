"""What our compiler makes is accepted: the examples, on the kernels that there are snapshots of."""

from pathlib import Path

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.errors import EncodingError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.script import MapRole, MapSpec
from pybpf.source import Source
from pybpf.target.profile import nearest, profile
from pybpf.target.snapshot import SnapshotTarget
from pybpf.verifier.subject import of_bytes, of_program, of_script
from pybpf.verifier.verify import verify

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.ply"))
TARGETS = sorted((ROOT / "tests/data/targets").glob("*.tar.gz"))


@pytest.mark.parametrize("path", TARGETS, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_the_examples_are_accepted(path):
    target = SnapshotTarget.load(path, environment={"target": "7", "1": "cat"})
    if target.arch.byteorder != "little":
        pytest.skip("the model is of little-endian machines")
    kernel = profile(nearest(target.release))

    reports = {
        f"{script.name} {subject.name}": verify(subject.program, kernel)
        for script in EXAMPLES
        for subject in of_script(compile_script(Source(script.name, script.read_text()), target))
    }

    assert {name: r for name, r in reports.items() if r.verdict != "accept"} == {}
    assert len(reports) > len(EXAMPLES)


def test_a_program_has_the_maps_that_it_names_in_their_order():
    maps = [
        MapSpec(name, MapRole.MAP, MapType.HASH, size, 8, 16)
        for name, size in (("a", 1), ("b", 2), ("c", 4))
    ]
    text = "r1 = map_fd:c ll\nr2 = map_value:a + 8 ll\nr3 = map_fd:c ll\nexit"

    program = of_program(assemble(text), maps).program

    assert [made.key_size for made in program.maps] == [4, 1]
    assert [(f.insn, f.kind, f.map) for f in program.fixups] == [
        (0, "map_fd", 0), (2, "map_value", 1), (4, "map_fd", 0),
    ]  # fmt: skip
    with pytest.raises(KeyError, match="a"):
        of_program(assemble(text), maps[2:])


def test_instructions_and_places_are_found_by_slot():
    subject = of_program(assemble("r1 = 1 ll\ngoto last\nlast:\nexit", "a.s"), ())

    assert [subject.text(slot) for slot in range(4)] == ["r1 = 0x1 ll"] * 2 + ["goto pc+0", "exit"]
    assert [subject.line(slot) for slot in (0, 1, 3)] == [
        "r1 = 1 ll @ a.s:1", "r1 = 1 ll @ a.s:1", "exit @ a.s:4",
    ]  # fmt: skip
    assert subject.span(4) is subject.span(-1) is None


def test_bytes_are_taken_as_they_are():
    subject = of_bytes(bytes.fromhex("ffffffffffffffff 0500100000000000"), ProgType.XDP, None, "x")

    assert subject.text(0) == "ff ff ff ff ff ff ff ff"
    assert subject.text(1) == "goto pc+16"
    assert subject.span(0) is subject.line(0) is None
    with pytest.raises(EncodingError, match="instruction 1: the last slot has only 1 of 8 bytes"):
        of_bytes(bytes(9), ProgType.XDP, None, "x")
