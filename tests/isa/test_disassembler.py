"""Programs to text and back."""

from __future__ import annotations

import pytest
from hypothesis import given

from pybpf.errors import EncodingError
from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import disassemble, format_insn
from pybpf.isa.encoding import decode, encode
from pybpf.isa.insn import Program, insn
from pybpf.isa.layout import strip_labels
from pybpf.testing.strategies import insns, programs


@given(programs())
def test_assemble_of_disassemble_is_identity(program):
    assert assemble(disassemble(program)) == program


@given(programs())
def test_same_bytes_with_and_without_labels(program):
    data = encode(program)

    assert encode(assemble(disassemble(data))) == data
    assert encode(assemble(disassemble(strip_labels(program)))) == data


@given(insns())
def test_one_line_for_an_instruction(instruction):
    assert "\n" not in format_insn(instruction)


def test_labels_stand_at_the_margin():
    program = assemble("start: r1 = map:counts ll\nif r1 == 0 goto end\ncall f\nend: exit\nf: exit")

    assert disassemble(program) == (
        "start:\n"
        "    r1 = map_fd:counts ll\n"
        "    if r1 == 0 goto end\n"
        "    call f\n"
        "end:\n"
        "    exit\n"
        "f:\n"
        "    exit\n"
    )


def test_label_behind_the_last_instruction():
    assert disassemble(assemble("exit\nend:")) == "    exit\nend:\n"


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (insn("lddw", 1, imm=-1), "r1 = 0xffffffffffffffff ll"),
        (insn("lddw_map_value", 1, imm=8 << 32, symbol=".data"), "r1 = map_value:.data + 8 ll"),
        (insn("lddw_map_idx_value", 1, imm=-1), "r1 = map_idx_value[4294967295] + 4294967295 ll"),
        (insn("lddw_btf_id", 1, imm=4 << 32 | 7), "r1 = btf_id[4:7] ll"),
        (insn("lddw_func", 1, imm=-3), "r1 = subprog[-3] ll"),
        (insn("ldxdw", 1, 10, -8), "r1 = *(u64 *)(r10 - 8)"),
        (insn("ldindh", 0, 3, imm=-4), "r0 = *(u16 *)skb[r3 - 4]"),
        (insn("call_helper", imm=14), "call bpf_get_current_pid_tgid"),
        (insn("call_helper", imm=212), "call 212"),
        (insn("call_helper", imm=-1), "call -1"),
        (insn("call_kfunc", off=2, imm=9), "call kernel-function#9 fd_array[2]"),
        (insn("callx", 2), "callx r2"),
        (insn("addr_space_cast", 1, 2, imm=1 << 16), "r1 = addr_space_cast(r2, 1, 0)"),
        (insn("gotol", imm=-100000), "gotol -100000"),
    ],
    ids=str,
)
def test_spelling(instruction, text):
    assert format_insn(instruction) == text
    if instruction.op.name not in {"gotol", "lddw_func"}:
        assert assemble(text) == Program((instruction,))


def test_invalid_bytes():
    with pytest.raises(EncodingError, match="instruction 0: no instruction has opcode 0x00"):
        disassemble(bytes(8))


def test_raw_bytes():
    data = encode(assemble("r0 = 0\nexit"))

    assert disassemble(data) == disassemble(decode(data)) == "    r0 = 0\n    exit\n"
