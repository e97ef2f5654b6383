"""How wide a value is: from an operation to the number of bits its result needs.

Nothing is claimed here that the kernel's verifier would not find out as well: lowering may mask a
length so that the verifier sees its bound, and a mask must not be dropped for a reason that the
verifier does not know. That is why quotients and remainders count as full words.
"""

from __future__ import annotations

from collections.abc import Callable

from pybpf.compiler.ir import Bin, BinOp, Copy, Extend, Load, Op, Operand, VReg
from pybpf.dataclass import dataclass
from pybpf.isa.semantics import MASK64


@dataclass(frozen=True, slots=True)
class Width:
    """A value is below ``2**unsigned``, and as a signed number it fits ``signed`` bits."""

    unsigned: int
    signed: int


FULL = Width(64, 64)


def of_constant(value: int) -> Width:
    """Return the width of a signed 64-bit constant."""
    magnitude = value if value >= 0 else ~value
    return Width((value & MASK64).bit_length(), magnitude.bit_length() + 1)


def join(a: Width, b: Width) -> Width:
    """Return the width of a value that is one of two."""
    return Width(max(a.unsigned, b.unsigned), max(a.signed, b.signed))


def of_result(op: Op, of: Callable[[Operand], Width]) -> Width:
    """Return the width of what ``op`` computes; ``of`` tells the widths of its operands."""
    match op:
        case Copy(src=int() | VReg() as src):
            return of(src)
        case Bin():
            return _of_bin(op, of)
        case Extend(bits=bits, signed=signed, src=src):
            return _extended(bits, of(src), signed=signed)
        case Load(size=size, signed=signed):
            return _extended(8 * size, FULL, signed=signed)
        case _:
            return FULL


def _unsigned(bits: int) -> Width:
    return Width(min(bits, 64), min(bits + 1, 64))


def _extended(bits: int, src: Width, *, signed: bool) -> Width:
    if src.unsigned < bits or (not signed and src.unsigned == bits):
        return src
    if not signed:
        return _unsigned(bits)
    return Width(64, min(bits, src.signed))


def _of_bin(op: Bin, of: Callable[[Operand], Width]) -> Width:
    left, right = of(op.left), of(op.right)
    count = op.right & (op.width - 1) if isinstance(op.right, int) else None
    bits = 64
    match op.op:
        case BinOp.AND:
            bits = min(left.unsigned, right.unsigned)
        case BinOp.OR | BinOp.XOR:
            bits = max(left.unsigned, right.unsigned)
        case BinOp.ADD:
            bits = max(left.unsigned, right.unsigned) + 1
        case BinOp.MUL:
            bits = left.unsigned + right.unsigned
        case BinOp.LSH if count is not None:
            bits = left.unsigned + count
        case BinOp.RSH if count is not None:
            bits = max(0, min(left.unsigned, op.width) - count)
        case _:
            pass
    return _unsigned(min(bits, op.width))
