"""The kernel's error_log as one write fills it: messages and places in, entries out.

A caret is given by a word of the command and an offset in it; the command is shown with single
spaces between its words, and the column counts bytes of that text.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevents.ctext import restore
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.rules import Rules


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry: who complains, of what, and ``column`` bytes into which command, from 0."""

    subsystem: str
    message: str
    command: str
    column: int


class Answer:
    """What all verdicts tell of a write: a kernel's errno, 0 for none, and what it logged."""

    __slots__ = ()
    errno: int
    errors: tuple[LogEntry, ...]

    @property
    def accepted(self) -> bool:
        """Say whether the write succeeds."""
        return self.errno == 0

    @property
    def message(self) -> str | None:
        """The most specific message of the error_log, None where nothing was logged."""
        return self.errors[0].message if self.errors else None

    @property
    def column(self) -> int | None:
        """Where in the logged command the fault is, in bytes from 0."""
        return self.errors[0].column if self.errors else None


class Refused(Exception):
    """The kernel says no; ``errno`` is with which number."""

    def __init__(self, number: int = errno.EINVAL) -> None:
        self.errno = number
        super().__init__(number)


class Log:
    """The entries of one write, and the command that carets point into at the moment."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.entries: list[LogEntry] = []
        self.index = 0
        self._subsystem = ""
        self._argv: tuple[str, ...] = ()

    def command(self, subsystem: str, argv: Sequence[str]) -> None:
        """Begin a command; carets point into its first word."""
        self._subsystem, self._argv, self.index = subsystem, tuple(argv), 0

    def rewrite(self, argv: Sequence[str]) -> None:
        """Show the command with other words from now on."""
        self._argv = tuple(argv)

    def add(self, message: Message, offset: int = 0) -> None:
        """Log a message about the byte ``offset`` of the word at ``index``."""
        if self.index < len(self._argv):
            place = sum(len(word) + 1 for word in self._argv[: self.index]) + offset
        else:
            place = sum(len(word) + 1 for word in self._argv)
        self.plain(self._subsystem, message, " ".join(self._argv), place)

    def plain(self, subsystem: str, message: Message | str, command: str, column: int) -> None:
        """Log a message about a byte of a command that is shown as it is."""
        said = self.rules.say(message) if isinstance(message, Message) else message
        self.entries.append(LogEntry(subsystem, said, restore(command), column))

    def refuse(self, message: Message, number: int, offset: int = 0) -> Refused:
        """Log a message, and return what to raise."""
        self.add(message, offset)
        return Refused(number)
