"""ir.Function -> Allocation: registers for values, places for slots.

Registers and stack depend on each other: what finds no register needs stack, what finds no stack
goes to scratch memory, whose address needs a register. So when something does not fit, allocation
starts again from the function with all that in scratch memory, until everything fits.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.compiler.frame import demote, pack
from pybpf.compiler.ir import Function, Slot, VReg
from pybpf.compiler.pointers import find_pointers
from pybpf.compiler.regalloc import assign
from pybpf.compiler.spill import spill
from pybpf.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """A function with everything it mentions in its place.

    ``registers`` are the machine registers of virtual ones, ``places`` the offsets of slots from
    r10. ``scratch_size`` is how many bytes the function needs of its element of the scratch map.
    """

    function: Function
    registers: Mapping[VReg, int]
    places: Mapping[Slot, int]
    scratch_size: int = 0


def allocate(function: Function, scratch_index: int) -> Allocation:
    """Place all values and slots; ``scratch_index`` is the function's element of the scratch map.

    Raises SourceError where scratch memory does not hold the slots either.
    """
    slots = set(pack(function).overflow)
    webs: list[tuple[VReg, ...]] = []
    while True:
        pinned: set[Slot] = set()
        spilled = spill(function, webs, hold=0)
        current, scratch_size = spilled.function, 0
        scratch = slots.union(spilled.slots)
        if scratch:
            demoted = demote(current, scratch, scratch_index)
            current, scratch_size = demoted.function, demoted.scratch_size
            pinned.add(demoted.key)
        assignment = assign(current, spilled.temporaries)
        pointers = find_pointers(current)
        pinned |= {s for s, web in assignment.spills.items() if not pointers.isdisjoint(web)}
        frame = pack(assignment.function, pinned, assignment.spills.keys())
        if not frame.overflow:
            return Allocation(assignment.function, assignment.registers, frame.places, scratch_size)
        for slot in frame.overflow:
            web = assignment.spills.get(slot)
            if web is None:
                slots.add(slot)
            else:
                webs.append(web)
