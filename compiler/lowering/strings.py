"""Lower strcmp: word by word, unrolled; against a constant, or between copies with clean ends."""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.compiler import ir, tast
from pybpf.compiler.lowering import memory, values
from pybpf.compiler.lowering.state import WORD, Lowering, pieces
from pybpf.dataclass import dataclass
from pybpf.types import Show, show_of, size_of


@dataclass(frozen=True, slots=True)
class _Array:
    """A string in memory; where the array ends without a NUL, it counts as if one followed."""

    base: ir.Base
    offset: int
    size: int


_Constant = bytes
"""A string known to the compiler, with its NUL."""


def equal(state: Lowering, node: tast.StrCmp, then: ir.Label, otherwise: ir.Label) -> None:
    """End the block: go to ``then`` where both strings are equal."""
    b = state.builder
    left, right = _sides(state, node)
    if isinstance(right, _Constant) and len(right) - 1 > left.size:
        b.goto(otherwise)
        return
    for x, y, _ in _words(state, left, right):
        same = b.label("same")
        b.branch(ir.Cmp.EQ, x, y, same, otherwise)
        b.start(same)
    if isinstance(right, _Constant) or left.size == right.size:
        b.goto(then)
        return
    longer, end = max(left, right, key=lambda side: side.size), min(left.size, right.size)
    b.branch(ir.Cmp.EQ, b.load(longer.base, longer.offset + end, 1), 0, then, otherwise)


def difference(state: Lowering, node: tast.StrCmp) -> ir.VReg:
    """Return the difference of the first bytes that differ, 0 where there are none."""
    b = state.builder
    left, right = _sides(state, node)
    result, x, y = b.register(), b.register(), b.register()
    differ, done = b.label("differ"), b.label("compared")
    for x_part, y_part, width in _words(state, left, right):
        # On big-endian machines the first byte must be the highest, however narrow the part.
        shift = 8 * (WORD - width) if state.byteorder == "big" else 0
        for word, part in ((x, x_part), (y, y_part)):
            b.copy(b.bin(ir.BinOp.LSH, part, shift) if shift else part, word)
        same = b.label("same")
        b.branch(ir.Cmp.EQ, x, y, same, differ)
        b.start(same)
    ends = _ends(state, left, right)
    b.copy(b.bin(ir.BinOp.SUB, *ends) if ends else 0, result)
    b.goto(done)
    b.start(differ)
    for index in range(WORD):
        shift = 8 * (index if state.byteorder == "little" else WORD - 1 - index)
        first, second = (
            b.bin(ir.BinOp.AND, b.bin(ir.BinOp.RSH, word, shift), 0xFF) for word in (x, y)
        )
        b.copy(b.bin(ir.BinOp.SUB, first, second), result)
        if index < WORD - 1:
            following = b.label("next")
            b.branch(ir.Cmp.EQ, result, 0, following, done)
            b.start(following)
    b.start(done)
    return b.bin(ir.BinOp.SUB, 0, result) if isinstance(node.left, tast.Text) else result


def _sides(state: Lowering, node: tast.StrCmp) -> tuple[_Array, _Array | _Constant]:
    """Return what to compare; a constant is second, wherever it stood."""
    for text, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(text, tast.Text):
            base, offset = memory.place(state, other)
            # No byte behind the constant's NUL is looked at, so the array need not be clean.
            return _Array(base, offset, size_of(other.type)), text.value.partition(b"\0")[0] + b"\0"
    return _clean(state, node.left), _clean(state, node.right)


def _clean(state: Lowering, expr: tast.Expr) -> _Array:
    """Return a copy of a string in which all is zero from its NUL on."""
    size = size_of(expr.type)
    if show_of(expr.type) is not Show.BYTES and not isinstance(expr, tast.CtxField | tast.Select):
        slot = ir.SlotRef(state.builder.slot(size))
        memory.into(state, expr, slot, 0, size, clean=True)
        return _Array(slot, 0, size)
    return _Array(memory.clean_text(state, memory.place(state, expr), size), 0, size)


def _words(
    state: Lowering, left: _Array, right: _Array | _Constant
) -> Iterator[tuple[ir.VReg, ir.Operand, int]]:
    """Yield the parts to compare, loaded at the end of the code so far, and their width."""
    b = state.builder
    size = len(right) if isinstance(right, _Constant) else right.size
    for at, width in pieces(left.offset, min(left.size, size)):
        index = at - left.offset
        x = b.load(left.base, at, width)
        if isinstance(right, _Constant):
            number = int.from_bytes(right[index : index + width], state.byteorder)
            yield x, values.signed64(number), width
        else:
            yield x, b.load(right.base, right.offset + index, width), width


def _ends(
    state: Lowering, left: _Array, right: _Array | _Constant
) -> tuple[ir.Operand, ir.Operand] | None:
    """Return the bytes behind the shorter of two strings that are alike so far, None for none."""
    b = state.builder
    if isinstance(right, _Constant):
        return (0, right[left.size]) if left.size < len(right) else None
    if left.size < right.size:
        return 0, b.load(right.base, right.offset + left.size, 1)
    if left.size > right.size:
        return b.load(left.base, left.offset + right.size, 1), 0
    return None
