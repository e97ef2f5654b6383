"""What llvm-objdump makes of objects that clang made is what `pybpf dis` makes of them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from pybpf.dataclass import replace
from pybpf.inspect.code import of_sections
from pybpf.inspect.names import Names
from pybpf.isa.assembler import assemble
from pybpf.isa.table import DISTANCE_FIELD, Effect, Form
from pybpf.objfile.object import Object

PAIRS = [
    (clang, objdump)
    for clang, objdump in [("clang", "llvm-objdump")]
    + [(f"clang-{n}", f"llvm-objdump-{n}") for n in range(30, 14, -1)]
    if shutil.which(clang) and shutil.which(objdump)
][:2]
"""Debian's own, and the newest with its version in its name."""


@pytest.fixture(scope="module", params=PAIRS or [None], ids=lambda pair: pair and pair[0])
def compiled(request, tmp_path_factory, tool):
    """Return a folder of objects by one clang, and its llvm-objdump."""
    if request.param is None:
        pytest.skip("clang and llvm-objdump are not installed")
    clang, objdump = request.param
    if clang == "clang":
        return request.getfixturevalue("c_objects"), objdump
    folder = tmp_path_factory.mktemp("objects")
    tool("objects").build(folder, clang)
    return folder, objdump


def llvm(objdump, path):
    """Return what llvm-objdump has of each section: by slot a line, and its instruction."""
    # Without, 32-bit operations of an object that does not name a CPU are unknown to it.
    argv = [objdump, "-d", "--mattr=+alu32", path]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    found, section = {}, ""
    for line in printed.splitlines():
        if named := re.match(r"Disassembly of section (.*):$", line):
            section = named[1]
        elif row := re.match(r"\s*(\d+):\t", line):
            found.setdefault(section, {})[int(row[1])] = line
    insns = {name: assemble("\n".join(lines.values())).insns for name, lines in found.items()}
    return {
        name: {
            slot: (line, insn)
            for (slot, line), insn in zip(lines.items(), insns[name], strict=True)
        }
        for name, lines in found.items()
    }


def meaning(insn, *, relocated):
    """Return what two disassemblers must agree on of an instruction."""
    if insn.op.form is Form.LOAD_IMM64:
        # LLVM leaves to a relocation what it refers to.
        return ("lddw", insn.dst) if relocated else ("lddw", insn.dst, insn.imm)
    return ("call",) if relocated and insn.op.effect is Effect.CALL else insn


def blind(mine, their):
    """Whether this LLVM is older than casts of addresses: one looks like a move to it."""
    is_move = their.op.effect is Effect.MOV and (their.dst, their.src) == (mine.dst, mine.src)
    return mine.op.form is Form.ADDR_SPACE_CAST and is_move


def instructions(code):
    """Yield slot, text and instruction of code, with distances in place of labels."""
    slots, jumps = code.slots(), dict(code.jumps())
    for index, (slot, insn) in enumerate(zip(slots, code.program.insns, strict=False)):
        plain = insn
        if index in jumps:
            field = DISTANCE_FIELD[insn.op]
            plain = replace(insn, symbol=None, **{field: slots[jumps[index]] - slot - 1})
        yield slot, code.text(index), plain


def test_every_instruction_of_every_object(compiled):
    folder, objdump = compiled
    count = 0
    for path in sorted(folder.glob("*.o")):
        theirs = llvm(objdump, path)
        found = Object.open(path)
        ours = {}
        for code in of_sections(found, Names(found.btf, found.elf)):
            for slot, text, mine in instructions(code):
                line, their = theirs[code.section][slot]
                ours.setdefault(code.section, {})[slot] = line, their
                relocated = mine.symbol is not None
                one, other = (meaning(insn, relocated=relocated) for insn in (mine, their))
                assert one == other or blind(mine, their), (path.name, slot, text, line)
                count += 1
        assert ours == theirs, path.name
    assert count > 4000
