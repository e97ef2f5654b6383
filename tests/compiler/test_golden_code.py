"""What typical functions compile to, as text; each program also runs.

UPDATE_GOLDEN=1 in the environment rewrites the texts; the diff is for a person to judge.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from pybpf.compiler.codegen import generate
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import disassemble
from pybpf.script import MapRole, MapSpec
from pybpf.target.features import ALL
from pybpf.testing.irtext import parse_function
from pybpf.vm.machine import Machine
from pybpf.vm.world import World

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "backend"
RDI, RAX, REGS = 112, 80, 168  # offsets into struct pt_regs of x86_64, and its size

COMM = b"dd".ljust(16, b"\0")


def registers(**values):
    regs = bytearray(REGS)
    for name, offset in (("rdi", RDI), ("rax", RAX)):
        struct.pack_into("<q", regs, offset, values.get(name, 0))
    return regs


def read(name: str) -> tuple[str, str, str]:
    """Return the remark, the IR and the assembly of a golden file."""
    remark, _, rest = (GOLDEN / f"{name}.txt").read_text().partition("-- ir\n")
    code, _, text = rest.partition("-- asm\n")
    return remark, code, text


def compile_golden(name: str):
    return generate(
        parse_function(read(name)[1]),
        features=ALL,
        prog_type=ProgType.KPROBE,
        scratch_index=0,
        byteorder="little",
    ).program


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.txt")))
def test_code(name):
    remark, code, text = read(name)
    program = compile_golden(name)

    found = disassemble(program)

    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / f"{name}.txt").write_text(f"{remark}-- ir\n{code}-- asm\n{found}")
    assert found == text
    assert bytes(assemble(text)) == bytes(program)


def run_golden(name: str, regs: bytearray, spec: MapSpec, runs: int = 1, **world):
    """Run a golden program a few times; return what its map holds and what was counted as lost."""
    lost = MapSpec(".lost", MapRole.LOST, MapType.ARRAY, 4, 16, 1)
    machine = Machine([spec, lost], World(comm=b"dd", **world))
    ctx = machine.memory.add(regs, "the registers", writable=False)
    program = compile_golden(name)
    for _ in range(runs):
        assert machine.run(program, ctx.address) == 0
    ((_, (counters,)),) = machine.maps[".lost"].items()
    return dict(machine.maps[spec.name].items()), struct.unpack("<QQ", counters)[1]


def counts(key_size: int, entries: int = 8) -> MapSpec:
    return MapSpec("@", MapRole.COUNT, MapType.PERCPU_HASH, key_size, 8, entries)


def u64(value: int) -> bytes:
    return struct.pack("<q", value)


def test_predicate():
    spec = counts(4)

    assert run_golden("predicate", registers(), spec, 3, pid=42) == ({bytes(4): (u64(3),)}, 0)
    assert run_golden("predicate", registers(), spec, 3, pid=43) == ({}, 0)


def test_count_by_comm():
    assert run_golden("count-by-comm", registers(), counts(16), 2) == ({COMM: (u64(2),)}, 0)
    assert run_golden("count-by-comm", registers(), counts(16, 0), 2) == ({}, 2)


def test_struct_key():
    spec = MapSpec("a", MapRole.MAP, MapType.HASH, 32, 8, 8)

    found = run_golden("struct-key", registers(rdi=-2), spec, time=1000, pid=7)

    assert found == ({struct.pack("<I16s4xq", 7, COMM, -2): (u64(993),)}, 0)


@pytest.mark.parametrize(
    ("uid", "value", "entry"),
    [
        (5, -12345, (-12, -5)),
        (5, 12345, None),
        (0, 12345, (12, 5)),
        (5, -(1 << 63), (-9223372036854775, -8)),
    ],
)
def test_signed_division(uid, value, entry):
    found, _ = run_golden("signed-division", registers(rax=value), counts(16), uid=uid)

    assert found == ({struct.pack("<qq", *entry): (u64(value),)} if entry else {})
