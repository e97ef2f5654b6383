"""Lower what needs memory: strings, arrays, structs and map keys, written where they are wanted."""

from __future__ import annotations

from pybpf.compiler import ir, tast
from pybpf.compiler.convert import is_scalar
from pybpf.compiler.lowering import values
from pybpf.compiler.lowering.state import Lowering, is_steady, pieces
from pybpf.target.features import COMM_PADDED, PROBE_READ_KERNEL
from pybpf.types import Show, Space, Struct, Type, is_string, show_of, size_of, strip

_IN_CONTEXT = (tast.CtxField, tast.Select)
_Place = tuple[ir.Base, int]
"""Where something lies: a base and the offset from it."""
_INLINE = 128
"""Up to this many bytes a copy is made of loads and stores, above by a helper."""


def key_of(state: Lowering, name: str, keys: tuple[tast.Expr, ...]) -> ir.SlotRef:
    """Return the key of a map entry in a slot, every byte set: the kernel compares them all.

    Nobody writes to the slot after that, so that the same key need not be made twice.
    """
    layout = state.script.map(name).layout
    if is_steady(keys):
        return state.builder.once((layout, keys), lambda: _make_key(state, layout, keys))
    return _make_key(state, layout, keys)


def _make_key(state: Lowering, layout: Struct, keys: tuple[tast.Expr, ...]) -> ir.SlotRef:
    b = state.builder
    # A string at the end gets room for the NUL that the helper which reads it may write behind it.
    ends_in_text = bool(keys) and isinstance(keys[-1], _IN_CONTEXT) and _has_text(keys[-1].type)
    slot = ir.SlotRef(b.slot(layout.size + ends_in_text))
    ready = [values.scalar(state, k) if is_scalar(k.type) else None for k in keys]
    end = 0
    for field, key, operand in zip(layout.fields, keys, ready, strict=True):
        state.clear(slot, end, field.offset - end)
        size = size_of(field.type)
        if operand is not None:
            b.store(slot, field.offset, size, operand)
        else:
            into(state, key, slot, field.offset, size, clean=True)
        end = field.offset + size
    state.clear(slot, end, layout.size - end)
    return slot


def place(state: Lowering, expr: tast.Expr) -> tuple[ir.Base, int]:
    """Return where an array or struct lies, copying it to a slot if it lies nowhere yet."""
    match expr:
        case tast.CtxField():
            return ir.CTX, expr.offset
        case tast.Select():
            base, offset = place(state, expr.object)
            return base, offset + expr.offset
        case _:
            slot = ir.SlotRef(state.builder.slot(size_of(expr.type)))
            into(state, expr, slot, 0, size_of(expr.type))
            return slot, 0


def into(
    state: Lowering, expr: tast.Expr, base: ir.Base, offset: int, size: int, *, clean: bool = False
) -> None:
    """Write a value to the ``size`` bytes at ``base + offset``; a longer value is cut.

    ``clean``: bytes after a string's NUL, and those the value is too short for, are zero.
    Elsewhere they may be anything, as readers stop at the NUL.
    """
    b = state.builder
    own = min(size, size_of(expr.type))
    if clean:
        state.clear(base, offset + own, size - own)
    match expr:
        case tast.Text():
            _store_text(state, expr.value, base, offset, own)
        case tast.ReadString():
            if clean:
                state.clear(base, offset, own)
            address = values.address(state, expr.address)
            _read(state, expr.space, b.address(base, offset), own, address, text=True)
        case tast.Deref() if clean and _has_text(expr.type):
            source = place(state, expr)
            _copy_value(state, expr.type, source, (base, offset), own, clean=True)
        case tast.Deref():
            address = values.address(state, expr.address)
            if expr.offset:
                address = b.bin(ir.BinOp.ADD, address, expr.offset)
            _read(state, expr.space, b.address(base, offset), own, address, text=False)
        case tast.DynString():
            _dynamic(state, expr, base, offset, own, clean=clean)
        case tast.Parts():
            _parts(state, expr, (base, offset), own, clean=clean)
        case tast.Context() if not is_scalar(expr.type):
            if clean and COMM_PADDED not in state.features:
                state.clear(base, offset, own)
            b.call_void("bpf_get_current_comm", b.address(base, offset), own)
        case tast.MapValue() if not is_scalar(expr.type):
            _copy_entry(state, expr, base, offset, own)  # which is clean
        case tast.CtxField() | tast.Select() if not is_scalar(expr.type):
            source = place(state, expr)
            _copy_value(state, expr.type, source, (base, offset), own, clean=clean)
        case _:
            b.store(base, offset, own, values.scalar(state, expr))


def _store_text(state: Lowering, text: bytes, base: ir.Base, offset: int, size: int) -> None:
    padded = text[:size].ljust(size, b"\0")
    for at, width in pieces(offset, size):
        piece = padded[at - offset : at - offset + width]
        number = int.from_bytes(piece, "little" if state.byteorder == "little" else "big")
        state.builder.store(base, at, width, values.signed64(number))


def _read(
    state: Lowering,
    space: Space | None,
    target: ir.Argument,
    size: int,
    address: ir.Operand,
    *,
    text: bool,
) -> None:
    """Read memory; an address of unknown space is tried as the kernel's, then as the user's.

    Where it fails, the helpers fill the target with zeros.
    """
    b = state.builder
    first = state.read_helper(space, text=text)
    noted = state.faults.bit is not None
    if space is not None or PROBE_READ_KERNEL not in state.features:
        if noted:
            state.faults.note(b, b.call(first, target, size, address))
        else:
            b.call_void(first, target, size, address)
        return
    result = b.call(first, target, size, address)
    again, done = b.label("user"), b.label("read")
    b.branch(ir.Cmp.SLT, result, 0, again, done)
    b.start(again)
    second = state.read_helper(Space.USER, text=text)
    if noted:
        b.copy(b.call(second, target, size, address), result)
    else:
        b.call_void(second, target, size, address)
    b.start(done)
    if noted:
        state.faults.note(b, result)


