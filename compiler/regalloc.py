"""A function -> the same with a machine register for every virtual one, the rest spilled.

Linear scan over live ranges with holes (Poletto & Sarkar 1999; the holes as in Wimmer &
Moessenboeck 2005). Terms:

web         virtual registers that share one machine register because copies join them
affinity    two webs, or a web and a machine register, that save a move when they fall together
temporary   a register that lives for a few operations to hold a spilled value; never spilled
spilling    the web lives in a slot: stored where it is written, loaded before each read;
            constants and fixed addresses are computed anew instead (Briggs et al. 1992)

What is live across a helper call must sit in r6 to r9; everything else may use r0 to r9. When webs
have to be spilled, the function is rewritten with temporaries and the scan starts again. Every
round spills something that is no temporary. Those never take all ten registers, so it ends: an
operation needs five at most (the arguments of a call), an address in scratch memory one more, the
result another, and the first round leaves up to two waiting for another use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from math import inf

from pybpf.compiler.ir import (
    CTX,
    Argument,
    Bin,
    CallHelper,
    Copy,
    Extend,
    Function,
    Neg,
    Op,
    Slot,
    VReg,
)
from pybpf.compiler.liveness import Range, analyze, outlives_write
from pybpf.compiler.operands import defined, operations, used
from pybpf.compiler.spill import fixed_values, spill
from pybpf.dataclass import dataclass, field
from pybpf.isa.insn import R0, R1, R2, R3, R4, R5, R6, R7, R8, R9

ARGUMENTS = (R1, R2, R3, R4, R5)
"""Where a helper finds its arguments; it returns in r0 and destroys these."""

# Arguments last: what wants one of them should find it free.
_VOLATILE = (R0, R5, R4, R3, R2, R1)
_PRESERVED = (R6, R7, R8, R9)
_LOOKAHEAD = 3
_HELD = 2
_CHEAP = 0.5
"""What spilling a value costs that is computed anew, compared with one that is loaded."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A function, and a machine register for each virtual one it mentions.

    ``spills`` are the slots that were added, with the registers that live in each.
    """

    function: Function
    registers: Mapping[VReg, int]
    spills: Mapping[Slot, tuple[VReg, ...]]


def assign(function: Function, temporaries: frozenset[VReg] = frozenset()) -> Assignment:
    """Return an assignment for a function, spilling as much as necessary but no ``temporaries``."""
    spills: dict[Slot, tuple[VReg, ...]] = {}
    while True:
        webs = _webs(function, temporaries)
        spilled = _scan(webs)
        if not spilled:
            registers = {v: web.register for web in webs for v in web.members}
            return Assignment(function, registers, spills)
        hold = 0 if temporaries else _HELD
        result = spill(function, [web.members for web in spilled], hold=hold)
        function = result.function
        spills |= result.slots
        temporaries |= result.temporaries


@dataclass(slots=True, eq=False)
class _Web:
    """Virtual registers that get one machine register, or none (-1) so far.

    ``weight`` is how bad it is to spill it: reads and writes per point of its length.
    """

    members: list[VReg]
    ranges: tuple[Range, ...]
    mentions: float = 0
    spillable: bool = True
    candidates: tuple[int, ...] = ()
    affinities: list[tuple[_Web | int, float]] = field(default_factory=list)
    register: int = -1

    @property
    def weight(self) -> float:
        if not self.spillable:
            return inf
        return self.mentions / sum(end - start for start, end in self.ranges)


def _webs(function: Function, temporaries: frozenset[VReg]) -> list[_Web]:
    """Return all webs by their starts, with their affinities."""
    liveness = analyze(function)
    of = {v: _Web([v], ranges) for v, ranges in liveness.ranges.items()}
    fixed = fixed_values(function)
    ops = list(operations(function))
    for op in ops:
        if isinstance(op, Copy) and isinstance(op.src, VReg):
            _join(op.dst, op.src, of)
    for block in function.blocks:
        for mention in (block.terminator, *(instr.op for instr in block.instrs)):
            for register in used(mention):
                of[register].mentions += 1
    for op in ops:
        dst = defined(op)
        if dst is not None:
            of[dst].mentions += 1
        _add_affinities(op, of)
    if CTX in of:
        of[CTX].affinities.append((R1, 1))
    webs = list({id(web): web for web in of.values()}.values())
    for web in webs:
        web.spillable = temporaries.isdisjoint(web.members)
        crosses = any(_any_within(liveness.calls, piece) for piece in web.ranges)
        web.candidates = _PRESERVED if crosses else (*_VOLATILE, *_PRESERVED)
        if len(web.members) == 1 and web.members[0] in fixed:
            web.mentions *= _CHEAP
    return sorted(webs, key=lambda web: web.ranges[0])


def _join(dst: VReg, src: VReg, of: dict[VReg, _Web]) -> None:
    """Make one web of two that a copy connects, if they are never live together."""
    web, other = of[dst], of[src]
    if web is other or _overlap(web.ranges, other.ranges):
        return
    web.members += other.members
    web.ranges = tuple(sorted(web.ranges + other.ranges))
    of.update(dict.fromkeys(other.members, web))


def _add_affinities(op: Op, of: Mapping[VReg, _Web]) -> None:
    """Note which webs save a move when ``op`` finds them in one register."""
    match op:
        case Bin(dst=dst, left=left, right=right):
            pairs: list[tuple[VReg, Argument]] = [(dst, left)]
            if outlives_write(op) is None:
                pairs.append((dst, right))
        case Copy(dst=dst, src=src) | Neg(dst=dst, src=src) | Extend(dst=dst, src=src):
            pairs = [(dst, src)]
        case CallHelper(dst=result, args=args):
            for arg, register in zip(args, ARGUMENTS, strict=False):
                if isinstance(arg, VReg):
                    of[arg].affinities.append((register, 1))
            if result is not None:
                of[result].affinities.append((R0, 1))
            return
        case _:
            return
    for dst, other in pairs:
        if isinstance(other, VReg) and not _overlap(of[dst].ranges, of[other].ranges):
            of[dst].affinities.append((of[other], 1))
            of[other].affinities.append((of[dst], 1))


def _scan(webs: list[_Web]) -> list[_Web]:
    """Give each web a register; return those for which there was none."""
    held: dict[int, list[_Web]] = {register: [] for register in (*_VOLATILE, *_PRESERVED)}
    spilled: list[_Web] = []
    for web in webs:
        start = web.ranges[0][0]
        for register, holders in held.items():
            held[register] = [other for other in holders if other.ranges[-1][1] > start]
        free = [register for register in web.candidates if _fits(web, register, held)]
        if free:
            web.register = max(free, key=lambda r: _pull(web, r, held, _LOOKAHEAD))
        else:
            evicted = _cheapest(web, held)
            spilled += evicted
            if web in evicted:
                continue
            web.register = evicted[0].register
            held[web.register] = [w for w in held[web.register] if w not in evicted]
        held[web.register].append(web)
    return spilled


def _cheapest(web: _Web, held: Mapping[int, list[_Web]]) -> list[_Web]:
    """Return what to spill so that there is a register for ``web``: itself, or who has one."""
    best, cost = [web], web.weight
    for register in web.candidates:
        holders = [other for other in held[register] if _overlap(web.ranges, other.ranges)]
        total = sum(other.weight for other in holders)
        if total < cost:
            best, cost = holders, total
    return best


def _fits(web: _Web, register: int, held: Mapping[int, list[_Web]]) -> bool:
    return register in web.candidates and not any(
        _overlap(web.ranges, other.ranges) for other in held[register]
    )


def _pull(web: _Web, register: int, held: Mapping[int, list[_Web]], depth: int) -> float:
    """Return how many moves a register saves, those of webs still to come counting half."""
    total = 0.0
    for partner, worth in web.affinities:
        if isinstance(partner, int):
            total += worth * (partner == register)
        elif partner.register >= 0:
            total += worth * (partner.register == register)
        elif depth and _fits(partner, register, held):
            total += (worth + _pull(partner, register, held, depth - 1)) / 2
    return total


def _overlap(left: tuple[Range, ...], right: tuple[Range, ...]) -> bool:
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i][1] <= right[j][0]:
            i += 1
        elif right[j][1] <= left[i][0]:
            j += 1
        else:
            return True
    return False


def _any_within(points: tuple[int, ...], piece: Range) -> bool:
    index = bisect_left(points, piece[0])
    return index < len(points) and points[index] < piece[1]
