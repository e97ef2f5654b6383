"""What is known of a register while a program is translated: instructions in, Python text out.

A register is a Python integer. Its ``Range`` holds where it is known to be an unsigned 64-bit
integer; where there is none (``None``) the integer is *loose*: it is only congruent to the value
modulo 2**64, for a mask that nobody needs costs as much as the addition before it. A loose integer
stays short, since no operation takes two of them but those that make nothing longer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pybpf.dataclass import dataclass, field
from pybpf.isa.insn import Insn
from pybpf.isa.semantics import MASK32, MASK64
from pybpf.isa.table import Effect, Form

Range = tuple[int, int]


class Frame(NamedTuple):
    """The range of an address of the function's own stack, ``offset`` bytes from its end."""

    low: int
    high: int
    offset: int


Known = Range | Frame | None
State = list[Known]
"""What is known of r0 to r10."""


def frame(offset: int) -> Known:
    """Return what is known of such an address; loose, where it may not be one any more."""
    return Frame(1 << 56, 1 << 57, offset) if abs(offset) < _FAR else None


NEGATED: Mapping[Effect, Effect] = MappingProxyType(
    {
        Effect.JEQ: Effect.JNE, Effect.JNE: Effect.JEQ,
        Effect.JGT: Effect.JLE, Effect.JLE: Effect.JGT,
        Effect.JGE: Effect.JLT, Effect.JLT: Effect.JGE,
        Effect.JSGT: Effect.JSLE, Effect.JSLE: Effect.JSGT,
        Effect.JSGE: Effect.JSLT, Effect.JSLT: Effect.JSGE,
    }
)  # fmt: skip
"""What holds where a comparison does not; there is none for JSET."""
ANY64: Range = (0, MASK64)
ANY32: Range = (0, MASK32)
_LONG = 200
_NAME = re.compile(r"r\d+|\d+")
_SIGN = {32: 1 << 31, 64: 1 << 63}
_FAR = 1 << 24
_M64, _M32 = f"{MASK64:#x}", f"{MASK32:#x}"


@dataclass(slots=True)
class Source:
    """Lines of Python, and for each the instruction it belongs to."""

    lines: list[str] = field(default_factory=list)
    pcs: list[int] = field(default_factory=list)

    def add(self, depth: int, text: str, pc: int) -> None:
        """Append a line."""
        self.lines.append(" " * depth + text)
        self.pcs.append(pc)


