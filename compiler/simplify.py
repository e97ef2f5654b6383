"""One operation or branch -> the cheapest one that computes the same, given what is known.

These are the rules that need no view of control flow: arithmetic on constants, neutral elements,
shifts and masks for powers of two, extensions that change nothing. Constants are folded by the
functions that the interpreter runs, so that there is one opinion of what an operation computes.
"""

from __future__ import annotations

from pybpf.compiler.ir import (
    AtomicAdd,
    Base,
    Bin,
    BinOp,
    Branch,
    Cmp,
    Copy,
    Extend,
    Goto,
    Load,
    Neg,
    Op,
    Operand,
    SlotRef,
    Store,
    Terminator,
    VReg,
)
from pybpf.compiler.known import Known
from pybpf.compiler.operands import COMMUTATIVE
from pybpf.dataclass import replace
from pybpf.isa.semantics import MASK64, alu, compare, sign_extend, signed
from pybpf.isa.table import Effect

MIRRORED = {
    Cmp.EQ: Cmp.EQ,
    Cmp.NE: Cmp.NE,
    Cmp.GT: Cmp.LT,
    Cmp.GE: Cmp.LE,
    Cmp.LT: Cmp.GT,
    Cmp.LE: Cmp.GE,
    Cmp.SGT: Cmp.SLT,
    Cmp.SGE: Cmp.SLE,
    Cmp.SLT: Cmp.SGT,
    Cmp.SLE: Cmp.SGE,
    Cmp.TEST: Cmp.TEST,
}
"""The condition with its operands swapped."""

INVERTED = {
    Cmp.EQ: Cmp.NE,
    Cmp.NE: Cmp.EQ,
    Cmp.GT: Cmp.LE,
    Cmp.LE: Cmp.GT,
    Cmp.LT: Cmp.GE,
    Cmp.GE: Cmp.LT,
    Cmp.SGT: Cmp.SLE,
    Cmp.SLE: Cmp.SGT,
    Cmp.SLT: Cmp.SGE,
    Cmp.SGE: Cmp.SLT,
}
"""The condition that holds where this one does not; TEST has none."""

SIGNED = frozenset({Cmp.SGT, Cmp.SGE, Cmp.SLT, Cmp.SLE})
"""The conditions that take their operands for signed numbers."""

_REFLEXIVE = frozenset({Cmp.EQ, Cmp.GE, Cmp.LE, Cmp.SGE, Cmp.SLE})
_SHIFTS = frozenset({BinOp.LSH, BinOp.RSH, BinOp.ARSH})
_ZERO_IS_NEUTRAL = frozenset({BinOp.ADD, BinOp.OR, BinOp.XOR, *_SHIFTS})
_MAX_OFFSET = 0x7FFF


def fold(op: BinOp, width: int, left: int, right: int) -> int:
    """Return ``left op right`` as a signed 64-bit constant."""
    return signed(alu(Effect(op.value), width, left & MASK64, right & MASK64), 64)


def holds(cmp: Cmp, width: int, left: int, right: int) -> bool:
    """Whether a comparison of two signed constants holds."""
    effect = Effect.JSET if cmp is Cmp.TEST else Effect(cmp.value)
    return compare(effect, width, left & MASK64, right & MASK64)


def simplify(op: Op, known: Known) -> Op:
    """Return the cheapest operation found that does the same."""
    match op:
        case Bin():
            return _bin(op, known)
        case Neg(dst=dst, width=width, src=src):
            value = known.constant(src)
            if value is not None:
                return Copy(dst, fold(BinOp.SUB, width, 0, value))
            return op
        case Extend():
            return _extend(op, known)
        case Load() | AtomicAdd():
            return _access(op, known)
        case Store():
            stored = _low(op.src, 8 * op.size, known)
            return _access(op if stored is op.src else replace(op, src=stored), known)
        case _:
            return op


def _bin(op: Bin, known: Known) -> Op:
    if op.width == 32:
        op = replace(op, left=_low(op.left, 32, known), right=_low(op.right, 32, known))
    left, right = op.left, op.right
    if isinstance(left, int):
        if isinstance(right, int):
            return Copy(op.dst, fold(op.op, op.width, left, right))
        if op.op in COMMUTATIVE:
            return _bin(replace(op, left=right, right=left), known)
        return op
    if isinstance(right, int):
        return _bin_constant(op, signed(right, op.width), known)
    if left == right:
        return _bin_same(op, left, known)
    return _unsigned_division(op, known)


def _bin_same(op: Bin, both: VReg, known: Known) -> Op:
    match op.op:
        case BinOp.SUB | BinOp.XOR:
            return Copy(op.dst, 0)
        case BinOp.AND | BinOp.OR:
            return _whole(op, both, known)
        case _:
            return op


