"""Idioms with numbers: arithmetic, masks, byte swaps, and branches on them."""

from __future__ import annotations

from pybpf.testing.programs.state import U64, Mem, Num, Packet
from pybpf.testing.programs.writer import BRANCHES, Writer

_ALU = ("add", "sub", "mul", "or", "and", "xor", "lsh", "rsh", "arsh", "div", "mod", "sdiv", "smod",
        "mov")  # fmt: skip
_SHIFTS = ("lsh", "rsh", "arsh")
_DIVISIONS = ("div", "mod", "sdiv", "smod")
_SWAPS = ("le16", "le32", "le64", "be16", "be32", "be64", "bswap16", "bswap32", "bswap64")
_EXTENSIONS = ("movsx8_64", "movsx16_64", "movsx32_64", "movsx8_32", "movsx16_32")
_BOUNDS = (1, 3, 7, 8, 15, 16, 20, 31, 32, 63, 64, 100, 255)


def load(w: Writer) -> None:
    """Load a constant."""
    dst = w.target()
    if w.chance(0.25):
        value = w.rng.getrandbits(64) if w.chance(0.5) else w.imm() << w.below(33) & U64
        w.code.number(dst, value)
        w.set(dst, Num(value, value))
    elif w.chance(0.3):
        value = w.imm()
        w.code.emit("mov32_imm", dst, imm=value)
        w.set(dst, Num(value & 0xFFFFFFFF, value & 0xFFFFFFFF))
    else:
        w.load_imm(dst, w.imm())


def copy(w: Writer) -> None:
    """Copy what a register holds, a pointer too."""
    held = [n for n, kind in w.state.regs.items() if not (isinstance(kind, Mem) and kind.ident < 0)]
    if held:
        w.copy(w.target(), w.pick(held))


def arithmetic(w: Writer) -> None:
    """Compute with one or two numbers."""
    dst = w.number()
    if dst in w.state.pinned and not w.wrong():
        into = w.target(but=(dst,))
        w.copy(into, dst)
        dst = into
    width = w.pick((64, 64, 32))
    name = w.pick(_ALU)
    before = w.get(dst)
    if w.chance(0.55):
        imm = w.imm()
        if name in _SHIFTS and not w.wrong():
            imm = w.below(width)
        elif name in _DIVISIONS and imm == 0 and not w.wrong():
            imm = 3
        w.code.emit(f"{name}{width}_imm", dst, imm=imm)
        w.set(dst, _after(name, width, before, imm))
        return
    src = w.number()
    w.code.emit(f"{name}{width}_reg", dst, src)
    w.set(dst, Num(0, U64 if width == 64 else 0xFFFFFFFF))


def _after(name: str, width: int, before: object, imm: int) -> Num:
    """Return what is known of a number after an operation with a constant."""
    ones = (1 << width) - 1
    exact = before.lo if isinstance(before, Num) and before.known else None
    if name == "mov":
        return Num(imm & ones, imm & ones)
    if name == "and" and (imm >= 0 or width == 32):
        return Num(0, imm & ones)
    if name == "rsh" and 0 <= imm < width:
        high = before.hi if isinstance(before, Num) and width == 64 else ones
        return Num(0, high >> imm)
    if exact is not None and name in {"add", "sub"}:
        value = (exact + imm if name == "add" else exact - imm) & ones
        return Num(value, value)
    return Num(0, ones)


def unary(w: Writer) -> None:
    """Negate, swap bytes or extend a sign."""
    dst = w.number()
    if dst in w.state.pinned:
        return
    roll = w.below(3)
    if roll == 0:
        w.code.emit(w.pick(("neg64", "neg32")), dst)
        w.set(dst, Num())
    elif roll == 1:
        w.code.emit(w.pick(_SWAPS), dst)
        w.set(dst, Num())
    else:
        src = w.number()
        w.code.emit(w.pick(_EXTENSIONS), dst, src)
        w.set(dst, Num())


def bound(w: Writer) -> None:
    """Make a number small, by one of many ways."""
    number(w, w.pick(_BOUNDS))


