"""Whether what a program computes lies within what the model says: a program in; an escape out.

The model follows every path without pruning, and each register's abstract value is noted wherever
it is; the VM then runs the program, and at every step some state of the model must hold all of the
registers' values at once. (A pruned path would have no states: the verifier forgets there what
does not matter, and what does not matter may be anything.)
"""

from __future__ import annotations

from dataclasses import dataclass

from pybpf.corpus import CorpusProgram
from pybpf.isa.insn import Program
from pybpf.isa.layout import slot_offsets
from pybpf.isa.semantics import signed
from pybpf.target.profile import profile
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import NOT_INIT, SCALAR
from pybpf.verifier.limits import Limits
from pybpf.verifier.scalar import Scalar
from pybpf.verifier.state import Reg, State
from pybpf.verifier.verify import verify
from pybpf.vm.batch import run_corpus

_LIMITS = Limits(insns=20_000, seconds=3.0)
_U64, _U32 = (1 << 64) - 1, (1 << 32) - 1
_STATES = 400


@dataclass(frozen=True, slots=True)
class Escape:
    """A step of a run that no state of the model holds; ``slot`` is the instruction to be run."""

    slot: int
    values: tuple[int | None, ...]
    states: int

    def __str__(self) -> str:
        shown = " ".join(f"r{n}={v:#x}" for n, v in enumerate(self.values[:10]) if v is not None)
        return f"at slot {self.slot}: {shown} lie in none of {self.states} states"


def escape(program: CorpusProgram, kernel: str) -> Escape | None:
    """Return where a run leaves what the model says, or None.

    That is None, too, for programs that the model does not accept, or not within its limits.
    Raises VmFault where the VM faults in what the model accepts.
    """
    states = _States()
    report = verify(program, profile(kernel), limits=_LIMITS, log=states)
    if report.verdict != "accept":
        return None
    slots = slot_offsets(Program.from_bytes(program.insns))
    found: list[Escape] = []

    def look(_: Program, index: int, values: tuple[int | None, ...]) -> None:
        if found:
            return
        noted = states.at.get(slots[index], [])
        if len(noted) < _STATES and not any(_holds(regs, values) for regs in noted):
            found.append(Escape(slots[index], values, len(noted)))

    result, _ = run_corpus(program, trace=look)
    if result.fault is not None:
        raise result.fault
    return found[0] if found else None


class _States:
    """Listens to the model, and keeps it from pruning."""

    def __init__(self) -> None:
        self.at: dict[int, list[list[Reg]]] = {}

    def insn(self, env: Env, state: State) -> None:
        env.program.pruning.clear()
        noted = self.at.setdefault(state.at, [])
        if len(noted) < _STATES:
            noted.append(list(state.frame.regs))

    def done(self, env: Env, state: State) -> None:
        pass

    def note(self, text: str) -> None:
        pass


def _holds(regs: list[Reg], values: tuple[int | None, ...]) -> bool:
    for reg, value in zip(regs[:10], values, strict=False):
        if reg.kind == NOT_INIT:
            continue
        if value is None or (reg.kind == SCALAR and not contains(reg.val, value)):
            return False
    return True


def contains(known: Scalar, value: int) -> bool:
    """Whether a number of 64 bits is one of those that an abstract value stands for."""
    low = value & _U32
    return (
        value & ~known.mask & _U64 == known.value
        and known.umin <= value <= known.umax
        and known.smin <= signed(value, 64) <= known.smax
        and known.umin32 <= low <= known.umax32
        and known.smin32 <= signed(low, 32) <= known.smax32
    )
