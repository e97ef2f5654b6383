"""Calls of the kernel's own functions: a type id in; what the call does, or Unmodelled, out."""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Unmodelled
from pybpf.verifier.state import State


def kfunc_call(env: Env, state: State, btf_id: int, module: int) -> int:
    """Do what a call of the kfunc with that type id (of that BTF object) does."""
    del env, state, module
    raise Unmodelled(f"kfunc {btf_id}")
