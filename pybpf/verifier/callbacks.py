"""Functions that helpers call: a helper's call in; a state in which its callback begins, out.

Since Linux 6.8, callbacks are entered as often as it takes: the call is put off with the callback's
frame on top, and where this is left, comes to the call again. Before, each call entered its
callback once. Source: push_callback_call, set_*_callback_state and prepare_func_exit in
kernel/bpf/verifier.c.
"""

from __future__ import annotations

from collections.abc import Callable

from pybpf.isa.helpers import HELPERS
from pybpf.verifier.callmeta import Call
from pybpf.verifier.dynptrs import LOCAL, in_register
from pybpf.verifier.env import Env
from pybpf.verifier.frames import ENTERED_CALLBACK, enter
from pybpf.verifier.kinds import BTF_ID, MAP_KEY, MAP_PTR, MAP_VALUE, SCALAR, STACK
from pybpf.verifier.mapcompat import ITERABLE
from pybpf.verifier.program import MapInfo
from pybpf.verifier.prune import widen_imprecise
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.returns import check_range
from pybpf.verifier.state import UNKNOWN_REG, Frame, Reg, State

_ENOTSUPP = 524
_FOR_EACH = HELPERS["bpf_for_each_map_elem"]
_FIND_VMA = HELPERS["bpf_find_vma"]
_LOOP = HELPERS["bpf_loop"]
_DRAIN = HELPERS["bpf_user_ringbuf_drain"]
_SET_TIMER = HELPERS["bpf_timer_set_callback"]

SYNCHRONOUS = frozenset({_FOR_EACH, _FIND_VMA, _LOOP, _DRAIN})
LATER = frozenset({_SET_TIMER})

Arguments = Callable[[Env, Frame], list[Reg]]


def any_number(env: Env) -> bool:
    """Whether callbacks are entered as often as it takes."""
    return env.rules.since(6, 7)


def call_back(env: Env, state: State, call: Call) -> int | None:
    """Do what a helper does with its callback; return the slot where its function begins.

    None: the call itself goes on.
    """
    number = call.proto.number
    if number == _SET_TIMER:
        known = state.frame.regs[1].map
        assert known is not None
        begin_async(env, state, call.subprog, element(known), (0, 0))
        return None
    if number == _LOOP and any_number(env):
        regs = state.frame.regs
        if regs[4].is_null:
            env.precise(state, 4)
        env.precise(state, 1)
        if state.frame.callback_depth >= regs[1].val.umax:
            state.frame.callback_depth = 0
            return None
    return begin(env, state, call.subprog, _ARGUMENTS[number](env, state.frame))


def begin(env: Env, state: State, subprog: int, args: list[Reg]) -> int | None:
    """Enter a function that is called back as often as it takes; return the slot where it begins.

    None: it is put off, and the call itself goes on.
    """
    start = env.program.subprograms[subprog].start
    state.note = ENTERED_CALLBACK
    if not any_number(env):
        _enter(env, state, subprog, args, state.at)
        return start
    other = env.push(state, start)
    state.note = None
    _enter(env, other, subprog, args, state.at)
    other.unroll += 1
    other.frames[-2].callback_depth += 1
    state.frame.callback_depth = 0
    return None


def _enter(env: Env, state: State, subprog: int, args: list[Reg], site: int) -> None:
    frame = enter(env, state, subprog, site)
    frame.regs[1 : 1 + len(args)] = args
    frame.callback = True
    frame.result = (0, 1)


def element(known: MapInfo) -> list[Reg]:
    """Return a map, the key of an entry, and its value, as callbacks get them."""
    made = [Reg(MAP_PTR), Reg(MAP_KEY), Reg(MAP_VALUE)]
    for reg in made:
        reg.map = known
    return made


def begin_async(
    env: Env, state: State, subprog: int, args: list[Reg], result: tuple[int, int]
) -> None:
    """Put off a function that a timer or a work queue will call, in a state of its own."""
    frame = Frame(0, subprog, -1)
    pointer = Reg(STACK)
    frame.regs[10] = pointer
    frame.regs[1 : 1 + len(args)] = args
    frame.is_async = True
    frame.result = result
    frame.entry = state.frame.entry + 1
    later = State(frame)
    later.at = env.program.subprograms[subprog].start
    later.came_from = state.at
    env.program.subprograms[subprog].is_async = True
    env.pending.append(later)
    env.check_pending()


def _for_each(env: Env, frame: Frame) -> list[Reg]:
    del env
    known = frame.regs[1].map
    assert known is not None
    if known.type not in ITERABLE:
        raise Refusal("callback function not allowed for map", errno=_ENOTSUPP)
    _, key, value = element(known)
    return [frame.regs[1], key, value, frame.regs[3]]


def _loop(env: Env, frame: Frame) -> list[Reg]:
    del env
    return [UNKNOWN_REG, frame.regs[3]]


def _find_vma(env: Env, frame: Frame) -> list[Reg]:
    del env
    area = Reg(BTF_ID)
    area.extra = "vm_area_struct"
    return [frame.regs[1], area, frame.regs[4]]


def _drain(env: Env, frame: Frame) -> list[Reg]:
    return [in_register(env, LOCAL), frame.regs[3]]


_ARGUMENTS: dict[int, Arguments] = {
    _FOR_EACH: _for_each, _LOOP: _loop, _FIND_VMA: _find_vma, _DRAIN: _drain,
}  # fmt: skip


def leave(env: Env, state: State, callee: Frame) -> int:
    """Go on after a callback's frame, which is no longer on top; return the slot."""
    result = callee.regs[0]
    if result.kind != SCALAR:
        raise Refusal("R0 not a scalar value", errno=EACCES)
    # What the result was computed from is found from the callback's last instruction on.
    state.frames.append(callee)
    state.frame = callee
    check_range(env, state, result, callee.result or (0, 1), "callback return")
    state.frames.pop()
    state.frame = state.frames[-1]
    if not any_number(env):
        return callee.site + 1
    before = last_checkpoint(env, state, callee.site)
    if before is not None:
        widen_imprecise(env, before, state)
    return callee.site


def last_checkpoint(env: Env, state: State, at: int) -> State | None:
    """Return the last checkpoint of this path at a slot (find_prev_entry)."""
    sites = [frame.site for frame in state.frames]
    for old in env.explored.get(at, ()):
        if old.branches and old.dfs < state.dfs and [f.site for f in old.frames] == sites:
            return old
    return None
