"""Puts a lookup in an array map, which ends the program where it fails, in front of a block."""

from __future__ import annotations

from pybpf.compiler.ir import (
    Block,
    Branch,
    CallHelper,
    Cmp,
    Exit,
    Instr,
    Label,
    MapRef,
    Slot,
    SlotRef,
    Store,
    VReg,
)
from pybpf.dataclass import replace


def insert_lookup(
    blocks: tuple[Block, ...], place: Label, base: VReg, name: str, key: Slot, index: int
) -> tuple[Block, ...]:
    """Look element ``index`` of map ``name`` up at the start of block ``place``.

    ``base`` gets its address; ``key`` is a slot of 4 bytes of its own. The verifier wants the
    check, although an array has all its elements.
    """
    labels = [block.label for block in blocks]
    found = _unused(f"{place}.found", labels)
    leave = next(
        (
            block
            for block in blocks[labels.index(place) + 1 :]
            if not block.instrs and block.terminator == Exit(0)
        ),
        Block(_unused(f"{place}.missing", labels), (), Exit(0)),
    )
    result: list[Block] = []
    for block in blocks:
        if block.label != place:
            result.append(block)
            continue
        ops = (
            Store(SlotRef(key), 0, 4, index),
            CallHelper(base, "bpf_map_lookup_elem", (MapRef(name), SlotRef(key))),
        )
        instrs = tuple(Instr(op, block.span) for op in ops)
        branch = Branch(Cmp.EQ, base, 0, leave.label, found)
        result += [Block(place, instrs, branch, block.span), replace(block, label=found)]
    return tuple(result) if leave in blocks else (*result, leave)


def _unused(name: str, labels: list[Label]) -> Label:
    while Label(name) in labels:
        name += "'"
    return Label(name)