def _bin_constant(op: Bin, c: int, known: Known) -> Op:
    """Simplify ``register op c``; ``c`` is signed and of the width of the operation."""
    left = op.left
    if isinstance(left, int):
        return op
    if op.op is BinOp.SUB:
        return _bin_constant(replace(op, op=BinOp.ADD), signed(-c, op.width), known)
    if op.op in _SHIFTS:
        c &= op.width - 1
    op = replace(op, right=c)
    power = _power_of_two(c, op.width)
    match op.op, c:
        case (kind, 0) if kind in _ZERO_IS_NEUTRAL:
            return _whole(op, left, known)
        case ((BinOp.MUL | BinOp.DIV | BinOp.SDIV), 1) | (BinOp.AND, -1):
            return _whole(op, left, known)
        case ((BinOp.MOD | BinOp.SMOD), 0):
            return _whole(op, left, known)
        case ((BinOp.MUL | BinOp.AND | BinOp.DIV | BinOp.SDIV), 0):
            return Copy(op.dst, 0)
        case (BinOp.MOD, 1) | (BinOp.SMOD, 1 | -1):
            return Copy(op.dst, 0)
        case (BinOp.OR, -1):
            return Copy(op.dst, fold(BinOp.OR, op.width, 0, -1))
        case (BinOp.SDIV, -1):
            return Neg(op.dst, op.width, left)
        case (BinOp.MUL, _) if power is not None:
            return replace(op, op=BinOp.LSH, right=power)
        case (BinOp.DIV, _) if power is not None:
            return replace(op, op=BinOp.RSH, right=power)
        case (BinOp.MOD, _) if power is not None:
            return _bin_constant(replace(op, op=BinOp.AND), (1 << power) - 1, known)
        case ((BinOp.SDIV | BinOp.SMOD), _):
            return _unsigned_division(op, known)
        case (BinOp.AND, _):
            return _mask(op, left, c, known)
        case (BinOp.ADD, _):
            return _sum(op, left, c, known)
        case (BinOp.RSH, _) if known.width(left).unsigned <= c:
            return Copy(op.dst, 0)
        case _:
            return op


def _power_of_two(value: int, width: int) -> int | None:
    value &= (1 << width) - 1
    return value.bit_length() - 1 if value and not value & (value - 1) else None


def _whole(op: Bin, src: VReg, known: Known) -> Op:
    """``src`` itself, or its low half where the operation has 32 bits."""
    if op.width == 64:
        return Copy(op.dst, src)
    return _extend(Extend(op.dst, 32, signed=False, src=src), known)


def _mask(op: Bin, left: VReg, c: int, known: Known) -> Op:
    mask = c & ((1 << op.width) - 1)
    covered = (1 << known.width(left).unsigned) - 1
    if covered & mask == covered:
        return Copy(op.dst, left)
    if mask == 0xFFFFFFFF:
        return Extend(op.dst, 32, signed=False, src=left)
    return op


def _sum(op: Bin, left: VReg, c: int, known: Known) -> Op:
    """Add constants to each other: ``(x + a) + c`` is ``x + (a + c)``."""
    match known.definition(left):
        case Bin(op=BinOp.ADD, width=op.width, left=VReg() as inner, right=int() as a):
            return _bin_constant(replace(op, left=inner), signed(a + c, op.width), known)
        case Copy(src=SlotRef(slot=slot, offset=offset)):
            return Copy(op.dst, SlotRef(slot, offset + c))
        case _:
            return op


def _unsigned_division(op: Bin, known: Known) -> Op:
    """Divide two numbers that are not negative without regard to signs."""
    plain = {BinOp.SDIV: BinOp.DIV, BinOp.SMOD: BinOp.MOD}.get(op.op)
    if plain and all(known.width(x).unsigned < op.width for x in (op.left, op.right)):
        return _bin(replace(op, op=plain), known)
    return op


def _extend(op: Extend, known: Known) -> Op:
    value = known.constant(op.src)
    if value is not None:
        low = sign_extend(value & MASK64, op.bits, 64)
        return Copy(op.dst, signed(low, 64) if op.signed else low & ((1 << op.bits) - 1))
    width = known.width(op.src)
    if (width.signed if op.signed else width.unsigned) <= op.bits:
        return Copy(op.dst, op.src)
    match known.definition(op.src):
        case Extend(bits=bits, src=src) if bits >= op.bits and not known.is_pointer(src):
            return _extend(replace(op, src=src), known)
        case _:
            return op


def _low(operand: Operand, bits: int, known: Known) -> Operand:
    return operand if isinstance(operand, int) else _low_register(operand, bits, known)


def _low_register(register: VReg, bits: int, known: Known) -> VReg:
    """Return the register whose low ``bits`` are those of ``register``, before it was extended.

    Only where the extension is read nowhere else: it is to go away. A pointer stays extended,
    because the verifier lets no part of one be stored.
    """
    match known.definition(register):
        case Extend(bits=kept, src=src) if (
            kept >= bits and known.read_once(register) and not known.is_pointer(src)
        ):
            return _low_register(src, bits, known)
        case _:
            return register


