"""Frames of calls: a state in; the same with a new frame on top out.

Source: setup_func_entry in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.kinds import STACK
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.state import Frame, Reg, State

# What a step notes for backtracking: a frame is entered, or left.
ENTERED, LEFT = "enter", "leave"
ENTERED_CALLBACK, LEFT_CALLBACK = "enter callback", "leave callback"


def enter(env: Env, state: State, subprog: int, site: int) -> Frame:
    """Put a new frame on top, with nothing in its registers but the frame pointer."""
    depth = len(state.frames)
    if depth >= env.rules.limits.frames:
        raise Refusal(f"the call stack of {depth + 1} frames is too deep", errno=7)
    frame = Frame(depth, subprog, site)
    pointer = Reg(STACK)
    pointer.frame = depth
    frame.regs[10] = pointer
    state.frames.append(frame)
    state.frame = frame
    state.wrote.pop(depth, None)
    return frame
