"""Slots -> places: on the 512-byte stack, and for what does not fit in scratch memory.

Slots whose lives do not overlap share bytes. The stack goes to those that need it most: spilled
pointers, which the verifier follows nowhere else, then other spills, then slots from the smallest
up. The rest moves to an element of a per-CPU array, whose address is looked up once, where control
flow first has need of it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

from pybpf.compiler.ir import (
    Argument,
    AtomicAdd,
    Base,
    Bin,
    BinOp,
    Block,
    CallHelper,
    Copy,
    Function,
    Instr,
    Label,
    Load,
    Op,
    Slot,
    SlotRef,
    Store,
    VReg,
)
from pybpf.compiler.liveness import Range, slot_lives
from pybpf.compiler.lookup import insert_lookup
from pybpf.compiler.operands import next_slot, predecessors, slots
from pybpf.dataclass import dataclass, replace
from pybpf.errors import Diagnostic, SourceError
from pybpf.isa.insn import STACK_SIZE
from pybpf.source import Span

SCRATCH = ".scratch"
"""The map that holds what does not fit the stack: a per-CPU array, one element a program."""

SCRATCH_LIMIT = 32768
"""The largest value of a per-CPU map (Linux: PCPU_MIN_UNIT_SIZE)."""


_STRETCH = 256
"""How many points in time are one stretch; any number does, only speed depends on it."""

_RESERVING = frozenset({"bpf_ringbuf_reserve"})


@dataclass(frozen=True, slots=True)
class Frame:
    """Where slots lie. ``places`` are offsets from r10; ``overflow`` are slots without one."""

    places: Mapping[Slot, int]
    overflow: frozenset[Slot]


def pack(function: Function, pinned: Collection[Slot] = (), spills: Collection[Slot] = ()) -> Frame:
    """Give the slots of a function places on the stack; the ``pinned`` ones must lie there.

    Raises SourceError where those alone are more than the stack holds.
    """
    lives = slot_lives(function)

    def need(slot: Slot) -> tuple[bool, bool, int, Range]:
        return (slot not in pinned, slot not in spills, slot.size, lives[slot])

    depths, overflow = _place(sorted(lives, key=need), lives, STACK_SIZE)
    if not overflow.isdisjoint(pinned):
        raise SourceError(
            Diagnostic(f"{function.name}: more pointers are in use at once than the stack holds")
        )
    return Frame({slot: -depth for slot, depth in depths.items()}, overflow)


def _place(
    order: Iterable[Slot], lives: Mapping[Slot, Range], limit: int
) -> tuple[dict[Slot, int], frozenset[Slot]]:
    """Return the slots' depths (a slot ends where the one above began) and those without room."""
    depths: dict[Slot, int] = {}
    overflow: set[Slot] = set()
    # Slots are asked for by when they live: each is noted in every stretch of time it lives in.
    noted: dict[int, list[tuple[Range, tuple[int, int]]]] = defaultdict(list)
    for slot in order:
        start, end = life = lives[slot]
        stretches = range(start // _STRETCH, (end - 1) // _STRETCH + 1)
        size = _aligned(slot.size, slot.align)
        taken = {
            piece
            for stretch in stretches
            for (first, last), piece in noted[stretch]
            if first < end and start < last
        }
        depth = size
        for top, bottom in sorted(taken):
            if depth <= top:
                break
            depth = max(depth, _aligned(bottom, slot.align) + size)
        if depth > limit:
            overflow.add(slot)
            continue
        depths[slot] = depth
        for stretch in stretches:
            noted[stretch].append((life, (depth - size, depth)))
    return depths, frozenset(overflow)


def _aligned(value: int, align: int) -> int:
    return -(-value // align) * align


@dataclass(frozen=True, slots=True)
class Demoted:
    """A function some slots of which lie in scratch memory, and how many bytes of it they take.

    ``key`` is the slot that holds the element's index; it must stay on the stack.
    """

    function: Function
    scratch_size: int
    key: Slot


def demote(function: Function, moved: Collection[Slot], scratch_index: int) -> Demoted:
    """Move slots to element ``scratch_index`` of the scratch map.

    Raises SourceError where the element would exceed the largest there can be.
    """
    lives = slot_lives(function)
    depths, _ = _place(sorted(moved, key=lambda slot: lives[slot]), lives, sys.maxsize)
    starts = {slot: depth - _aligned(slot.size, slot.align) for slot, depth in depths.items()}
    size = _aligned(max(depths.values()), 8)
    if size > SCRATCH_LIMIT:
        raise SourceError(
            Diagnostic(
                f"{function.name}: the values in use at once take {size} bytes,"
                f" more than the {SCRATCH_LIMIT} the kernel allows for",
                _first_span(function, moved),
            )
        )
    moving = _Moving(function, starts)
    blocks = tuple(moving.block(block) for block in function.blocks)
    place = _common_dominator(function, moved)
    key = Slot(next_slot(function), 4, 4)
    blocks = insert_lookup(blocks, place, moving.base, SCRATCH, key, scratch_index)
    result = replace(function, blocks=blocks, registers=moving.registers)
    return Demoted(result, size, key)


def _first_span(function: Function, moved: Collection[Slot]) -> Span | None:
    spans = (
        instr.span
        for block in function.blocks
        for instr in block.instrs
        if any(slot in moved for slot in slots(instr.op))
    )
    return next((span for span in spans if span), None)


class _Moving:
    """Rewrites mentions of slots into accesses relative to ``base``."""

    def __init__(self, function: Function, starts: Mapping[Slot, int]) -> None:
        self.base = VReg(function.registers)
        self.registers = function.registers + 1
        self._starts = starts

    def block(self, block: Block) -> Block:
        instrs = (Instr(op, i.span) for i in block.instrs for op in self._operation(i.op))
        return replace(block, instrs=tuple(instrs))

    def _operation(self, op: Op) -> Iterator[Op]:
        match op:
            case Load() | Store() | AtomicAdd():
                base, offset = self._access(op.base, op.offset)
                yield replace(op, base=base, offset=offset)
            case Copy(dst=dst, src=SlotRef() as ref) if ref.slot in self._starts:
                yield self._address(dst, ref)
            case CallHelper(args=args):
                found: list[Argument] = []
                for arg in args:
                    if isinstance(arg, SlotRef) and arg.slot in self._starts:
                        register = VReg(self.registers)
                        self.registers += 1
                        yield self._address(register, arg)
                        found.append(register)
                    else:
                        found.append(arg)
                yield replace(op, args=tuple(found))
            case _:
                yield op

    def _access(self, base: Base, offset: int) -> tuple[Base, int]:
        if isinstance(base, SlotRef) and base.slot in self._starts:
            return self.base, self._starts[base.slot] + base.offset + offset
        return base, offset

    def _address(self, dst: VReg, ref: SlotRef) -> Op:
        offset = self._starts[ref.slot] + ref.offset
        return Bin(dst, BinOp.ADD, 64, self.base, offset) if offset else Copy(dst, self.base)


def _common_dominator(function: Function, moved: Collection[Slot]) -> Label:
    """Return the last block that is on every path to a mention, and before every reservation.

    The lookup must be allowed to fail, which ends the program: nothing may be held then that the
    program has to give back.
    """
    before = predecessors(function.blocks)
    dominators: dict[Label, list[Label]] = {}
    common: list[Label] | None = None
    reserved: set[Label] = set()
    for block in function.blocks:
        ways = [dominators[label] for label in before[block.label] if label in dominators]
        above = [label for label in ways[0] if all(label in way for way in ways)] if ways else []
        dominators[block.label] = [*above, block.label]
        ops = [instr.op for instr in block.instrs]
        if any(label in reserved for label in before[block.label]):
            reserved.add(block.label)
        if any(slot in moved for op in ops for slot in slots(op)):
            here = dominators[block.label]
            common = here if common is None else [label for label in common if label in here]
        if any(isinstance(op, CallHelper) and op.helper in _RESERVING for op in ops):
            reserved.add(block.label)
    entry = function.blocks[0].label
    # A block that itself reserves is fine: the lookup is done at its start.
    clean = [
        label for label in common or () if not any(other in reserved for other in before[label])
    ]
    return clean[-1] if clean else entry
