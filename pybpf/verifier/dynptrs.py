"""Dynptrs: an argument that is one in; it is made in two slots of the stack, or found there.

Both slots have a register of kind DYNPTR: ``extra`` is its ``Dynptr``, ``id`` the dynptr's own,
``ref`` the reference that it holds. What it shows has its id as ``root``. A callback may be handed
a dynptr in a register, which is such a register itself. Source: process_dynptr_func,
mark_stack_slots_dynptr and destroy_if_dynptr_stack_slot in kernel/bpf/verifier.c.
"""

from __future__ import annotations

from typing import NamedTuple

from pybpf.verifier.access import check_access
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import DYNPTR, DYNPTR_SLOT, STACK
from pybpf.verifier.protos import TypeFlag
from pybpf.verifier.reads import mark_read, mark_written
from pybpf.verifier.references import forget_slices, release
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.stackareas import EMPTY
from pybpf.verifier.state import Frame, Reg, Slot, State

LOCAL, RINGBUF, SKB, XDP, SKB_META, FILE = "local", "ringbuf", "skb", "xdp", "skb_meta", "file"
REFERENCED = frozenset({RINGBUF, FILE})
_BYTES = bytes([DYNPTR_SLOT]) * 8
_SIZE = 16


class Dynptr(NamedTuple):
    """What kind of memory a dynptr shows, and whether this is its first slot."""

    kind: str
    first: bool = True


def slot_of(state: State, reg: Reg, size: int = _SIZE) -> int | None:
    """Return the number of the first slot of an object on the stack; None where there is none.

    The object's other slots have smaller numbers.
    """
    if reg.val.const is None:
        return None
    off = reg.off + reg.val.smin
    spi = (-off - 1) >> 3
    del state
    return None if off % 8 or off >= 0 or spi + 1 < size // 8 else spi


def place(env: Env, number: int) -> str:
    """Return what messages about kernel functions call the argument in a register."""
    return f"R{number}" if env.rules.since(7, 1) else f"arg#{number - 1}"


def place_on_stack(env: Env, number: int) -> str:
    """Return what messages about objects on the stack call the argument in a register."""
    if env.rules.since(7, 1):
        return f"R{number}"
    return f"arg #{number - 1 if env.rules.since(6, 12) else number}"


def check_dynptr(
    env: Env, state: State, number: int, flags: TypeFlag, *, kind: str | None = None, ref: int = 0
) -> None:
    """Make a dynptr where an argument points to (UNINIT), or raise Refusal unless one is there.

    ``kind`` is its kind where the flags do not tell; ``ref``: the reference it shares.
    """
    reg = state.frame.regs[number]
    if flags & TypeFlag.LOCAL:
        kind = LOCAL
    elif flags & TypeFlag.RINGBUF:
        kind = RINGBUF
    if reg.kind not in {STACK, DYNPTR}:
        raise Refusal(
            f"{place(env, number)} expected pointer to stack or const struct bpf_dynptr"
            if env.rules.since(6, 12) else
            f"arg#{number} expected pointer to stack or dynptr_ptr"
        )  # fmt: skip
    if flags & TypeFlag.UNINIT:
        assert kind is not None
        _make(env, state, number, kind, ref)
        return
    word = place_on_stack(env, number)
    old = not env.rules.since(6, 3)
    if reg.kind == DYNPTR and not flags & TypeFlag.RDONLY and not old and not env.rules.since(7, 0):
        raise Refusal("cannot pass pointer to const bpf_dynptr, the helper mutates it")
    found = dynptr_at(state, reg)
    if found is None:
        raise Refusal(f"Expected an initialized dynptr as {word}")
    assert isinstance(found.extra, Dynptr)
    if kind is not None and found.extra.kind != kind:
        raise Refusal(f"Expected a dynptr of type {kind} as {word}")
    if reg.kind == STACK:
        spi = slot_of(state, reg)
        assert spi is not None
        mark_read(state, reg.frame, spi)
        mark_read(state, reg.frame, spi - 1)


