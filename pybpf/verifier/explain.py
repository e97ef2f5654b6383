"""A verifier's message in; what it means, and what to change in the program, in plain words out.

The tables are in explain_values.py and explain_programs.py. Messages are compared from their
beginning; where several rows match, the first counts.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from functools import cache

from pybpf.dataclass import dataclass
from pybpf.verifier.explain_programs import PROGRAMS
from pybpf.verifier.explain_values import VALUES


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a rejection means, and what to change; a sentence or two without a period at the end.

    ``kind`` names it for programs that compare: ``null-check``.
    """

    kind: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Row:
    kind: str
    pattern: re.Pattern[str]
    why: str
    fix: str


@cache
def _rows() -> tuple[_Row, ...]:
    rows = []
    for block in (*VALUES.strip().split("\n\n"), *PROGRAMS.strip().split("\n\n")):
        kind, pattern, why, fix = block.split("\n")
        rows.append(_Row(kind, re.compile(pattern.strip()), why.strip(), fix.strip()))
    return tuple(rows)


_SILENT: Mapping[int, Explanation] = {
    errno.E2BIG: Explanation(
        "program-size",
        "the program has no instruction, or more than the kernel takes: 1 million, or 4096 without "
        "privileges",
        "split it by tail calls",
    ),
    errno.EINVAL: Explanation(
        "program-type",
        "the kernel does not know the program's type, or not with this attach type or these flags, "
        "and refuses it before it looks at an instruction",
        "choose another type or a newer kernel; `pybpf verify --kernel` tells for others",
    ),
}
"""What bpf(2) refuses without a word of the verifier, by errno."""


def explain(message: str, number: int = 0) -> Explanation | None:
    """Return what a message of the verifier means; None for one that is not in the table.

    ``number`` is the errno, which is all there is where the message is empty.
    """
    if not message:
        return _SILENT.get(number)
    for row in _rows():
        if match := row.pattern.match(message):
            return Explanation(row.kind, _filled(row.why, match), _filled(row.fix, match))
    return None


def _filled(text: str, match: re.Match[str]) -> str:
    groups: Mapping[str, str | None] = match.groupdict()
    return re.sub(r"\{(\w+)\}", lambda name: groups[name[1]] or "", text)


def kinds() -> tuple[str, ...]:
    """Return the kinds of rejections that are explained, in the order of the table."""
    silent = [explanation.kind for explanation in _SILENT.values()]
    return tuple(dict.fromkeys([*(row.kind for row in _rows()), *silent]))
