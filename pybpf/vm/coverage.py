"""Which instructions of a program ran."""

from __future__ import annotations

from pybpf.isa.insn import Program


class Coverage:
    """A ``Trace`` that remembers what ran; for the ``trace`` of a Machine or of ``interpret``."""

    def __init__(self) -> None:
        self._ran: dict[int, tuple[Program, set[int]]] = {}

    def __call__(self, program: Program, index: int, _regs: tuple[int | None, ...]) -> None:
        """Remember that an instruction ran."""
        self._ran.setdefault(id(program), (program, set()))[1].add(index)

    def ran(self, program: Program) -> frozenset[int]:
        """Return the indices of the instructions that ran at least once."""
        entry = self._ran.get(id(program))
        return frozenset() if entry is None else frozenset(entry[1])

    def missed(self, program: Program) -> tuple[int, ...]:
        """Return the indices of the instructions that never ran, in order."""
        ran = self.ran(program)
        return tuple(index for index in range(len(program.insns)) if index not in ran)