class Values:
    """The ranges along one path, and the text that computes, appended to ``out``."""

    __slots__ = ("_depth", "_last", "_out", "pc", "state")

    def __init__(self, state: State, out: Source, depth: int) -> None:
        self.state = state
        self.pc = 0
        self._out = out
        self._depth = depth
        self._last = -1

    def emit(self, text: str) -> None:
        """Append a line that belongs to the current instruction."""
        self._out.add(self._depth, text, self.pc)
        self._last = -1

    def tight(self, reg: int) -> Range:
        """Make a register an unsigned 64-bit integer, if it is not; return its range."""
        known = self.state[reg]
        if known is None:
            self.let(reg, f"r{reg} & {_M64}", ANY64)
            return ANY64
        return known[0], known[1]

    def let(self, reg: int, text: str, known: Known) -> None:
        """Assign a register what cannot fail; one line for what is computed from it at once."""
        if self._last == reg:
            name = re.compile(rf"\br{reg}\b")
            before = self._out.lines[-1].partition(" = ")[2]
            if len(name.findall(text)) == 1 and len(before) < _LONG:
                self._out.lines.pop()
                self._out.pcs.pop()
                text = name.sub(before if _NAME.fullmatch(before) else f"({before})", text)
        self.set(reg, text, known)
        self._last = reg

    def set(self, reg: int, text: str, known: Known) -> None:
        """Assign a register."""
        self.emit(f"r{reg} = {text}")
        self.state[reg] = known

    def low(self, reg: int) -> str:
        """Return the text of a register's low half."""
        return f"r{reg}" if at_most(self.state[reg], MASK32) else f"(r{reg} & {_M32})"

    def compute(self, insn: Insn) -> None:
        """Emit an arithmetic instruction."""
        op, dst = insn.op, insn.dst
        if op.form is Form.MOVSX:
            self._extend(insn)
        elif op.form is Form.SWAP:
            self._swap(insn)
        elif op.width == 32:
            self._narrow(insn)
        elif op.effect is Effect.MOV:
            if op.form is Form.ALU_IMM:
                value = insn.imm & MASK64
                self.let(dst, f"{value}", (value, value))
            else:
                # Both will be read: one mask does for the two of them.
                self.tight(insn.src)
                self.let(dst, f"r{insn.src}", self.state[insn.src])
        elif op.effect is Effect.NEG:
            self.let(dst, f"-r{dst}", None)
        elif op.form is Form.ALU_IMM:
            self._wide_imm(insn)
        else:
            self._wide_reg(insn)

    def _extend(self, insn: Insn) -> None:
        narrow, width = insn.op.narrow, insn.op.width
        sign, mask = 1 << (narrow - 1), (1 << narrow) - 1
        known = self.state[insn.src]
        text = f"r{insn.src}"
        if known is not None and known[1] < sign:
            self.let(insn.dst, text, known)
        elif width == 64:
            self.let(insn.dst, f"(({text} & {mask}) ^ {sign}) - {sign}", None)
        else:
            self.let(insn.dst, f"(({text} & {mask}) ^ {sign}) - {sign} & {_M32}", ANY32)

    def _swap(self, insn: Insn) -> None:
        # Fast mode is for little-endian machines: le keeps the order of the bytes.
        narrow, dst = insn.op.narrow, insn.dst
        mask = (1 << narrow) - 1
        if insn.op.effect is Effect.TO_LE:
            self.let(dst, f"r{dst} & {mask:#x}", (0, mask))
        else:
            self.let(dst, f"swap(r{dst}, {narrow})", (0, mask))

    def _wide_imm(self, insn: Insn) -> None:
        dst, imm, effect = insn.dst, insn.imm, insn.op.effect
        unsigned, reg = imm & MASK64, f"r{insn.dst}"
        match effect:
            case Effect.ADD | Effect.SUB:
                step = imm if effect is Effect.ADD else -imm
                text = f"{reg} + {step}" if step >= 0 else f"{reg} - {-step}"
                known = self.state[dst]
                if isinstance(known, Frame):
                    self.let(dst, text, frame(known.offset + step))
                else:
                    self.let(dst, text, _shifted(known, step, step))
            case Effect.AND:
                self.let(dst, f"{reg} & {unsigned:#x}", (0, unsigned))
            case Effect.OR | Effect.XOR:
                known = self.state[dst]
                bound = None if known is None else (0, _ones(known[1] | unsigned))
                self.let(dst, f"{reg} {effect} {unsigned:#x}", bound)
            case Effect.MUL:
                known = self.tight(dst)
                if imm >= 0:
                    self._product(dst, f"{reg} * {imm}", known, (imm, imm))
                else:
                    self.let(dst, f"{reg} * {imm}", None)  # negative, if only by a factor of 1
            case Effect.LSH:
                self._product(dst, f"{reg} << {imm & 63}", self.tight(dst), (1 << (imm & 63),) * 2)
            case Effect.RSH:
                low, high = self.tight(dst)
                self.let(dst, f"{reg} >> {imm & 63}", (low >> (imm & 63), high >> (imm & 63)))
            case Effect.ARSH:
                self._arithmetic_shift(dst, f"{imm & 63}")
            case Effect.DIV if unsigned:
                low, high = self.tight(dst)
                self.let(dst, f"{reg} // {unsigned}", (low // unsigned, high // unsigned))
            case Effect.MOD if unsigned:
                self.tight(dst)
                self.let(dst, f"{reg} % {unsigned}", (0, unsigned - 1))
            case _:
                self.tight(dst)
                self.let(dst, f"{effect.name.lower()}64({reg}, {unsigned})", ANY64)

    def _wide_reg(self, insn: Insn) -> None:
        dst, src, effect = insn.dst, insn.src, insn.op.effect
        reg, other = f"r{dst}", f"r{src}"
        a, b = self.state[dst], self.state[src]
        match effect:
            case Effect.ADD | Effect.SUB:
                if a is None:
                    b = self.tight(src)
                    a = self.state[dst]
                known = None
                if a is not None and b is not None:
                    low, high = b[0], b[1]
                    if effect is Effect.SUB:
                        low, high = -high, -low
                    known = _shifted(a, low, high)
                self.let(dst, f"{reg} {effect} {other}", known)
            case Effect.AND:
                bounds = [known[1] for known in (a, b) if known is not None]
                self.let(dst, f"{reg} & {other}", (0, min(bounds)) if bounds else None)
            case Effect.OR | Effect.XOR:
                known = None if a is None or b is None else (0, _ones(a[1] | b[1]))
                self.let(dst, f"{reg} {effect} {other}", known)
            case Effect.MUL:
                b = self.tight(src)
                self._product(dst, f"{reg} * {other}", self.tight(dst), b)
            case Effect.LSH:
                self.tight(dst)
                self.let(dst, f"{reg} << ({other} & 63) & {_M64}", ANY64)
            case Effect.RSH:
                _, high = self.tight(dst)
                self.let(dst, f"{reg} >> ({other} & 63)", (0, high))
            case Effect.ARSH:
                self._arithmetic_shift(dst, f"({other} & 63)")
            case Effect.DIV:
                self.tight(src)
                _, high = self.tight(dst)
                self.let(dst, f"{reg} // {other} if {other} else 0", (0, high))
            case Effect.MOD:
                self.tight(src)
                _, high = self.tight(dst)
                self.let(dst, f"{reg} % {other} if {other} else {reg}", (0, high))
            case _:
                self.tight(src)
                self.tight(dst)
                self.let(dst, f"{effect.name.lower()}64({reg}, {other})", ANY64)

    def _product(self, dst: int, text: str, a: Range, b: Range) -> None:
        if a[1] * b[1] <= MASK64:
            self.let(dst, text, (a[0] * b[0], a[1] * b[1]))
        else:
            self.let(dst, text, None)

    def _arithmetic_shift(self, dst: int, count: str) -> None:
        _, high = self.tight(dst)
        sign = _SIGN[64]
        if high < sign:
            self.let(dst, f"r{dst} >> {count}", (0, high))
        else:
            self.let(dst, f"(r{dst} ^ {sign:#x}) - {sign:#x} >> {count}", None)

    def _narrow(self, insn: Insn) -> None:
        """Emit an operation of 32 bits, which reads the low halves and zeroes the high one."""
        dst, effect, imm = insn.dst, insn.op.effect, insn.imm & MASK32
        by_imm = insn.op.form is Form.ALU_IMM
        reg = f"r{dst}"
        other = f"{imm}" if by_imm else f"r{insn.src}"
        match effect:
            case Effect.MOV if by_imm:
                self.let(dst, other, (imm, imm))
            case Effect.MOV:
                known = self.state[insn.src]
                self.let(dst, self.low(insn.src), known if at_most(known, MASK32) else ANY32)
            case Effect.NEG:
                self.let(dst, f"-{reg} & {_M32}", ANY32)
            case Effect.OR | Effect.XOR | Effect.AND if is_low(insn, self.state):
                self.let(dst, f"{reg} {effect} {other}", ANY32)
            case Effect.ADD | Effect.SUB | Effect.MUL | Effect.OR | Effect.XOR | Effect.AND:
                if effect is Effect.MUL:
                    reg, other = self.low(dst), other if by_imm else self.low(insn.src)
                self.let(dst, f"({reg} {effect} {other}) & {_M32}", ANY32)
            case Effect.LSH:
                count = f"{imm & 31}" if by_imm else f"({other} & 31)"
                self.let(dst, f"{self.low(dst)} << {count} & {_M32}", ANY32)
            case Effect.RSH:
                count = f"{imm & 31}" if by_imm else f"({other} & 31)"
                self.let(dst, f"{self.low(dst)} >> {count}", ANY32)
            case _:
                operand = other if by_imm else self.low(insn.src)
                self.let(dst, f"{effect.name.lower()}32({self.low(dst)}, {operand})", ANY32)

    def condition(self, insn: Insn) -> str:
        """Return the text that is true where a conditional jump is taken."""
        op, dst, width = insn.op, insn.dst, insn.op.width
        by_imm = op.form is Form.BRANCH_IMM
        mask = (1 << width) - 1
        if width == 64 and op.effect is Effect.JSET and by_imm:
            return f"r{dst} & {insn.imm & MASK64:#x}"
        if width == 64:
            a, (_, high) = f"r{dst}", self.tight(dst)
        else:
            a, high = self.low(dst), MASK32
        if by_imm:
            value = insn.imm & mask
            b, bound = f"{value}", value
        elif width == 64:
            b, bound = f"r{insn.src}", self.tight(insn.src)[1]
        else:
            b, bound = self.low(insn.src), MASK32
        sign = _SIGN[width]
        match op.effect:
            case Effect.JSET:
                return f"{a} & {b}"
            case Effect.JNE if by_imm and not bound:
                return a
            case Effect.JEQ if by_imm and not bound:
                return f"not {a}"
            case Effect.JSGT | Effect.JSGE | Effect.JSLT | Effect.JSLE:
                if high >= sign or bound >= sign:
                    a = f"({a} ^ {sign:#x})"
                    b = f"{int(b) ^ sign}" if by_imm else f"({b} ^ {sign:#x})"
                return f"{a} {op.effect.removeprefix('s')} {b}"
            case _:
                return f"{a} {op.effect} {b}"


def at_most(known: Known, bound: int) -> bool:
    """Whether a register is known to hold no more than a bound."""
    return known is not None and known[1] <= bound


def is_low(insn: Insn, state: State) -> bool:
    """Whether the operands of an operation or a comparison are 32-bit integers already."""
    by_imm = insn.op.form in {Form.ALU_IMM, Form.BRANCH_IMM}
    regs = (insn.dst,) if by_imm else (insn.dst, insn.src)
    return all(at_most(state[reg], MASK32) for reg in regs)


def _shifted(known: Known, low: int, high: int) -> Known:
    """Return the range of a sum, or None where it may leave the unsigned 64-bit integers."""
    if known is None or known[0] + low < 0 or known[1] + high > MASK64:
        return None
    return known[0] + low, known[1] + high


def _ones(value: int) -> int:
    """Return the least 2**n - 1 that is not below a value."""
    return (1 << value.bit_length()) - 1


_LIMITS = (0xFFFF, (1 << 31) - 1, MASK32, (1 << 63) - 1, MASK64)
"""What a bound that keeps growing is taken to reach next."""


def join(a: Known, b: Known, *, widen: bool) -> Known:
    """Return what holds on both of two ways; ``widen`` makes sure that this comes to an end."""
    if a is None or b is None:
        return None
    if a == b:
        return a
    low, high = min(a[0], b[0]), max(a[1], b[1])
    if widen and low < a[0]:
        low = 1 if low else 0
    if widen and high > a[1]:
        high = next(limit for limit in _LIMITS if limit >= high)
    return low, high


def refined(state: State, insn: Insn, *, taken: bool) -> State:
    """Return what is known behind a conditional jump, where its operand is a constant."""
    op, known = insn.op, state[insn.dst]
    if (
        op.form is not Form.BRANCH_IMM
        or op.width != 64
        or known is None
        or isinstance(known, Frame)
    ):
        return state
    low, high = known[0], known[1]
    value = insn.imm & MASK64
    effect = op.effect if taken else NEGATED.get(op.effect)
    match effect:
        case Effect.JEQ:
            low = high = value
        case Effect.JNE:
            low, high = low + (low == value), high - (high == value)
        case Effect.JGT:
            low = max(low, value + 1)
        case Effect.JGE:
            low = max(low, value)
        case Effect.JLT:
            high = min(high, value - 1)
        case Effect.JLE:
            high = min(high, value)
        case _:
            return state
    if low > high:
        return state  # this way is never gone
    after = state.copy()
    after[insn.dst] = low, high
    return after
