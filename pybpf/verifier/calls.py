"""Calls of helpers and kfuncs, what a callback's end does, and what may be left open at an exit.

What the core does itself, before and after: reserved fields of the instruction; static and global
subprograms (flow.py); ``exit`` of a frame that has no ``callback``. What it hands over here:

* ``helper_call``: everything of check_helper_call, in the kernel's order: is the helper known, and
  allowed to the program (``allowed.py``); its arguments (``arguments.py``); what is given back;
  callbacks entered (``callbacks.py``); what is left in r0 (``callresults.py``).
* ``kfunc_call``: the same of check_kfunc_call (``kfuncs.py``).
* ``leave_callback``: the callee frame has been left (popped) at an ``exit``. Returns the slot to go
  on with.
* ``check_leftovers``: locks, rcu and preemption sections; the core checks references
  (``returns.check_references``).
"""

from __future__ import annotations

from pybpf.isa.helpers import HELPERS
from pybpf.verifier import callbacks
from pybpf.verifier.allowed import prepare
from pybpf.verifier.arguments import check_argument
from pybpf.verifier.callmeta import Call
from pybpf.verifier.callresults import check_kinds, set_result
from pybpf.verifier.dynptrs import SKB, SKB_META, Dynptr, dynptr_at, release_dynptr
from pybpf.verifier.env import Env
from pybpf.verifier.formats import check_snprintf
from pybpf.verifier.kinds import MAP_VALUE
from pybpf.verifier.kptrs import give_away
from pybpf.verifier.locks import check_may_call
from pybpf.verifier.packet import forget
from pybpf.verifier.protos import Arg, CallFlag
from pybpf.verifier.references import release
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.sections import check_leftovers, check_may_sleep
from pybpf.verifier.stack import scrub
from pybpf.verifier.state import UNINIT, Frame, State
from pybpf.verifier.tailcalls import check_tail_call, tail_call
from pybpf.verifier.values import may_write

__all__ = (
    "check_leftovers", "helper_call", "iterator_is_active", "kfunc_call", "leave_callback",
)  # fmt: skip

_TAIL_CALL = HELPERS["bpf_tail_call"]
_LOCAL_STORAGE = HELPERS["bpf_get_local_storage"]
_FROM_MEM = HELPERS["bpf_dynptr_from_mem"]
_DYNPTR_DATA = HELPERS["bpf_dynptr_data"]
_DYNPTR_WRITE = HELPERS["bpf_dynptr_write"]
_SNPRINTF = HELPERS["bpf_snprintf"]
_WRITERS = frozenset(
    HELPERS[f"bpf_map_{name}_elem"] for name in ("delete", "update", "push", "pop")
)
_CALLERS = callbacks.SYNCHRONOUS | callbacks.LATER


def helper_call(env: Env, state: State, number: int) -> int:
    """Do what a call of helper ``number`` at ``state.at`` does; return the slot to go on with."""
    check_may_call(env, state, number)
    call = Call(prepare(env, number))
    check_may_sleep(state, call.word, sleeps=CallFlag.SLEEP in call.proto.flags)
    for index in range(len(call.proto.args)):
        check_argument(env, state, call, index)
    _check_map(call)
    if number == _TAIL_CALL:
        check_tail_call(env, state, call)
    regs = state.frame.regs
    if call.fill is not None:
        register, low, size = call.fill
        scrub(env, state, regs[register], low, size)
    if call.release:
        _give_back(env, state, call)
    changes = _do_special(env, state, call)
    target = callbacks.call_back(env, state, call) if number in _CALLERS else None
    caller = state.frame if target is None else state.frames[-2]
    caller.regs[1:6] = [UNINIT] * 5
    set_result(env, state, caller, call)
    check_kinds(env, call)
    if number == _TAIL_CALL:
        return tail_call(env, state)
    if changes:
        forget(env, state)
    return state.at + 1 if target is None else target


def _check_map(call: Call) -> None:
    known, number = call.map, call.proto.number
    if known is not None and not may_write(known) and number in _WRITERS:
        raise Refusal("write into map forbidden", errno=EACCES)


def _give_back(env: Env, state: State, call: Call) -> None:
    number = call.release
    if call.proto.args[number - 1].kind is Arg.PTR_TO_DYNPTR:
        done = release_dynptr(env, state, number)
    elif call.ref and call.pointer is not None:
        done = give_away(env, state, call.ref)
    elif call.ref:
        done = release(env, state, call.ref)
    else:
        done = state.frame.regs[number].is_null
    if not done:
        raise Refusal(f"func {call.word} reference has not been acquired before")


def _do_special(env: Env, state: State, call: Call) -> bool:
    """Check what is particular to a helper; return whether packets may have moved."""
    regs = state.frame.regs
    number = call.proto.number
    changes = CallFlag.PACKET in call.proto.flags
    if number == _LOCAL_STORAGE:
        if not regs[2].is_null:
            raise Refusal("get_local_storage() doesn't support non-zero flags")
    elif number == _FROM_MEM:
        if regs[1].kind != MAP_VALUE:
            word = env.words(regs[1].kind)
            raise Refusal(f"Unsupported reg type {word} for bpf_dynptr_from_mem data", errno=EACCES)
    elif number == _SNPRINTF:
        check_snprintf(env, regs[3], regs[5].val.value)
    elif number in {_DYNPTR_DATA, _DYNPTR_WRITE}:
        at = next(n for n, arg in enumerate(call.proto.args, 1) if arg.kind is Arg.PTR_TO_DYNPTR)
        found = dynptr_at(state, regs[at])
        assert found is not None
        assert isinstance(found.extra, Dynptr)
        if number == _DYNPTR_WRITE:
            return changes or found.extra.kind in {SKB, SKB_META}
        call.root, call.ref = found.id, found.ref
    return changes


def kfunc_call(env: Env, state: State, btf_id: int, module: int) -> int:
    """Do what a call of the kfunc with that type id (of that BTF object) does."""
    from pybpf.verifier import kfuncs

    return kfuncs.kfunc_call(env, state, btf_id, module)


def leave_callback(env: Env, state: State, callee: Frame) -> int:
    """Go on after the exit of a callback's frame, which ``state`` no longer has on top."""
    return callbacks.leave(env, state, callee)


def iterator_is_active(env: Env, state: State) -> bool:
    """Whether the iterator that r1 points to, at a call that advances it, is not at its end."""
    from pybpf.verifier import iterators

    return iterators.is_active(env, state)
