"""Print one value by its type: a row's value -> text in ply's default format."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.output.duration import duration
from pybpf.output.escape import escape, escape_text, pad
from pybpf.output.histogram import histogram
from pybpf.rows import Buckets, Stack, Value
from pybpf.types import VOID, Array, DataLoc, Func, Int, Ptr, Show, Struct, Type, show_of, strip

if TYPE_CHECKING:
    from pybpf.target.target import Symbols

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Style:
    """What a rendering needs to know beside the row.

    ``walltime_offset``: nanoseconds from the monotonic clock to the Unix epoch's.
    ``unicode``: whether the output can hold block characters.
    """

    symbols: Symbols
    walltime_offset: int = 0
    unicode: bool = True


def show(value: Value, t: Type, style: Style) -> str:
    """Return a value in the default format of its type; several lines for stacks and the like."""
    match value:
        case int():
            return _number(value, t, style)
        case bytes():
            return _chars(value, t)
        case Stack():
            return _stack(value, style)
        case Buckets(counts=counts):
            return histogram(counts, t, unicode=style.unicode)
        case tuple():
            return _compound(value, t, style)


def symbol(address: int, style: Style) -> str | None:
    """Return ``name`` or ``name+OFFSET`` (decimal) of an address in kernel text, or None."""
    found = style.symbols.resolve(address)
    if found is None:
        return None
    name, offset = found
    return escape_text(name) + (f"+{offset}" if offset else "")


def string(data: bytes) -> bytes:
    """Return a C string: what comes before the first NUL."""
    return data.partition(b"\0")[0]


def is_text(data: bytes) -> bool:
    """Whether an array is printable text, a NUL, and nothing but NULs after it."""
    text, nul, rest = data.partition(b"\0")
    return bool(nul) and not rest.strip(b"\0") and escape(text).encode() == text


def unsigned(value: int, t: Type) -> int:
    """Return the bits of a value as an unsigned number, as wide as its type."""
    base = strip(t)
    return value & ((1 << (base.bits if isinstance(base, Int) else 64)) - 1)


def _number(value: int, t: Type, style: Style) -> str:
    match show_of(t):
        case Show.PID:
            return f"{value:5}"
        case Show.UID:
            return f"{value:4}"
        case Show.CPU:
            return f"{value:2}"
        case Show.TIME:
            return duration(value)
        case Show.WALLTIME:
            return _walltime(value + style.walltime_offset)
        case Show.HEX:
            return f"{unsigned(value, t):#x}" if value else "0"
        case Show.SYMBOL:
            return _symbol(unsigned(value, t), style)
        case Show.STACK:
            return _stack(Stack(value, ()), style)
        case Show.PLAIN | Show.BYTES:
            return _plain(value, strip(t))


def _plain(value: int, base: Type) -> str:
    match base:
        case Ptr() | Func():
            return f"<{unsigned(value, base):x}>"
        case DataLoc():
            return f"dynamic({value >> 16} bytes, offset {value & 0xFFFF:#x})"
        case _:
            return str(value)


def _walltime(ns: int) -> str:
    seconds, fraction = divmod(ns, SECOND)
    return f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{fraction:09}"


def _symbol(address: int, style: Style) -> str:
    name = symbol(address, style)
    return f"<{address:16x}>" if name is None else name


def _stack(stack: Stack, style: Style) -> str:
    if stack.id == -errno.EFAULT:  # the kernel's answer to who asks while user space runs
        return "<user space>"
    if not stack.frames:
        return f"<STACKID{stack.id & 0xFFFFFFFF}>"
    return "\n" + "".join(f"\t{_symbol(frame, style)}\n" for frame in stack.frames)


def _chars(data: bytes, t: Type) -> str:
    if show_of(t) is Show.BYTES and not is_text(data):
        return _hexdump(data)
    base = strip(t)
    size = base.count if isinstance(base, Array) else len(data)
    return pad(escape(string(data)), size - 1, left=True)


# 010:  61 62 63 64 65 66 67 68  69 6a                    abcdefgh ij
def _hexdump(data: bytes) -> str:
    lines = [""]
    for offset in range(0, len(data), 16):
        row = data[offset : offset + 16]
        digits = " ".join(f"{byte:02x}" for byte in row)
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        halves = f"{digits[:24]:24} {digits[24:]:23}"
        lines.append(f"{offset:03x}:  {halves}   {text[:8]}{' ' if len(row) > 8 else ''}{text[8:]}")
    return "\n".join(lines) + "\n"


def _compound(values: tuple[Value, ...], t: Type, style: Style) -> str:
    match strip(t):
        case Struct(name="", fields=fields):
            return "{ " + ", ".join(_parts(values, [f.type for f in fields], style)) + " }"
        case Struct(fields=fields):
            shown = _parts(values, [f.type for f in fields], style)
            named = [f"{f.name} = {text}" for f, text in zip(fields, shown, strict=False)]
            return "{\n\t" + ",\n\t".join(named) + "\n}"
        case Array(element=element):
            return "[" + ", ".join(show(value, element, style) for value in values) + "]"
        case _:
            return "[" + ", ".join(show(value, VOID, style) for value in values) + "]"


def _parts(values: tuple[Value, ...], types: list[Type], style: Style) -> list[str]:
    return [show(value, t, style) for value, t in zip(values, types, strict=False)]
