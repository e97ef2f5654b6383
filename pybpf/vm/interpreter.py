"""Run one program on plain memory: instructions and bytes in, the value of r0 out."""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.isa.insn import ByteOrder, Program
from pybpf.vm.machine import BUDGET, Helper, Machine, Trace
from pybpf.vm.world import World


def interpret(
    program: Program | bytes,
    memory: bytes | bytearray = b"",
    *,
    world: World | None = None,
    helpers: Mapping[str, Helper] | None = None,
    byteorder: ByteOrder = "little",
    budget: int = BUDGET,
    trace: Trace | None = None,
    fast: bool = False,
) -> int:
    """Run a program, or raw instructions, and return r0 as an unsigned 64-bit integer.

    At the start r1 is the address of ``memory`` (0 where it is empty) and r2 its size. The program
    may change it: a bytearray is changed itself, of bytes a copy. It is also the packet of the
    legacy packet loads. ``helpers``, by name, add to or replace the emulated ones; ``budget`` is
    how many instructions may run; ``trace`` is called before each; ``fast`` translates the program
    to Python first. A program that needs maps runs
    on a ``vm.machine.Machine``.

    Raises EncodingError for bytes that are no program, and VmFault for what a program must not do.
    """
    if not isinstance(program, Program):
        program = Program.from_bytes(program, byteorder)
    data = memory if isinstance(memory, bytearray) else bytearray(memory)
    machine = Machine(
        world=world, byteorder=byteorder, helpers=helpers, budget=budget, trace=trace, fast=fast
    )
    return run_on_memory(program, data, machine=machine)


def run_on_memory(
    program: Program,
    memory: bytearray,
    *,
    machine: Machine | None = None,
    fast: bool = False,
    budget: int = BUDGET,
) -> int:
    """Run a program on memory, as ``interpret`` does, on a machine."""
    machine = Machine(fast=fast, budget=budget) if machine is None else machine
    if not memory:
        return machine.run(program, 0, 0)
    machine.packet = memory
    region = machine.memory.add(memory, "memory")
    return machine.run(program, region.address, len(memory))
