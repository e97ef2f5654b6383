"""The right-hand sides of assignments that are neither a register nor a number, to instructions."""

from __future__ import annotations

import re

from pybpf.isa.expressions import Number
from pybpf.isa.insn import Insn, insn
from pybpf.isa.lexer import Token
from pybpf.isa.operands import Cursor, MemoryType, Outside, Register
from pybpf.isa.table import OPS, ROWS, Effect, Form, OpSpec
from pybpf.suggest import did_you_mean

_LOADS: dict[tuple[str, int, Form], OpSpec] = {
    ("s" if op.effect is Effect.LOAD_SIGNED else "u", op.width, op.form): op
    for op in ROWS
    if op.form in {Form.LOAD, Form.PACKET_ABS, Form.PACKET_IND}
}
_SWAPS = frozenset(op.name for op in ROWS if op.form is Form.SWAP)
# What a wide load can refer to, as it is written; ``map`` is short for ``map_fd``.
_KINDS = {
    "map": "lddw_map_fd",
    "map_fd": "lddw_map_fd",
    "map_value": "lddw_map_value",
    "map_idx": "lddw_map_idx",
    "map_idx_value": "lddw_map_idx_value",
    "btf_id": "lddw_btf_id",
    "subprog": "lddw_func",
}
_FETCH = re.compile(r"atomic(64)?_fetch_(add|or|and|xor)")
_EXCHANGE = re.compile(r"atomic(64)?_(xchg|cmpxchg)|(xchg|cmpxchg)(_64|32_32)")
_VALUES = (
    *sorted(_SWAPS), *_KINDS, "load_acquire", "addr_space_cast",
    *(f"atomic_fetch_{name}" for name in ("add", "or", "and", "xor")),
    "xchg_64", "xchg32_32", "cmpxchg_64", "cmpxchg32_32",
)  # fmt: skip


# value = "-" register | "(" type ")" register | "*" load | swap register
#       | "load_acquire" "(" pointer access ")" | cast | fetch | exchange | reference | outside
def parse_value(at: Cursor, dst: Register) -> Insn:
    """Return the instruction that puts the value at the cursor into ``dst``."""
    token = at.next()
    if token.text == "-":
        at.same_register(dst)
        return insn(f"neg{dst.width}", dst.number)
    if token.text == "(":
        return _sign_extension(at, dst)
    if token.text == "*":
        return _load(at, dst)
    if token.text in _SWAPS:
        at.want_letter(dst, "r")
        at.same_register(dst)
        return insn(token.text, dst.number)
    if token.text == "load_acquire":
        return _load_acquire(at, dst)
    if token.text == "addr_space_cast":
        return _cast(at, dst)
    if fetch := _FETCH.fullmatch(token.text):
        return _fetch(at, dst, fetch)
    if exchange := _EXCHANGE.fullmatch(token.text):
        return _exchange(at, dst, exchange)
    if token.text in _KINDS:
        return _reference(at, dst, token)
    if token.text in at.outside:
        return _outside(at, dst, token)
    if token.kind == "word":
        near = did_you_mean(token.text, [*_VALUES, *at.outside, *at.constants])
        raise at.error(token, f"'{token.text}' is no value{near}")
    raise at.expected("a value", token)


def parse_wide(at: Cursor, dst: Register, number: Number) -> Insn:
    """Return the load of a number of 64 bits, the blank ``ll`` behind it already read."""
    at.want_letter(dst, "r")
    return insn("lddw", dst.number, imm=_signed64(number.value))


