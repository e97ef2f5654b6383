"""Dynptrs and iterators in stack slots that are written over.

``stack`` calls ``overwrite`` before it writes into a slot whose bytes are not plain data or a
spilled register.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.kinds import DYNPTR_SLOT
from pybpf.verifier.state import Frame, State


def overwrite(env: Env, state: State, frame: Frame, spi: int) -> None:
    """Forget a dynptr of which slot ``spi`` is a part, with its slices, or raise Refusal.

    (destroy_if_dynptr_stack_slot; iterators may be written over and stay with their reference.)
    """
    if frame.stack[spi].bytes[7] == DYNPTR_SLOT:
        from pybpf.verifier.dynptrs import destroy

        destroy(env, state, frame, spi)