def _parts(state: Lowering, expr: tast.Parts, target: _Place, size: int, *, clean: bool) -> None:
    """Write a struct or an array part by part, and zeros between the fields of a struct."""
    base, offset = target
    if isinstance(expr.type, Struct):
        places = [(field.offset, size_of(field.type)) for field in expr.type.fields]
    else:
        each = size_of(expr.type.element)
        places = [(at * each, each) for at in range(expr.type.count)]
    end = 0
    for (at, own), part in zip(places, expr.parts, strict=True):
        state.clear(base, offset + end, at - end)
        into(state, part, base, offset + at, own, clean=clean)
        end = at + own
    state.clear(base, offset + end, size - end)


def _dynamic(
    state: Lowering, expr: tast.DynString, base: ir.Base, offset: int, size: int, *, clean: bool
) -> None:
    """Read a dynamic array: the word holds its length above its place.

    Not every text there ends in a NUL. The helper for strings counts the NUL that it writes.
    """
    b = state.builder
    word = values.scalar(state, expr.word)
    if clean or not expr.text:
        state.clear(base, offset, size)
    start = b.bin(ir.BinOp.AND, word, 0xFFFF)
    if expr.relative:
        start = b.bin(ir.BinOp.ADD, start, expr.end)
    address = b.bin(ir.BinOp.ADD, ir.CTX, start)
    target = b.address(base, offset)
    helper = state.read_helper(Space.KERNEL, text=expr.text)
    length = b.bin(ir.BinOp.RSH, word, 16)
    if expr.text:
        length = b.bin(ir.BinOp.ADD, length, 1)
    longer, fits = b.label("longer"), b.label("fits")
    b.branch(ir.Cmp.GT, length, size, longer, fits)
    b.start(longer)
    b.copy(size, length)
    b.start(fits)
    b.call_void(helper, target, length, address)


def _copy_entry(
    state: Lowering, expr: tast.MapValue, base: ir.Base, offset: int, size: int
) -> None:
    b = state.builder
    key = key_of(state, expr.map, expr.keys)
    entry = b.call("bpf_map_lookup_elem", ir.MapRef(expr.map), key)
    found, missing, done = b.label("found"), b.label("missing"), b.label("copied")
    b.branch(ir.Cmp.NE, entry, 0, found, missing)
    b.start(found)
    _copy(state, (entry, 0), (base, offset), size)
    b.goto(done)
    b.start(missing)
    state.clear(base, offset, size)
    b.start(done)


def _copy_value(
    state: Lowering, t: Type, source: _Place, target: _Place, size: int, *, clean: bool
) -> None:
    """Copy the first ``size`` bytes of an array or struct of the context or of a copy of one.

    Programs may not read the start of a record, which comes before its first field.
    """
    plain = strip(t)
    if clean and is_string(t) and _has_spare(target, size):
        _read_clean(state, source, target, size)
    elif clean and is_string(t):
        _copy(state, (clean_text(state, source, size), 0), target, size)
    elif clean and isinstance(plain, Struct):
        end = 0
        for field in sorted(plain.fields, key=lambda f: f.offset):
            state.clear(target[0], target[1] + end, field.offset - end)
            end = field.offset + size_of(field.type)
            parts = _moved(source, field.offset), _moved(target, field.offset)
            _copy_value(state, field.type, *parts, size_of(field.type), clean=True)
        state.clear(target[0], target[1] + end, size - end)
    elif isinstance(plain, Struct):
        start = min((f.offset for f in plain.fields), default=size)
        _copy(state, _moved(source, start), _moved(target, start), size - start)
    else:
        _copy(state, source, target, size)


def _has_spare(target: _Place, size: int) -> bool:
    """Whether a slot goes on behind ``size`` bytes: what belongs there is written later."""
    base, offset = target
    return isinstance(base, ir.SlotRef) and base.offset + offset + size < base.slot.size


def _has_text(t: Type) -> bool:
    """Whether bytes of the type may have to be cleaned: those of mem() are all meant."""
    return isinstance(strip(t), Struct) or (is_string(t) and show_of(t) is not Show.BYTES)


def _moved(place: _Place, by: int) -> _Place:
    return place[0], place[1] + by


def clean_text(state: Lowering, source: _Place, size: int) -> ir.SlotRef:
    """Copy a string up to its NUL and no further: what lies behind it is left from other events."""
    copy = ir.SlotRef(state.builder.slot(size + 1))
    _read_clean(state, source, (copy, 0), size)
    return copy


def _read_clean(state: Lowering, source: _Place, target: _Place, size: int) -> None:
    """Copy a string so; the helper always writes a NUL, so it may write one byte more."""
    b = state.builder
    state.clear(*target, size)
    helper = state.read_helper(Space.KERNEL, text=True)
    b.call_void(helper, b.address(*target), size + 1, b.address(*source))


def _copy(state: Lowering, source: _Place, target: _Place, size: int) -> None:
    b = state.builder
    (base, start), (into_base, offset) = source, target
    if size > _INLINE:
        helper = state.read_helper(Space.KERNEL, text=False)
        b.call_void(helper, b.address(into_base, offset), size, b.address(base, start))
        return
    # An access must be aligned on both sides.
    align = next(a for a in (8, 4, 2, 1) if (start - offset) % a == 0)
    for at, width in pieces(start, size, align):
        b.store(into_base, offset + at - start, width, b.load(base, at, width))
