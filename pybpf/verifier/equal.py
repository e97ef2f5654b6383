"""Whether one state stands for another: two states in; True where the old one's safety suffices.

Source: states_equal, regsafe, stacksafe and refsafe in kernel/bpf/verifier.c. The comparison is
inexact (scalars that nothing depended on are alike), within (all scalars count), or exact.
"""

from __future__ import annotations

from pybpf.verifier.backtrack import SLOTS
from pybpf.verifier.env import Env
from pybpf.verifier.kinds import (
    ARENA,
    BASE,
    BUF,
    DYNPTR_SLOT,
    INVALID,
    IRQ_SLOT,
    ITER_SLOT,
    MAP_KEY,
    MAP_VALUE,
    MEM,
    MISC,
    NOT_INIT,
    PACKETS,
    SCALAR,
    SPILL,
    TP_BUFFER,
    ZERO,
)  # fmt: skip
from pybpf.verifier.state import UNKNOWN_REG, Frame, Reg, Slot, State

INEXACT, EXACT, WITHIN = range(3)
_RANGED = frozenset({MAP_KEY, MAP_VALUE, MEM, BUF, TP_BUFFER})
_SPECIAL = frozenset({DYNPTR_SLOT, ITER_SLOT, IRQ_SLOT})
_ALL = 0x3FF
_EMPTY = Slot(bytes(8))


class _Ids:
    """Ids of the old state and those that stand for them in the new one."""

    __slots__ = ("back", "fresh", "there")

    def __init__(self, fresh: int) -> None:
        self.there: dict[int, int] = {0: 0}
        self.back: dict[int, int] = {0: 0}
        self.fresh = fresh

    def same(self, old: int, new: int) -> bool:
        there = self.there.get(old)
        if there is not None:
            return there == new
        if new in self.back:
            return False
        self.there[old] = new
        self.back[new] = old
        return True

    def same_scalar(self, old: int, new: int) -> bool:
        """Compare ids of scalars; one without is like one with an id of its own."""
        if not old:
            return True
        if not new:
            self.fresh += 1
            new = self.fresh
        return self.same(old, new)


def states_equal(env: Env, old: State, new: State, level: int) -> bool:
    """Whether ``new`` is safe if ``old`` is."""
    if len(old.frames) != len(new.frames) or (old.speculative and not new.speculative):
        return False
    ids = _Ids(env.last_id)
    if not _refs_equal(old, new, ids):
        return False
    live = env.program.live
    last = len(old.frames) - 1
    for index, (frame, other) in enumerate(zip(old.frames, new.frames, strict=True)):
        if frame.site != other.site or frame.subprog != other.subprog:
            return False
        if frame.callback_depth > other.callback_depth:
            return False
        mask = live[old.at if index == last else old.frames[index + 1].site]
        if level == EXACT and not env.rules.since(6, 16):
            mask = _ALL
        precise = -1 if level == WITHIN else old.precise.get(index, 0)
        if not _regs_equal(env, frame.regs, other.regs, mask, precise, ids, level):
            return False
        read = old.read.get(index, 0) if level == INEXACT else -1
        if not _stack_equal(env, frame, other, read, precise, ids, level):
            return False
    return True


def _refs_equal(old: State, new: State, ids: _Ids) -> bool:
    if (
        len(old.refs) != len(new.refs)
        or old.lock is not new.lock
        or old.rcu != new.rcu
        or old.preempt != new.preempt
        or not ids.same(old.irq, new.irq)
    ):
        return False
    return all(
        a.kind == b.kind
        and a.owner is b.owner
        and ids.same(a.id, b.id)
        and ids.same(a.parent, b.parent)
        for a, b in zip(old.refs, new.refs, strict=True)
    )


def _regs_equal(
    env: Env, old: list[Reg], new: list[Reg], mask: int, precise: int, ids: _Ids, level: int
) -> bool:
    for number in range(10):
        if mask >> number & 1:
            was = old[number]
            if was.kind == NOT_INIT and level != EXACT:
                continue
            if not reg_safe(env, was, new[number], precise >> number & 1, ids, level):
                return False
    return True


