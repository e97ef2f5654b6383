"""Built-in functions that yield a value: str, mem, uptr, dyn, strcmp. One row each."""

from __future__ import annotations

from collections.abc import Callable

from pybpf.compiler import tast
from pybpf.compiler.convert import is_number, is_scalar, text_of
from pybpf.compiler.scope import fault
from pybpf.dataclass import dataclass
from pybpf.source import Span
from pybpf.types import (
    CHAR,
    INT,
    VOID,
    Array,
    DataLoc,
    Ptr,
    Show,
    Space,
    Type,
    Typedef,
    is_string,
    strip,
)

STRING_SIZE = 128
"""The bytes that str, mem and dyn copy when not told a size."""
MAX_SIZE = 4096


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function of ``least`` to ``most`` arguments.

    ``raw``: it gets pointers to strings and dynamic fields themselves; others get their text.
    """

    name: str
    least: int
    most: int
    infer: Callable[[tuple[tast.Expr, ...], Span], tast.Expr]
    doc: str
    raw: bool = False


def mem_type(size: int) -> Type:
    """Return the type of ``mem(p, size)``: bytes that may be text."""
    return Typedef("mem", Array(CHAR, size), Show.BYTES)


def _size(args: tuple[tast.Expr, ...]) -> int:
    if len(args) == 1:
        return STRING_SIZE
    size = args[1]
    if not isinstance(size, tast.Const):
        raise fault(size.span, "the size must be a number, known when the script is compiled")
    if not 1 <= size.value <= MAX_SIZE:
        raise fault(size.span, f"the size must be from 1 to {MAX_SIZE} bytes, not {size.value}")
    return size.value


def _address(name: str, arg: tast.Expr) -> Space | None:
    if isinstance(strip(arg.type), DataLoc):
        raise fault(
            arg.span, f"{name}() wants an address", "a dynamic field is read by dyn(), or by name"
        )
    if isinstance(arg, tast.Text) or is_string(arg.type):
        raise fault(arg.span, f"{name}() wants an address, and this is already a string")
    if not is_scalar(arg.type):
        raise fault(arg.span, f"{name}() wants an address, not a value of type '{arg.type}'")
    pointer = strip(arg.type)
    return pointer.space if isinstance(pointer, Ptr) else None


def _str(args: tuple[tast.Expr, ...], span: Span) -> tast.Expr:
    space = _address("str", args[0])
    return tast.ReadString(args[0], space, Array(CHAR, _size(args)), span)


def _mem(args: tuple[tast.Expr, ...], span: Span) -> tast.Expr:
    space = _address("mem", args[0])
    return tast.Deref(args[0], 0, space, mem_type(_size(args)), span)


def _uptr(args: tuple[tast.Expr, ...], span: Span) -> tast.Expr:
    _address("uptr", args[0])
    if not is_number(args[0].type):
        raise fault(args[0].span, "the context is not in user space", "name its fields")
    pointer = strip(args[0].type)
    to = pointer.to if isinstance(pointer, Ptr) else VOID
    return tast.Convert(args[0], Ptr(to, Space.USER), span)


def _dyn(args: tuple[tast.Expr, ...], span: Span) -> tast.Expr:
    word = args[0]
    if not isinstance(word, tast.CtxField) or not isinstance(strip(word.type), DataLoc):
        raise fault(
            word.span,
            f"dyn() wants a dynamic field of data (__data_loc or __rel_loc), not '{word.type}'",
        )
    return dynamic(word, _size(args), span)


def dynamic(word: tast.CtxField, size: int, span: Span) -> tast.Expr:
    """Return the first ``size`` bytes of the array that a __data_loc or __rel_loc word names."""
    location = strip(word.type)
    assert isinstance(location, DataLoc)
    text = is_string(Array(location.element, 1))
    t = Array(CHAR, size) if text else mem_type(size)
    return tast.DynString(word, location.relative, word.offset + 4, text, t, span)


def _strcmp(args: tuple[tast.Expr, ...], span: Span) -> tast.Expr:
    left, right = map(_string, args)
    if isinstance(left, tast.Text) and isinstance(right, tast.Text):
        return tast.Const(_difference(left.value, right.value), INT, span)
    return tast.StrCmp(left, right, span)


def _string(arg: tast.Expr) -> tast.Expr:
    """Return a string; a number from outside is the text it was given as."""
    if isinstance(arg, tast.Const) and arg.given is not None:
        return text_of(arg.given, arg.span)
    if not is_string(arg.type):
        raise fault(arg.span, f"strcmp() compares strings, and this is of type '{arg.type}'")
    return arg


def _difference(left: bytes, right: bytes) -> int:
    a, b = left.split(b"\0")[0] + b"\0", right.split(b"\0")[0] + b"\0"
    return next((x - y for x, y in zip(a, b, strict=False) if x != y), 0)


FUNCTIONS: dict[str, FunctionRow] = {
    row.name: row
    for row in (
        FunctionRow("str", 1, 2, _str, "the string at an address", raw=True),
        FunctionRow("mem", 1, 2, _mem, "the bytes at an address", raw=True),
        FunctionRow("uptr", 1, 1, _uptr, "an address, said to be one of user space", raw=True),
        FunctionRow("dyn", 1, 2, _dyn, "a dynamic field of a tracepoint", raw=True),
        FunctionRow("strcmp", 2, 2, _strcmp, "0 where two strings are equal"),
    )
}