def _access(op: Load | Store | AtomicAdd, known: Known) -> Op:
    base, offset = _address(op.base, op.offset, known)
    return op if base is op.base else replace(op, base=base, offset=offset)


def _address(base: Base, offset: int, known: Known) -> tuple[Base, int]:
    """Return base and offset of an access, with what was added to the base in the offset."""
    if isinstance(base, VReg):
        match known.definition(base):
            case Bin(op=BinOp.ADD, width=64, left=VReg() as inner, right=int() as c) if (
                -_MAX_OFFSET <= offset + c <= _MAX_OFFSET
            ):
                return _address(inner, offset + c, known)
            case _:
                pass
    return base, offset


def simplify_branch(branch: Branch, known: Known) -> Terminator:
    """Return the cheapest terminator found that goes the same way."""
    if branch.then == branch.otherwise:
        return Goto(branch.then)
    left = known.constant(branch.left)
    if left is not None:
        if isinstance(branch.right, int):
            return _decided(branch, truth=holds(branch.cmp, branch.width, left, branch.right))
        branch = replace(branch, cmp=MIRRORED[branch.cmp], left=branch.right, right=left)
    if branch.left == branch.right:
        if branch.cmp is Cmp.TEST:
            return replace(branch, cmp=Cmp.NE, right=0)
        return _decided(branch, truth=branch.cmp in _REFLEXIVE)
    branch = _narrow(branch, known)
    if isinstance(branch.right, int):
        return _branch_constant(branch, signed(branch.right, branch.width), known)
    return branch


def _decided(branch: Branch, *, truth: bool) -> Goto:
    return Goto(branch.then if truth else branch.otherwise)


def _branch_constant(branch: Branch, c: int, known: Known) -> Terminator:
    """``c`` is signed and of the width of the comparison."""
    branch = replace(branch, right=c)
    truth = _outcome(branch.cmp, known.width(branch.left).unsigned, c, branch.width)
    if truth is not None:
        return _decided(branch, truth=truth)
    # The verifier knows a null check by == and !=.
    match branch.cmp, c:
        case (Cmp.GT, 0) | (Cmp.GE, 1) | (Cmp.TEST, -1):
            branch = replace(branch, cmp=Cmp.NE, right=0)
        case (Cmp.LE, 0) | (Cmp.LT, 1):
            branch = replace(branch, cmp=Cmp.EQ, right=0)
        case _:
            pass
    return _test_bits(branch, known)


def _outcome(cmp: Cmp, bits: int, c: int, width: int) -> bool | None:
    """Whether every value (False: none) below ``2**bits`` compares so with ``c``."""
    if cmp is Cmp.TEST and c == 0:
        return False
    if cmp in SIGNED or cmp is Cmp.TEST:
        return None
    unsigned, top = c & ((1 << width) - 1), (1 << min(bits, width)) - 1
    if unsigned > top or (cmp in (Cmp.GT, Cmp.LE) and unsigned == top):
        return cmp in (Cmp.NE, Cmp.LT, Cmp.LE)
    if unsigned == 0 and cmp in (Cmp.GE, Cmp.LT):
        return cmp is Cmp.GE
    return None


def _test_bits(branch: Branch, known: Known) -> Branch:
    """``(x & m) != 0`` is a condition of its own."""
    if branch.right != 0 or branch.cmp not in (Cmp.EQ, Cmp.NE):
        return branch
    match known.definition(branch.left):
        case Bin(op=BinOp.AND, left=VReg() as x, right=mask, width=width) if (
            known.read_once(branch.left) and branch.width >= width
        ):
            test = Branch(Cmp.TEST, x, mask, branch.then, branch.otherwise, width)
            return test if branch.cmp is Cmp.NE else _swapped(test)
        case _:
            return branch


def _swapped(branch: Branch) -> Branch:
    return replace(branch, then=branch.otherwise, otherwise=branch.then)


def _narrow(branch: Branch, known: Known) -> Branch:
    """Compare 32 bits where both sides are 32-bit values and one is extended for this alone."""
    narrow = replace(
        branch,
        left=_low_register(branch.left, 32, known),
        right=_low(branch.right, 32, known),
        width=32,
    )
    if branch.width == 32:
        return narrow
    is_signed = branch.cmp in SIGNED
    if branch.cmp in (Cmp.EQ, Cmp.NE):
        match known.definition(branch.left):
            case Extend(signed=True):
                is_signed = True
            case _:
                pass
    alike = all(_is_extended(x, known, is_signed=is_signed) for x in (branch.left, branch.right))
    return narrow if alike and narrow.left != branch.left else branch


def _is_extended(operand: Operand, known: Known, *, is_signed: bool) -> bool:
    """Whether an operand is its low 32 bits, extended with or without their sign."""
    width = known.width(operand)
    return (width.signed if is_signed else width.unsigned) <= 32
