"""Fields that an instruction must leave zero: a raw slot in; the kernel's message, or None, out.

The kernel asks when a path reaches an instruction (since Linux 7.0 for all of them, before it
follows any): check_alu_op, check_cond_jmp_op, do_check and check_ld_abs in kernel/bpf/verifier.c.
Opcodes that the kernel does not have were refused before.
"""

from __future__ import annotations

from pybpf.verifier import opcodes as op
from pybpf.verifier.program import Raw
from pybpf.verifier.rules import Rules

_SWAPS = frozenset({16, 32, 64})
_CASTS = frozenset({1, 1 << 16})


def refuse_fields(slot: Raw, rules: Rules) -> str | None:
    """Return what the kernel says of a slot whose unused fields are not zero; None: they are."""
    kind = slot.code & op.CLASS
    if kind in {op.ALU32, op.ALU64}:
        return _alu(slot, rules)
    if kind in {op.JMP, op.JMP32}:
        return _jump(slot, rules)
    if kind == op.ST:
        bad = slot.code & op.MODE != op.MEM or slot.src
        return "BPF_ST uses reserved fields" if bad else None
    if kind == op.STX:
        if slot.code & op.MODE == op.ATOMIC:
            return None
        bad = slot.code & op.MODE != op.MEM or slot.imm
        return "BPF_STX uses reserved fields" if bad else None
    if kind == op.LD:
        return _load(slot)
    return None


def _alu(slot: Raw, rules: Rules) -> str | None:
    operation, by_reg = slot.code & op.OP, slot.code & op.SOURCE
    is64 = slot.code & op.CLASS == op.ALU64
    if operation == op.NEG:
        return (
            "BPF_NEG uses reserved fields" if by_reg or slot.src or slot.off or slot.imm else None
        )
    if operation == op.END:
        bad = slot.src or slot.off or slot.imm not in _SWAPS or (is64 and slot.code & op.TO_BE)
        return "BPF_END uses reserved fields" if bad else None
    if operation == op.MOV:
        return _move(slot, rules, is64=is64)
    if operation > op.END:
        return f"invalid BPF_ALU opcode {operation:x}"
    signed = rules.has_signed_division and slot.off == 1 and operation in op.DIVISIONS
    if (slot.imm if by_reg else slot.src) or (slot.off and not signed):
        return "BPF_ALU uses reserved fields"
    return None


def _move(slot: Raw, rules: Rules, *, is64: bool) -> str | None:
    message = "BPF_MOV uses reserved fields"
    if not slot.code & op.SOURCE:
        return message if slot.src or slot.off else None
    if is64 and slot.off == 1 and rules.has_arena:
        if slot.imm not in _CASTS:
            return "addr_space_cast insn can only convert between address space 1 and 0"
        return None
    widths = ((8, 16, 32) if is64 else (8, 16)) if rules.has_movsx else ()
    return message if slot.imm or (slot.off and slot.off not in widths) else None


def _jump(slot: Raw, rules: Rules) -> str | None:
    code, operation, is32 = slot.code, slot.code & op.OP, slot.code & op.CLASS == op.JMP32
    if operation == op.OP_CALL:
        kinds = {0, op.CALL_LOCAL, op.CALL_KFUNC} if rules.has_kfuncs else {0, op.CALL_LOCAL}
        far = slot.src == op.CALL_KFUNC and rules.has_kfunc_modules
        bad = code & op.SOURCE or (slot.off and not far) or slot.src not in kinds or slot.dst
        return "BPF_CALL uses reserved fields" if bad or is32 else None
    if operation == op.OP_JA:
        other = slot.off if is32 else slot.imm
        bad = code & op.SOURCE or slot.src or slot.dst or other
        return "BPF_JA uses reserved fields" if bad or (is32 and not rules.has_gotol) else None
    if operation == op.OP_EXIT:
        bad = code & op.SOURCE or slot.imm or slot.src or slot.dst or is32
        return "BPF_EXIT uses reserved fields" if bad else None
    if operation == op.OP_MAY_GOTO:
        bad = code != op.MAY_GOTO or slot.src or slot.dst or slot.imm
        off = "" if rules.since(7, 0) else f" off {slot.off}"
        return f"invalid may_goto{off} imm {slot.imm}" if bad else None
    if slot.imm if code & op.SOURCE else slot.src:
        return "BPF_JMP/JMP32 uses reserved fields"
    return None


def _load(slot: Raw) -> str | None:
    mode = slot.code & op.MODE
    if mode in {op.ABS, op.IND}:
        bad = slot.dst or slot.off or op.BYTES[slot.code & op.SIZE] == 8
        bad = bad or (mode == op.ABS and slot.src)
        return "BPF_LD_[ABS|IND] uses reserved fields" if bad else None
    if mode == op.IMM:
        if slot.code != op.LDDW:
            return "invalid BPF_LD_IMM insn"
        return "BPF_LD_IMM64 uses reserved fields" if slot.off else None
    return "invalid BPF_LD mode"
