"""What llvm-objdump makes of our bytes is what our disassembler makes of them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from pybpf.isa.assembler import assemble
from pybpf.isa.encoding import encode
from pybpf.isa.insn import Program, insn
from pybpf.isa.layout import strip_labels
from pybpf.isa.table import FREE_FIELDS, ROWS, Effect, Form

OBJDUMP = shutil.which("llvm-objdump")
needs_llvm = pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump is not installed")


@pytest.fixture
def objdump(llvm_lines):
    """Return a function that gives llvm-objdump's lines, index and bytes in front included."""

    def lines(program: Program, byteorder="little", *options: str) -> list[str]:
        return llvm_lines(encode(program, byteorder), byteorder, *options)

    return lines


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
def test_what_llvm_prints_assembles_to_the_same_instructions(byteorder, alu32, objdump):
    """LLVM's spelling may differ from ours, so its text is assembled."""
    version = int(re.search(r"version (\d+)", _version())[1])
    rows = [row for row in ROWS if _known(row, version, alu32=alu32)]
    insns = [insn("mov64_imm")] * 3 + [insn(row.name, **_operands(row)) for row in rows]
    program = Program((*insns, insn("exit")))
    options = ["--mattr=+alu32"] if alu32 else []

    lines = objdump(program, byteorder, *options)

    assert len(rows) > 100
    assert assemble("\n".join(lines)) == program


def _version() -> str:
    return subprocess.run([OBJDUMP, "--version"], capture_output=True, text=True, check=True).stdout


@needs_llvm
def test_wide_loads(objdump):
    program = assemble("r1 = 0x1122334455667788 ll\nr2 = 0xffffffffffffffff ll\nexit")

    lines = objdump(program)

    assert assemble("\n".join(lines)) == program


@needs_llvm
def test_a_dump_assembles_as_it_is(objdump):
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

    lines = objdump(program)

    assert assemble("\n".join(lines)).insns == strip_labels(program).insns


@pytest.mark.parametrize("triple", ["bpfel", "bpfeb"])
def test_llvm_assembles_the_same_text_to_the_same_bytes(triple, tmp_path):
    assembler, copy = shutil.which("llvm-mc"), shutil.which("llvm-objcopy")
    if assembler is None or copy is None:
        pytest.skip("llvm-mc and llvm-objcopy are not installed")
    text = """
        r1 = 5
        w1 = -5
        w1 += w2
        r1 *= -3
        r1 s>>= 3
        w1 = -w1
        r1 = be16 r1
        r1 = 0x123456789abc ll
        r1 = -1 ll
        r0 = *(u8 *)(r1 - 8)
        *(u64 *)(r10 + 0) = r2
        r0 = *(u16 *)skb[r1]
        lock *(u32 *)(r1 + 0) |= w2
    top:
        if r1 s> r2 goto end
        if w1 <= 5 goto +1
        if w1 != w2 goto -1
        if r1 >= 1 << 4 goto top    # expressions
        r1 = 1 + 2 * 3
        *(u8 *)(r10 - 4 * 2) = r1
        goto top
        call 5
    end:
        exit
    """
    made, raw = tmp_path / "x.o", tmp_path / "x.bin"
    argv = [assembler, "-triple", triple, "-mattr=+alu32", "-filetype=obj", "-o", made]
    subprocess.run(argv, input=text, text=True, check=True)
    subprocess.run([copy, "-O", "binary", "-j", ".text", made, raw], check=True)

    order = "little" if triple == "bpfel" else "big"
    assert encode(assemble(text), order) == raw.read_bytes()
