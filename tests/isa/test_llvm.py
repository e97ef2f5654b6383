"""What llvm-objdump makes of our bytes is what our disassembler makes of them."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess

import pytest

from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.isa.insn import Program, insn
from pybpf.isa.layout import strip_labels
from pybpf.isa.table import FREE_FIELDS, ROWS, Effect, Form

OBJDUMP = shutil.which("llvm-objdump")
needs_llvm = pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump is not installed")

_EM_BPF = 247


def write_elf(text: bytes, byteorder: str) -> bytes:
    """Return a minimal relocatable ELF file whose .text holds the given bytes."""
    order, tag = ("<", 1) if byteorder == "little" else (">", 2)
    names = b"\0.text\0.shstrtab\0"
    body = text + names
    body += bytes(-len(body) % 8)
    header = struct.pack(
        f"{order}4sBBBB8xHHIQQQIHHHHHH",
        b"\x7fELF", 2, tag, 1, 0, 1, _EM_BPF, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 3, 2,
    )  # fmt: skip
    section = f"{order}IIQQQQIIQQ"
    return b"".join(
        (
            header,
            body,
            bytes(64),
            struct.pack(section, 1, 1, 6, 0, 64, len(text), 0, 0, 8, 0),
            struct.pack(section, 7, 3, 0, 0, 64 + len(text), len(names), 0, 0, 1, 0),
        )
    )


def objdump(program: Program, path, byteorder="little", *options: str) -> list[str]:
    """Return llvm-objdump's lines, the index and bytes in front of them included."""
    path.write_bytes(write_elf(encode(program, byteorder), byteorder))
    printed = subprocess.run(
        [OBJDUMP, "-d", *options, path], capture_output=True, text=True, check=True
    ).stdout
    return [line for line in printed.splitlines() if re.match(r"\s*\d+:\t", line)]


def _operands(row):
    """Return operands that LLVM shows in full; jumps lead back."""
    values = {"dst": 1, "src": 2, "off": -3, "imm": 0x12345678}
    if row.form is Form.JUMP_LONG:
        values["imm"] = -3
    if row.form is Form.PACKET_IND:
        values["imm"] = 0
    return {name: values[name] for name in FREE_FIELDS[row.form]}


def _known(row, version, *, alu32):
    """Whether an LLVM of some major version disassembles a row."""
    if row.form in {Form.LOAD_IMM64, Form.CALL_LOCAL, Form.CALL_KFUNC}:
        return False  # it leaves to a relocation what they refer to
    if row.form is Form.ATOMIC and row.width == 32:
        return alu32
    if row.effect in {Effect.MOD, Effect.JSET} or row.form is Form.STORE_IMM:
        return version >= 18
    return row.since < (6, 6) or (row.since < (6, 9) and version >= 18)


@needs_llvm
@pytest.mark.parametrize("alu32", [False, True])
@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_what_llvm_prints_assembles_to_the_same_instructions(byteorder, alu32, tmp_path):
    """LLVM's spelling may differ from ours, so its text is assembled."""
    version = int(re.search(r"version (\d+)", _version())[1])
    rows = [row for row in ROWS if _known(row, version, alu32=alu32)]
    insns = [insn("mov64_imm")] * 3 + [insn(row.name, **_operands(row)) for row in rows]
    program = Program((*insns, insn("exit")))
    options = ["--mattr=+alu32"] if alu32 else []

    lines = objdump(program, tmp_path / "rows.o", byteorder, *options)

    assert len(rows) > 100
    assert assemble("\n".join(lines)) == program


def _version() -> str:
    return subprocess.run([OBJDUMP, "--version"], capture_output=True, text=True, check=True).stdout


@needs_llvm
def test_wide_loads(tmp_path):
    program = assemble("r1 = 0x1122334455667788 ll\nr2 = 0xffffffffffffffff ll\nexit")

    lines = objdump(program, tmp_path / "wide.o")

    assert assemble("\n".join(lines)) == program


@needs_llvm
def test_a_dump_assembles_as_it_is(tmp_path):
    """Indices and raw bytes in front of the text are taken off; jumps find their targets."""
    program = assemble(
        """
        r6 = r1
        r1 = 0
        r2 = 0x123456789 ll
    L1: r1 += 1
        if r1 > 10 goto L2
        goto L1
    L2: r0 = *(u32 *)(r6 + 4)
        *(u64 *)(r10 - 8) = r0
        lock *(u64 *)(r10 - 8) += r1
        call bpf_ktime_get_ns
        exit
        """
    )

    lines = objdump(program, tmp_path / "loop.o")

    assert assemble("\n".join(lines)).insns == strip_labels(program).insns
