"""ir.Function -> Allocation: registers for values, places for slots.

Registers and stack depend on each other: what finds no register needs stack, what finds no stack
goes to scratch memory, whose address needs a register. So the two are repeated until all fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pybpf.compiler.frame import demote, pack
from pybpf.compiler.ir import Function, Slot, VReg
from pybpf.compiler.regalloc import assign


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

    Raises SourceError where even scratch memory does not hold the slots.
    """
    spills: dict[Slot, bool] = {}
    temporaries: frozenset[VReg] = frozenset()
    scratch = 0
    frame = pack(function, spills)
    while True:
        if not frame.overflow:
            assignment = assign(function, spills, temporaries)
            frame = pack(assignment.function, assignment.spills)
            if not frame.overflow:
                return Allocation(assignment.function, assignment.registers, frame.places, scratch)
            function, temporaries = assignment.function, assignment.temporaries
            spills = dict(assignment.spills)
        demoted = demote(function, frame.overflow, scratch_index, scratch)
        function, scratch = demoted.function, demoted.scratch_size
        spills[demoted.key] = True
        frame = pack(function, spills)
