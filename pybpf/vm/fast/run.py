"""Programs made Python functions, and the machine they run on: a program in, its r0 out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import repeat
from operator import length_hint
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, NoReturn

from pybpf.dataclass import dataclass
from pybpf.isa.helpers import HELPERS
from pybpf.isa.insn import R0, R1, R10, Insn, Program
from pybpf.isa.semantics import ALU, MASK64, byte_swap
from pybpf.isa.table import Effect, Form
from pybpf.vm.fast.regions import graph, summaries
from pybpf.vm.fast.translate import Function
from pybpf.vm.fast.values import Source
from pybpf.vm.fast.words import Words
from pybpf.vm.memory import Trap
from pybpf.vm.registers import UNSET
from pybpf.vm.steps import DONE, no_helper

if TYPE_CHECKING:
    from pybpf.vm.machine import Image, Machine

LIMIT = 1 << 14
"""Longer programs run in step mode: compiling Python takes a while."""
_FILE = "<program in fast mode>"

Entry = Callable[..., int]
Views = tuple[memoryview, memoryview, memoryview, memoryview]


@dataclass(slots=True)
class Compiled:
    """A program's functions by their first instruction; ``arguments`` says what each takes."""

    functions: dict[int, Entry]
    arguments: dict[int, int]


class Run:
    """What the functions of a machine's programs see of it; ``left`` is the budget."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.left = 0
        self.active = False
        self._views: dict[int, Views] = {}

    def start(self, image: Image, entry: Entry, arguments: tuple[int, ...], budget: int) -> int:
        """Run a program whose frame the machine has entered; raises VmFault."""
        self.left = budget
        self.active = True
        try:
            return entry(self, *arguments, *UNSET[R1 + len(arguments) : 6])
        except Trap as trap:
            raise self._fault(trap, image) from None
        finally:
            self.active = False

    def _fault(self, trap: Trap, image: Image) -> Exception:
        """Say at which instruction a Trap was raised: on the innermost line that is one."""
        from pybpf.vm.machine import fault

        pc, program = 0, image.program
        traceback: TracebackType | None = trap.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_filename == _FILE:
                pc = frame.f_globals["pcs"][traceback.tb_lineno]
                program = frame.f_globals["program"]
            traceback = traceback.tb_next
        return fault(program, pc, str(trap))

    def frame(self) -> int:
        """Return r10 of the frame entered last."""
        return self.machine.regs[R10]

    def views(self) -> Views:
        """Return the stack of that frame as integers of 8, 4, 2 and 1 bytes."""
        region = self.machine.stack()
        found = self._views.get(region.address)
        if found is None:
            view = memoryview(region.data)
            found = view.cast("Q"), view.cast("I"), view.cast("H"), view
            self._views[region.address] = found
        return found

    def call(self, function: Entry, *arguments: int) -> int:
        """Call a function of the running program."""
        self.machine.enter(DONE)
        return function(self, *arguments)

    def call_helper(self, number: int, *arguments: int) -> int:
        """Call the helper of a number that a register holds."""
        helper = self.machine.helpers.get(number)
        if helper is None:
            raise Trap(no_helper(number))
        # The mask stumbles over an argument that nothing has set.
        given = [value & MASK64 for value in arguments[: helper.arguments]]
        return helper.run(self.machine, *given) & MASK64

    def call_in_steps(self, start: int, arguments: tuple[int, ...]) -> int:
        """Call a function in step mode."""
        self.machine.enter(DONE)
        rest = UNSET[R1 + len(arguments) : R10]
        return self.resume(start, self.left, UNSET[R0], *arguments, *rest, self.frame())

    def leave(self, result: int) -> int:
        """End a function."""
        self.machine.regs[R0] = result
        self.machine.leave()
        return result

    def tail_call(self, ctx: int, table: int, index: int) -> Image | None:
        """Return what a tail call leads to."""
        return self.machine.tail_target(ctx, table, index)

    def jump(self, image: Image) -> int:
        """Go on in another program, in the same frame."""
        machine = self.machine
        caller, machine.image = machine.image, image
        try:
            compiled = machine.compiled(image)
            if compiled is not None and compiled.arguments[0] <= 1:
                return compiled.functions[0](self, machine.ctx, *UNSET[2:6])
            return self.resume(0, self.left, UNSET[0], machine.ctx, *UNSET[2:10], self.frame())
        finally:
            machine.image = caller

    def resume(self, pc: int, left: int, *regs: int) -> int:
        """Go on with a function in step mode, until it exits; return its r0."""
        machine = self.machine
        machine.regs[:] = [r if r.__class__ is not int else r & MASK64 for r in regs]
        self.active = False
        machine.left = steps = repeat(None, left)
        machine.execute(pc)
        self.active = True
        self.left = length_hint(steps)
        return machine.regs[R0]

    def trap(self, reason: str) -> NoReturn:
        """Stop the program."""
        raise Trap(reason)


def compile_program(machine: Machine, program: Program) -> Compiled | None:
    """Return a program as Python; None for one that only step mode runs.

    That is one which may read what nothing has set, or run off its end, and a very long one.
    Raises EncodingError for a jump to nowhere.
    """
    if sys.byteorder != machine.memory.byteorder or not 0 < len(program.insns) <= LIMIT:
        return None
    code = graph(program)
    found = summaries(code, lambda insn: _arguments(machine, insn))
    if found is None or not found[0].returns:
        return None
    names = _names(machine)
    source = Source()
    for entry, summary in found.items():
        if not Function(code, entry, Words(machine, summary.calls, names)).write(source):
            return None
    names["pcs"] = [0, *source.pcs]
    names["program"] = program
    try:
        text: CodeType = compile("\n".join(source.lines), _FILE, "exec")
    except (RecursionError, MemoryError):
        return None
    exec(text, names)  # noqa: S102 - that is what a translator is for
    return Compiled(
        {entry: names[f"f{entry}"] for entry in found},  # type: ignore[misc]
        {entry: summary.arguments if summary.returns else 6 for entry, summary in found.items()},
    )


def _arguments(machine: Machine, insn: Insn) -> int:
    if insn.op.form is Form.CALL_HELPER:
        if insn.imm == HELPERS["bpf_tail_call"]:
            return 3
        helper = machine.helpers.get(insn.imm)
    elif insn.op.form is Form.CALL_REG:
        return 0  # what it has is seen when it is called
    else:
        _, helper = machine.kfunc(insn)
    return 0 if helper is None else helper.arguments


def _names(machine: Machine) -> dict[str, object]:
    space = machine.memory
    names: dict[str, object] = {"m": machine, "swap": byte_swap, "unset": UNSET}
    for effect in (Effect.DIV, Effect.MOD, Effect.SDIV, Effect.SMOD, Effect.ARSH):
        for width in (32, 64):
            names[f"{effect.name.lower()}{width}"] = ALU[width][effect]
    for size in (1, 2, 4, 8):
        names[f"load{size}"] = space.loader(size)
        names[f"store{size}"] = space.storer(size)
    names["may_loop"] = machine.may_loop
    return names
