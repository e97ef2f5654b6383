"""The text of a trigger cut apart: what precedes ``if`` and what follows it.

Text is one character a byte, see dynevents.ctext.
"""

from __future__ import annotations

import re

from pybpf.tracefs.dynevents.ctext import NumberError, skip_spaces, unsigned
from pybpf.tracefs.dynevents.log import Refused

_SEPARATOR = re.compile(r"[: \t]")


def strip(text: str) -> str:
    """Return a text without the white space around it, as the kernel takes it."""
    text = skip_spaces(text)
    return skip_spaces(text[::-1])[::-1]


def split_command(text: str) -> tuple[str, str | None]:
    """Return the word that a trigger begins with, its ``!`` included, and the rest, if any."""
    text = strip(text.partition("\0")[0])
    match = _SEPARATOR.search(text)
    if match is None:
        return text, None
    return text[: match.start()], skip_spaces(text[match.end() :]) or None


def split_hist(text: str) -> tuple[str, str | None] | None:
    """Return what a histogram is made of and its filter; None for text the kernel refuses.

    The word ``if`` has white space before and after it.
    """
    place = text.find("if")
    while place >= 0:
        if place == 0:
            return None
        if text[place - 1] in {" ", "\t"}:
            if place + 2 >= len(text):
                return None
            if text[place + 2] in {" ", "\t"}:
                return strip(text[: place - 1]), text[place + 3 :]
        place = text.find("if", place + 1)
    return text, None


def filter_of(text: str) -> str | None:
    """Return the filter in ``if FILTER``, None for text that is not so."""
    match = _SPACE.search(text)
    if match is None or text[: match.start()] != "if":
        return None
    return text[match.end() :]


_SPACE = re.compile(r"[ \t]")


def leading_number(text: str) -> int:
    """Return the number before the first colon, if any. Raises Refused."""
    try:
        return unsigned(text.partition(":")[0])
    except NumberError as error:
        raise Refused(error.errno) from None