def reg_safe(env: Env, old: Reg, new: Reg, precise: int, ids: _Ids, level: int) -> bool:
    """Whether ``new`` may stand where ``old`` was safe."""
    if level == EXACT:
        return _exact(old, new, ids)
    kind = old.kind
    if kind == NOT_INIT:
        return True
    if kind != new.kind:
        return False
    if kind == SCALAR:
        if not env.privileged:
            return old.val == new.val and ids.same_scalar(old.id, new.id)
        if not precise:
            return True
        if old.id and (old.delta != new.delta or old.extra != new.extra):
            return False
        return env.rules.math.within(old.val, new.val) and ids.same_scalar(old.id, new.id)
    base = kind & BASE
    if base in _RANGED:
        return (
            old.off == new.off
            and old.map is new.map
            and old.uid == new.uid
            and old.size == new.size
            and env.rules.math.within(old.val, new.val)
            and ids.same(old.id, new.id)
            and ids.same(old.ref, new.ref)
            and ids.same(old.root, new.root)
        )
    if base in PACKETS:
        if (old.range != new.range) if old.range < 0 or new.range < 0 else old.range > new.range:
            return False
        return (
            old.off == new.off
            and ids.same(old.id, new.id)
            and env.rules.math.within(old.val, new.val)
        )
    if base == ARENA:
        return True
    return _exact(old, new, ids)


def _exact(old: Reg, new: Reg, ids: _Ids) -> bool:
    return (
        old.same(new)
        and old.uid == new.uid
        and ids.same(old.id, new.id)
        and ids.same(old.ref, new.ref)
        and ids.same(old.root, new.root)
    )


def _stack_equal(
    env: Env, old: Frame, new: Frame, read: int, precise: int, ids: _Ids, level: int
) -> bool:
    uninit_ok = env.rules.allow_uninit_stack
    if level == EXACT:
        spis = old.stack.keys() | new.stack.keys()
        if any(
            old.stack.get(spi, _EMPTY).bytes != new.stack.get(spi, _EMPTY).bytes for spi in spis
        ):
            return False
    for spi, slot in old.stack.items():
        if read >> spi & 1:
            other = new.stack.get(spi, _EMPTY)
            if slot is not other and not _slot_safe(
                env, slot, other, precise >> SLOTS + spi & 1, ids, level, uninit_ok=uninit_ok
            ):
                return False
            if slot is other and slot.reg is not None and not reg_safe(
                env, slot.reg, slot.reg, precise >> SLOTS + spi & 1, ids, level
            ):  # fmt: skip
                return False
    return True


def _as_scalar(slot: Slot, *, uninit_ok: bool) -> Reg | None:
    """Return the scalar that a load of the whole slot gives, if it does not matter which bytes."""
    if slot.bytes[0] == SPILL and slot.reg is not None and slot.reg.kind == SCALAR:
        return slot.reg
    if all(kind == MISC or (kind == INVALID and uninit_ok) for kind in slot.bytes):
        return UNKNOWN_REG
    return None


def _slot_safe(
    env: Env, old: Slot, new: Slot, precise: int, ids: _Ids, level: int, *, uninit_ok: bool
) -> bool:
    if env.rules.since(6, 9):
        was, now = _as_scalar(old, uninit_ok=uninit_ok), _as_scalar(new, uninit_ok=uninit_ok)
        if was is not None and now is not None:
            if was is UNKNOWN_REG and level != EXACT:
                return True
            return reg_safe(env, was, now, precise, ids, level)
    for was_kind, now_kind in zip(old.bytes, new.bytes, strict=True):
        if was_kind in {INVALID, now_kind} or (uninit_ok and was_kind == MISC and level != EXACT):
            continue
        if was_kind == MISC and now_kind == ZERO:
            continue
        return False
    last = old.bytes[7]
    if last == SPILL:
        if new.bytes[7] != SPILL or old.reg is None or new.reg is None:
            return False
        return reg_safe(env, old.reg, new.reg, precise, ids, level)
    if last in _SPECIAL:
        a, b = old.reg, new.reg
        return (
            a is not None
            and b is not None
            and new.bytes[7] == last
            and a.extra == b.extra
            and a.btf == b.btf
            and ids.same(a.id, b.id)
            and ids.same(a.ref, b.ref)
            and ids.same(a.root, b.root)
        )
    return True


def maybe_looping(old: State, new: State) -> bool:
    """Whether the registers of the top frames are alike (states_maybe_looping)."""
    if len(old.frames) != len(new.frames):
        return False
    now = new.frame.regs
    for number, reg in enumerate(old.frame.regs):
        other = now[number]
        if reg is not other and (reg.kind != other.kind or not reg.same(other)):
            return False
    return True
