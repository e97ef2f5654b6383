"""Make data fit for a terminal: bytes or text from the kernel -> printable text.

Only what comes from data passes through here; a script's own format text is printed as written.
"""

from __future__ import annotations

_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escape(data: bytes) -> str:
    r"""Return UTF-8 text with everything unprintable, and every invalid byte, as ``\xNN``."""
    return escape_text(data.decode("utf-8", "surrogateescape"))


def escape_text(text: str) -> str:
    r"""Return ``text`` with everything unprintable as the ``\xNN`` of its UTF-8 bytes.

    Line ends and tabs are ``\n``, ``\r`` and ``\t``; a backslash stays single. Invalid bytes are
    expected as Python's surrogate escapes.
    """
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else _escaped(ch) for ch in text)


def _escaped(ch: str) -> str:
    if ch in _NAMED:
        return _NAMED[ch]
    if "\udc80" <= ch <= "\udcff":
        return f"\\x{ord(ch) & 0xFF:02x}"
    return "".join(f"\\x{byte:02x}" for byte in ch.encode("utf-8", "surrogatepass"))


def columns(text: str) -> int:
    """Return how many terminal columns printable text takes: East Asian wide characters two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(2 if east_asian_width(ch) in "WF" else not combining(ch) for ch in text)


def pad(text: str, width: int, *, left: bool = False) -> str:
    """Fill up with spaces to ``width`` columns; ``left`` aligns the text to the left."""
    space = " " * (width - columns(text))
    return text + space if left else space + text
