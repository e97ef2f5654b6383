"""Which scalars a verdict depended on: a register in; marks on the checkpoints behind it out.

Two states are taken for one another however scalars differ in them, unless the value of one was
needed later on (a branch that could not go both ways, an offset, a size). Then it is marked, and so
is all that it was computed from, back to the first checkpoint where it is marked already. Source:
mark_chain_precision and backtrack_insn in kernel/bpf/verifier.c.

A checkpoint's marks are ``State.precise``: by frame, bits of registers; from bit 16 on, of slots.
"""

from __future__ import annotations

from pybpf.verifier import opcodes as op
from pybpf.verifier.env import MAX_FRAMES, Env
from pybpf.verifier.frames import ENTERED, ENTERED_CALLBACK, LEFT, LEFT_CALLBACK
from pybpf.verifier.kinds import SCALAR, SPILL
from pybpf.verifier.program import Raw
from pybpf.verifier.state import State

SLOTS = 16
_REGS = 0x3FF
_ARGS = 0x3E


def no_marks() -> list[int]:
    """Return marks by frame of which none is set."""
    return [0] * (MAX_FRAMES + 1)


def mark_precise(env: Env, state: State, frame: int, number: int) -> None:
    """Mark what register ``number`` of a frame was computed from, in all checkpoints behind."""
    if not env.privileged or state.frames[frame].regs[number].kind != SCALAR:
        return
    masks = no_marks()
    masks[frame] = 1 << number
    mark_masks(env, state, masks)


def mark_masks(env: Env, state: State, masks: list[int]) -> None:
    """Mark what the registers and slots of ``masks``, by frame, were computed from."""
    depth = len(state.frames) - 1
    touched = env.touched
    if not touched:
        touched += [_touches(slot) for slot in env.slots]
    walk = state
    while True:
        trail = walk.trail
        while trail is not None:
            at, note, trail = trail
            if note is None and not masks[depth] & touched[at]:
                continue
            depth = _step_back(env, at, note, masks, depth)
            if depth < 0:
                _mark_all(state)
                return
            if not any(masks):
                return
        parent = walk.parent
        if parent is None:
            return
        walk = parent
        if not _mark(walk, masks):
            return


def _mark(state: State, masks: list[int]) -> bool:
    """Mark a checkpoint; leave in ``masks`` what was not marked, and say whether there is any."""
    left = False
    precise = state.precise
    for index, frame in enumerate(state.frames):
        mask = masks[index]
        if not mask:
            continue
        before = precise.get(index, 0)
        mask &= ~before
        rest, kept = mask, 0
        while rest:
            bit = rest & -rest
            rest ^= bit
            number = bit.bit_length() - 1
            if number < SLOTS:
                if frame.regs[number].kind == SCALAR:
                    kept |= bit
            else:
                slot = frame.stack.get(number - SLOTS)
                if slot is not None and slot.bytes[7] == SPILL and slot.reg is not None and (
                    slot.reg.kind == SCALAR
                ):  # fmt: skip
                    kept |= bit
        masks[index] = kept
        if kept:
            precise[index] = before | kept
            left = True
    return left


def _mark_all(state: State) -> None:
    """Mark every scalar of all checkpoints behind a state."""
    parent = state.parent
    while parent is not None:
        for index, frame in enumerate(parent.frames):
            mask = parent.precise.get(index, 0)
            for number, reg in enumerate(frame.regs):
                if reg.kind == SCALAR:
                    mask |= 1 << number
            for spi, slot in frame.stack.items():
                if slot.reg is not None and slot.reg.kind == SCALAR:
                    mask |= 1 << SLOTS + spi
            parent.precise[index] = mask
        parent = parent.parent


def _touches(slot: Raw) -> int:
    """Return the registers that must be marked for an instruction to matter, as bits."""
    code, kind = slot.code, slot.code & op.CLASS
    if kind in {op.JMP, op.JMP32}:
        operation = code & op.OP
        if operation == op.OP_CALL:
            return _ARGS | 1
        if operation in {op.OP_JA, op.OP_EXIT, op.OP_MAY_GOTO} or not code & op.SOURCE:
            return 0
        return 1 << slot.dst | 1 << slot.src
    if kind == op.STX and code & op.MODE == op.ATOMIC:
        return 1 << slot.dst | 1 << slot.src | 1
    if kind in {op.ALU32, op.ALU64} and code & op.OP != op.MOV and not code & op.SOURCE:
        return 0
    if kind == op.LD and code != op.LDDW:
        return 1
    return 1 << slot.dst


