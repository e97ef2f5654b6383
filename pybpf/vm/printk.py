"""The kernel's formatting for programs: a format and 64-bit arguments in, text out.

Source: bpf_bprintf_prepare in kernel/bpf/helpers.c. Pointers are printed as they are, not hashed;
the kernel's own extensions of ``%p`` are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# format     : (TEXT | conversion)* NUL
# conversion : '%%' | '%' [-+ 0#]* DIGIT* ('l' | 'll')? [diuxXcps]
_PIECE = re.compile(rb"([^%]+)|%(?:(%)|([-+ 0#]*)(\d*)(l{0,2})([diuxXcps]))")
_WIDTH_DIGITS, _WIDEST = 4, b"9999"
"""No conversion is wider: the kernel's buffer of a message has 1,024 bytes."""


def format_message(
    template: bytes, arguments: Sequence[int], string: Callable[[int], bytes]
) -> bytes | None:
    """Return the text of a NUL-terminated format; None where the kernel refuses it (EINVAL).

    ``string`` reads the text that a ``%s`` points to. Too few arguments are refused too.
    """
    text, nul, _ = template.partition(b"\0")
    if not nul or not text.isascii():
        return None
    values = iter(arguments)
    printed = b""
    position = 0
    while position < len(text):
        found = _PIECE.match(text, position)
        if found is None:
            return None
        position = found.end()
        plain, percent, flags, width, length, letter = found.groups()
        if letter is None:
            printed += plain or percent
            continue
        value = next(values, None)
        if value is None:
            return None
        wide = _WIDEST if len(width) > _WIDTH_DIGITS else width
        printed += _convert(b"%" + flags + wide, length, letter, value, string)
    return printed


def _convert(
    prefix: bytes, length: bytes, letter: bytes, value: int, string: Callable[[int], bytes]
) -> bytes:
    """Return what one conversion prints; the rest is Python's own formatting, which is C's."""
    match letter:
        case b"s":
            return (prefix + b"s") % string(value)
        case b"c":
            return (prefix + b"c") % bytes([value & 0xFF])
        case b"p":
            return (prefix + b"s") % (b"%016x" % value)
        case _:
            bits = 64 if length else 32
            number = value & ((1 << bits) - 1)
            if letter in b"di" and number >> (bits - 1):
                number -= 1 << bits
            return (prefix + letter) % number
