"""Errors that speak of names with an owner in, the same with the names that were given out."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pybpf.dataclass import replace
from pybpf.errors import Diagnostic, DynEventError, KernelError
from pybpf.source import Source, Span


@contextmanager
def in_given_names(names: Mapping[str, str]) -> Iterator[None]:
    """Raise what a block raises by the names a person wrote.

    ``names`` has the ``group/event`` that carries an owner by the one that was given.
    """
    given = _Given(names)
    try:
        yield
    except DynEventError as error:
        diagnostics = [given.diagnostic(diagnostic) for diagnostic in error.diagnostics]
        raise DynEventError(diagnostics, error.errno) from None
    except KernelError as error:
        number = error.errno or errno.EIO
        hints = [given.text(hint) for hint in error.hints]
        raise KernelError(number, given.text(error.action), log=error.log, hints=hints) from None


class _Given:
    """Puts given names for those with an owner.

    Texts have them as ``group/event`` and ``group.event``, synthetic events also without a group.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._given: dict[str, str] = {}
        for name, own in names.items():
            for separator in "/.":
                self._given[own.replace("/", separator, 1)] = name.replace("/", separator, 1)
            if own.startswith("synthetic/"):
                self._given[own.partition("/")[2]] = name.partition("/")[2]
        # Where there are none, what is at no place.
        words = "|".join(map(re.escape, self._given)) or r"\Z\A."
        self._pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")

    def text(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._given[match[0]], text)

    def place(self, text: str, place: int) -> int:
        """Return where in ``self.text(text)`` the character is that was at ``place``."""
        moved = 0
        for match in self._pattern.finditer(text):
            size = len(self._given[match[0]])
            if place < match.end():
                into = max(place - match.start(), 0)
                return place + moved - into + min(into, size)
            moved += size - len(match[0])
        return place + moved

    def diagnostic(self, diagnostic: Diagnostic) -> Diagnostic:
        span = diagnostic.span
        if span is not None:
            text = span.source.text
            source = Source(span.source.name, self.text(text))
            start, end = self.place(text, span.start), self.place(text, span.end)
            span = Span(source, start, end)
        return replace(
            diagnostic,
            message=self.text(diagnostic.message),
            span=span,
            hints=tuple(map(self.text, diagnostic.hints)),
        )
