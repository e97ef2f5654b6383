"""The intermediate representation: basic blocks over virtual registers, one Function a probe.

Registers hold 64 bits. A 32-bit value is kept extended to 64 bits by its type: zero-extended when
unsigned, sign-extended when signed, so that 64-bit compares and stores of any width are right.
Every virtual register is assigned at one place or, where control flow merges, at one place a
predecessor; control flow has no loops and blocks stand in topological order. Slots are pieces of
stack (or scratch memory, where the stack is full) whose lives end with their last use.

Helper calls and map references are explicit; Comments travel along and make dumps legible.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

from pybpf.dataclass import dataclass, field
from pybpf.source import Span

Label = NewType("Label", str)


@dataclass(frozen=True, slots=True)
class VReg:
    """A virtual register. A class of its own, so that register 5 and the constant 5 differ."""

    number: int


CTX = VReg(0)
"""The virtual register that holds the program's argument from the start."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of memory private to the program; ``size`` in bytes, aligned to ``align``."""

    id: int
    size: int
    align: int = 8


@dataclass(frozen=True, slots=True)
class SlotRef:
    """The address of byte ``offset`` of a slot."""

    slot: Slot
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MapRef:
    """A map, as a helper's argument."""

    name: str


Operand = VReg | int
"""A register or a constant; constants are signed 64-bit numbers."""

Argument = VReg | int | SlotRef | MapRef
"""What a helper call takes."""

Base = VReg | SlotRef
"""What a memory access starts from; a VReg is a pointer."""


class BinOp(StrEnum):
    """Arithmetic; the signed ones are apart."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    SDIV = "s/"
    MOD = "%"
    SMOD = "s%"
    OR = "|"
    AND = "&"
    XOR = "^"
    LSH = "<<"
    RSH = ">>"
    ARSH = "s>>"


class Cmp(StrEnum):
    """Conditions of a Branch; ``TEST`` is ``left & right != 0``."""

    EQ = "=="
    NE = "!="
    GT = ">"
    GE = ">="
    LT = "<"
    LE = "<="
    SGT = "s>"
    SGE = "s>="
    SLT = "s<"
    SLE = "s<="
    TEST = "&"


@dataclass(frozen=True, slots=True)
class Copy:
    """``dst = src``: a register, a constant, the address of a slot or of a map."""

    dst: VReg
    src: Argument


@dataclass(frozen=True, slots=True)
class Bin:
    """``dst = left op right`` on ``width`` (32 or 64) bits.

    A 32-bit operation leaves the upper half zero, as the hardware does; lowering adds an Extend
    where the result is signed. Division by zero gives 0, modulo zero gives ``left``.
    SDIV and SMOD are as in C (towards zero); the emitter expands them where the target's kernel
    has no such instruction.
    """

    dst: VReg
    op: BinOp
    width: int
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Neg:
    """``dst = -src`` on ``width`` bits."""

    dst: VReg
    width: int
    src: VReg


@dataclass(frozen=True, slots=True)
class Extend:
    """``dst`` = the low ``bits`` (8, 16 or 32) of ``src``, sign- or zero-extended to 64."""

    dst: VReg
    bits: int
    signed: bool
    src: VReg


@dataclass(frozen=True, slots=True)
class Load:
    """``dst = *(uN *)(base + offset)``, ``size`` bytes, extended to 64 bits by ``signed``."""

    dst: VReg
    base: Base
    offset: int
    size: int
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """``*(uN *)(base + offset) = src``, ``size`` bytes."""

    base: Base
    offset: int
    size: int
    src: Operand


@dataclass(frozen=True, slots=True)
class AtomicAdd:
    """``lock *(uN *)(base + offset) += src``; ``size`` is 4 or 8 bytes."""

    base: Base
    offset: int
    size: int
    src: VReg


@dataclass(frozen=True, slots=True)
class MapValueAddr:
    """``dst`` = the address of byte ``offset`` of the only value of the array map ``name``."""

    dst: VReg
    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class CallHelper:
    """``dst = helper(args)``; ``helper`` is the kernel's name (``bpf_map_lookup_elem``).

    What bpf_map_update_elem and bpf_map_delete_elem return must be extended from 32 bits: before
    Linux d7ba4cc900bf ("bpf: return long from bpf_map_ops funcs") (in v6.4) the verifier put calls
    of functions that return int in their place, which leave the upper half of r0 undefined.
    """

    dst: VReg | None
    helper: str
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """A remark for readers of dumps."""

    text: str


Op = Copy | Bin | Neg | Extend | Load | Store | AtomicAdd | MapValueAddr | CallHelper | Comment


@dataclass(frozen=True, slots=True)
class Instr:
    """An operation and the piece of script it comes from."""

    op: Op
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Goto:
    """Go on at a block."""

    target: Label


@dataclass(frozen=True, slots=True)
class Branch:
    """``if left cmp right goto then; else goto otherwise``, compared on ``width`` bits."""

    cmp: Cmp
    left: VReg
    right: Operand
    then: Label
    otherwise: Label
    width: int = 64


@dataclass(frozen=True, slots=True)
class Exit:
    """Leave the program with return value ``value``."""

    value: int = 0


Terminator = Goto | Branch | Exit


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions that run one after the other, then a Terminator."""

    label: Label
    instrs: tuple[Instr, ...]
    terminator: Terminator
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """The code of one probe. ``blocks[0]`` is the entry; every edge goes to a later block."""

    name: str
    blocks: tuple[Block, ...]
    registers: int
    """How many virtual registers there are; numbers run from 0 (CTX)."""
