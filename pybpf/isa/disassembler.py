"""Programs to assembler text that ``assemble`` reads back into the same bytes.

Of the spellings that ``assembler`` accepts this prints one: offsets, distances and immediates in
decimal, LLVM's blanks (``r1 + 8``) and LLVM's names of atomic operations. Registers are ``w`` where
32 bits are computed with or compared, and ``r`` everywhere else, so also in loads and stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from pybpf.isa.helpers import HELPER_NAMES
from pybpf.isa.insn import Insn, Program
from pybpf.isa.table import Effect, Form, OpSpec

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
        if index in names:
            lines += [f"{name}:" for name in names[index]]
        lines.append(f"    {format_insn(insn)}")
    lines += [f"{name}:" for name in names.get(len(program.insns), ())]
    return "\n".join([*lines, ""])


def format_insn(insn: Insn) -> str:
    """Return one instruction as ``disassemble`` writes it, without indentation."""
    return _writer(insn.op)(insn)


@cache
def _writer(op: OpSpec) -> Callable[[Insn], str]:
    """Return what writes the instructions of an operation: all but their operands is decided."""
    w, bits = "w" if op.width == 32 else "r", op.width
    match op.form:
        case Form.ALU_IMM:
            sign = _assignment(op.effect)
            return lambda i: f"{w}{i.dst} {sign} {i.imm}"
        case Form.ALU_REG:
            sign = _assignment(op.effect)
            return lambda i: f"{w}{i.dst} {sign} {w}{i.src}"
        case Form.NEG:
            return lambda i: f"{w}{i.dst} = -{w}{i.dst}"
        case Form.MOVSX:
            return lambda i: f"{w}{i.dst} = (s{op.narrow}){w}{i.src}"
        case Form.SWAP:
            return lambda i: f"{w}{i.dst} = {op.name} {w}{i.dst}"
        case Form.LOAD:
            kind = f"{'s' if op.effect is Effect.LOAD_SIGNED else 'u'}{bits}"
            return lambda i: f"r{i.dst} = *({kind} *)({_address(i.src, i.off)})"
        case Form.STORE_REG:
            return lambda i: f"*(u{bits} *)({_address(i.dst, i.off)}) = r{i.src}"
        case Form.STORE_IMM:
            return lambda i: f"*(u{bits} *)({_address(i.dst, i.off)}) = {i.imm}"
        case Form.ATOMIC:
            return _atomic
        case Form.LOAD_ACQUIRE:
            return lambda i: f"r{i.dst} = load_acquire((u{bits} *)({_address(i.src, i.off)}))"
        case Form.STORE_RELEASE:
            return lambda i: f"store_release((u{bits} *)({_address(i.dst, i.off)}), r{i.src})"
        case Form.LOAD_IMM64:
            return lambda i: f"r{i.dst} = {_wide(i)} ll"
        case Form.PACKET_ABS:
            return lambda i: f"r0 = *(u{bits} *)skb[{i.imm}]"
        case Form.PACKET_IND:
            return lambda i: f"r0 = *(u{bits} *)skb[{_address(i.src, i.imm)}]"
        case Form.ADDR_SPACE_CAST:
            return lambda i: (
                f"r{i.dst} = addr_space_cast(r{i.src}, {i.imm >> 16 & 0xFFFF}, {i.imm & 0xFFFF})"
            )
        case _:
            return _transfer(op, w)


def _transfer(op: OpSpec, w: str) -> Callable[[Insn], str]:
    """Return what writes the instructions of an operation that may go elsewhere."""
    match op.form:
        case Form.JUMP:
            return lambda i: f"goto {i.symbol or f'{i.off:+}'}"
        case Form.JUMP_LONG:
            return lambda i: f"gotol {i.symbol or f'{i.imm:+}'}"
        case Form.BRANCH_IMM:
            sign = _comparison(op.effect)
            return lambda i: f"if {w}{i.dst} {sign} {i.imm} goto {i.symbol or f'{i.off:+}'}"
        case Form.BRANCH_REG:
            sign = _comparison(op.effect)
            return lambda i: f"if {w}{i.dst} {sign} {w}{i.src} goto {i.symbol or f'{i.off:+}'}"
        case Form.MAY_GOTO:
            return lambda i: f"may_goto {i.symbol or f'{i.off:+}'}"
        case Form.CALL_HELPER:
            return lambda i: f"call {HELPER_NAMES.get(i.imm, i.imm)}"
        case Form.CALL_LOCAL:
            return lambda i: f"call {i.symbol or f'pc{i.imm:+}'}"
        case Form.CALL_KFUNC:
            return _kfunc
        case Form.CALL_REG:
            return lambda i: f"callx {w}{i.dst}"
        case _:
            return lambda _: "exit"


def _assignment(effect: Effect) -> str:
    return "=" if effect is Effect.MOV else f"{effect}="


def _comparison(effect: Effect) -> str:
    return "&" if effect is Effect.JSET else str(effect)


def _address(register: int, off: int) -> str:
    return f"r{register} - {-off}" if off < 0 else f"r{register} + {off}"


def _kfunc(insn: Insn) -> str:
    module = f" fd_array[{insn.off}]" if insn.off else ""
    return f"call kernel-function#{insn.imm}{module}"


def _atomic(insn: Insn) -> str:
    op, address = insn.op, _address(insn.dst, insn.off)
    operand = f"{'w' if op.width == 32 else 'r'}{insn.src}"
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