def _signed64(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _sign_extension(at: Cursor, dst: Register) -> Insn:
    kind = at.type_name()
    at.expect(")")
    op = OPS.get(f"movsx{kind.width}_{dst.width}")
    if kind.sign != "s" or op is None:
        allowed = "s8 or s16" if dst.width == 32 else "s8, s16 or s32"
        raise at.error(kind.span, f"{dst.span.text} takes no {kind.span.text}", f"write {allowed}")
    return Insn(op, dst.number, at.register(dst.letter).number)


# load = pointer (access | "skb" "[" (number | register ["+" number]) "]")
def _load(at: Cursor, dst: Register) -> Insn:
    kind = at.pointer(signed=True)
    if at.accept("skb"):
        return _packet_load(at, dst, kind)
    op = _LOADS.get((kind.sign, kind.width, Form.LOAD))
    if op is None:
        raise at.error(kind.span, f"there is no load of {kind.span.text}", "write u64")
    at.want_letter(dst, kind.letters)
    base, off = at.access()
    return Insn(op, dst.number, base, off)


def _packet_load(at: Cursor, dst: Register, kind: MemoryType) -> Insn:
    at.expect("[")
    src, imm, form = 0, 0, Form.PACKET_ABS
    if at.at_register():
        src, form = at.register("r").number, Form.PACKET_IND
    if form is Form.PACKET_ABS or at.peek().text in {"+", "-"}:
        imm = at.imm(at.number())
    at.expect("]")
    op = _LOADS.get((kind.sign, kind.width, form))
    if op is None:
        raise at.error(kind.span, f"no packet load is of {kind.span.text}", "write u8, u16 or u32")
    if dst.number:
        raise at.error(dst.span, "a packet load puts its value into r0")
    return Insn(op, 0, src, 0, imm)


def _load_acquire(at: Cursor, dst: Register) -> Insn:
    at.expect("(")
    kind = at.pointer()
    at.want_letter(dst, kind.letters)
    base, off = at.access()
    at.expect(")")
    return insn(f"load_acquire{kind.width}", dst.number, base, off)


# cast = "addr_space_cast" "(" register "," number "," number ")"
def _cast(at: Cursor, dst: Register) -> Insn:
    at.want_letter(dst, "r")
    at.expect("(")
    src = at.register("r").number
    at.expect(",")
    first = at.peek()
    to = at.unsigned(16)
    at.expect(",")
    origin = at.unsigned(16)
    if {to, origin} != {0, 1}:
        raise at.error(first, "a cast is from address space 1 to 0 or from 0 to 1")
    at.expect(")")
    return insn("addr_space_cast", dst.number, src, imm=to << 16 | origin)


# fetch = ("atomic_fetch_" | "atomic64_fetch_") name "(" pointer access "," register ")"
def _fetch(at: Cursor, dst: Register, name: re.Match[str]) -> Insn:
    at.expect("(")
    kind = at.pointer(smallest=64 if name[1] else 32)
    base, off = at.access()
    at.expect(",")
    at.want_letter(dst, kind.letters)
    at.same_register(dst)
    at.expect(")")
    return insn(f"atomic_fetch_{name[2]}{kind.width}", base, dst.number, off)


# exchange = ("xchg_64" | "cmpxchg_64" | "xchg32_32" | "cmpxchg32_32") "(" address operands ")"
#          | ("atomic_" | "atomic64_") ("xchg" | "cmpxchg") "(" pointer access operands ")"
# operands = "," register ["," register]
def _exchange(at: Cursor, dst: Register, name: re.Match[str]) -> Insn:
    at.expect("(")
    if name[4]:
        width, letters = (64, "r") if name[4] == "_64" else (32, "rw")
        base, off = at.address()
    else:
        kind = at.pointer(smallest=64 if name[1] else 32)
        width, letters = kind.width, kind.letters
        base, off = at.access()
    at.want_letter(dst, letters)
    at.expect(",")
    at.same_register(dst)
    operation, operand = name[2] or name[3], dst.number
    if operation == "cmpxchg":
        if dst.number:
            raise at.error(dst.span, "a cmpxchg compares with r0, and puts there what it found")
        at.expect(",")
        operand = at.register(letters).number
    at.expect(")")
    return insn(f"{operation}{width}", base, operand, off)


# reference = kind (":" name | "[" [number ":"] number "]") ["+" number] ["ll"]
#           | "map" listed ["ll"] | "subprog" function ["ll"]
def _reference(at: Cursor, dst: Register, kind: Token) -> Insn:
    at.want_letter(dst, "r")
    if kind.text == "subprog":
        found = _function(at, dst)
    elif kind.text == "map" and at.accept("["):
        found = _listed_map(at, dst)
    else:
        op, low, high, symbol = OPS[_KINDS[kind.text]], 0, 0, None
        if at.accept(":"):
            symbol = at.name()
        else:
            at.expect("[")
            low = at.unsigned(32)
            if kind.text == "btf_id" and at.accept(":"):
                high, low = low, at.unsigned(32)
            at.expect("]")
        if kind.text.endswith("_value") and at.accept("+"):
            high = at.unsigned(32)
        found = Insn(op, dst.number, imm=_signed64(high << 32 | low), symbol=symbol)
    at.accept("ll")
    return found


# outside = name [("+" | "-") number] "ll"
def _outside(at: Cursor, dst: Register, name: Token) -> Insn:
    at.want_letter(dst, "r")
    kind = at.outside[name.text]
    if kind is Outside.KFUNC:
        raise at.error(name, f"{name.text} is a kfunc, which can only be called")
    offset = 0
    if kind is Outside.DATA and at.peek().text in {"+", "-"}:
        number = at.number()
        offset = at.imm(number) << 32
    if not at.accept("ll"):
        raise at.error(name, f"the address of {name.text} has 64 bits", f"write {name.text} ll")
    return insn(kind.value, dst.number, imm=offset, symbol=name.text)


# function = ":" label | "[" number "]"
def _function(at: Cursor, dst: Register) -> Insn:
    if at.accept(":"):
        if at.outside.get(at.peek().text) is Outside.FUNCTION:
            return insn("lddw_func", dst.number, symbol=at.next().text)
        return insn("lddw_func", dst.number, symbol=at.label())
    at.expect("[")
    number = at.number()
    at.place = number.span
    at.expect("]")
    return insn("lddw_func", dst.number, imm=at.imm(number))


# What bpftool writes: listed = "id" ":" number "]" ["[" "0" "]" "+" number]
#                             | "idx" ":" number "]" ["+" number]
def _listed_map(at: Cursor, dst: Register) -> Insn:
    how = at.next()
    if how.text not in {"id", "idx"}:
        raise at.expected("'id:' or 'idx:'", how)
    at.expect(":")
    low, high = at.unsigned(32), 0
    at.expect("]")
    name = "lddw_map_fd" if how.text == "id" else "lddw_map_idx"
    if how.text == "id" and at.accept("["):
        name = "lddw_map_value"
        at.expect("0")
        at.expect("]")
    if (how.text == "idx" or name == "lddw_map_value") and at.accept("+"):
        high = at.unsigned(32)
        name = "lddw_map_value" if how.text == "id" else "lddw_map_idx_value"
    return insn(name, dst.number, imm=_signed64(high << 32 | low))
