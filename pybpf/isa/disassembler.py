"""Programs to assembler text that ``assemble`` reads back into the same bytes.

Of the spellings that ``assembler`` accepts this prints one: offsets, distances and immediates in
decimal, LLVM's blanks (``r1 + 8``) and LLVM's names of atomic operations. Registers are ``w`` where
32 bits are computed with or compared, and ``r`` everywhere else, so also in loads and stores.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.isa.helpers import HELPER_NAMES
from pybpf.isa.insn import Insn, Program
from pybpf.isa.table import Effect, Form

_KINDS: Mapping[str, str] = {
    "lddw_map_fd": "map_fd",
    "lddw_map_value": "map_value",
    "lddw_btf_id": "btf_id",
    "lddw_func": "subprog",
    "lddw_map_idx": "map_idx",
    "lddw_map_idx_value": "map_idx_value",
}
_ATOMIC_NAMES: Mapping[Effect, str] = {
    Effect.ADD: "add",
    Effect.OR: "or",
    Effect.AND: "and",
    Effect.XOR: "xor",
}


def disassemble(program: Program | bytes) -> str:
    """Return a program, or raw little-endian instructions, as text: an instruction a line.

    Labels stand at the margin, instructions are indented. Raises EncodingError for bytes that are
    no program.
    """
    if not isinstance(program, Program):
        program = Program.from_bytes(program)
    names: dict[int, list[str]] = {}
    for name, index in program.labels.items():
        names.setdefault(index, []).append(name)
    lines = []
    for index, insn in enumerate(program.insns):
        lines += [f"{name}:" for name in names.get(index, ())]
        lines.append(f"    {format_insn(insn)}")
    lines += [f"{name}:" for name in names.get(len(program.insns), ())]
    return "".join(f"{line}\n" for line in lines)


def format_insn(insn: Insn) -> str:
    """Return one instruction as ``disassemble`` writes it, without indentation."""
    op = insn.op
    letter = "w" if op.width == 32 else "r"
    dst, src = f"{letter}{insn.dst}", f"{letter}{insn.src}"
    match op.form:
        case Form.ALU_IMM:
            return f"{dst} {_assignment(op.effect)} {insn.imm}"
        case Form.ALU_REG:
            return f"{dst} {_assignment(op.effect)} {src}"
        case Form.NEG:
            return f"{dst} = -{dst}"
        case Form.MOVSX:
            return f"{dst} = (s{op.narrow}){src}"
        case Form.SWAP:
            return f"{dst} = {op.name} {dst}"
        case Form.LOAD:
            sign = "s" if op.effect is Effect.LOAD_SIGNED else "u"
            return f"r{insn.dst} = *({sign}{op.width} *)({_address(insn.src, insn.off)})"
        case Form.STORE_REG:
            return f"*(u{op.width} *)({_address(insn.dst, insn.off)}) = r{insn.src}"
        case Form.STORE_IMM:
            return f"*(u{op.width} *)({_address(insn.dst, insn.off)}) = {insn.imm}"
        case Form.ATOMIC:
            return _atomic(insn, src)
        case Form.LOAD_ACQUIRE:
            address = _address(insn.src, insn.off)
            return f"r{insn.dst} = load_acquire((u{op.width} *)({address}))"
        case Form.STORE_RELEASE:
            address = _address(insn.dst, insn.off)
            return f"store_release((u{op.width} *)({address}), r{insn.src})"
        case Form.LOAD_IMM64:
            return f"r{insn.dst} = {_wide(insn)} ll"
        case Form.JUMP:
            return f"goto {_place(insn.symbol, insn.off)}"
        case Form.JUMP_LONG:
            return f"gotol {_place(insn.symbol, insn.imm)}"
        case Form.BRANCH_IMM:
            place = _place(insn.symbol, insn.off)
            return f"if {dst} {_comparison(op.effect)} {insn.imm} goto {place}"
        case Form.BRANCH_REG:
            place = _place(insn.symbol, insn.off)
            return f"if {dst} {_comparison(op.effect)} {src} goto {place}"
        case Form.MAY_GOTO:
            return f"may_goto {_place(insn.symbol, insn.off)}"
        case Form.CALL_HELPER:
            return f"call {HELPER_NAMES.get(insn.imm, insn.imm)}"
        case Form.CALL_LOCAL:
            return f"call {insn.symbol or f'pc{insn.imm:+}'}"
        case Form.CALL_KFUNC:
            module = f" fd_array[{insn.off}]" if insn.off else ""
            return f"call kernel-function#{insn.imm}{module}"
        case Form.CALL_REG:
            return f"callx {dst}"
        case Form.EXIT:
            return "exit"
        case Form.ADDR_SPACE_CAST:
            to, origin = insn.imm >> 16 & 0xFFFF, insn.imm & 0xFFFF
            return f"{dst} = addr_space_cast({src}, {to}, {origin})"
        case Form.PACKET_ABS:
            return f"r0 = *(u{op.width} *)skb[{insn.imm}]"
        case Form.PACKET_IND:
            return f"r0 = *(u{op.width} *)skb[{_address(insn.src, insn.imm)}]"


def _assignment(effect: Effect) -> str:
    return "=" if effect is Effect.MOV else f"{effect}="


def _comparison(effect: Effect) -> str:
    return "&" if effect is Effect.JSET else str(effect)


def _address(register: int, off: int) -> str:
    return f"r{register} {'-' if off < 0 else '+'} {abs(off)}"


def _place(symbol: str | None, distance: int) -> str:
    return symbol or f"{distance:+}"


def _atomic(insn: Insn, operand: str) -> str:
    op, address = insn.op, _address(insn.dst, insn.off)
    size = "_64" if op.width == 64 else "32_32"
    if op.effect is Effect.XCHG:
        return f"{operand} = xchg{size}({address}, {operand})"
    if op.effect is Effect.CMPXCHG:
        old = f"{operand[0]}0"
        return f"{old} = cmpxchg{size}({address}, {old}, {operand})"
    if op.fetch:
        name = _ATOMIC_NAMES[op.effect]
        return f"{operand} = atomic_fetch_{name}((u{op.width} *)({address}), {operand})"
    return f"lock *(u{op.width} *)({address}) {op.effect}= {operand}"


def _wide(insn: Insn) -> str:
    """Return what a ``lddw`` loads: a number, or what the kernel is to put in its place."""
    kind = _KINDS.get(insn.op.name)
    if kind is None:
        return f"{insn.imm & 0xFFFFFFFFFFFFFFFF:#x}"
    low, high = insn.imm & 0xFFFFFFFF, insn.imm >> 32 & 0xFFFFFFFF
    if kind == "subprog":
        return f"subprog:{insn.symbol}" if insn.symbol else f"subprog[{insn.imm:+}]"
    if kind == "btf_id":
        return f"btf_id[{high}:{low}]" if high else f"btf_id[{low}]"
    offset = f" + {high}" if high else ""
    return f"{kind}:{insn.symbol}{offset}" if insn.symbol else f"{kind}[{low}]{offset}"
