"""A function -> one that uses only what the target's instructions can do.

Constants that no immediate field holds get registers; signed division, 32-bit comparisons, far
offsets and direct addresses of map values are put in other words where the kernel has them not.
Every operation of the result is one instruction, or a few that need no further register.
"""

from __future__ import annotations

from pybpf.compiler.ir import (
    AtomicAdd,
    Base,
    Bin,
    BinOp,
    Block,
    Branch,
    Copy,
    Extend,
    Function,
    Instr,
    Load,
    MapValueAddr,
    Op,
    Operand,
    Slot,
    SlotRef,
    Store,
    VReg,
)
from pybpf.compiler.known import NOTHING
from pybpf.compiler.lookup import insert_lookup
from pybpf.compiler.operands import COMMUTATIVE, IMM32, next_slot, operations
from pybpf.compiler.simplify import SIGNED, simplify
from pybpf.dataclass import replace
from pybpf.isa.insn import ByteOrder
from pybpf.isa.semantics import signed
from pybpf.target.features import CPU_V4, JMP32, MAP_VALUE_ADDR

_OFFSETS = range(-(1 << 15), 1 << 15)
_SIGNED_DIVISION = {BinOp.SDIV: BinOp.DIV, BinOp.SMOD: BinOp.MOD}


def legalize(function: Function, features: frozenset[str], byteorder: ByteOrder) -> Function:
    """Return a function with the same effects for a target with ``features``."""
    if MAP_VALUE_ADDR not in features:
        function = _look_values_up(function)
    rewriting = _Rewriting(function, features, byteorder)
    blocks = tuple(rewriting.block(block) for block in function.blocks)
    return replace(function, blocks=blocks, registers=rewriting.registers)


def _look_values_up(function: Function) -> Function:
    """Find the values of array maps by lookups at the entry instead of by their addresses."""
    names = dict.fromkeys(op.name for op in operations(function) if isinstance(op, MapValueAddr))
    bases = {name: VReg(function.registers + i) for i, name in enumerate(names)}

    def moved(op: Op) -> Op:
        if not isinstance(op, MapValueAddr):
            return op
        return simplify(Bin(op.dst, BinOp.ADD, 64, bases[op.name], op.offset), NOTHING)

    blocks = tuple(
        replace(block, instrs=tuple(Instr(moved(i.op), i.span) for i in block.instrs))
        for block in function.blocks
    )
    for key, (name, base) in enumerate(bases.items(), next_slot(function)):
        blocks = insert_lookup(blocks, blocks[0].label, base, name, Slot(key, 4, 4), 0)
    return replace(function, blocks=blocks, registers=function.registers + len(bases))


