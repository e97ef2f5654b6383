"""ir.Function -> isa.Program: the back end's stages in order."""

from __future__ import annotations

from pybpf.compiler.allocate import Allocation, allocate
from pybpf.compiler.emit import emit
from pybpf.compiler.ir import Function
from pybpf.compiler.legalize import legalize
from pybpf.compiler.optimize import optimize
from pybpf.dataclass import dataclass
from pybpf.isa.abi import AttachType, ProgType
from pybpf.isa.insn import ByteOrder, Program


@dataclass(frozen=True, slots=True)
class Generated:
    """A program, and what became of its function on the way.

    ``scratch_size`` is how many bytes the program needs of its element of the scratch map; 0 means
    that it does not use the map. ``ir`` is the optimized function.
    """

    program: Program
    scratch_size: int
    ir: Function
    allocation: Allocation


def generate(
    function: Function,
    *,
    features: frozenset[str],
    prog_type: ProgType,
    expected_attach_type: AttachType | None = None,
    scratch_index: int,
    byteorder: ByteOrder,
) -> Generated:
    """Return the program for a function.

    Raises SourceError where its values do not fit scratch memory (32 KiB) or its code is too long
    for the jumps of a kernel before 6.6.
    """
    optimized = optimize(function)
    legal = legalize(optimized, features, byteorder)
    allocation = allocate(legal, scratch_index)
    program = emit(allocation, features, prog_type, expected_attach_type)
    return Generated(program, allocation.scratch_size, optimized, allocation)
