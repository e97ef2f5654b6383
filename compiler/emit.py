"""Allocation -> isa.Program: instructions, labels and line information.

Blocks stay in their order. An operation ``dst = left op right`` takes two instructions, unless
allocation put ``left`` where ``dst`` is to be. Jumps to the next block are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pybpf.compiler.allocate import Allocation
from pybpf.compiler.ir import (
    CTX,
    Argument,
    AtomicAdd,
    Base,
    Bin,
    BinOp,
    Block,
    Branch,
    CallHelper,
    Cmp,
    Comment,
    Copy,
    Exit,
    Extend,
    Goto,
    Label,
    Load,
    MapRef,
    MapValueAddr,
    Neg,
    Op,
    Slot,
    SlotRef,
    Store,
    Terminator,
    VReg,
)
from pybpf.compiler.longjumps import Code, lengthen_jumps
from pybpf.compiler.moves import in_order
from pybpf.compiler.operands import IMM32
from pybpf.compiler.regalloc import ARGUMENTS
from pybpf.compiler.simplify import INVERTED
from pybpf.isa.abi import AttachType, ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.isa.insn import R0, R1, R10, Program, insn, lines_of
from pybpf.isa.semantics import signed
from pybpf.source import Span
from pybpf.target.features import CPU_V4

_ALU = {
    BinOp.ADD: "add",
    BinOp.SUB: "sub",
    BinOp.MUL: "mul",
    BinOp.DIV: "div",
    BinOp.SDIV: "sdiv",
    BinOp.MOD: "mod",
    BinOp.SMOD: "smod",
    BinOp.OR: "or",
    BinOp.AND: "and",
    BinOp.XOR: "xor",
    BinOp.LSH: "lsh",
    BinOp.RSH: "rsh",
    BinOp.ARSH: "arsh",
}
_JUMP = {
    Cmp.EQ: "jeq",
    Cmp.NE: "jne",
    Cmp.GT: "jgt",
    Cmp.GE: "jge",
    Cmp.LT: "jlt",
    Cmp.LE: "jle",
    Cmp.SGT: "jsgt",
    Cmp.SGE: "jsge",
    Cmp.SLT: "jslt",
    Cmp.SLE: "jsle",
    Cmp.TEST: "jset",
}
_SUFFIX = {1: "b", 2: "h", 4: "w", 8: "dw"}


def emit(
    allocation: Allocation,
    features: frozenset[str],
    prog_type: ProgType,
    expected_attach_type: AttachType | None = None,
) -> Program:
    """Return the program; raises SourceError where it is too long for its jumps."""
    emission = _Emission(allocation, features)
    blocks = allocation.function.blocks
    following = [block.label for block in blocks[1:]]
    for block, label in zip(blocks, [*following, None], strict=True):
        emission.block(block, label)
    code = lengthen_jumps(emission.code, allocation.function.name, features)
    targets = {i.symbol for i in code.insns if i.symbol in code.labels}
    return Program(
        tuple(code.insns),
        MappingProxyType({name: at for name, at in code.labels.items() if name in targets}),
        allocation.function.name,
        prog_type,
        expected_attach_type,
        lines=tuple(lines_of(code.spans)),
        spans=tuple(code.spans),
    )


class _Emission:
    def __init__(self, allocation: Allocation, features: frozenset[str]) -> None:
        self.code = Code([], [], {})
        self._span: Span | None = None
        self._registers: Mapping[VReg, int] = allocation.registers
        self._places: Mapping[Slot, int] = allocation.places
        self._v4 = CPU_V4 in features
        if CTX in self._registers:
            self._move(self._registers[CTX], R1)

    def block(self, block: Block, following: Label | None) -> None:
        """Add a block, which ``following`` comes after."""
        self.code.labels[block.label] = len(self.code.insns)
        for instr in block.instrs:
            self._span = instr.span
            self._operation(instr.op)
        self._span = block.span
        self._terminator(block.terminator, following)

    def _add(
        self,
        name: str,
        dst: int = 0,
        src: int = 0,
        off: int = 0,
        imm: int = 0,
        symbol: str | None = None,
    ) -> None:
        self.code.insns.append(insn(name, dst, src, off, imm, symbol))
        self.code.spans.append(self._span)

    def _operation(self, op: Op) -> None:
        match op:
            case Copy(dst=dst, src=src):
                self._load_argument(self._registers[dst], src)
            case Bin():
                self._bin(op)
            case Neg(dst=dst, width=width, src=src):
                self._move(self._registers[dst], self._registers[src], width)
                self._add(f"neg{width}", self._registers[dst])
            case Extend():
                self._extend(op)
            case Load():
                self._load(op)
            case Store(base=base, offset=offset, size=size, src=src):
                register, offset = self._address(base, offset)
                if isinstance(src, int):
                    self._add(f"st{_SUFFIX[size]}", register, off=offset, imm=src)
                else:
                    self._add(f"stx{_SUFFIX[size]}", register, self._registers[src], offset)
            case AtomicAdd(base=base, offset=offset, size=size, src=src):
                register, offset = self._address(base, offset)
                self._add(f"atomic_add{8 * size}", register, self._registers[src], offset)
            case MapValueAddr(dst=dst, name=name, offset=offset):
                self._add("lddw_map_value", self._registers[dst], imm=offset << 32, symbol=name)
            case CallHelper():
                self._call(op)
            case Comment():
                pass

    def _move(self, dst: int, src: int, width: int = 64) -> None:
        if dst != src:
            self._add(f"mov{width}_reg", dst, src)

    def _constant(self, dst: int, value: int) -> None:
        if value in IMM32:
            self._add("mov64_imm", dst, imm=value)
        elif 0 <= value < 1 << 32:
            # A 32-bit move clears the upper half, and takes one slot where lddw takes two.
            self._add("mov32_imm", dst, imm=value - (1 << 32))
        else:
            self._add("lddw", dst, imm=value)

    def _load_argument(self, dst: int, src: Argument) -> None:
        match src:
            case int():
                self._constant(dst, src)
            case VReg():
                self._move(dst, self._registers[src])
            case SlotRef(slot=slot, offset=offset):
                self._move(dst, R10)
                self._add("add64_imm", dst, imm=self._places[slot] + offset)
            case MapRef(name=name):
                self._add("lddw_map_fd", dst, symbol=name)

    def _address(self, base: Base, offset: int) -> tuple[int, int]:
        """Return the register and offset of an access."""
        if isinstance(base, SlotRef):
            return R10, self._places[base.slot] + base.offset + offset
        return self._registers[base], offset

    def _bin(self, op: Bin) -> None:
        dst, left, right = self._registers[op.dst], op.left, op.right
        if isinstance(left, VReg) and isinstance(right, VReg) and self._registers[right] == dst:
            # Allocation lets the result take the place of the right operand only where they swap.
            left, right = right, left
        if isinstance(left, int):
            self._constant(dst, signed(left, op.width))
        else:
            self._move(dst, self._registers[left], op.width)
        if isinstance(right, int):
            self._add(f"{_ALU[op.op]}{op.width}_imm", dst, imm=right)
        else:
            self._add(f"{_ALU[op.op]}{op.width}_reg", dst, self._registers[right])

    def _extend(self, op: Extend) -> None:
        dst, src = self._registers[op.dst], self._registers[op.src]
        if not op.signed and op.bits == 32:
            self._add("mov32_reg", dst, src)
        elif not op.signed:
            self._move(dst, src)
            self._add("and64_imm", dst, imm=(1 << op.bits) - 1)
        elif self._v4:
            self._add(f"movsx{op.bits}_64", dst, src)
        else:
            self._move(dst, src)
            self._sign_extend(dst, op.bits)

    def _load(self, op: Load) -> None:
        dst = self._registers[op.dst]
        base, offset = self._address(op.base, op.offset)
        extends = op.signed and op.size < 8
        name = "ldxs" if extends and self._v4 else "ldx"
        self._add(f"{name}{_SUFFIX[op.size]}", dst, base, offset)
        if extends and not self._v4:
            self._sign_extend(dst, 8 * op.size)

    def _sign_extend(self, dst: int, bits: int) -> None:
        self._add("lsh64_imm", dst, imm=64 - bits)
        self._add("arsh64_imm", dst, imm=64 - bits)

    def _call(self, op: CallHelper) -> None:
        places = list(zip(ARGUMENTS, op.args, strict=False))
        moves = {to: self._registers[arg] for to, arg in places if isinstance(arg, VReg)}
        for to, source in in_order(moves, spare=R0):
            self._move(to, source)
        for to, arg in places:
            if not isinstance(arg, VReg):
                self._load_argument(to, arg)
        self._add("call_helper", imm=HELPERS[op.helper])
        if op.dst is not None:
            self._move(self._registers[op.dst], R0)

    def _terminator(self, terminator: Terminator, following: Label | None) -> None:
        match terminator:
            case Exit(value=value):
                self._constant(R0, value)
                self._add("exit")
            case Goto(target=target):
                self._jump(target, following)
            case Branch(cmp=cmp, then=then, otherwise=otherwise):
                if then == following and cmp in INVERTED:
                    self._branch(terminator, INVERTED[cmp], otherwise)
                else:
                    self._branch(terminator, cmp, then)
                    self._jump(otherwise, following)

    def _jump(self, target: Label, following: Label | None) -> None:
        if target != following:
            self._add("ja", symbol=target)

    def _branch(self, branch: Branch, cmp: Cmp, target: Label) -> None:
        name, left = f"{_JUMP[cmp]}{branch.width}", self._registers[branch.left]
        if isinstance(branch.right, int):
            self._add(f"{name}_imm", left, imm=branch.right, symbol=target)
        else:
            self._add(f"{name}_reg", left, self._registers[branch.right], symbol=target)
