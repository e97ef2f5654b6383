"""Idioms with memory: the stack, the context, values of maps, and the packet."""

from __future__ import annotations

from dataclasses import replace

from pybpf.testing.programs import numbers
from pybpf.testing.programs.state import Ctx, Frame, Mem, Num, Packet, PacketEnd
from pybpf.testing.programs.writer import Writer

_SIZES = (1, 2, 4, 8, 8)
_ATOMICS = ("add", "or", "and", "xor", "fetch_add", "fetch_or", "fetch_and", "fetch_xor")


def spill(w: Writer) -> None:
    """Store a register, or a number, on the stack."""
    slot = w.free_slots(8)
    roll = w.rng.random()
    if roll < 0.5:
        held = [n for n in w.state.regs if n != 10]
        if held:
            source = w.pick(held)
            w.store(10, source, slot, 8)
            w.state.stack[slot] = w.get(source)
    elif roll < 0.75:
        size = w.pick((1, 2, 4))
        off = slot + size * w.below(8 // size)
        if w.wrong():
            off += 1
        w.store(10, w.number(), off, size)
        _scribble(w, slot)
    else:
        size = w.pick(_SIZES)
        w.store_imm(10, slot, size, w.imm())
        if size == 8:
            w.state.stack[slot] = None
        else:
            _scribble(w, slot)


def _scribble(w: Writer, slot: int) -> None:
    """Note that a part of a slot was written: a copy of a register it is no more.

    What is left of a pointer is no number that is the same in every run.
    """
    kind = w.state.stack.get(slot)
    if w.exact and kind is not None and not isinstance(kind, Num):
        del w.state.stack[slot]
    elif slot in w.state.stack:
        w.state.stack[slot] = None


def fill(w: Writer) -> None:
    """Load from the stack what was stored there, or a part of it."""
    slots = sorted(w.state.stack)
    if w.wrong():
        w.load(w.target(), 10, -w.below(530), w.pick(_SIZES))
        return
    if not slots:
        return
    slot = w.pick(slots)
    kind = w.state.stack[slot]
    into = w.target()
    if kind is not None and not isinstance(kind, Num):
        w.load(into, 10, slot, 8, kind)
        return
    if w.chance(0.6):
        w.load(into, 10, slot, 8, kind if isinstance(kind, Num) else Num())
    else:
        size = w.pick((1, 2, 4))
        w.load(into, 10, slot + size * w.below(8 // size), size)


def stack_by_number(w: Writer) -> None:
    """Use the stack at an offset that is a number within bounds."""
    low = w.free_slots(32)
    w.fill_stack(low, 32)
    index = numbers.number(w, w.pick((7, 15, 24, 31)))
    address = w.target(but=(index,))
    w.code.emit("mov64_reg", address, 10)
    w.code.emit("add64_reg", address, index)
    size = 1 if not w.wrong() else 8
    if w.chance(0.5):
        w.load(address, address, low, size, Num())
    else:
        w.store_imm(address, low, size, w.imm())
        w.set(address, None)
        for slot in range(low, low + 32, 8):
            w.state.stack[slot] = None


def read_context(w: Writer) -> None:
    """Load a field of the context, or what is none."""
    ctx = w.context()
    if ctx is None:
        return
    if w.wrong():
        w.load(w.target(), ctx, w.below(w.flavour.ctx_size + 12) - 4, w.pick(_SIZES))
        return
    if not w.flavour.fields:
        return
    off, size, _ = w.pick(w.flavour.fields)
    if w.chance(0.1) and size == 4:
        size = w.pick((1, 2))
    w.load(w.target(), ctx, off, size)


def write_context(w: Writer) -> None:
    """Store to a field of the context that may be written, or to another."""
    ctx = w.context()
    fields = [f for f in w.flavour.fields if f[2]]
    if ctx is None or (not fields and not w.wrong()):
        return
    off, size, _ = w.pick(fields) if fields and not w.wrong() else w.pick(w.flavour.fields)
    if w.chance(0.7):
        w.store(ctx, w.number(but=(ctx,)), off, size)
    else:
        w.store_imm(ctx, off, size, w.imm())


def value(w: Writer) -> None:
    """Use a map's value, a reservation or a part of it."""
    found = [n for n in w.holding(Mem) if not _null(w, n)]
    if w.wrong():
        found = w.holding(Mem)
    if not found:
        return
    base = w.pick(found)
    kind = w.get(base)
    assert isinstance(kind, Mem)
    size = w.pick(_SIZES)
    if kind.size - kind.off < size:
        return
    if w.chance(0.35):
        access(w, _moved(w, base, kind, size), 0, size, writable=kind.writable, aligned=False)
        return
    off = size * w.below((kind.size - kind.off) // size)
    if w.wrong():
        off = w.pick((kind.size - kind.off, kind.size - size + 1, -kind.off - 1, -size))
    aligned = (kind.off + off) % size == 0
    access(w, base, off, size, writable=kind.writable, aligned=aligned)


def _null(w: Writer, number: int) -> bool:
    kind = w.get(number)
    return isinstance(kind, Mem) and kind.null


def _moved(w: Writer, base: int, kind: Mem, size: int) -> int:
    """Copy a pointer and add a number within bounds; return where it is."""
    most = kind.size - kind.off - size
    index = numbers.number(w, most, but=(base,))
    step = w.pick((1, 1, 2, 4, 8))
    into = w.target(but=(base, index))
    if step > 1 and most // step > 0 and index not in w.state.pinned:
        w.code.emit("and64_imm", index, imm=(1 << (most // step + 1).bit_length() - 1) - 1)
        if w.chance(0.5):
            w.code.emit("lsh64_imm", index, imm=step.bit_length() - 1)
        else:
            w.code.emit("mul64_imm", index, imm=step)
        w.set(index, Num())
    w.code.emit("mov64_reg", into, base)
    w.code.emit("add64_reg", into, index)
    w.set(into, None)
    return into


def access(
    w: Writer, base: int, off: int, size: int, *, writable: bool = True, aligned: bool = True
) -> None:
    """Load, store or change atomically (where that is aligned) at ``base + off``."""
    roll = w.rng.random()
    if roll < 0.45 or not writable:
        w.load(_into(w, base), base, off, size)
    elif roll < 0.7:
        w.store(base, w.number(but=(base,)), off, size)
    elif roll < 0.85 or size < 4 or not (aligned or w.wrong()):
        w.store_imm(base, off, size, w.imm())
    else:
        atomic(w, base, off, size)


def _into(w: Writer, base: int) -> int:
    """Return where to load to: over an address that is used but once, else elsewhere."""
    once = w.get(base) is None and base not in w.state.pinned
    return base if once else w.target(but=(base,))


def atomic(w: Writer, base: int, off: int, size: int) -> None:
    """Change memory atomically; some operations return what was there."""
    src = w.number(but=(base,))
    width = 8 * size
    roll = w.rng.random()
    if roll < 0.12 and isinstance(w.get(0), Num):
        w.code.emit(f"cmpxchg{width}", base, src, off)
        w.set(0, Num())
    elif roll < 0.25 and src not in w.state.pinned:
        w.code.emit(f"xchg{width}", base, src, off)
        w.set(src, Num())
    elif roll < 0.29 and not w.exact:
        w.code.emit(w.pick((f"load_acquire{width}", f"store_release{width}")), base, src, off)
    else:
        name = w.pick(_ATOMICS)
        if src in w.state.pinned and name.startswith("fetch"):
            name = "add"
        w.code.emit(f"atomic_{name}{width}", base, src, off)
        if name.startswith("fetch"):
            w.set(src, Num())


def atomic_stack(w: Writer) -> None:
    """Change the stack atomically."""
    slots = [n for n, kind in w.state.stack.items() if kind is None or isinstance(kind, Num)]
    if slots:
        slot = w.pick(slots)
        size = w.pick((4, 8))
        atomic(w, 10, slot, size)
        w.state.stack[slot] = None


def packet(w: Writer) -> None:
    """Load the packet's bounds, compare, and use it on the side where it is long enough."""
    fields = w.flavour.packet
    ctx = w.context()
    if fields is None or ctx is None:
        return
    data, end, size = fields
    start = w.target(but=(ctx,), saved=True)
    limit = w.target(but=(ctx, start))
    moved = w.target(but=(ctx, start, limit))
    if len({ctx, start, limit, moved}) < 4 and not w.wrong():
        return
    w.load(start, ctx, data, size, Packet())
    w.load(limit, ctx, end, size, PacketEnd())
    room = w.pick((1, 2, 4, 8, 14, 20, 34, 60))
    w.copy(moved, start)
    w.code.emit("add64_imm", moved, imm=room)
    w.set(moved, Packet(room))
    claimed = room + (w.pick((1, 8)) if w.wrong() else 0)
    _compare(w, moved, limit, claimed, start)


def _compare(w: Writer, moved: int, limit: int, room: int, start: int) -> None:
    outside = w.code.label()
    form = w.below(4)
    if w.wrong():
        w.branch(w.pick(("jlt64", "jge64", "jeq64")), moved, limit, 0, outside)
    elif form == 0:
        w.branch("jgt64", moved, limit, 0, outside)
    elif form == 1:
        w.branch("jlt64", limit, moved, 0, outside)
    else:
        inside = w.code.label()
        if form == 2:
            w.branch("jle64", moved, limit, 0, inside)
        else:
            w.branch("jge64", limit, moved, 0, inside)
        w.code.emit("ja", to=outside)
        w.code.place(inside)
    before = w.state.copy()
    before.regs.pop(start, None)
    pinned = w.state.pinned
    w.state.pinned = pinned | {start}
    for _ in range(1 + w.below(3)):
        in_packet(w, start, room)
        if w.chance(0.3):
            w.block(2)
            if not isinstance(w.get(start), Packet):
                break
    w.state.pinned = pinned
    w.meet(outside, before)
    for number in w.holding(Packet, PacketEnd):
        if w.chance(0.5):
            w.set(number, None)


def in_packet(w: Writer, start: int, room: int) -> None:
    """Use the packet within ``room`` bytes of its start."""
    size = w.pick(_SIZES)
    if size > room:
        size = 1
    off = w.below(room - size + 1)
    if w.wrong():
        off = room - size + 1
    if w.flavour.writes and w.chance(0.35):
        if w.chance(0.5):
            w.store(start, w.number(but=(start,)), off, size)
        else:
            w.store_imm(start, off, size, w.imm())
    elif w.chance(0.25) and room >= 8:
        _by_number(w, start)
    else:
        w.load(w.target(but=(start,)), start, off, size)


def _by_number(w: Writer, start: int) -> None:
    """Use the packet behind a number within bounds, which takes a comparison of its own."""
    ctx = w.context()
    fields = w.flavour.packet
    if ctx is None or fields is None:
        return
    index = numbers.number(w, w.pick((7, 15, 60, 255)), but=(start, ctx))
    into = w.target(but=(start, index, ctx))
    probe = w.target(but=(start, index, into, ctx))
    if len({start, index, into, probe, ctx}) < 5:
        return
    size = w.pick(_SIZES)
    w.code.emit("mov64_reg", into, start)
    w.code.emit("add64_reg", into, index)
    w.code.emit("mov64_reg", probe, into)
    w.code.emit("add64_imm", probe, imm=size)
    w.load(index, ctx, fields[1], fields[2], PacketEnd())
    past = w.code.label()
    w.branch("jgt64", probe, index, 0, past)
    w.load(index, into, 1 if w.wrong() else 0, size)
    w.code.place(past)
    for number in (index, into, probe):
        w.set(number, None)


def absolute(w: Writer) -> None:
    """Load from the packet of a socket buffer by the two old instructions for that."""
    barred = not w.flavour.absolute or w.state.held or w.in_function
    if barred and not w.wrong():
        return
    if not isinstance(w.get(6), Ctx):
        if not w.wrong() and (6 in w.state.pinned or w.context() is None):
            return
        if (ctx := w.context()) is not None:
            w.copy(6, ctx)
    if w.chance(0.5):
        w.code.emit(w.pick(("ldabsb", "ldabsh", "ldabsw")), imm=w.below(64))
    else:
        w.code.emit(w.pick(("ldindb", "ldindh", "ldindw")), src=w.number(but=(6,)), imm=w.below(32))
    w.state.called()
    w.set(0, Num(0, 0xFFFFFFFF))


def pointer(w: Writer) -> None:
    """Move a pointer by a constant."""
    held = [n for n in w.holding(Frame, Mem, Packet) if n not in w.state.pinned and n != 10]
    if not held:
        return
    number = w.pick(held)
    kind = w.get(number)
    step = w.pick((1, 2, 4, 8, 16, -8, -4))
    if (
        isinstance(kind, Mem)
        and not kind.null
        and kind.ident >= 0
        and 0 <= kind.off + step < kind.size
    ):
        w.code.emit("add64_imm", number, imm=step)
        w.set(number, replace(kind, off=kind.off + step))
    elif isinstance(kind, Frame) or w.wrong():
        w.code.emit(w.pick(("add64_imm", "sub64_imm")), number, imm=step)
        w.set(number, None)


IDIOMS = (
    (6, spill),
    (6, fill),
    (1, stack_by_number),
    (6, read_context),
    (3, write_context),
    (10, value),
    (2, atomic_stack),
    (8, packet),
    (3, absolute),
    (2, pointer),
)
