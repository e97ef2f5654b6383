"""C's integer conversions on typed expressions."""

from __future__ import annotations

from pybpf.compiler import tast
from pybpf.source import Span
from pybpf.types import (
    INT,
    LONG,
    UINT,
    ULONG,
    Array,
    Int,
    Ptr,
    Show,
    Struct,
    Type,
    Typedef,
    is_string,
    show_of,
    strip,
)


def is_scalar(t: Type) -> bool:
    """Whether values of the type fit a register."""
    return isinstance(strip(t), Int | Ptr)


def as_int(t: Type) -> Int:
    """Return the integer type a scalar is computed with: a pointer counts as unsigned long."""
    t = strip(t)
    return t if isinstance(t, Int) else ULONG


def promote(t: Type) -> Int:
    """Return the type after C's integer promotions."""
    n = as_int(t)
    return INT if n.size < INT.size else n


def common(a: Type, b: Type) -> Int:
    """Return the type two operands meet in, by C's usual arithmetic conversions (LP64)."""
    left, right = promote(a), promote(b)
    if left == right:
        return left
    if left.size == right.size:
        return left if not left.signed else right
    return left if left.size > right.size else right


def literal_type(value: int, *, decimal: bool, suffix: str = "") -> Int:
    """Return the type of an integer literal as C does: the first of the candidates that holds it.

    Decimal literals prefer signed types. A decimal beyond signed long is unsigned long.
    """
    suffix = suffix.lower()
    candidates = [INT, UINT, LONG, ULONG]
    if "u" in suffix:
        candidates = [UINT, ULONG]
    elif decimal:
        candidates = [INT, LONG, ULONG]
    if "l" in suffix:
        candidates = [t for t in candidates if t.size == LONG.size]
    return next(t for t in candidates if t.wrap(value) == value)


def convert(expr: tast.Expr, t: Type) -> tast.Expr:
    """Return ``expr`` as a value of scalar type ``t``; constants are converted at once."""
    if expr.type == t:
        return expr
    if isinstance(expr, tast.Const):
        return tast.Const(as_int(t).wrap(expr.value), t, expr.span)
    return tast.Convert(expr, t, expr.span)


def arith(op: str, left: tast.Expr, right: tast.Expr, span: Span) -> tast.Expr:
    """Return the arithmetic ``left op right`` of two scalars, converted as C does.

    The sum or difference of two values of one formatted typedef (time - time) keeps it.
    """
    if op in ("<<", ">>"):
        t: Type = promote(left.type)
        return tast.Arith(op, convert(left, t), convert(right, promote(right.type)), t, span)
    number = common(left.type, right.type)
    kept = left.type == right.type and op in "+-" and show_of(left.type) is not Show.PLAIN
    result = left.type if kept and as_int(left.type) == number else number
    return tast.Arith(op, convert(left, number), convert(right, number), result, span)


def holds(t: Int, value: int) -> bool:
    """Whether ``value`` is in the range of ``t``."""
    return t.wrap(value) == value


def join(a: Type, b: Type) -> Type | None:
    """Return the narrowest type that holds the values of both, or None where there is none.

    What decides the type of a map's keys and values: integers widen, strings lengthen.
    """
    if a == b:
        return a
    x, y = strip(a), strip(b)
    match x, y:
        case Int(), Int():
            return _join_ints(a, b)
        case (Ptr(), Int()) | (Int(), Ptr()):
            return a if isinstance(x, Ptr) else b
        case Ptr(), Ptr():
            return a if x.space == y.space else ULONG
        case Array(count=n), Array(count=m) if is_string(a) and is_string(b):
            # Whether char is signed differs by kernel release; text is text.
            return a if n >= m else b
        case Array(element=e, count=n), Array(element=f, count=m) if strip(e) == strip(f):
            return a if n >= m else b
        case Struct(), Struct() if (x.fields, x.size) == (y.fields, y.size):
            return a
        case _:
            return None


def _join_ints(a: Type, b: Type) -> Type:
    x, y = as_int(a), as_int(b)
    if x == y:
        # Same numbers, different formats: the one with a format of its own wins over a plain one.
        if isinstance(a, Typedef) and show_of(b) is Show.PLAIN:
            return a
        if isinstance(b, Typedef) and show_of(a) is Show.PLAIN:
            return b
        return x
    if x.signed == y.signed:
        return a if x.size > y.size else b
    signed, unsigned = (x, y) if x.signed else (y, x)
    if signed.size > unsigned.size:
        return a if x.signed else b
    return LONG if unsigned.size < LONG.size else ULONG
