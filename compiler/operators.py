"""Type an operator: its typed operands in, the typed expression out; raises Refused."""

from __future__ import annotations

from pybpf.compiler import ast, tast
from pybpf.compiler.convert import (
    arith,
    common,
    convert,
    is_number,
    is_scalar,
    is_text,
    number_hints,
    promote,
)
from pybpf.compiler.members import behind, part
from pybpf.compiler.scope import fault
from pybpf.source import Span
from pybpf.types import LONG, ULONG, Array, Int, Ptr, size_of, strip

_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
_LOGICAL = frozenset({"&&", "||", "^^"})
_QUESTIONS = {*_COMPARISONS, *_LOGICAL, "!"}


def condition(typed: tast.Expr) -> tast.Expr:
    """Refuse what cannot be asked for being non-zero."""
    if not is_scalar(typed.type):
        hints = number_hints(typed, asked=True)
        raise fault(typed.span, f"a condition is a number, and this is '{typed.type}'", *hints)
    return typed


def unary(op: str, operand: tast.Expr, span: Span) -> tast.Expr:
    """Type ``op operand``."""
    t = strip(operand.type)
    if op == "*":
        if not isinstance(t, Ptr) or size_of(t.to) == 0:
            hint = ["use mem() or str() to read at an address"] if is_scalar(t) else []
            raise fault(span, f"* wants a pointer to a known type, not '{operand.type}'", *hint)
        return behind(operand, 0, t.to, span)
    if op == "!":
        return tast.Not(_scalar(operand, "!"), span)
    number = promote(_number(operand, op).type)
    if isinstance(operand, tast.Const):
        result = -operand.value if op == "-" else ~operand.value
        return tast.Const(number.wrap(result), number, span)
    node = tast.Negate if op == "-" else tast.Invert
    return node(convert(operand, number), number, span)


def element(base: tast.Expr, index: tast.Expr, span: Span) -> tast.Expr:
    """Type ``base[index]``: what a pointer + index leads to, or the element of an array.

    Which one of an array has to be known, as the kernel wants to know what a program reads.
    """
    t = strip(base.type)
    if isinstance(t, Ptr) and size_of(t.to):
        address = _pointer_arithmetic("+", base, _number(index, "[]"), span)
        assert address is not None, "a pointer and a number"
        return behind(address, 0, t.to, span)
    if not isinstance(t, Array):
        hint = ["use mem() or str() to read at an address"] if is_scalar(t) else []
        message = f"[] wants an array or a pointer to a known type, not '{base.type}'"
        raise fault(base.span, message, *hint)
    if not isinstance(index, tast.Const):
        raise fault(index.span, "an array is indexed by a literal number, such as [1]")
    if not 0 <= index.value < t.count:
        raise fault(index.span, f"'{base.type}' has no element {index.value}")
    return part(base, index.value * size_of(t.element), t.element, span)


def binary(node: ast.Binary, left: tast.Expr, right: tast.Expr) -> tast.Expr:
    """Type ``left op right``."""
    op, span = node.op, node.span
    sides = left.type, right.type
    if op in _COMPARISONS and all(map(is_text, sides)) and not all(map(is_scalar, sides)):
        shown = f"strcmp({_quoted(node.left, 'a')}, {_quoted(node.right, 'b')}) {op} 0"
        raise fault(span, f"{op} compares numbers, and these are strings", f"write {shown}")
    if op in _LOGICAL:
        return tast.Logical(op, _scalar(left, op), _scalar(right, op), span)
    if op in _COMPARISONS:
        t = common(_scalar(left, op).type, _scalar(right, op).type)
        return tast.Compare(op, convert(left, t), convert(right, t), span)
    pointer = _pointer_arithmetic(op, left, right, span)
    if pointer is not None:
        return pointer
    return arith(op, _number(left, op), _number(right, op), span)


def _quoted(expr: ast.Expr, letter: str) -> str:
    """Return the text of an expression, or a letter that stands for it where it is long."""
    text = expr.span.text
    return text if len(text) <= 40 and "\n" not in text else letter


def _pointer_arithmetic(op: str, left: tast.Expr, right: tast.Expr, span: Span) -> tast.Expr | None:
    """Return pointer + n, n + pointer or pointer - n in C's units, or None for other operands."""
    if op == "+" and isinstance(strip(right.type), Ptr) and isinstance(strip(left.type), Int):
        left, right = right, left
    t = strip(left.type)
    if not isinstance(t, Ptr) or op not in "+-" or not isinstance(strip(right.type), Int):
        return None
    if not is_number(t):
        raise fault(span, "the context has no addresses to compute with", "name its fields")
    scale = max(1, size_of(t.to))
    count = convert(right, LONG)
    if scale > 1:
        count = arith("*", count, tast.Const(scale, LONG, right.span), right.span)
    return tast.Arith(op, convert(left, ULONG), convert(count, ULONG), left.type, span)


def _scalar(expr: tast.Expr, op: str) -> tast.Expr:
    if not is_scalar(expr.type):
        hints = number_hints(expr, asked=op in _QUESTIONS)
        raise fault(expr.span, f"{op} wants numbers, and this is '{expr.type}'", *hints)
    return expr


def _number(expr: tast.Expr, op: str) -> tast.Expr:
    _scalar(expr, op)
    if isinstance(strip(expr.type), Ptr):
        raise fault(expr.span, f"{op} wants numbers, and this is a pointer ('{expr.type}')")
    return expr