def _link(masks: list[int], note: object) -> None:
    """Where one of the registers that a branch found equal is marked, mark them all."""
    if type(note) is tuple and any(masks[frame] >> index & 1 for frame, index in note):
        for frame, index in note:
            masks[frame] |= 1 << index


def _step_back(env: Env, at: int, note: object, masks: list[int], depth: int) -> int:
    """Change what is marked after an instruction to what is before; return the frame before it.

    Less than 0 where that cannot be told.
    """
    slot = env.slots[at]
    code = slot.code
    kind = code & op.CLASS
    mask = masks[depth]
    if kind in {op.ALU32, op.ALU64}:
        if mask >> slot.dst & 1:
            _alu_back(slot.code, slot.dst, slot.src, masks, depth)
        return depth
    if kind in {op.JMP, op.JMP32}:
        return _jump_back(env, at, note, masks, depth)
    if kind == op.LDX:
        _load_back(slot.dst, note, masks, depth)
        return depth
    if kind == op.STX and code & op.MODE == op.ATOMIC:
        return _atomic_back(slot.dst, slot.src, slot.imm, note, masks, depth)
    if kind in {op.ST, op.STX}:
        if mask >> slot.dst & 1:
            return -1
        if type(note) is int:
            frame, bit = note >> 8, 1 << SLOTS + (note & 0xFF)
            if masks[frame] & bit:
                masks[frame] &= ~bit
                if kind == op.STX:
                    masks[depth] |= 1 << slot.src
        return depth
    if code == op.LDDW:
        masks[depth] = mask & ~(1 << slot.dst)
        return depth
    if mask & 1:
        return -1
    return depth


def _alu_back(code: int, dst: int, src: int, masks: list[int], depth: int) -> None:
    operation = code & op.OP
    by_reg = code & op.SOURCE
    if operation in {op.NEG, op.END}:
        return
    if operation == op.MOV:
        masks[depth] &= ~(1 << dst)
    if by_reg and src < 10:
        masks[depth] |= 1 << src


def _load_back(into: int, note: object, masks: list[int], depth: int) -> None:
    if not masks[depth] >> into & 1:
        return
    masks[depth] &= ~(1 << into)
    if type(note) is int:
        masks[note >> 8] |= 1 << SLOTS + (note & 0xFF)


def _atomic_back(dst: int, src: int, imm: int, note: object, masks: list[int], depth: int) -> int:
    if imm == op.LOAD_ACQUIRE:
        _load_back(dst, note, masks, depth)
        return depth
    row = op.ATOMICS.get(imm)
    if row is not None and row.fetch:
        _load_back(0 if row.name.startswith("cmpxchg") else src, note, masks, depth)
        return depth
    if masks[depth] >> dst & 1:
        return -1
    if imm == op.STORE_RELEASE and type(note) is int:
        frame, bit = note >> 8, 1 << SLOTS + (note & 0xFF)
        if masks[frame] & bit:
            masks[frame] &= ~bit
            masks[depth] |= 1 << src
    return depth


def _jump_back(env: Env, at: int, note: object, masks: list[int], depth: int) -> int:
    slot = env.slots[at]
    operation = slot.code & op.OP
    mask = masks[depth]
    if operation == op.OP_CALL:
        if note == ENTERED:
            masks[depth - 1] |= mask & _ARGS
            masks[depth] = 0
            return depth - 1
        if note == ENTERED_CALLBACK:
            masks[depth] = 0
            return depth - 1
        if note in {LEFT, LEFT_CALLBACK}:
            # A tail call, which ends its function; what the other program returns is anything.
            masks[depth] = mask & ~1 & ~_ARGS
            masks[depth + 1] = 0
            return depth + 1
        # What is needed of r1 to r5 was found before, or is gone.
        masks[depth] = mask & ~(_ARGS | 1)
        return depth
    if operation == op.OP_EXIT:
        if note in {LEFT, LEFT_CALLBACK}:
            result = mask & 1 if note == LEFT else 0
            masks[depth] = mask & ~1 & ~_ARGS
            masks[depth + 1] = result
            return depth + 1
        return depth
    if operation in {op.OP_JA, op.OP_MAY_GOTO}:
        return depth
    _link(masks, note)
    both = 1 << slot.dst | 1 << slot.src
    if slot.code & op.SOURCE and masks[depth] & both:
        masks[depth] |= both & _REGS
        _link(masks, note)
    return depth
