"""C's integer conversions on typed expressions."""

from __future__ import annotations

from pybpf.compiler import tast
from pybpf.source import Span
from pybpf.types import (
    CHAR,
    INT,
    LONG,
    UINT,
    ULONG,
    VOID,
    Array,
    DataLoc,
    Int,
    Ptr,
    Show,
    Space,
    Struct,
    Type,
    is_string,
    show_of,
    strip,
)


def text_of(text: bytes, span: Span) -> tast.Text:
    """Return a string constant; its array holds the final NUL, in whole words."""
    return tast.Text(text, Array(CHAR, -(-(len(text) + 1) // 8) * 8), span)


def is_scalar(t: Type) -> bool:
    """Whether values of the type fit a register."""
    return isinstance(strip(t), Int | Ptr)


def is_number(t: Type) -> bool:
    """Whether one can compute with values of the type: any scalar but the context's address.

    The kernel keeps programs from turning the pointer they are given into a number.
    """
    plain = strip(t)
    return is_scalar(t) and not (isinstance(plain, Ptr) and plain.space is Space.CTX)


def is_text(t: Type) -> bool:
    """Whether values of the type are strings, or refer to strings."""
    plain = strip(t)
    if isinstance(plain, Ptr):
        return is_string(Array(plain.to, 1))
    return is_string(plain) or (isinstance(plain, DataLoc) and is_string(Array(plain.element, 1)))


def number_hints(typed: tast.Expr, *, asked: bool = False) -> list[str]:
    """Say why something is no number; ``asked``: or how to ask something of it all the same."""
    name = typed.span.text.strip("( \t\n)")
    if isinstance(typed, tast.Text) and name.startswith("$"):
        if typed.value:
            return [f"{name} is a text, not a number"]
        if name == "$target":
            return ["$target is not set: use -c, or target=PID in the environment"]
        return [f"{name} is empty, or not set"]
    if asked and is_text(typed.type):
        return ["compare strings with strcmp(), which gives 0 where they are equal"]
    return []


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

    What decides the type of a map's keys and values: integers widen, strings lengthen, pointers to
    different things point to void.
    """
    if a == b:
        return a
    x, y = strip(a), strip(b)
    match x, y:
        case Int(), Int():
            return _join_ints(x, y)
        case (Ptr(), Int()) | (Int(), Ptr()):
            return a if isinstance(x, Ptr) else b
        case Ptr(), Ptr():
            return Ptr(VOID, x.space) if x.space == y.space else ULONG
        case Array(count=n), Array(count=m) if is_string(a) and is_string(b):
            # Whether char is signed differs by kernel release; text is text.
            return a if n >= m else b
        case Array(element=e, count=n), Array(element=f, count=m) if strip(e) == strip(f):
            return a if n >= m else b
        case Struct(), Struct() if (x.fields, x.size) == (y.fields, y.size):
            return a
        case _:
            return None


def _join_ints(a: Int, b: Int) -> Int:
    if a.signed == b.signed:
        return a if a.size >= b.size else b
    signed, unsigned = (a, b) if a.signed else (b, a)
    if signed.size > unsigned.size:
        return signed
    return LONG if unsigned.size < LONG.size else ULONG
