"""Pointer arithmetic without privileges: what masks a processor that runs ahead needs.

The kernel rewrites ``pointer += register`` so that even where a check is passed too early the
pointer stays within what it points to. For that the distance must be the same on every path to the
instruction, and the path on which the mask made it 0 is followed, too. Source: sanitize_ptr_alu,
retrieve_ptr_limit and sanitize_err in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from pybpf.dataclass import dataclass
from pybpf.isa.table import Effect
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import MAP_VALUE, STACK
from pybpf.verifier.refusal import Refusal
from pybpf.verifier.registers import EACCES
from pybpf.verifier.state import Reg, State

_STACK_SIZE = 512
_WHY = "pointer arithmetic with it prohibited for !root"
_NO_POINTER = ("no pointer", False, 0)


@dataclass(frozen=True, slots=True)
class Move:
    """A pointer about to be moved by a register: ``dst`` and ``src`` of the instruction.

    ``reverse``: ``dst`` holds the distance.
    """

    dst: int
    src: int
    effect: Effect
    reverse: bool


@dataclass(frozen=True, slots=True)
class Window:
    """How a distance will be masked: towards lower addresses or not, from which limit."""

    to_left: bool
    limit: int
    negative: bool
    constant: bool


def open_window(env: Env, state: State, move: Move, ptr: Reg, scalar: Reg) -> Window | None:
    """Say how the distance is masked, and put off the path on which it became 0.

    None on such a path: it is masked as the others are. Raises Refusal where that cannot be done.
    """
    val = scalar.val
    constant = val.const is not None
    if state.speculative:
        if not constant:
            _follow_masked(env, state, move, ptr)
        return None
    if not constant and (val.smin < 0) != (val.smax < 0):
        raise _refusal(f"R{move.src} has unknown scalar with mixed signed bounds")
    negative = val.smin < 0
    to_left = negative if move.effect is Effect.ADD else not negative
    limit = _limit(move, ptr, to_left=to_left)
    if not constant:
        _follow_masked(env, state, move, ptr)
    return Window(to_left, limit, negative, constant)


def close_window(env: Env, state: State, move: Move, window: Window, moved: Reg) -> None:
    """Note the mask of an instruction; raises Refusal where another path needs another."""
    limit = abs(window.limit - _limit(move, moved, to_left=window.to_left))
    shape = f"{window.negative} {window.constant} {move.reverse}"
    _note(env, state, move, (shape, window.to_left, limit))


def note_scalars(env: Env, state: State, dst: int, effect: Effect) -> None:
    """Note that an instruction adds or subtracts two numbers, which needs no mask."""
    _note(env, state, Move(dst, dst, effect, reverse=False), _NO_POINTER)


def _note(env: Env, state: State, move: Move, mask: tuple[str, bool, int]) -> None:
    if env.masks.setdefault(state.at, mask) != mask:
        raise _refusal(f"R{move.dst} tried to {_verb(move)} from different maps, paths or scalars")


def _follow_masked(env: Env, state: State, move: Move, ptr: Reg) -> None:
    other = env.push(state, state.at + 1, speculative=True)
    other.frame.regs[move.dst] = ptr


def _limit(move: Move, ptr: Reg, *, to_left: bool) -> int:
    if ptr.kind == STACK:
        most = _STACK_SIZE + to_left
        limit = -(ptr.val.smin + ptr.off)
    elif ptr.kind == MAP_VALUE and ptr.map is not None:
        most = ptr.map.value_size
        limit = (ptr.val.smin if to_left else ptr.val.umax) + ptr.off
    else:
        raise _refusal(f"R{move.dst} has pointer with unsupported alu operation")
    if limit & 0xFFFFFFFF >= most:
        raise _refusal(f"R{move.dst} tried to {_verb(move)} beyond pointer bounds")
    return limit


def _verb(move: Move) -> str:
    return "add" if move.effect is Effect.ADD else "sub"


def _refusal(what: str) -> Refusal:
    return Refusal(f"{what}, {_WHY}", errno=EACCES)
