"""Make a printf fast: its pieces and the types of its cells in, a function of the cells out.

Most formats are made of conversions that Python's own ``%`` does as C does, for values of known
types. Such a format becomes one template and a function for each cell. What processes are called
repeats, so the texts of strings are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from pybpf.output.escape import escape, pad
from pybpf.output.memo import remember
from pybpf.output.values import string
from pybpf.printf import MAX_WIDTH
from pybpf.rows import Cell, MapRow, Value
from pybpf.script import Conversion, Text
from pybpf.types import Int, Show, Type, is_string, show_of, strip

Formatter = Callable[[Sequence[Cell | MapRow]], str | None]
"""Returns the text, or None where the cells are not of the types it was made for."""


def formatter(pieces: Sequence[Text | Conversion], types: Sequence[Type]) -> Formatter | None:
    """Return a function that prints cells of these types, or None where ``%`` cannot do it."""
    template = ""
    converters: list[Callable[[Value], object]] = []
    rest = iter(types)
    for piece in pieces:
        if isinstance(piece, Text):
            template += literal(piece)
            continue
        t = next(rest, None)
        made = None if t is None else _string(piece, t) or _integer(piece, t)
        if made is None:
            return None
        template += made[0]
        converters.append(made[1])
    wanted, count = tuple(types), len(converters)

    def render(cells: Sequence[Cell | MapRow]) -> str | None:
        if len(cells) != count or not all(map(is_, [c.type for c in cells], wanted)):  # type: ignore[union-attr]
            return None
        try:
            return template % tuple([f(c.value) for f, c in zip(converters, cells, strict=True)])  # type: ignore[arg-type]
        except (TypeError, AttributeError):  # a value that is not of its type
            return None

    return render if len(wanted) == count else None


def literal(text: Text) -> str:
    """Return literal text as a part of a template for ``%``."""
    return text.value.decode("utf-8", "backslashreplace").replace("%", "%%")


def plain_string(conversion: Conversion, t: Type) -> Callable[[Value], str] | None:
    """Return what a conversion makes of a string, or None where it is another one."""
    if conversion.letter != "s" or not is_string(t) or conversion.precision is not None:
        return None
    if show_of(t) not in {Show.PLAIN, Show.BYTES}:
        return None
    width, left = min(conversion.width or 0, MAX_WIDTH), "-" in conversion.flags
    return remember(lambda value: pad(escape(string(value)), width, left=left), t)  # type: ignore[arg-type]


def plain_integer(conversion: Conversion, t: Type) -> tuple[str, Int] | None:
    """Return Python's conversion of an integer, and the type that the value has to be wrapped to.

    None where Python's ``%`` does not do as C does.
    """
    base = strip(t)
    if not isinstance(base, Int) or show_of(t) in {Show.STACK, Show.SYMBOL}:
        return None
    if conversion.letter not in "diuxXo" or conversion.precision is not None:
        return None
    if not set(conversion.flags) <= {"-", "0"}:
        return None
    width = "" if conversion.width is None else min(conversion.width, MAX_WIDTH)
    letter = "d" if conversion.letter in "diu" else conversion.letter
    shown = Int(max(4, base.size), signed=conversion.letter in "di")
    return f"%{conversion.flags}{width}{letter}", shown


_Made = tuple[str, Callable[[Value], object]]


def _string(conversion: Conversion, t: Type) -> _Made | None:
    convert = plain_string(conversion, t)
    return None if convert is None else ("%s", convert)


def _integer(conversion: Conversion, t: Type) -> _Made | None:
    made = plain_integer(conversion, t)
    if made is None:
        return None
    template, shown = made
    base = strip(t)
    assert isinstance(base, Int)
    if base.signed == shown.signed or (not base.signed and base.size < shown.size):
        return template, _same
    return template, shown.wrap  # type: ignore[return-value]


def _same(value: Value) -> Value:
    return value
