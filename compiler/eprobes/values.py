"""The arguments of an eprobe as typed expressions on its parent's record.

Source of what each means: kernel/trace/trace_probe_tmpl.h, trace_eprobe.c, trace_probe_kernel.h.
"""

from __future__ import annotations

from pybpf.btf.reader import Btf
from pybpf.compiler import tast
from pybpf.compiler.builtins.values import COMM, SYMBOL, TASK
from pybpf.compiler.convert import text_of
from pybpf.dataclass import dataclass
from pybpf.errors import TargetError
from pybpf.events.eprobes.fetching import string_kind
from pybpf.events.eprobes.paths import Plain, plain
from pybpf.source import Span
from pybpf.target.target import Target
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.fetch import (
    Bits,
    Builtin,
    Deref,
    Fetch,
    Field,
    Immediate,
    Memory,
    SymbolMemory,
    Text,
)
from pybpf.tracefs.format import EventField, EventFormat
from pybpf.types import (
    CHAR,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    ULONG,
    VOID,
    Array,
    Int,
    Ptr,
    Show,
    Space,
    Type,
    Typedef,
    size_of,
)

_USER_END = 1 << 56
_ALL = (1 << 64) - 1
_TYPES: dict[str, Type] = {
    "u8": U8, "u16": U16, "u32": U32, "u64": U64,
    "s8": S8, "s16": S16, "s32": S32, "s64": S64,
    "x8": Typedef("x8", U8, Show.HEX), "x16": Typedef("x16", U16, Show.HEX),
    "x32": Typedef("x32", U32, Show.HEX), "x64": Typedef("x64", U64, Show.HEX),
    "char": Int(1, signed=False, name="char"), "symbol": SYMBOL, "symstr": SYMBOL,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fetching:
    """What expressions are made from; strings get ``string_size`` bytes, ``span`` is the place."""

    parent: EventFormat
    target: Target
    types: Btf | None
    string_size: int
    span: Span

    def field(self, name: str) -> EventField:
        """Return a field of the parent's record."""
        return next(f for f in reversed(self.parent.fields) if f.name == name and not f.common)

    def field_or_common(self, name: str) -> EventField:
        """Return a field of the parent's record, or else one that all records have."""
        fields = sorted(self.parent.fields, key=lambda f: f.common)
        return next(f for f in fields if f.name == name)


def argument(arg: Argument, state: Fetching) -> tast.Expr:
    """Return the value of an argument, of the type it is recorded with.

    Raises TargetError where the target does not know a symbol, or the types of a cast.
    """
    found = plain(arg.value.fetch, state.types)
    if found is None:
        raise TargetError(f"{arg.name}: the kernel's types do not tell what {arg.value.fetch} is")
    if not arg.storage.string or arg.storage.name == "symstr":
        return _number(arg, found, state)
    if arg.count:
        return _strings(arg, found, state)
    return _string(arg, found, state)


def _number(arg: Argument, found: Plain, state: Fetching) -> tast.Expr:
    t = _TYPES[arg.storage.name]
    deref = _deref(found.fetch, state)
    if deref is not None:
        whole = Array(t, arg.count) if arg.count else t
        return _bits(arg, found, _read(deref, whole, state), state)
    return _bits(arg, found, _convert(_value(found.fetch, state), t, state), state)


def _bits(arg: Argument, found: Plain, value: tast.Expr, state: Fetching) -> tast.Expr:
    """Return the bit field of a number that an argument is, or the number."""
    declared = arg.value.type.base if arg.value.type is not None else None
    if isinstance(declared, Bits):
        offset, width = declared.offset, declared.width
    elif found.bits is not None and arg.value.type is None:
        offset, width = found.bits
    else:
        return value
    wide = _convert(value, ULONG, state)
    shifted = _arith(">>", wide, offset, state)
    return _convert(_arith("&", shifted, (1 << width) - 1, state), value.type, state)


def _strings(arg: Argument, found: Plain, state: Fetching) -> tast.Expr:
    """Return an array of strings, whose pointers follow each other in memory.

    Without a dereference there is but one pointer; the kernel then gives up after it.
    """
    size = min(state.string_size, max(64, 2048 // arg.count))
    space = Space.USER if arg.storage.name == "ustring" else None
    deref = _deref(found.fetch, state)
    pointers: list[tast.Expr]
    if deref is None:
        none = tast.Const(0, ULONG, state.span)
        pointers = [_value(found.fetch, state), *[none] * (arg.count - 1)]
    else:
        each = (Deref(deref.offset + 8 * at, deref.base, deref.user) for at in range(arg.count))
        pointers = [_read(one, ULONG, state) for one in each]
    t = Array(CHAR, size)
    parts = tuple(tast.ReadString(one, space, t, state.span) for one in pointers)
    return tast.Parts(parts, Array(t, arg.count), state.span)


def _string(arg: Argument, found: Plain, state: Fetching) -> tast.Expr:
    t, span = Array(CHAR, state.string_size), state.span
    user = arg.storage.name == "ustring"
    deref = _deref(found.fetch, state)
    if deref is not None and found.pointer:
        deref = Deref(0, deref, user)
    if deref is not None:
        base = _address(_value(deref.base, state), deref.offset, state)
        return tast.ReadString(base, _space(base, user=user or deref.user), t, span)
    match found.fetch:
        case Text(text=text) if not user:
            data = text.encode("utf-8", "surrogateescape")
            return text_of(data, span)
        case Builtin(name="comm") if not user:
            return tast.Context("comm", COMM, span)
        case Field(name=name) if not user and (own := own_string(state.field(name), state)):
            return own
        case fetch:
            value = _value(fetch, state)
            return tast.ReadString(value, _space(value, user=user), t, span)


def own_string(field: EventField, state: Fetching) -> tast.Expr | None:
    """Return the string that is in the record itself, None for other fields."""
    match string_kind(field):
        case "static":
            return tast.CtxField(field.offset, Array(CHAR, field.size), state.span)
        case "dynamic" | "relative" as kind:
            word = tast.CtxField(field.offset, U32, state.span)
            t = Array(CHAR, state.string_size)
            relative = kind == "relative"
            return tast.DynString(word, relative, field.offset + 4, True, t, state.span)  # noqa: FBT003
        case _:
            return None


def _deref(fetch: Fetch, state: Fetching) -> Deref | None:
    """Return what reads memory as a dereference, None for the rest."""
    match fetch:
        case Deref():
            return fetch
        case Memory(address=address):
            return Deref(0, Immediate(address))
        case SymbolMemory(symbol=symbol, offset=offset):
            return Deref(offset, Immediate(state.target.symbol_address(symbol)))
        case _:
            return None


def _value(fetch: Fetch, state: Fetching) -> tast.Expr:
    """Return the 64 bits that a fetch argument without paths gives before they are stored."""
    span = state.span
    match fetch:
        case Field(name=name):
            return _field(state.field(name), state)
        case Builtin(name="comm"):
            return _name_of_task(state)
        case Immediate(value=value):
            return tast.Const(value & _ALL, ULONG, span)
        case Text(text=text):
            data = text.encode("utf-8", "surrogateescape")
            return _place_of(text_of(data, span))
        case _:
            deref = _deref(fetch, state)
            if deref is None:
                raise TargetError(f"{fetch} is for probes of functions, not of events")
            return _read(deref, ULONG, state)


def _name_of_task(state: Fetching) -> tast.Expr:
    """Return the address of the running thread's name: in its task_struct, for casts to go on from.

    Where the kernel's types are not asked for, nobody can go on: then it is that of a copy.
    """
    span, types = state.span, state.types
    number = None if types is None else types.struct("task_struct")
    found = None if types is None or number is None else types.member(number, "comm")
    if found is None:
        return _place_of(tast.Context("comm", COMM, span))
    return _arith("+", tast.Context(TASK.name, ULONG, span), found.bit_offset // 8, state)


def _field(field: EventField, state: Fetching) -> tast.Expr:
    """Return a field as a value; a string, or a long array, as its address in the record."""
    span = state.span
    kind = string_kind(field)
    if kind in {"dynamic", "relative"}:
        word = tast.CtxField(field.offset, U32, span)
        ahead = _arith("&", _convert(word, ULONG, state), 0xFFFF, state)
        record = _place_of(tast.CtxField(0, Array(U8, 8), span))
        if kind == "relative":
            ahead = _arith("+", ahead, field.offset + 4, state)
        return tast.Arith("+", record, ahead, ULONG, span)
    start = field.offset
    if state.target.arch.byteorder == "big":
        # A system call's argument: the type is narrower than its 8 bytes.
        start -= max(0, field.size - size_of(field.type))
    if kind == "static" or field.size not in {1, 2, 4, 8}:
        return _place_of(tast.CtxField(start, Array(U8, field.size), span))
    t = Int(field.size, field.signed)
    return _convert(tast.CtxField(start, t, span), ULONG, state)


def _address(value: tast.Expr, offset: int, state: Fetching) -> tast.Expr:
    """Return an address that is an offset from a value."""
    if not offset:
        return value
    if isinstance(value, tast.Const):
        return tast.Const((value.value + offset) & _ALL, ULONG, state.span)
    return _arith("+", value, offset & _ALL, state)


def _read(deref: Deref, t: Type, state: Fetching) -> tast.Expr:
    """Return what lies at an address; of a field of the record without asking for memory."""
    value = _value(deref.base, state)
    match value:
        case tast.AddressOf(object=tast.CtxField(offset=start, type=whole)) if (
            not deref.user and 0 <= deref.offset <= size_of(whole) - size_of(t)
        ):
            return tast.CtxField(start + deref.offset, t, state.span)
        case _:
            address = _address(value, deref.offset, state)
            space = _space(address, user=deref.user)
            return tast.Deref(address, 0, space, t, state.span)


def _space(address: tast.Expr, *, user: bool) -> Space | None:
    """Return where an address leads: None where only the value tells, as on x86 it does."""
    if user:
        return Space.USER
    root = address
    while isinstance(root, tast.Arith):
        root = root.left
    if isinstance(root, tast.AddressOf | tast.Context):
        return Space.KERNEL
    if isinstance(address, tast.Const) and address.value >= _USER_END:
        return Space.KERNEL
    return None


def _place_of(value: tast.Expr) -> tast.AddressOf:
    return tast.AddressOf(value, Ptr(VOID), value.span)


def _convert(value: tast.Expr, t: Type, state: Fetching) -> tast.Expr:
    if isinstance(value, tast.Const):
        plain_type = t.type if isinstance(t, Typedef) else t
        assert isinstance(plain_type, Int)
        return tast.Const(plain_type.wrap(value.value), t, state.span)
    return value if value.type == t else tast.Convert(value, t, state.span)


def _arith(op: str, left: tast.Expr, right: int, state: Fetching) -> tast.Expr:
    return tast.Arith(op, left, tast.Const(right, ULONG, state.span), ULONG, state.span)
