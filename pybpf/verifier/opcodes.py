"""Numbers within opcodes, taken from the instruction table; raw slots are read by them.

The verifier judges slots that are no instruction at all, so it reads opcode bytes as the kernel
does: by class, mode and operation.
"""

from __future__ import annotations

from pybpf.isa.table import BY_OPCODE, OPS, Effect, Form

CLASS, MODE, SIZE, OP, SOURCE = 0x07, 0xE0, 0x18, 0xF0, 0x08

LD, LDX = OPS["lddw"].opcode & CLASS, OPS["ldxw"].opcode & CLASS
ST, STX = OPS["stw"].opcode & CLASS, OPS["stxw"].opcode & CLASS
ALU32, ALU64 = OPS["add32_imm"].opcode & CLASS, OPS["add64_imm"].opcode & CLASS
JMP, JMP32 = OPS["ja"].opcode & CLASS, OPS["gotol"].opcode & CLASS

IMM, ABS, IND = (OPS[name].opcode & MODE for name in ("lddw", "ldabsw", "ldindw"))
MEM, MEMSX, ATOMIC = (OPS[name].opcode & MODE for name in ("ldxw", "ldxsw", "xchg32"))

LDDW, EXIT, CALL, JA, GOTOL, MAY_GOTO = (
    OPS[name].opcode for name in ("lddw", "exit", "call_helper", "ja", "gotol", "may_goto")
)
ADD, SUB, MUL, DIV, OR, AND, LSH, RSH, NEG, MOD, XOR, MOV, ARSH, END = (
    OPS[name].opcode & OP
    for name in (
        "add64_imm", "sub64_imm", "mul64_imm", "div64_imm", "or64_imm", "and64_imm", "lsh64_imm",
        "rsh64_imm", "neg64", "mod64_imm", "xor64_imm", "mov64_imm", "arsh64_imm", "le16",
    )
)  # fmt: skip
DIVISIONS = frozenset({DIV, MOD})
OP_JA, OP_CALL, OP_EXIT, OP_MAY_GOTO = (code & OP for code in (JA, CALL, EXIT, MAY_GOTO))
# A byte order conversion that is none of the machine's ``to le``, by its bit of the source.
TO_BE = OPS["be16"].opcode & SOURCE

MAP_FD, MAP_VALUE, BTF_ID, FUNC, MAP_IDX, MAP_IDX_VALUE = (
    OPS[f"lddw_{name}"].src
    for name in ("map_fd", "map_value", "btf_id", "func", "map_idx", "map_idx_value")
)
CALL_LOCAL, CALL_KFUNC = OPS["call_local"].src, OPS["call_kfunc"].src
TAIL_CALL = 12

BYTES = {OPS[f"ldx{suffix}"].opcode & SIZE: size for suffix, size in
         (("b", 1), ("h", 2), ("w", 4), ("dw", 8))}  # fmt: skip
BRANCHES: dict[int, Effect] = {
    code & OP: rows[0].effect
    for code, rows in BY_OPCODE.items()
    if rows[0].form in {Form.BRANCH_IMM, Form.BRANCH_REG}
}
ATOMICS = {row.imm: row for row in OPS.values() if row.form is Form.ATOMIC and row.width == 64}
LOAD_ACQUIRE, STORE_RELEASE = OPS["load_acquire64"].imm, OPS["store_release64"].imm


def known_opcodes(version: tuple[int, int], *, gotol: bool) -> frozenset[int]:
    """Return the opcodes that a kernel takes for instructions (bpf_opcode_in_insntable)."""
    found = {row.opcode for row in OPS.values() if row.since <= version}
    return frozenset(found | ({GOTOL} if gotol else set()))
