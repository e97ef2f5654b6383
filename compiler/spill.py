"""A function and registers to spill -> the function that keeps them in slots.

A spilled register is stored where it is written and loaded into a temporary before each operation
that reads it. The last temporaries are used again up to the next call, as long as that is in the
same block. Where the value is a constant or a fixed address, there is no slot: every read gets a
temporary with the value computed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pybpf.compiler.ir import (
    CTX,
    Block,
    Branch,
    CallHelper,
    Copy,
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
from pybpf.compiler.operands import (
    IMM32,
    defined,
    next_slot,
    operations,
    substitute,
    substitute_branch,
    used,
    with_dst,
)
from pybpf.dataclass import dataclass, replace
from pybpf.source import Span

_WORD = 8


@dataclass(frozen=True, slots=True)
class Spilled:
    """The function rewritten, its new slots with what is in them, and its temporaries."""

    function: Function
    slots: Mapping[Slot, tuple[VReg, ...]]
    temporaries: frozenset[VReg]


def fixed_values(function: Function) -> Mapping[VReg, Op]:
    """Return the registers that can be computed anew anywhere, and the operations that do it."""
    found: dict[VReg, Op] = {}
    seen: set[VReg] = {CTX}
    for op in operations(function):
        dst = defined(op)
        if dst is None:
            continue
        if dst in seen:
            found.pop(dst, None)
        elif isinstance(op, MapValueAddr) or (isinstance(op, Copy) and not used(op)):
            found[dst] = op
        seen.add(dst)
    return found


def spill(function: Function, webs: Iterable[Sequence[VReg]], *, hold: int) -> Spilled:
    """Return the function with the registers of each web kept in memory, in one place a web.

    ``hold`` is how many temporaries may wait for another use at any time.
    """
    rewriting = _Rewriting(function, webs, hold)
    blocks = tuple(rewriting.block(block) for block in function.blocks)
    result = replace(function, blocks=blocks, registers=rewriting.registers)
    return Spilled(result, rewriting.webs, frozenset(rewriting.temporaries))


class _Rewriting:
    def __init__(self, function: Function, webs: Iterable[Sequence[VReg]], hold: int) -> None:
        self.registers = function.registers
        self.temporaries: set[VReg] = set()
        self.webs: dict[Slot, tuple[VReg, ...]] = {}
        self._slots: dict[VReg, Slot] = {}
        self._fixed: dict[VReg, Op] = {}
        self._hold = hold
        self._held: dict[Slot, VReg] = {}
        self._entry = function.blocks[0].label
        fixed = fixed_values(function)
        following = next_slot(function)
        for web in webs:
            if len(web) == 1 and web[0] in fixed:
                self._fixed[web[0]] = fixed[web[0]]
                continue
            slot = Slot(following, _WORD)
            following += 1
            self.webs[slot] = tuple(web)
            self._slots.update(dict.fromkeys(web, slot))

    def block(self, block: Block) -> Block:
        """Return a block with loads and stores of what is spilled."""
        instrs: list[Instr] = []
        self._held.clear()
        if block.label == self._entry and CTX in self._slots:
            self.temporaries.add(CTX)
            instrs.append(Instr(self._store(CTX, CTX), block.span))
        for instr in block.instrs:
            instrs += self._operation(instr)
        terminator = block.terminator
        if isinstance(terminator, Branch):
            loads, names = self._reload(used(terminator), block.span)
            instrs += loads
            terminator = substitute_branch(terminator, names)
        return replace(block, instrs=tuple(instrs), terminator=terminator)

    def _operation(self, instr: Instr) -> list[Instr]:
        op, span = instr.op, instr.span
        dst = defined(op)
        if dst in self._fixed:
            return []
        if isinstance(op, Copy) and isinstance(op.src, VReg):
            return self._copy(op.dst, op.src, span)
        loads, names = self._reload(used(op), span)
        op = substitute(op, names)
        if isinstance(op, CallHelper):
            self._held.clear()
        if dst is None or dst not in self._slots:
            return [*loads, Instr(op, span)]
        if isinstance(op, Copy) and isinstance(op.src, int) and op.src in IMM32:
            return [Instr(self._store(dst, op.src), span)]
        temporary = self._temporary()
        written = Instr(with_dst(op, temporary), span)
        return [*loads, written, Instr(self._store(dst, temporary), span)]

    def _copy(self, dst: VReg, src: VReg, span: Span | None) -> list[Instr]:
        """Copy between registers and slots without a detour."""
        from_slot, to_slot = self._slots.get(src), self._slots.get(dst)
        if to_slot is None:
            return [Instr(self._load(src, dst), span)]
        if from_slot == to_slot:
            return []
        loads, names = self._reload((src,), span)
        return [*loads, Instr(self._store(dst, names.get(src, src)), span)]

    def _reload(
        self, registers: Iterable[VReg], span: Span | None
    ) -> tuple[list[Instr], dict[VReg, VReg]]:
        """Return loads of those registers that are spilled, and the temporaries they are in."""
        loads: list[Instr] = []
        names: dict[VReg, VReg] = {}
        for register in dict.fromkeys(registers):
            slot = self._slots.get(register)
            if slot is None and register not in self._fixed:
                continue
            held = self._held.get(slot) if slot else None
            if held is None:
                held = self._temporary()
                loads.append(Instr(self._load(register, held), span))
            names[register] = held
            if slot:
                self._keep(slot, held)
        return loads, names

    def _keep(self, slot: Slot, register: VReg) -> None:
        """Remember that a register that must not be spilled holds what is in the slot."""
        self._held.pop(slot, None)
        self._held[slot] = register
        while len(self._held) > self._hold:
            del self._held[next(iter(self._held))]

    def _load(self, register: VReg, dst: VReg) -> Op:
        """Return what puts the value of a register, spilled or not, into ``dst``."""
        if register in self._fixed:
            return with_dst(self._fixed[register], dst)
        if register in self._slots:
            return Load(dst, SlotRef(self._slots[register]), 0, _WORD)
        return Copy(dst, register)

    def _store(self, register: VReg, src: Operand) -> Op:
        slot = self._slots[register]
        self._held.pop(slot, None)
        if isinstance(src, VReg) and src in self.temporaries:
            self._keep(slot, src)
        return Store(SlotRef(slot), 0, _WORD, src)

    def _temporary(self) -> VReg:
        register = VReg(self.registers)
        self.registers += 1
        self.temporaries.add(register)
        return register
