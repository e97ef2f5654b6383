"""Lower strcmp: word by word against a constant, else byte by byte, unrolled."""

from __future__ import annotations

from pybpf.compiler import ir, tast
from pybpf.compiler.lowering import memory, values
from pybpf.compiler.lowering.state import Lowering, pieces
from pybpf.types import size_of


def equal(state: Lowering, node: tast.StrCmp, then: ir.Label, otherwise: ir.Label) -> None:
    """End the block: go to ``then`` where both strings are equal."""
    left, right = node.left, node.right
    if isinstance(left, tast.Text):
        left, right = right, left
    if isinstance(right, tast.Text):
        _equal_text(state, left, right.value, then, otherwise)
        return
    b = state.builder
    (a, at), (c, other) = memory.place(state, left), memory.place(state, right)
    sizes = size_of(left.type), size_of(right.type)
    for i in range(min(sizes)):
        x, y = b.load(a, at + i, 1), b.load(c, other + i, 1)
        same, go_on = b.label("same"), b.label("next")
        b.branch(ir.Cmp.EQ, x, y, same, otherwise)
        b.start(same)
        b.branch(ir.Cmp.EQ, x, 0, then, go_on)
        b.start(go_on)
    if sizes[0] == sizes[1]:
        b.goto(then)
        return
    longer, start = ((a, at), (c, other))[sizes[0] < sizes[1]]
    b.branch(ir.Cmp.EQ, b.load(longer, start + min(sizes), 1), 0, then, otherwise)


def _equal_text(
    state: Lowering, expr: tast.Expr, text: bytes, then: ir.Label, otherwise: ir.Label
) -> None:
    b = state.builder
    text = text.split(b"\0")[0]
    size = size_of(expr.type)
    if len(text) > size:
        b.goto(otherwise)
        return
    base, offset = memory.place(state, expr)
    # The NUL is compared too, unless the array has no room for it.
    wanted = (text + b"\0")[:size]
    order = "little" if state.byteorder == "little" else "big"
    for at, width in pieces(offset, len(wanted)):
        number = int.from_bytes(wanted[at - offset : at - offset + width], order)  # type: ignore[arg-type]
        same = b.label("same")
        b.branch(ir.Cmp.EQ, b.load(base, at, width), values.signed64(number), same, otherwise)
        b.start(same)
    b.goto(then)


def difference(state: Lowering, node: tast.StrCmp) -> ir.VReg:
    """Return the difference of the first bytes that differ; past its end, an array reads as NUL."""
    b = state.builder
    left, right = _side(state, node.left), _side(state, node.right)
    result, done = b.register(), b.label("compared")
    # An array that ends first counts as if a NUL followed; a constant holds its own.
    shorter = min(left, right, key=lambda side: side[2])
    count = shorter[2] + (left[2] != right[2] and not isinstance(shorter[0], bytes))
    for i in range(count):
        x, y = _byte(state, left, i), _byte(state, right, i)
        b.copy(b.bin(ir.BinOp.SUB, x, y), result)
        if i == count - 1:
            break
        same = b.label("same")
        b.branch(ir.Cmp.EQ, result, 0, same, done)
        b.start(same)
        if not isinstance(x, int) and not isinstance(y, int):
            following = b.label("next")
            b.branch(ir.Cmp.EQ, x, 0, done, following)
            b.start(following)
    b.start(done)
    return result


_Side = tuple[ir.Base | bytes, int, int]
"""Where the bytes are, the offset of the first, and how many there are (a constant's NUL too)."""


def _side(state: Lowering, expr: tast.Expr) -> _Side:
    if isinstance(expr, tast.Text):
        text = expr.value.split(b"\0")[0]
        return text, 0, len(text) + 1
    base, offset = memory.place(state, expr)
    return base, offset, size_of(expr.type)


def _byte(state: Lowering, side: _Side, index: int) -> ir.Operand:
    where, offset, size = side
    if isinstance(where, bytes):
        return where[index] if index < len(where) else 0
    return state.builder.load(where, offset + index, 1) if index < size else 0
