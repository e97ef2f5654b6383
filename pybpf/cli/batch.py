"""``--batch FILE`` of verify and exec: lines of JSON in; answers as they come, and a status, out.

A line that holds no program is answered, too. Standard error tells of those at the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from pybpf.cli import UsageError


class Answer(Protocol):
    """The answer to a line, which counts from 1; ``is_program`` is False where it held none."""

    @property
    def text(self) -> str:
        """One line of JSON, without a line end."""

    @property
    def line(self) -> int:
        """Of which line it is."""

    @property
    def is_program(self) -> bool:
        """Whether that held a program."""


def refuse(options: argparse.Namespace, alone: Iterable[str], held: str) -> None:
    """Raise UsageError for an option of single programs; a line holds ``held``."""
    for name in alone:
        if getattr(options, name):
            option = "FILE" if name == "file" else f"--{name}"
            raise UsageError(f"--batch goes with no {option}: a line holds {held}")


def lines(name: str) -> Iterator[bytes]:
    """Yield the lines of a file, which xz may have compressed, or of standard input, as they come.

    Raises UsageError where it cannot be read, CorpusError for a line of more than 64 MiB.
    """
    from pybpf.corpus import bounded_lines, read_lines

    try:
        yield from bounded_lines(sys.stdin.buffer) if name == "-" else read_lines(name)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from None


def print_all(answers: Iterable[Answer], name: str) -> int:
    """Print the answers to the lines of a file; return 1 where one holds no program, else 0."""
    bad: list[int] = []
    for answer in answers:
        sys.stdout.write(answer.text + "\n")
        sys.stdout.flush()
        if not answer.is_program:
            bad.append(answer.line)
    if bad:
        print(f"error: {name}: {_counted(bad)}", file=sys.stderr)
        return 1
    return 0


def _counted(bad: Sequence[int]) -> str:
    """Return which lines of a batch, one at least, hold no program."""
    if len(bad) == 1:
        return f"line {bad[0]} holds no program"
    return f"{len(bad)} lines hold no program, the first is line {bad[0]}"
