"""Calls of helpers and kfuncs, and what a callback's end does: the interface for now.

What the core does itself, before and after: reserved fields of the instruction; static and global
subprograms (subprograms.py); ``exit`` of a frame that has no ``callback``. What it hands over here:

* ``helper_call``: everything of check_helper_call: is the helper known and allowed for the program
  type (messages "invalid func unknown#…", "program of this type cannot use helper …"), arguments,
  packet pointers made invalid (``packet.forget(env, state)``), r1-r5 cleared, r0 set, references,
  tail-call rules, callbacks entered.
* ``kfunc_call``: the same of check_kfunc_call.
* ``leave_callback``: the callee frame has been left (popped) at an ``exit``; ``callee.callback`` is
  what you stored there when you entered it. Return the slot to go on with.
* ``leftovers``: locks, rcu and preemption sections, checked at an ``exit`` and by others; the core
  checks references (``returns.check_references``).

What you may use of the core (see their docstrings):

* ``state.acquire/holds/drop``, ``env.new_id()``, ``env.push(state, slot)`` (a path for later),
  ``env.precise(state, regno)`` (mark_chain_precision of a register of the current frame),
* ``access.check_access(env, state, regno, off, size, write=…, value=None|regno)``: check_mem_access
  of one register, as loads and stores do;
* ``regions.check_region(env, state, regno, size, zero_ok, write)``: check_helper_mem_access of
  ``size`` bytes behind ``r<regno>``, whatever it points to (``write``: the helper fills it;
  ``uninit``: a stack area may be uninitialised and becomes MISC), and
  ``regions.check_size_pair(env, state, regno_of_size, zero_ok, write, uninit)``: its size in
  another register, with the kernel's bounds messages (check_mem_size_reg),
* ``stack.read_range/write_range``, ``packet.forget``, ``pointers.check_ptr_off(env, reg, regno)``
  (__check_ptr_off_reg), ``branches.mark_nulls(state, ident, is_null)``.
"""

from __future__ import annotations

from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Unmodelled
from pybpf.verifier.state import Frame, State


def helper_call(env: Env, state: State, number: int) -> int:
    """Do what a call of helper ``number`` at ``state.at`` does; return the slot to go on with."""
    del env, state
    raise Unmodelled(f"helper {number}")


def kfunc_call(env: Env, state: State, btf_id: int, module: int) -> int:
    """Do what a call of the kfunc with that type id (of that BTF object) does."""
    del env, state, module
    raise Unmodelled(f"kfunc {btf_id}")


def leave_callback(env: Env, state: State, callee: Frame) -> int:
    """Go on after the exit of a callback's frame, which ``state`` no longer has on top."""
    del env, state, callee
    raise Unmodelled("callback")


def check_leftovers(env: Env, state: State, what: str) -> None:
    """Raise Refusal where a lock or such a section is still open at ``what`` ("BPF_EXIT insn")."""
    del env, state, what


def iterator_is_active(env: Env, state: State) -> bool:
    """Whether the iterator that r1 points to, at a call that advances it, is not at its end."""
    del env, state
    raise Unmodelled("iterators")