def dynptr_at(state: State, reg: Reg) -> Reg | None:
    """Return the register of the dynptr that an argument points to, or is; None for none."""
    if reg.kind == DYNPTR:
        return reg
    spi = slot_of(state, reg)
    if spi is None:
        return None
    stack = state.frames[reg.frame].stack
    first, second = stack.get(spi, EMPTY), stack.get(spi - 1, EMPTY)
    if first.bytes != _BYTES or second.bytes != _BYTES or first.reg is None:
        return None
    assert isinstance(first.reg.extra, Dynptr)
    return first.reg if first.reg.extra.first else None


def held_by(state: State, reg: Reg) -> int:
    """Return the reference that the dynptr at an argument holds, or 0."""
    spi = slot_of(state, reg)
    if spi is None:
        return 0
    found = state.frames[reg.frame].stack.get(spi, EMPTY).reg
    return 0 if found is None else found.ref


def _make(env: Env, state: State, number: int, kind: str, ref: int) -> None:
    reg = state.frame.regs[number]
    spi = None if reg.kind == DYNPTR else slot_of(state, reg)
    if spi is None:
        if not env.rules.since(6, 3) and reg.kind == STACK:
            if reg.val.const is None:
                raise Unmodelled("a dynptr at a variable offset")
            for off in (0, 8):
                check_access(env, state, number, off, 8, write=True)
        raise Refusal("Dynptr has to be an uninitialized dynptr")
    frame = state.frames[reg.frame]
    if not env.rules.since(6, 3) and DYNPTR_SLOT in (
        frame.stack.get(spi, EMPTY).bytes + frame.stack.get(spi - 1, EMPTY).bytes
    ):
        raise Refusal("Dynptr has to be an uninitialized dynptr")
    for off in (0, 8):
        check_access(env, state, number, off, 8, write=True)
    for one in (spi, spi - 1):
        if frame.stack.get(one, EMPTY).bytes[7] == DYNPTR_SLOT:
            destroy(env, state, frame, one)
    made = Reg(DYNPTR)
    made.extra = Dynptr(kind)
    if env.rules.since(6, 3) and not env.rules.since(7, 1):
        made.id = env.new_id()
    if kind in REFERENCED:
        made.ref = ref or env.new_id()
        if not ref:
            state.acquire(made.ref, state.at)
    if not made.id:
        # The kernel counts otherwise, and nobody sees this number.
        made.id = made.ref or env.new_id()
    other = made.copy()
    other.extra = Dynptr(kind, first=False)
    frame.stack[spi] = Slot(_BYTES, made)
    frame.stack[spi - 1] = Slot(_BYTES, other)
    for one in (spi, spi - 1):
        mark_written(state, frame.index, one)


def in_register(env: Env, kind: str) -> Reg:
    """Return a dynptr that a callback is handed."""
    made = Reg(DYNPTR)
    made.id = env.new_id()
    made.extra = Dynptr(kind)
    return made


def destroy(env: Env, state: State, frame: Frame, spi: int) -> None:
    """Forget the dynptr of which a slot is a part, as it is written over; raises Refusal."""
    if not env.rules.since(6, 3):
        frame.stack[spi] = EMPTY
        return
    found = frame.stack[spi].reg
    assert found is not None
    assert isinstance(found.extra, Dynptr)
    if not found.extra.first:
        spi += 1
    if found.extra.kind in REFERENCED:
        raise Refusal("cannot overwrite referenced dynptr")
    _clear(frame, spi)
    forget_slices(env, state, found.id)


def _clear(frame: Frame, spi: int) -> None:
    frame.stack[spi] = frame.stack[spi - 1] = EMPTY


def release_dynptr(env: Env, state: State, number: int) -> bool:
    """Give back what the dynptr at an argument holds, with its clones; False where nothing is."""
    reg = state.frame.regs[number]
    spi = slot_of(state, reg)
    frame = state.frames[reg.frame]
    found = None if spi is None else frame.stack.get(spi, EMPTY).reg
    if found is None or spi is None:
        return False
    if not found.ref:
        _clear(frame, spi)
        mark_written(state, frame.index, spi)
        mark_written(state, frame.index, spi - 1)
        return True
    if not release(env, state, found.ref):
        return False
    for at in [*frame.stack]:
        one = frame.stack[at].reg
        if one is not None and one.kind == DYNPTR and one.ref == found.ref and (
            isinstance(one.extra, Dynptr) and one.extra.first
        ):  # fmt: skip
            _clear(frame, at)
            mark_written(state, frame.index, at)
            mark_written(state, frame.index, at - 1)
    return True
