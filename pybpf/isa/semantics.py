"""What operations compute: two unsigned integers in, one unsigned integer or a truth value out.

The interpreter, the constant folder and the verifier take the functions from here, so that there is
one opinion of what an instruction does. Registers are integers from 0 to 2**64 - 1; an ``imm`` is
made one by ``imm & MASK64``, which sign-extends it. Operations of width 32 read the low halves of
their operands and zero the high half of the result. Source: RFC 9669 sections 4.1 to 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from pybpf.isa.insn import ByteOrder
from pybpf.isa.table import Effect, Form, OpSpec

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF
_SIGN32 = 1 << 31
_SIGN64 = 1 << 63

Alu = Callable[[int, int], int]
Compare = Callable[[int, int], bool]


def signed(value: int, bits: int) -> int:
    """Return the low ``bits`` of a value read as two's complement."""
    sign = 1 << (bits - 1)
    return ((value & (2 * sign - 1)) ^ sign) - sign


def sign_extend(value: int, narrow: int, width: int) -> int:
    """Return the low ``narrow`` bits of a value as an unsigned integer of ``width`` bits."""
    return signed(value, narrow) & ((1 << width) - 1)


def byte_swap(value: int, narrow: int) -> int:
    """Return the low ``narrow`` bits of a value with their bytes in reverse."""
    size = narrow // 8
    low = value & ((1 << narrow) - 1)
    return int.from_bytes(low.to_bytes(size, "little"), "big")


def _truncated_division(a: int, b: int) -> tuple[int, int]:
    """Return quotient and remainder as C does: rounded towards 0, the remainder signed as ``a``."""
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient, a - quotient * b


def _sdiv(a: int, b: int, bits: int, mask: int) -> int:
    # The one overflow, MIN / -1, wraps around to MIN, and its remainder is 0.
    divisor = signed(b, bits)
    return _truncated_division(signed(a, bits), divisor)[0] & mask if divisor else 0


def _smod(a: int, b: int, bits: int, mask: int) -> int:
    divisor = signed(b, bits)
    return _truncated_division(signed(a, bits), divisor)[1] & mask if divisor else a & mask


_ALU64: dict[Effect, Alu] = {
    Effect.ADD: lambda a, b: (a + b) & MASK64,
    Effect.SUB: lambda a, b: (a - b) & MASK64,
    Effect.MUL: lambda a, b: (a * b) & MASK64,
    Effect.DIV: lambda a, b: a // b if b else 0,
    Effect.SDIV: lambda a, b: _sdiv(a, b, 64, MASK64),
    Effect.MOD: lambda a, b: a % b if b else a,
    Effect.SMOD: lambda a, b: _smod(a, b, 64, MASK64),
    Effect.OR: lambda a, b: a | b,
    Effect.AND: lambda a, b: a & b,
    Effect.XOR: lambda a, b: a ^ b,
    Effect.LSH: lambda a, b: (a << (b & 63)) & MASK64,
    Effect.RSH: lambda a, b: a >> (b & 63),
    Effect.ARSH: lambda a, b: (signed(a, 64) >> (b & 63)) & MASK64,
    Effect.NEG: lambda a, _: -a & MASK64,
    Effect.MOV: lambda _, b: b,
}

_ALU32: dict[Effect, Alu] = {
    Effect.ADD: lambda a, b: (a + b) & MASK32,
    Effect.SUB: lambda a, b: (a - b) & MASK32,
    Effect.MUL: lambda a, b: (a * b) & MASK32,
    Effect.DIV: lambda a, b: (a & MASK32) // (b & MASK32) if b & MASK32 else 0,
    Effect.SDIV: lambda a, b: _sdiv(a, b, 32, MASK32),
    Effect.MOD: lambda a, b: (a & MASK32) % (b & MASK32) if b & MASK32 else a & MASK32,
    Effect.SMOD: lambda a, b: _smod(a, b, 32, MASK32),
    Effect.OR: lambda a, b: (a | b) & MASK32,
    Effect.AND: lambda a, b: a & b & MASK32,
    Effect.XOR: lambda a, b: (a ^ b) & MASK32,
    Effect.LSH: lambda a, b: (a << (b & 31)) & MASK32,
    Effect.RSH: lambda a, b: (a & MASK32) >> (b & 31),
    Effect.ARSH: lambda a, b: (signed(a, 32) >> (b & 31)) & MASK32,
    Effect.NEG: lambda a, _: -a & MASK32,
    Effect.MOV: lambda _, b: b & MASK32,
}

