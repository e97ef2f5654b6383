"""Bytes to programs and back: identity for what is valid, a reasoned error for what is not."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given

from pybpf.errors import EncodingError
from pybpf.isa.encoding import decode, decode_one, encode
from pybpf.isa.insn import Insn, Program, insn
from pybpf.isa.layout import strip_labels
from pybpf.isa.table import OPS, ROWS
from pybpf.testing.strategies import programs

EXIT = "9500000000000000"


@given(programs())
def test_decode_of_encode_is_identity(program):
    assert decode(encode(program)) == program
    assert decode(encode(program, "big"), "big") == program


@given(programs())
def test_programs_without_labels_encode_to_the_same_bytes(program):
    assert encode(strip_labels(program)) == encode(program)


def test_programs_are_bytes_and_back():
    program = Program((insn("mov64_imm", 0, imm=1), insn("exit")))

    assert bytes(program) == bytes.fromhex("b700000001000000" + EXIT)
    assert Program.from_bytes(bytes(program)) == program


def test_big_endian_trades_registers_and_turns_fields():
    program = Program((insn("ldxw", 1, 2, off=-2), insn("mov64_imm", 3, imm=0x01020304)))

    assert encode(program, "little").hex() == "6121feff00000000" + "b703000004030201"
    assert encode(program, "big").hex() == "6112fffe00000000" + "b730000001020304"


def test_lddw_takes_two_slots():
    program = decode(bytes.fromhex("18010000efcdab890000000067452301" + EXIT))

    assert program.insns == (insn("lddw", 1, imm=0x0123456789ABCDEF), insn("exit"))


def test_map_value_holds_descriptor_and_offset():
    program = decode(bytes.fromhex("182100000300000000000000" + "08000000" + EXIT))

    assert program.insns[0] == insn("lddw_map_value", 1, imm=8 << 32 | 3)


def test_labels_are_numbered_by_target():
    # 0: if r1 == 0 goto 3;  1: call 4;  2: goto 0;  3: exit;  4: exit
    program = decode(
        bytes.fromhex("1501020000000000" + "8510000002000000" + "0500fdff00000000" + EXIT + EXIT)
    )

    assert dict(program.labels) == {"L1": 0, "L2": 3, "sub1": 4}
    assert [i.symbol for i in program.insns] == ["L2", "sub1", "L1", None, None]
    assert all((i.off, i.imm) == (0, 0) for i in program.insns)


def test_distances_count_slots():
    # goto +2 passes the two slots of a lddw
    program = decode(bytes.fromhex("0500020000000000" + "1801000000000000" + "00" * 8 + EXIT))

    assert dict(program.labels) == {"L1": 2}


def test_address_of_function_counts_from_its_first_slot():
    program = decode(bytes.fromhex("1841000002000000" + "00" * 8 + EXIT + EXIT))

    assert dict(program.labels) == {"sub1": 2}
    assert program.insns[0] == insn("lddw_func", 1, symbol="sub1")
    assert encode(program).hex()[:32] == "1841000002000000" + "00" * 8


def test_map_symbols_are_left_to_the_loader():
    program = Program((insn("lddw_map_fd", 1, symbol="counts"), insn("exit")))

    assert encode(program).hex()[:32] == "1811000000000000" + "00" * 8


def test_empty_program():
    assert decode(b"") == Program(())
    assert encode(Program(())) == b""


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("95", "0: the last slot has only 1 of 8 bytes"),
        (EXIT + "950000", "1: the last slot has only 3 of 8 bytes"),
        ("ff00000000000000", "0: no instruction has opcode 0xff"),
        ("8d00000001000000", "0: callx: imm is 1, but must be 0"),
        ("df00000010000000", "0: no instruction has opcode 0xdf"),
        ("b70b000001000000", "0: mov64_imm: there is no register r11, only r0 to r10"),
        ("0fb1000000000000", "0: add64_reg: there is no register r11, only r0 to r10"),
        ("9501000000000000", "0: exit: dst is 1, but must be 0"),
        ("9500010000000000", "0: exit: off is 1, but must be 0"),
        ("9500000001000000", "0: exit: imm is 1, but must be 0"),
        ("8701000001000000", "0: neg64: imm is 1, but must be 0"),
        ("0711000000000000", "0: add64_imm: src is 1, but must be 0"),
        ("0f21000001000000", "0: add64_reg: imm is 1, but must be 0"),
        ("6121000001000000", "0: ldxw: imm is 1, but must be 0"),
        ("6211000000000000", "0: stw: src is 1, but must be 0"),
        ("2000010000000000", "0: ldabsw: off is 1, but must be 0"),
        ("e510000000000000", "0: may_goto: src is 1, but must be 0"),
        ("b720080000000000", "0: mov64_imm: src is 2, but must be 0"),
        ("3701020001000000", "0: opcode 0x37: off is 2, but must be 0 or 1"),
        ("bf21030000000000", "0: opcode 0xbf: off is 3, but must be 0, 1, 8, 16 or 32"),
        ("bc21200000000000", "0: opcode 0xbc: off is 32, but must be 0, 8 or 16"),
        ("d401000011000000", "0: opcode 0xd4: imm is 17, but must be 16, 32 or 64"),
        ("8530000001000000", "0: opcode 0x85: src is 3, but must be 0, 1 or 2"),
        ("1870000001000000",
         "0: opcode 0x18: src is 7, but must be 0, 1, 2, 3, 4, 5 or 6"),
        ("1b00000000000000", "0: no instruction has opcode 0x1b"),
        ("c321000000000100",
         ("0: opcode 0xc3: imm is 65536, but must be 0, 1, 64, 65, 80, 81, 160, 161, 225, 241, "
          "256 or 272")),
        ("bf21010002000000",
         "0: addr_space_cast: imm is 2, but must be 1 (a cast from 1 to 0) or 65536 (0 to 1)"),
        ("8520ffff01000000", "0: call_kfunc: off is -1, but an index of fd_array is not negative"),
        ("1801000000000000", "0: lddw lacks its second slot"),
        ("1801000000000000" + "0100000000000000",
         "1: in the second slot of lddw everything but imm must be 0"),
        ("1801000000000000" + "0000010000000000",
         "1: in the second slot of lddw everything but imm must be 0"),
        ("1811000003000000" + "0000000001000000",
         "0: lddw_map_fd: the high half of imm must be 0"),
        ("1841000000000000" + "0000000001000000" + EXIT,
         "1: the second slot of lddw_func must be 0"),
        ("0500010000000000" + "1801000000000000" + "00" * 8 + EXIT,
         "0: ja: slot 2 is the middle of a lddw, nothing can jump there"),
        ("0500010000000000" + EXIT,
         "0: ja: slot 2 is outside the program, which has slots 0 to 1"),
        (EXIT + "0500fdff00000000",
         "1: ja: slot -1 is outside the program, which has slots 0 to 1"),
        ("8510000001000000" + EXIT,
         "0: call_local: slot 2 is outside the program, which has slots 0 to 1"),
    ],
)  # fmt: skip
def test_invalid_bytes(data, error):
    with pytest.raises(EncodingError) as caught:
        decode(bytes.fromhex(data))

    assert str(caught.value) == f"instruction {error}"


@pytest.mark.parametrize(
    ("instruction", "error"),
    [
        (insn("mov64_imm", 11), "1: mov64_imm: there is no register r11, only r0 to r10"),
        (insn("mov64_reg", 1, -1), "1: mov64_reg: there is no register r-1, only r0 to r10"),
        (insn("mov64_imm", 300), "1: mov64_imm: there is no register r300, only r0 to r10"),
        (insn("mov64_imm", 1, 2), "1: mov64_imm does not use src, which is 2 but must be 0"),
        (insn("exit", imm=1), "1: exit does not use imm, which is 1 but must be 0"),
        (insn("sdiv64_imm", 1, off=1, imm=2),
         "1: sdiv64_imm does not use off, which is 1 but must be 0"),
        (insn("mov64_imm", imm=1 << 31),
         "1: mov64_imm: imm 2147483648 does not fit 32 signed bits"),
        (insn("ldxw", off=1 << 15), "1: ldxw: off 32768 does not fit 16 signed bits"),
        (insn("lddw", imm=1 << 63), "1: lddw: imm 9223372036854775808 does not fit 64 signed bits"),
        (insn("lddw_map_fd", imm=-1), "1: lddw_map_fd: the high half of imm must be 0"),
        (insn("ja", symbol="there"), "1: no label is called 'there'"),
        (insn("ja", symbol="end"), "1: label 'end' stands behind the last instruction"),
        (insn("ja", off=1, symbol="start"), "1: ja has both a label and a distance in off"),
        (insn("call_local", imm=1, symbol="start"),
         "1: call_local has both a label and a distance in imm"),
        (insn("ja", off=5), "1: slot 7 is outside the program, which has slots 0 to 2"),
    ],
)  # fmt: skip
def test_invalid_instructions(instruction, error):
    program = Program((insn("exit"), instruction, insn("exit")), {"start": 0, "end": 3})

    with pytest.raises(EncodingError) as caught:
        encode(program)

    assert str(caught.value) == f"instruction {error}"


def test_distance_beyond_16_bits():
    filler = (insn("mov64_imm"),) * 0x8000
    program = Program((insn("ja", symbol="far"), *filler, insn("exit")), {"far": 0x8001})

    with pytest.raises(EncodingError) as caught:
        encode(program)

    assert str(caught.value) == (
        "instruction 0: the target is +32768 slots away, ja reaches -32768 to +32767"
    )


def test_long_distance_of_gotol():
    filler = (insn("mov64_imm"),) * 0x8000
    program = Program((insn("gotol", symbol="far"), *filler, insn("exit")), {"far": 0x8001})

    assert encode(program)[:8].hex() == "0600000000800000"


def test_rows_are_the_same_object_after_copy_and_pickle():
    instruction = Insn(OPS["sdiv32_imm"], 1, imm=-3)

    assert pickle.loads(pickle.dumps(instruction)).op is instruction.op
    assert copy.deepcopy(instruction) == instruction


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.name)
def test_every_row_round_trips(op):
    """With every operand 0, or 1 where 0 is refused or leads into the instruction itself."""
    imm = 1 if op.name in {"addr_space_cast", "lddw_func"} else 0
    data = encode(Program((insn(op.name, imm=imm), insn("exit"))))

    assert decode(data).insns[0].op is op
    assert encode(decode(data)) == data


def test_one_instruction_of_a_program_that_is_none():
    code = bytes.fromhex("0500630000000000 ff00000000000000 1801000002000000 0000000003000000")

    assert decode_one(code, 0) == insn("ja", off=99)
    assert decode_one(code, 2) == insn("lddw", 1, imm=(3 << 32) + 2)
    with pytest.raises(EncodingError, match="instruction 1: no instruction has opcode 0xff"):
        decode_one(code, 1)
    with pytest.raises(EncodingError, match="the program has ended"):
        decode_one(code, 4)
    with pytest.raises(EncodingError, match="instruction 2: lddw lacks its second slot"):
        decode_one(code[:24], 2)
