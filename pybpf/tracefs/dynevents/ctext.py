"""How the kernel reads numbers, names and words: text in, values out, or an errno.

Text is one character a byte (Latin-1), as the kernel sees it: ``as_bytes`` makes it, ``restore``
turns what was cut from it into a ``str`` again. Sources: lib/kstrtox.c, lib/ctype.c,
lib/argv_split.c and is_good_name() of kernel/trace/trace.h.
"""

from __future__ import annotations

import errno

_SPACES = frozenset("\t\n\v\f\r \xa0")
_DIGITS = frozenset("0123456789")
# The upper half of Latin-1 has letters from 0xc0 on, all but the signs for times and divide.
_LETTERS = frozenset(
    chr(code)
    for code in (*range(0x41, 0x5B), *range(0x61, 0x7B), *range(0xC0, 0x100))
    if code not in {0xD7, 0xF7}
)
_WORD = _LETTERS | _DIGITS | {"_"}

S64 = 1 << 63
U64 = 1 << 64
U32 = 1 << 32


class NumberError(Exception):
    """Text that the kernel takes for no number of the wanted kind; ``errno`` is what it says."""

    def __init__(self, number: int) -> None:
        self.errno = number
        super().__init__(errno.errorcode[number])


def as_bytes(text: str | bytes) -> str:
    """Return a text as the kernel sees it, one character a byte."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return raw.decode("latin-1")


def restore(text: str) -> str:
    """Return what ``as_bytes`` was given; bytes that are no UTF-8 become lone surrogates."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def is_digit(char: str) -> bool:
    """Say whether a character, or the end of a text (""), is a decimal digit."""
    return char in _DIGITS


def is_letter(char: str) -> bool:
    """Say whether a character is a letter in the kernel's eyes."""
    return char in _LETTERS


def is_name(text: str) -> bool:
    """Say whether a text may name an event, a field or an argument."""
    return bool(text) and not is_digit(text[0]) and _WORD.issuperset(text)


def is_group(text: str) -> bool:
    """Say whether a text may name a group: a name, with ``-`` allowed anywhere."""
    return bool(text) and not is_digit(text[0]) and (_WORD | {"-"}).issuperset(text)


def word_places(text: str) -> list[tuple[int, int]]:
    """Return where the words of a text begin and end."""
    found: list[tuple[int, int]] = []
    start: int | None = None
    for place, char in enumerate(text + " "):
        if char in _SPACES:
            if start is not None:
                found.append((start, place))
            start = None
        elif start is None:
            start = place
    return found


def words(text: str) -> list[str]:
    """Split a text at what the kernel takes for white space, 0xa0 included."""
    return [text[start:end] for start, end in word_places(text)]


def skip_spaces(text: str) -> str:
    """Return a text without the white space it starts with."""
    return text.lstrip("".join(_SPACES))


def number_prefix(text: str) -> tuple[int, int]:
    """Return the number that a text starts with, unbounded, and how long it is (0: there is none).

    ``0x`` and a hexadecimal digit make it hexadecimal, another leading 0 octal.
    """
    start, base = 0, 10
    if text[:1] == "0":
        base = 8
        if text[1:2] in {"x", "X"} and text[2:3] and text[2] in "0123456789abcdefABCDEF":
            start, base = 2, 16
    digits = "0123456789abcdef"[:base]
    end = start
    while end < len(text) and text[end].lower() in digits:
        end += 1
    return (int(text[start:end], base), end) if end > start else (0, 0)


def simple_unsigned(text: str, *, wraps: bool) -> tuple[int, int]:
    """Return the number that a text starts with, and how long it is.

    One that is too large for 64 bits is taken modulo 2**64, or else for the largest.
    """
    value, length = number_prefix(text)
    return value % U64 if wraps else min(value, U64 - 1), length


def _whole(text: str) -> int:
    value, length = number_prefix(text)
    if value >= U64:
        raise NumberError(errno.ERANGE)
    rest = text[length:]
    if length == 0 or rest not in {"", "\n"}:
        raise NumberError(errno.EINVAL)
    return value


def unsigned(text: str) -> int:
    """Return an unsigned number of 64 bits; a ``+`` may stand before it. Raises NumberError."""
    return _whole(text.removeprefix("+"))


def signed(text: str) -> int:
    """Return a signed number of 64 bits. Raises NumberError."""
    if text[:1] == "-":
        value = _whole(text[1:])
        if value > S64:
            raise NumberError(errno.ERANGE)
        return -value
    value = unsigned(text)
    if value >= S64:
        raise NumberError(errno.ERANGE)
    return value


def unsigned32(text: str) -> int:
    """Return an unsigned number of 32 bits. Raises NumberError."""
    value = unsigned(text)
    if value >= U32:
        raise NumberError(errno.ERANGE)
    return value