# Flipping the sign bit maps the signed order onto the unsigned one.
_COMPARE64: dict[Effect, Compare] = {
    Effect.JEQ: lambda a, b: a == b,
    Effect.JNE: lambda a, b: a != b,
    Effect.JGT: lambda a, b: a > b,
    Effect.JGE: lambda a, b: a >= b,
    Effect.JLT: lambda a, b: a < b,
    Effect.JLE: lambda a, b: a <= b,
    Effect.JSET: lambda a, b: (a & b) != 0,
    Effect.JSGT: lambda a, b: (a ^ _SIGN64) > (b ^ _SIGN64),
    Effect.JSGE: lambda a, b: (a ^ _SIGN64) >= (b ^ _SIGN64),
    Effect.JSLT: lambda a, b: (a ^ _SIGN64) < (b ^ _SIGN64),
    Effect.JSLE: lambda a, b: (a ^ _SIGN64) <= (b ^ _SIGN64),
}

_COMPARE32: dict[Effect, Compare] = {
    Effect.JEQ: lambda a, b: ((a ^ b) & MASK32) == 0,
    Effect.JNE: lambda a, b: ((a ^ b) & MASK32) != 0,
    Effect.JGT: lambda a, b: (a & MASK32) > (b & MASK32),
    Effect.JGE: lambda a, b: (a & MASK32) >= (b & MASK32),
    Effect.JLT: lambda a, b: (a & MASK32) < (b & MASK32),
    Effect.JLE: lambda a, b: (a & MASK32) <= (b & MASK32),
    Effect.JSET: lambda a, b: (a & b & MASK32) != 0,
    Effect.JSGT: lambda a, b: ((a ^ _SIGN32) & MASK32) > ((b ^ _SIGN32) & MASK32),
    Effect.JSGE: lambda a, b: ((a ^ _SIGN32) & MASK32) >= ((b ^ _SIGN32) & MASK32),
    Effect.JSLT: lambda a, b: ((a ^ _SIGN32) & MASK32) < ((b ^ _SIGN32) & MASK32),
    Effect.JSLE: lambda a, b: ((a ^ _SIGN32) & MASK32) <= ((b ^ _SIGN32) & MASK32),
}

ALU: Mapping[int, Mapping[Effect, Alu]] = MappingProxyType({32: _ALU32, 64: _ALU64})
COMPARE: Mapping[int, Mapping[Effect, Compare]] = MappingProxyType({32: _COMPARE32, 64: _COMPARE64})


def alu(effect: Effect, width: int, a: int, b: int) -> int:
    """Return what an arithmetic operation of 32 or 64 bits makes of ``dst`` and its operand.

    Both are from 0 to 2**64 - 1, and so is the result. ``NEG`` ignores ``b``, ``MOV`` ignores
    ``a``. Raises KeyError for an effect that is none of the arithmetic ones; for those whose
    operand is narrower than the result (``MOVSX`` and the byte swaps) see ``alu_function``.
    """
    return ALU[width][effect](a, b)


def compare(effect: Effect, width: int, a: int, b: int) -> bool:
    """Return whether a conditional jump of 32 or 64 bits is taken, for integers as in ``alu``."""
    return COMPARE[width][effect](a, b)


def alu_function(op: OpSpec, byteorder: ByteOrder = "little") -> Alu:
    """Return the function of (dst, operand) that an arithmetic row or an atomic one computes.

    The operand is ``src`` or the sign-extended ``imm``; byte swaps and negation ignore it.
    ``byteorder`` is the machine's, on which ``TO_LE`` and ``TO_BE`` depend. Raises KeyError for a
    row that computes nothing of the kind.
    """
    if op.form is Form.MOVSX:
        return partial(_move_extended, op.narrow, op.width)
    if op.form is Form.SWAP:
        native = Effect.TO_LE if byteorder == "little" else Effect.TO_BE
        return partial(_truncate if op.effect is native else _swap, op.narrow)
    return ALU[op.width][op.effect]


def _move_extended(narrow: int, width: int, _dst: int, src: int) -> int:
    return sign_extend(src, narrow, width)


def _truncate(narrow: int, dst: int, _operand: int) -> int:
    return dst & ((1 << narrow) - 1)


def _swap(narrow: int, dst: int, _operand: int) -> int:
    return byte_swap(dst, narrow)
