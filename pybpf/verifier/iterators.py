"""Iterators that a program steps by itself: stack slots in; whether they are at their end out."""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Unmodelled
from pybpf.verifier.state import State


def is_active(env: Env, state: State) -> bool:
    """Whether the iterator that r1 points to is not at its end."""
    del env, state
    raise Unmodelled("iterators")
