"""Parse a printf format: bytes of a string literal -> literal pieces and conversions.

The language is C's without ``*`` and ``n``, plus ply's ``%v``: the default format of the type.
Length modifiers are read and dropped: every value travels with its type, so its width is known.
"""

from __future__ import annotations

import re

from pybpf.dataclass import dataclass
from pybpf.script import Conversion, Text

SIGNED = "di"
UNSIGNED = "ouxX"
FLOATS = "aAeEfFgG"
LETTERS = f"{SIGNED}{UNSIGNED}csp{FLOATS}v"
"""Every conversion letter."""

_CHOICE = " ".join(LETTERS)

MAX_WIDTH = 1024
"""The largest width or precision: a script's typing error must not flood the terminal."""


@dataclass(frozen=True, slots=True)
class FormatFault:
    """Why a format was refused; ``position`` is the byte offset of the conversion's ``%``."""

    position: int
    message: str


# conversion : '%' ('%' | END)
#            | '%' [-+ #0']* DIGIT* ['.' DIGIT*] [length] LETTER
# length     : 'hh' | 'h' | 'll' | 'l' | 'j' | 'z' | 't' | 'q' | 'L'
_CONVERSION = re.compile(
    rb"%(?:(?P<percent>%|\Z)"
    rb"|(?P<flags>[-+ #0']*)(?P<width>[0-9]*)(?:(?P<dot>\.)(?P<precision>[0-9]*))?"
    rb"(?:hh|h|ll|l|j|z|t|q|L)?(?P<letter>.?))",
    re.DOTALL,
)


# format : (TEXT | conversion)*
def parse_format(text: bytes) -> tuple[Text | Conversion, ...] | FormatFault:
    """Split a format into pieces, adjacent literal text in one; a lone ``%`` at the end is text."""
    pieces: list[Text | Conversion] = []
    literal = b""
    position = 0
    for match in _CONVERSION.finditer(text):
        literal += text[position : match.start()]
        position = match.end()
        if match["percent"] is not None:
            literal += b"%"
            continue
        conversion = _conversion(match)
        if isinstance(conversion, FormatFault):
            return conversion
        if literal:
            pieces.append(Text(literal))
            literal = b""
        pieces.append(conversion)
    literal += text[position:]
    if literal:
        pieces.append(Text(literal))
    return tuple(pieces)


def _conversion(match: re.Match[bytes]) -> Conversion | FormatFault:
    letter = match["letter"].decode("latin-1")
    if not letter:
        return FormatFault(match.start(), f"unfinished conversion '{_shown(match)}'")
    if letter == "*":
        return FormatFault(match.start(), "'*' is not supported: write the width as a number")
    if letter not in LETTERS:
        return FormatFault(
            match.start(), f"unknown conversion '{_shown(match)}'; the letters are {_CHOICE}"
        )
    width = _number(match["width"]) if match["width"] else None
    precision = _number(match["precision"]) if match["dot"] else None
    for name, number in (("width", width), ("precision", precision)):
        if number is not None and number > MAX_WIDTH:
            return FormatFault(match.start(), f"a {name} may be at most {MAX_WIDTH}")
    return Conversion(match["flags"].decode(), width, precision, letter)


def _number(digits: bytes) -> int:
    # int() refuses more than 4300 digits; anything above the limit is as good as the limit + 1.
    digits = digits.lstrip(b"0")
    return int(digits or b"0") if len(digits) <= len(str(MAX_WIDTH)) else MAX_WIDTH + 1


def _shown(match: re.Match[bytes]) -> str:
    text = match[0].decode("ascii", "backslashreplace")
    return "".join(ch if ch.isprintable() else f"\\x{ord(ch):02x}" for ch in text)
