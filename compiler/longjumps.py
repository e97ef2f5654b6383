"""Code -> the same code, with jumps that reach their targets.

The offset of a jump has 16 bits and counts slots of 8 bytes from the instruction after it. Only
``gotol`` has 32 bits, and no condition, so a far branch becomes three instructions:

        if … goto far                  if … goto gate
                                       goto next
                                gate:  gotol far
                                next:
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from pybpf.dataclass import dataclass, replace
from pybpf.errors import Diagnostic, SourceError
from pybpf.isa.insn import Insn, insn
from pybpf.isa.table import Form
from pybpf.source import Span
from pybpf.target.features import CPU_V4

_NEAR = range(-(1 << 15), 1 << 15)


@dataclass(frozen=True, slots=True)
class Code:
    """Instructions with the piece of script each comes from; ``labels`` are indices."""

    insns: list[Insn]
    spans: list[Span | None]
    labels: dict[str, int]


def lengthen_jumps(code: Code, name: str, features: frozenset[str]) -> Code:
    """Return code whose jumps fit their offsets.

    Raises SourceError where there are far jumps and the target has no gotol.
    """
    far = _far_jumps(code)
    if not far:
        return code
    if CPU_V4 not in features:
        raise SourceError(
            Diagnostic(
                f"{name}: the program takes {len(code.insns)} instructions,"
                " and before Linux 6.6 a jump reaches 32767 at most",
                code.spans[min(far)],
            )
        )
    result = Code([], [], {})
    starts: list[int] = []
    for index, (jump, span) in enumerate(zip(code.insns, code.spans, strict=True)):
        starts.append(len(result.insns))
        replacement = _lengthened(jump, index, result) if index in far else [jump]
        result.insns.extend(replacement)
        result.spans.extend([span] * len(replacement))
    starts.append(len(result.insns))
    result.labels.update({label: starts[at] for label, at in code.labels.items()})
    return result


def _far_jumps(code: Code) -> set[int]:
    """Return the indices of jumps that do not reach, long ones pushing others apart."""
    jumps = [
        (index, code.labels[i.symbol])
        for index, i in enumerate(code.insns)
        if i.symbol in code.labels
    ]
    far: set[int] = set()
    while True:
        ends = list(accumulate(_slots(code.insns, far), initial=0))
        found = {at for at, target in jumps if ends[target] - ends[at + 1] not in _NEAR}
        if found <= far:
            return far
        far |= found


def _slots(insns: Sequence[Insn], far: set[int]) -> list[int]:
    sizes = [i.op.slots for i in insns]
    for index in far:
        if insns[index].op.form is not Form.JUMP:
            sizes[index] += 2
    return sizes


def _lengthened(jump: Insn, index: int, result: Code) -> list[Insn]:
    long = insn("gotol", symbol=jump.symbol)
    if jump.op.form is Form.JUMP:
        return [long]
    gate, following = f"{jump.symbol}.gate{index}", f"{jump.symbol}.next{index}"
    here = len(result.insns)
    result.labels[gate], result.labels[following] = here + 2, here + 3
    return [replace(jump, symbol=gate), insn("ja", symbol=following), long]
