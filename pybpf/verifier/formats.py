"""Format strings of bpf_snprintf: the text and how many values there are in; nothing, or Refusal.

Source: bpf_bprintf_prepare in kernel/trace/bpf_trace.c (kernel/bpf/helpers.c since Linux 5.13).
"""

from __future__ import annotations

import re

from pybpf.verifier.env import Env
from pybpf.verifier.refusal import Refusal, Unmodelled
from pybpf.verifier.state import Reg

_WORD = 8
# What may stand behind a % and its width; a plain %p or %s must be followed by no letter or digit.
_CONVERSION = re.compile(
    rb"[0+\- ]*(?:[1-9][0-9]*)?"
    rb"(?:p[ku]s(?![0-9A-Za-z])|p[KxsSB]|p[iI][46]|p(?![0-9A-Za-z])|s(?![0-9A-Za-z])|c|l?l?[idux]"
    rb"|l?l?X)"
)


def check_snprintf(env: Env, text: Reg, length: int | None) -> None:
    """Raise Refusal for a format that the kernel does not take, or with too few values.

    ``length``: the bytes of all values. ``text`` points to a constant string.
    """
    if length is None or text.map is None or text.map.contents is None:
        raise Unmodelled("a format whose values are not counted")
    if length % _WORD:
        raise Refusal("")
    start = text.off + text.val.smin
    found = text.map.contents[start:].partition(b"\0")[0]
    if any(byte >= 0x80 for byte in found):
        if env.rules.since(6, 17):
            raise Unmodelled("a format with letters outside of ASCII")
        raise Refusal("Invalid format string")
    if not is_format(found, length // _WORD):
        raise Refusal("Invalid format string")


def is_format(text: bytes, values: int) -> bool:
    """Whether a text is a format for so many values, at least."""
    at = used = 0
    while at < len(text):
        byte = text[at]
        if not 0x20 <= byte < 0x7F and byte not in b"\t\n\v\f\r":
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