class _Rewriting:
    def __init__(self, function: Function, features: frozenset[str], byteorder: ByteOrder) -> None:
        self.registers = function.registers
        self._features = features
        self._byteorder = byteorder
        self._out: list[Op] = []

    def block(self, block: Block) -> Block:
        """Return a block of legal operations."""
        instrs: list[Instr] = []
        for instr in block.instrs:
            self._out = []
            self._operation(instr.op)
            instrs += (Instr(op, instr.span) for op in self._out)
        terminator = block.terminator
        if isinstance(terminator, Branch):
            self._out = []
            terminator = self._branch(terminator)
            instrs += (Instr(op, block.span) for op in self._out)
        return replace(block, instrs=tuple(instrs), terminator=terminator)

    def _operation(self, op: Op) -> None:
        match op:
            case Bin():
                self._bin(op)
            case Load() | AtomicAdd():
                base, offset = self._near(op.base, op.offset)
                self._out.append(replace(op, base=base, offset=offset))
            case Store():
                self._store(op)
            case _:
                self._out.append(op)

    def _bin(self, op: Bin) -> None:
        left, right = op.left, op.right
        if isinstance(right, int):
            # The kernel refuses constant shifts by the width or more, and division by zero.
            match simplify(op, NOTHING):
                case Bin() as simpler:
                    op, left, right = simpler, simpler.left, simpler.right
                case other:
                    self._operation(other)
                    return
        if op.op in _SIGNED_DIVISION and CPU_V4 not in self._features:
            self._divide(op)
        elif op.op is BinOp.ARSH and op.width == 32 and JMP32 not in self._features:
            self._shift_half(op)
        elif isinstance(left, int) and op.op in COMMUTATIVE:
            self._bin(replace(op, left=right, right=left))
        else:
            self._out.append(replace(op, right=self._immediate(right)))

    def _divide(self, op: Bin) -> None:
        """Divide magnitudes, then set the sign: x is negative where its sign mask s is -1.

        (x ^ s) - s is |x|, and the other way round. Division by 0 gives 0 and leaves the
        dividend as the remainder here too, and MIN / -1 is MIN.
        """
        width = op.width
        left = self._value(BinOp.ARSH, width, op.left, width - 1)
        right = self._value(BinOp.ARSH, width, op.right, width - 1)
        dividend = self._signed_by(left, op.left, width)
        divisor = self._signed_by(right, op.right, width)
        sign = left
        if op.op is BinOp.SDIV and right != 0:
            sign = self._value(BinOp.XOR, width, left, right)
        plain = _SIGNED_DIVISION[op.op]
        if sign == 0:
            self._bin(Bin(op.dst, plain, width, dividend, divisor))
        else:
            result = self._value(plain, width, dividend, divisor)
            flipped = self._value(BinOp.XOR, width, result, sign)
            self._bin(Bin(op.dst, BinOp.SUB, width, flipped, sign))

    def _signed_by(self, sign: Operand, value: Operand, width: int) -> Operand:
        if sign == 0:
            return value
        flipped = self._value(BinOp.XOR, width, value, sign)
        return self._value(BinOp.SUB, width, flipped, sign)

    def _shift_half(self, op: Bin) -> None:
        """Shift 32 bits with their sign in 64 (arsh32 is as young as the 32-bit jumps)."""
        count = self._value(BinOp.AND, 64, op.right, 31)
        wide = self._extended(op.left, is_signed=True)
        shifted = self._register()
        self._bin(Bin(shifted, BinOp.ARSH, 64, wide, count))
        self._out.append(Extend(op.dst, 32, signed=False, src=shifted))

    def _value(self, kind: BinOp, width: int, left: Operand, right: Operand) -> Operand:
        """Return ``left kind right``, computed here or by the program."""
        register = self._register()
        op = simplify(Bin(register, kind, width, left, right), NOTHING)
        if isinstance(op, Copy) and isinstance(op.src, int | VReg):
            return op.src
        self._operation(op)
        return register

    def _extended(self, operand: Operand, *, is_signed: bool) -> Operand:
        """Return the low half of an operand, extended."""
        if isinstance(operand, int):
            return signed(operand, 32) if is_signed else operand & 0xFFFFFFFF
        register = self._register()
        self._out.append(Extend(register, 32, is_signed, operand))
        return register

    def _store(self, op: Store) -> None:
        base, offset = self._near(op.base, op.offset)
        op = replace(op, base=base, offset=offset)
        if not isinstance(op.src, int):
            self._out.append(op)
            return
        value = signed(op.src, 8 * op.size)
        if op.size == 8 and value not in IMM32 and isinstance(base, SlotRef):
            # Two stores without a register; nobody else looks at a slot, so it need not be one.
            low, high = signed(value, 32), value >> 32
            halves = (low, high) if self._byteorder == "little" else (high, low)
            for place, half in zip((offset, offset + 4), halves, strict=True):
                self._out.append(Store(base, place, 4, half))
        else:
            self._out.append(replace(op, src=self._immediate(value)))

    def _branch(self, branch: Branch) -> Branch:
        left, right = branch.left, branch.right
        if isinstance(right, int):
            right = signed(right, branch.width)
        if branch.width == 32 and JMP32 not in self._features:
            is_signed = branch.cmp in SIGNED
            wide = self._extended(left, is_signed=is_signed)
            assert isinstance(wide, VReg)
            left, right = wide, self._extended(right, is_signed=is_signed)
            branch = replace(branch, width=64)
        return replace(branch, left=left, right=self._immediate(right))

    def _near(self, base: Base, offset: int) -> tuple[Base, int]:
        """Return base and offset of an access such that the instruction can hold the offset."""
        if isinstance(base, SlotRef):
            return SlotRef(base.slot, base.offset + offset), 0
        if offset in _OFFSETS:
            return base, offset
        register = self._register()
        self._bin(Bin(register, BinOp.ADD, 64, base, offset))
        return register, 0

    def _immediate(self, operand: Operand) -> Operand:
        """Return an operand that an instruction can hold: a register for a large constant."""
        if isinstance(operand, VReg) or operand in IMM32:
            return operand
        register = self._register()
        self._out.append(Copy(register, operand))
        return register

    def _register(self) -> VReg:
        self.registers += 1
        return VReg(self.registers - 1)
