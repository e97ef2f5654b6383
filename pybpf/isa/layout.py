"""Where the instructions of a program lie: their slots, and what their jumps and calls refer to."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from pybpf.dataclass import replace
from pybpf.errors import EncodingError
from pybpf.isa.insn import Insn, Program
from pybpf.isa.table import DISTANCE_FIELD


def slot_offsets(program: Program) -> tuple[int, ...]:
    """Return the first slot of every instruction, and last the number of slots in all.

    Line and function info, relocations and the kernel's log count slots; labels count instructions.
    """
    return tuple(accumulate([insn.op.slots for insn in program.insns], initial=0))


def targets(program: Program) -> tuple[int | None, ...]:
    """Return for every instruction the index of the one it jumps to, calls or takes the address of.

    None where it refers to no place in the program. Raises EncodingError for an unknown label, and
    for a target outside the program or in the middle of a ``lddw``.
    """
    return _targets(program, slot_offsets(program))


def _targets(program: Program, offsets: tuple[int, ...]) -> tuple[int | None, ...]:
    return tuple(
        [
            _target(program, index, insn, offsets) if insn.op in DISTANCE_FIELD else None
            for index, insn in enumerate(program.insns)
        ]
    )


def _target(program: Program, index: int, insn: Insn, offsets: tuple[int, ...]) -> int:
    if insn.symbol is not None:
        found = program.labels.get(insn.symbol)
        if found is None:
            raise EncodingError(index, f"no label is called {insn.symbol!r}")
        if not 0 <= found < len(program.insns):
            raise EncodingError(index, f"label {insn.symbol!r} stands behind the last instruction")
        return found
    distance = insn.off if DISTANCE_FIELD[insn.op] == "off" else insn.imm
    slot = offsets[index] + 1 + distance
    target = bisect_left(offsets, slot)
    if target >= len(program.insns) or offsets[target] != slot:
        raise EncodingError(index, bad_target(slot, offsets[-1]))
    return target


def bad_target(slot: int, slots: int) -> str:
    """Say why no instruction starts at ``slot`` of a program that has ``slots`` of them."""
    if 0 <= slot < slots:
        return f"slot {slot} is the middle of a lddw, nothing can jump there"
    return f"slot {slot} is outside the program, which has slots 0 to {slots - 1}"


def distances(program: Program) -> tuple[int | None, ...]:
    """Return for every instruction the distance in slots that its jump or call holds, or None.

    Distances count from the slot after the first one of the instruction. Raises EncodingError as
    ``targets`` does, and for a distance beyond the 16 bits of ``off``.
    """
    offsets = slot_offsets(program)
    found: list[int | None] = []
    for index, target in enumerate(_targets(program, offsets)):
        if target is None:
            found.append(None)
            continue
        distance = offsets[target] - offsets[index] - 1
        op = program.insns[index].op
        if DISTANCE_FIELD[op] == "off" and not -0x8000 <= distance <= 0x7FFF:
            raise EncodingError(
                index, f"the target is {distance:+} slots away, {op.name} reaches -32768 to +32767"
            )
        found.append(distance)
    return tuple(found)


def strip_labels(program: Program) -> Program:
    """Return the program with distances in place of labels; raises what ``distances`` raises."""
    insns = tuple(
        insn if distance is None else _with_distance(insn, distance)
        for insn, distance in zip(program.insns, distances(program), strict=True)
    )
    return replace(program, insns=insns, labels={})


def _with_distance(insn: Insn, distance: int) -> Insn:
    if DISTANCE_FIELD[insn.op] == "off":
        return replace(insn, off=distance, symbol=None)
    return replace(insn, imm=distance, symbol=None)
