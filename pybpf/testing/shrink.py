"""Smaller programs that are still wrong: a program and a check in; the smallest one found out.

Slots are dropped, in runs that get shorter, and numbers made simple. Jumps are mended all the while
(see ``programs.mutate``), so that what is left makes sense.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pybpf.corpus import CorpusProgram, Fixup
from pybpf.dataclass import replace
from pybpf.testing.programs.code import SLOT, with_insns
from pybpf.testing.programs.mutate import drop, slots_of

Failing = Callable[[Sequence[CorpusProgram]], Iterator[bool]]
"""Says of each program whether it is still wrong, as far as it is asked."""

ROUNDS = 200


def shrink(program: CorpusProgram, failing: Failing, *, rounds: int = ROUNDS) -> CorpusProgram:
    """Return the smallest program found that ``failing`` says is wrong; it has the same id.

    Each of at most ``rounds`` calls of ``failing`` gets all programs that are a step smaller, the
    boldest first, and need not be asked for more than the first that is wrong.
    """
    for _ in range(rounds):
        candidates = list(_smaller(program))
        found = next(
            (
                candidate
                for candidate, wrong in zip(candidates, failing(candidates), strict=False)
                if wrong
            ),
            None,
        )
        if found is None:
            break
        program = found
    return _without_spare_maps(program)


def _smaller(program: CorpusProgram) -> Iterator[CorpusProgram]:
    """Yield programs without a run of slots, then with simpler numbers."""
    size = program.slots // 2
    while size:
        for at in range(0, program.slots, max(1, size // 2)):
            shorter = drop(program, at, min(size, program.slots - at))
            if 0 < shorter.slots < program.slots:
                yield shorter
        size //= 2
    slots = slots_of(program)
    held = {fixup.insn for fixup in program.fixups}
    for at, slot in enumerate(slots):
        code, regs, off, imm = SLOT.unpack(slot)
        if at in held or code & 7 in {5, 6} or not imm:
            continue
        for simple in (0, 1):
            if simple < imm:
                changed = [*slots]
                changed[at] = SLOT.pack(code, regs, off, simple)
                yield with_insns(program, b"".join(changed), program.fixups)
    if program.data and len(program.data) > 14:
        yield replace(program, data=program.data[: max(14, len(program.data) // 2)])
    if program.data and any(program.data):
        yield replace(program, data=bytes(len(program.data)))


def _without_spare_maps(program: CorpusProgram) -> CorpusProgram:
    used = sorted({fixup.map for fixup in program.fixups})
    fixups = tuple(Fixup(f.insn, f.kind, used.index(f.map)) for f in program.fixups)
    return replace(program, maps=tuple(program.maps[n] for n in used), fixups=fixups)
