"""Which stack slots were read since a checkpoint: those alone must be alike in another state.

Source: mark_reg_read and the REG_LIVE_* marks in kernel/bpf/verifier.c (before Linux 6.18).
"""

from __future__ import annotations

from pybpf.verifier.state import State


def mark_read(state: State, frame: int, spi: int) -> None:
    """Note that a slot is read, in all checkpoints up to where it was written."""
    bit = 1 << spi
    walk = state
    while True:
        if walk.wrote.get(frame, 0) & bit:
            return
        parent = walk.parent
        if parent is None or len(parent.frames) <= frame:
            return
        before = parent.read.get(frame, 0)
        if before & bit:
            return
        parent.read[frame] = before | bit
        walk = parent


def mark_written(state: State, frame: int, spi: int) -> None:
    """Note that all eight bytes of a slot are written."""
    state.wrote[frame] = state.wrote.get(frame, 0) | 1 << spi
