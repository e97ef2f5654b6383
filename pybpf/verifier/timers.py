"""Timers in the values of maps: a register that points to one in; its map out.

Source: process_timer_func in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.locks import field_of
from pybpf.verifier.pointers import known_offset
from pybpf.verifier.program import MapInfo
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.state import State


def check_timer(
    env: Env, state: State, number: int, kind: str = "timer", word: str = "bpf_timer"
) -> tuple[MapInfo, int]:
    """Return the map, and its uid, whose value's timer a register points to; raises Refusal."""
    reg = state.frame.regs[number]
    known = reg.map
    assert known is not None
    off = known_offset(number, reg, word)
    at = field_of(env, known, kind, word)
    if at != off:
        raise Refusal(f"off {off} doesn't point to 'struct {word}' that is at {at}")
    return known, reg.uid
