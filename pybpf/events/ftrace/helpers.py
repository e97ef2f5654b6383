"""What may be called in a print format: its helpers as functions of a payload.

Source: include/trace/stages/stage3_trace_output.h and kernel/trace/trace_output.c.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pybpf.events.ftrace.cexpr import Braces, Call, Expr, String, Unprintable
from pybpf.events.ftrace.compiled import Compiled, Inside, Integer, Run, Text
from pybpf.events.ftrace.pointers import bitmap
from pybpf.types import CHAR, INT, U8

if TYPE_CHECKING:
    from pybpf.events.ftrace.expressions import Compiler


def call(expr: Call, compiler: Compiler) -> Compiled:
    """Return what computes a call of a helper. Raises Unprintable for one that is not known."""
    name = expr.name.replace("__get_rel_", "__get_")
    args = expr.args
    match name, len(args):
        case "__builtin_expect", 2:
            return compiler.compile(args[0])
        case "__get_str", 1:
            start, end, _ = compiler.location(args[0])
            return Inside(start, CHAR, end)
        case "__get_dynamic_array", 1:
            start, end, element = compiler.location(args[0])
            return Inside(start, element, end)
        case "__get_dynamic_array_len", 1:
            start, end, _ = compiler.location(args[0])
            return Integer(lambda payload: end(payload) - start(payload), INT)
        case "__get_sockaddr", 1:
            start, end, _ = compiler.location(args[0])
            return Inside(start, U8, end)
        case (("__get_bitmask" | "__get_cpumask"), 1):
            start, end, _ = compiler.location(args[0])
            return Text(lambda payload: bitmap(payload[start(payload) : end(payload)]))
        case (("__print_symbolic" | "__print_symbolic_u64"), count) if count:
            return _symbolic(args, compiler)
        case (("__print_flags" | "__print_flags_u64"), count) if count > 1:
            return _flagged(args, compiler)
        case (("__print_hex" | "__print_hex_str"), 2):
            return _hex(args, " " if name == "__print_hex" else "", compiler)
        case ("__print_array", 3) | ("__print_dynamic_array", 2):
            return _array(args, compiler)
        case _:
            raise Unprintable(f"{expr.name}()")


def _symbolic(args: tuple[Expr, ...], compiler: Compiler) -> Text:
    value = compiler.integer(args[0]).run
    known = dict(reversed(_table(args[1:], compiler)))
    return Text(lambda p: known.get(n := value(p) & _ALL) or f"0x{n:x}")


def _flagged(args: tuple[Expr, ...], compiler: Compiler) -> Text:
    value, separator = compiler.integer(args[0]).run, _constant_text(args[1])
    names = _table(args[2:], compiler)
    return Text(lambda payload: _flags(value(payload) & _ALL, separator, names))


def _table(items: tuple[Expr, ...], compiler: Compiler) -> list[tuple[int, str]]:
    found = []
    for item in items:
        if not isinstance(item, Braces) or len(item.items) != 2:
            raise Unprintable("a table expected")
        text = compiler.compile(item.items[1])
        if not isinstance(text, Text):
            break
        value = _constant(compiler.integer(item.items[0]).run)
        found.append((value & _ALL, _constant(text.run)))
    return found


def _constant(run: Run) -> Any:
    """Return what a run gives for any payload. Raises Unprintable where it takes one."""
    try:
        return run(b"")
    except (struct.error, IndexError):
        raise Unprintable("a constant expected") from None


def _constant_text(expr: Expr) -> str:
    if not isinstance(expr, String):
        raise Unprintable("a string expected")
    return expr.text


def _hex(args: tuple[Expr, ...], separator: str, compiler: Compiler) -> Text:
    data, size = compiler.compile(args[0]), compiler.integer(args[1]).run
    if not isinstance(data, Inside):
        raise Unprintable("bytes that are not in the record")
    start = data.run

    def run(payload: bytes) -> str:
        at = start(payload)
        found = payload[at : at + size(payload)]
        return found.hex(separator) if separator else found.hex()

    return Text(run)


def _array(args: tuple[Expr, ...], compiler: Compiler) -> Text:
    width = _constant(compiler.integer(args[-1]).run)
    if width not in {1, 2, 4, 8}:
        raise Unprintable(f"elements of {width} bytes")
    letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[width]
    if len(args) == 2:
        start, end, _ = compiler.location(args[0])
        count: Run = lambda payload: (end(payload) - start(payload)) // width  # noqa: E731
    else:
        data, count = compiler.compile(args[0]), compiler.integer(args[1]).run
        if not isinstance(data, Inside):
            raise Unprintable("an array that is not in the record")
        start = data.run
    order = compiler.order

    def run(payload: bytes) -> str:
        values = struct.unpack_from(f"{order}{count(payload)}{letter}", payload, start(payload))
        return "{" + ",".join(f"0x{value:x}" for value in values) + "}"

    return Text(run)


_ALL = (1 << 64) - 1


def _flags(value: int, separator: str, names: list[tuple[int, str]]) -> str:
    found = []
    for mask, text in names:
        if not value:
            break
        if value & mask == mask:
            found.append(text)
            value &= ~mask
    if value:
        found.append(f"0x{value:x}")
    return separator.join(found)