def number(w: Writer, most: int, *, but: tuple[int, ...] = ()) -> int:
    """Return a register with a number that is at most ``most``, made in one of many ways."""
    # What holds the pointer for which the bound is made must stay.
    into = w.number(but=but)
    if into in w.state.pinned or into in but or into == 10 or not isinstance(w.get(into), Num):
        free = [n for n in range(10) if n not in w.state.pinned and n not in but]
        source = into
        into = w.pick(free)
        if isinstance(w.get(source), Num):
            w.copy(into, source)
        else:
            w.load_imm(into, w.below(most + 1))
    if w.wrong():
        most += w.pick((1, 2, 8, 1000))
    if w.slips and w.chance(0.06):
        return into
    ways = (_by_mask, _by_branch, _by_branch, _by_shift, _by_two_branches, _by_low_half)
    if w.slips and w.chance(0.1):  # kernels know nothing of a remainder, or have learnt it late
        _by_modulo(w, into, most)
    else:
        w.pick(ways)(w, into, most)
    w.set(into, Num(0, most))
    if w.chance(0.12):  # through the stack
        slot = w.free_slots(8)
        w.store(10, into, slot, 8)
        w.load(into, 10, slot, 8, Num(0, most))
        w.state.stack[slot] = Num(0, most)
    return into


def _by_mask(w: Writer, into: int, most: int) -> None:
    mask = (1 << (most + 1).bit_length() - 1) - 1
    w.code.emit(w.pick(("and64_imm", "and64_imm", "and32_imm")), into, imm=mask)


def _by_shift(w: Writer, into: int, most: int) -> None:
    kept = (most + 1).bit_length() - 1
    if w.chance(0.5):
        w.code.emit("rsh64_imm", into, imm=64 - kept if kept else 63)
        if not kept:
            w.code.emit("and64_imm", into, imm=0)
    else:
        w.code.emit("and64_imm", into, imm=-1)
        w.code.emit("mov32_reg", into, into)
        w.code.emit("rsh32_imm", into, imm=min(31, 32 - kept))
        if kept == 0:
            w.code.emit("and64_imm", into, imm=0)


def _by_modulo(w: Writer, into: int, most: int) -> None:
    w.code.emit("mod64_imm", into, imm=most + 1)


def _by_branch(w: Writer, into: int, most: int) -> None:
    """Give up where the number is greater, or make it small there."""
    fine = w.code.label()
    name = w.pick(("jle64", "jlt64", "jle64"))
    w.branch(name, into, None, most + (name == "jlt64"), fine)
    _otherwise(w, into, most)
    w.code.place(fine)


def _by_two_branches(w: Writer, into: int, most: int) -> None:
    """Make it small by signed comparisons."""
    small, fine = w.code.label(), w.code.label()
    w.branch("jsle64", into, None, most, small)
    w.load_imm(into, 0)
    w.code.place(small)
    w.branch(w.pick(("jsge64", "jsge64", "jsgt64")), into, None, 0, fine)
    w.load_imm(into, w.below(most + 1))
    w.code.place(fine)


def _by_low_half(w: Writer, into: int, most: int) -> None:
    """Clear the high half, and compare the low one."""
    w.code.emit("mov32_reg", into, into)
    fine = w.code.label()
    w.branch(w.pick(("jle32", "jle32", "jsle32")) if w.slips else "jle32", into, None, most, fine)
    _otherwise(w, into, most)
    w.code.place(fine)


def _otherwise(w: Writer, into: int, most: int) -> None:
    if w.chance(0.5) or w.in_function:
        w.load_imm(into, w.below(most + 1))
        return
    before = w.state.copy()
    w.finish()
    w.state.become(before)


def compare(w: Writer) -> None:
    """Branch on a number, with idioms on one side or both."""
    dst = w.number()
    width = w.pick((64, 64, 32))
    name = f"{w.pick(BRANCHES)}{width}"
    src = w.number() if w.chance(0.3) else None
    pointers = w.holding(Packet)
    if w.wrong() and pointers:
        src = w.pick(pointers)
    otherwise, end = w.code.label(), w.code.label()
    w.branch(name, dst, src, w.imm(), otherwise)
    before = w.state.copy()
    w.block()
    taken = w.state
    if w.chance(0.4):
        w.code.emit(w.pick(("ja", "ja", "ja", "gotol")), to=end)
        w.code.place(otherwise)
        w.state = before
        w.block()
        w.code.place(end)
    elif w.chance(0.2) and not w.in_function:
        w.finish()
        w.code.place(otherwise)
        w.state = before
        return
    else:
        w.code.place(otherwise)
        w.state = before
    w.state.join(taken)


IDIOMS = ((6, load), (4, copy), (14, arithmetic), (4, unary), (4, bound), (9, compare))
