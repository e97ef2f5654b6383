"""Idioms with what helpers and contexts hand out: sockets and dynptrs."""

from __future__ import annotations

from pybpf.corpus import CorpusMap
from pybpf.isa.abi import MapType, ProgType
from pybpf.testing.programs.state import Sock
from pybpf.testing.programs.writer import Writer


def socket_field(w: Writer) -> None:
    """Load the socket of a socket buffer, check it, and read a field."""
    ctx = w.context()
    if ctx is None or w.flavour.socket is None:
        return
    into = w.target(but=(ctx,))
    w.load(into, ctx, w.flavour.socket, 8, Sock(ident=w.ident()))
    end = w.code.label()
    if not w.wrong():
        w.branch("jeq64", into, None, 0, end)
    if w.wrong():
        w.store_imm(into, 0, 4, 1)
    other = w.target(but=(into,))
    w.load(other, into, w.pick((4, 8, 12)) if not w.wrong() else w.below(100), 4)
    w.code.place(end)
    w.set(into, None)
    w.set(other, None)


def socket_lookup(w: Writer) -> None:
    """Look up a socket, use it, and release it."""
    ctx = w.context()
    if w.flavour.prog_type not in {ProgType.SCHED_CLS, ProgType.XDP} or ctx is None:
        return
    if w.state.held or w.exact:
        return
    register = 6 + w.below(4)
    if register in w.state.pinned:
        return
    off = w.free_slots(16)
    w.fill_stack(off, 16)
    w.copy(1, ctx)
    w.stack_pointer(2, off)
    w.load_imm(3, 12)
    w.load_imm(4, -1)
    w.load_imm(5, 0)
    w.call(w.pick((84, 85, 99)))
    w.copy(register, 0)
    end = w.code.label()
    if not w.wrong():
        w.branch("jeq64", 0, None, 0, end)
    before = w.state.copy()
    w.set(0, None)
    w.set(register, Sock(null=False))
    pinned, held = w.state.pinned, w.state.held
    w.state.pinned, w.state.held = pinned | {register}, (*held, (register, 86))
    w.load(w.target(), register, w.pick((4, 8)), 4)
    w.block(2)
    if not w.wrong():
        w.code.emit("mov64_reg", 1, register)
        w.call(86)
    if w.wrong():
        w.load(0, register, 4, 4)
    w.set(register, None)
    w.state.pinned, w.state.held = pinned, held
    w.meet(end, before, but=(register, 0))


def dynptr(w: Writer) -> None:
    """Make a dynptr of a map's value, and read, write or slice it."""
    if w.exact or w.in_function:
        return
    spec = CorpusMap(MapType.ARRAY, 4, 64, 1)
    number = w.code.new_map(spec)
    at = w.free_slots(16)
    for slot in (at, at + 8):
        w.state.stack.pop(slot, None)
    w.code.map(1, number, 0)
    w.load_imm(2, w.pick((8, 16, 64)))
    w.load_imm(3, 0)
    w.stack_pointer(4, at)
    w.call(197)
    for _ in range(1 + w.below(2)):
        _use_dynptr(w, at)
    if w.wrong():
        w.load(w.target(), 10, at, 8)
    for slot in (at, at + 8):
        w.state.stack.pop(slot, None)


def _use_dynptr(w: Writer, at: int) -> None:
    used = {at, at + 8}
    off = w.free_slots(16)
    if used & {off, off + 8} and not w.wrong():
        return
    roll = w.below(3)
    if roll == 0:
        w.fill_stack(off, 16)
        w.stack_pointer(1, off)
        w.load_imm(2, 8)
        w.stack_pointer(3, at)
        w.load_imm(4, w.below(10))
        w.load_imm(5, 0)
        w.call(201)
        w.scribbled(off, 8)
    elif roll == 1:
        w.fill_stack(off, 16)
        w.stack_pointer(1, at)
        w.load_imm(2, w.below(10))
        w.stack_pointer(3, off)
        w.load_imm(4, 8)
        w.load_imm(5, 0)
        w.call(202)
    else:
        size = w.pick((4, 8))
        w.stack_pointer(1, at)
        w.load_imm(2, 0)
        w.load_imm(3, size)
        w.call(203)
        end = w.code.label()
        if not w.wrong():
            w.branch("jeq64", 0, None, 0, end)
        into = w.target(but=(0,))
        w.load(into, 0, 0, size + 4 if size == 4 and w.wrong() else size)
        w.code.place(end)
        w.set(into, None)
        w.set(0, None)


IDIOMS = ((2, socket_field), (2, socket_lookup), (2, dynptr))
