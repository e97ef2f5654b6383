"""Why the kernel refused a write: the error_log of an instance in, its new entries out.

It holds eight entries, and whoever empties it takes those of others: here it is only read.
"""

from __future__ import annotations

import re

from pybpf.kernel.tracefs import Tree
from pybpf.tracefs.dynevents.log import LogEntry

# entry: '[' seconds '] ' subsystem ': error: ' message '\n  Command: ' command '\n' blanks '^'
_ENTRY = re.compile(r"\[ *([\d.]+)\] (.*?): error: (.*)\n {2}Command: (.*)\n( *)\^")
_INDENT = len("  Command: ")


def read_log(tree: Tree, folder: str = "") -> list[tuple[str, LogEntry]]:
    """Return the entries, oldest first, each with its time. ``folder`` is that of an instance."""
    try:
        text = tree.read(f"{folder}error_log")
    except FileNotFoundError:  # Linux 5.2
        return []
    return [
        (m[1], LogEntry(m[2], m[3], m[4], max(0, len(m[5]) - _INDENT)))
        for m in _ENTRY.finditer(text)
    ]


def added(
    before: list[tuple[str, LogEntry]], after: list[tuple[str, LogEntry]], text: str
) -> tuple[LogEntry, ...]:
    """Return the entries that are new in ``after``, and about ``text``.

    Others may have failed in the meantime: an entry quotes its command, with single spaces.
    """
    words = " ".join(text.split())
    known = list(before)
    found = []
    for entry in after:
        if entry in known:
            known.remove(entry)
        elif " ".join(entry[1].command.split()).removeprefix("hist:") in words:
            found.append(entry[1])
    return tuple(found)
