"""Format strings of bpf_snprintf: the text and how many values there are in; nothing, or Refusal.

Source: bpf_bprintf_prepare in kernel/trace/bpf_trace.c (kernel/bpf/helpers.c since Linux 5.13).
"""

from __future__ import annotations

import re

from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.state import Reg

_WORD = 8
_ASCII = 0x7F
_AFTER = re.compile(rb"%[^%]*[ps][\x80-\xff]")
# What may stand behind a % and its width; a plain %p or %s must be followed by no letter or digit.
_CONVERSION = re.compile(
    rb"[0+\- ]*(?:[1-9][0-9]*)?"
    rb"(?:p[ku]s(?![0-9A-Za-z])|p[KxsSB]|p[iI][46]|p(?![0-9A-Za-z])|s(?![0-9A-Za-z])|c|l?l?[idux]"
    rb"|l?l?X)"
)


def check_snprintf(env: Env, text: Reg, length: int) -> None:
    """Raise Refusal for a format that the kernel does not take, or with too few values.

    ``length``: what is known to be set of the number of bytes of all values, which the kernel takes
    for it. ``text`` points to a constant string.
    """
    if text.map is None or text.map.contents is None:
        raise Unmodelled("a format that is not known")
    if length % _WORD:
        raise Refusal("")
    start = text.off + text.val.smin
    found = text.map.contents[start:].partition(b"\0")[0]
    if _AFTER.search(found):
        raise Unmodelled("a conversion before a letter outside of ASCII")
    if max(found, default=0) > _ASCII and not env.rules.since(6, 1):
        raise Refusal("Invalid format string")
    if not is_format(found, length // _WORD):
        raise Refusal("Invalid format string")


def is_format(text: bytes, values: int) -> bool:
    """Whether a text is a format for so many values, at least."""
    at = used = 0
    while at < len(text):
        byte = text[at]
        if not (0x20 <= byte < _ASCII or byte > _ASCII) and byte not in b"\t\n\v\f\r":
            return False
        at += 1
        if byte != ord("%"):
            continue
        if text[at : at + 1] == b"%":
            at += 1
            continue
        match = _CONVERSION.match(text, at)
        if match is None or used >= values:
            return False
        used += 1
        at = match.end()
    return True
