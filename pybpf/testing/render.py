"""Programs for people to read: a ``CorpusProgram`` in, whatever its bytes are; a listing out."""

from __future__ import annotations

from pybpf.corpus import CorpusProgram
from pybpf.errors import EncodingError
from pybpf.isa.disassembler import format_insn
from pybpf.isa.encoding import decode
from pybpf.isa.table import OPS

_LDDW = OPS["lddw"].opcode
_EXIT = b"\x95" + bytes(7)


def listing(program: CorpusProgram) -> str:
    """Return a line for each instruction: its slot, its bytes, and what it is."""
    lines = []
    at = 0
    while at < program.slots:
        size = 2 if program.insns[8 * at] == _LDDW and at + 1 < program.slots else 1
        raw = program.insns[8 * at : 8 * (at + size)]
        lines.append(f"{at:4}: {raw.hex():32} {_text(raw, at, program)}")
        at += size
    return "\n".join(lines)


def _text(raw: bytes, at: int, program: CorpusProgram) -> str:
    for fixup in program.fixups:
        if fixup.insn == at:
            offset = int.from_bytes(raw[12:16], "little")
            return f"r{raw[1] & 15} = {fixup.kind}({fixup.map}) + {offset}"
    code = raw[0]
    try:
        if code & 7 in {5, 6} and code not in {0x85, 0x95}:
            return _jump(raw, at)
        if code == 0x85 and raw[1] >> 4 == 1:
            return f"call {at + 1 + int.from_bytes(raw[4:8], 'little', signed=True)}"
        return format_insn(decode(raw + _EXIT).insns[0])
    except EncodingError as error:
        return f"? {error.reason}"


def _jump(raw: bytes, at: int) -> str:
    """Return a jump with the slot that it leads to, which need not exist."""
    gotol = raw[0] == OPS["gotol"].opcode
    field = raw[4:8] if gotol else raw[2:4]
    goal = at + 1 + int.from_bytes(field, "little", signed=True)
    near = raw[:2] + bytes(2) + (bytes(4) if gotol else raw[4:])
    text = format_insn(decode(near + _EXIT).insns[0])
    return f"{text.rpartition(' ')[0]} {goal}"
