"""Loops that count: the way round a loop in, how often it surely goes round it out.

A loop whose only way round changes a register once, by a constant, and tests it once, becomes a
``for`` over a ``range`` that needs neither. It stops before the last time round, before the counter
wraps and before the budget is used up: what is left is done by the loop as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.dataclass import dataclass
from pybpf.isa.insn import Insn
from pybpf.isa.semantics import signed
from pybpf.isa.table import Effect, Form
from pybpf.vm.fast.regions import clobbers, reads, sets
from pybpf.vm.fast.values import NEGATED, State, is_low

_BRANCHES = frozenset({Form.BRANCH_IMM, Form.BRANCH_REG})


@dataclass(frozen=True, slots=True)
class Counter:
    """A loop's counter: its register, what is added each time round, and where.

    ``test`` is the branch, ``stays`` whether it is taken to go round again; ``late`` says that the
    test comes behind the addition, ``idle`` that nothing but the test reads the new value.
    """

    reg: int
    step: int
    update: int
    test: int
    stays: bool
    late: bool
    idle: bool
    insn: Insn

    def rounds(self) -> str:
        """Return the text of how often the loop goes round at least; it may be negative."""
        insn, step = self.insn, self.step
        width = insn.op.width
        effect = insn.op.effect if self.stays else NEGATED[insn.op.effect]
        by, mask, sign = abs(step), (1 << width) - 1, 1 << (width - 1)
        t = f"r{self.reg}"
        first = f"({t} + {step})" if self.late else t
        by_imm = insn.op.form is Form.BRANCH_IMM
        bound = f"{insn.imm & mask}" if by_imm else f"r{insn.src}"
        if effect is Effect.JNE and step < 0:
            return f"({first} - {bound}) // {by} if {first} >= {bound} else {first} // {by}"
        if effect is Effect.JNE:
            room = f"({bound} if {bound} >= {first} else {mask})"
            return f"({room} - {first}) // {by}"
        if effect not in _SIGNED:
            return _ROUNDS[effect].format(t=first, b=bound, k=by)
        bound = f"{signed(insn.imm, width)}" if by_imm else f"((r{insn.src} ^ {sign}) - {sign})"
        # Below zero the counter is a large number, which is left to the loop as it stands.
        if step < 0:
            bound = f"max({bound}, {0 if effect is Effect.JSGE else -1})"
        rounds = _ROUNDS[effect.removeprefix("s")].format(t=first, b=bound, k=by)
        return f"{rounds} if {t} < {sign} else 0"


_ROUNDS = {
    "<": "({b} - {t} + {k} - 1) // {k}",
    "<=": "({b} - {t}) // {k} + 1",
    ">": "({t} - {b} + {k} - 1) // {k}",
    ">=": "({t} - {b}) // {k} + 1",
}
_SIGNED = frozenset({Effect.JSLT, Effect.JSLE, Effect.JSGT, Effect.JSGE})
_UP = frozenset({Effect.JNE, Effect.JLT, Effect.JLE, Effect.JSLT, Effect.JSLE})
_DOWN = frozenset({Effect.JNE, Effect.JGT, Effect.JGE, Effect.JSGT, Effect.JSGE})


def find_counter(
    insns: Sequence[Insn], way: Sequence[tuple[int, bool]], state: State
) -> Counter | None:
    """Return the counter of a loop, if it has one.

    ``way`` are the instructions round it, and of each whether it is a branch that is taken;
    ``state`` is what is known where it begins.
    """
    changed: dict[int, list[int]] = {}
    for at, (pc, _) in enumerate(way):
        for reg in sets(insns[pc]) | clobbers(insns[pc]):
            changed.setdefault(reg, []).append(at)
    for at, (pc, taken) in enumerate(way):
        insn = insns[pc]
        if insn.op.form not in _BRANCHES or len(changed.get(insn.dst, ())) != 1:
            continue
        if insn.op.form is Form.BRANCH_REG and (insn.src == insn.dst or insn.src in changed):
            continue
        update = changed[insn.dst][0]
        step = _step(insns[way[update][0]], insn.op.width)
        effect = insn.op.effect if taken else NEGATED.get(insn.op.effect)
        if step == 0 or effect not in (_UP if step > 0 else _DOWN):
            continue
        if insn.op.width == 32 and not is_low(insn, state):
            continue
        rest = [insns[way[k][0]] for k in range(update + 1, len(way)) if k != at]
        busy = any(insn.dst in reads(i) or i.op.form in _BRANCHES for i in rest)
        return Counter(
            insn.dst, step, way[update][0], pc, taken, update < at, not busy, insn
        )  # fmt: skip
    return None


def _step(insn: Insn, width: int) -> int:
    if insn.op.form is not Form.ALU_IMM or insn.op.width != width:
        return 0
    match insn.op.effect:
        case Effect.ADD:
            return insn.imm
        case Effect.SUB:
            return -insn.imm
        case _:
            return 0
