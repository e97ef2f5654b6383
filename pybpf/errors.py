"""The one error tree, and diagnostics: messages that know their place in a source."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum

from pybpf.dataclass import dataclass
from pybpf.source import Span


class Severity(StrEnum):
    """How bad a diagnostic is; only errors stop a compile."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message about a span of source text, with optional hints that say what to change."""

    message: str
    span: Span | None = None
    hints: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR

    def render(self) -> str:
        """Return the message with its place, the source line, a caret line and the hints."""
        if self.span is None:
            lines = [f"{self.severity}: {self.message}"]
        else:
            source = self.span.source
            number, column = source.position(self.span.start)
            text = source.line(number)
            lines = [f"{source.name}:{number}:{column}: {self.severity}: {self.message}"]
            if text.strip():
                shown, caret = _excerpt(text, column - 1, self.span.end - self.span.start)
                lines += [f"    {shown}", f"    {caret}"]
        lines += [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(lines)


_EXCERPT = 160


def _excerpt(text: str, start: int, length: int) -> tuple[str, str]:
    """Return a printable window of ``text`` around a column, and its caret line."""
    first = max(0, start - _EXCERPT // 2) if len(text) > _EXCERPT else 0
    window = text[first : first + _EXCERPT]
    shown = "".join(
        ch if ch.isprintable() or ch == "\t" else "\N{REPLACEMENT CHARACTER}" for ch in window
    )
    marked = shown[start - first :][: max(1, length)]
    pad = "".join("\t" if ch == "\t" else " " * _columns(ch) for ch in shown[: start - first])
    return shown, pad + "^" * max(1, sum(map(_columns, marked)))


def _columns(character: str) -> int:
    """Return how many columns of a terminal a character takes: 0, 1 or 2 (as in wcwidth)."""
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(character) in {"Mn", "Me"}:
        return 0
    return 2 if east_asian_width(character) in {"W", "F"} else 1


class PybpfError(Exception):
    """The root of every error that pybpf raises on purpose."""


class SourceError(PybpfError):
    """A fault in a text that a person wrote; ``diagnostics`` says where and what to do."""

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class LexError(SourceError):
    """A character sequence that is no token."""


class ParseError(SourceError):
    """Tokens that form no script."""


class ScriptTypeError(SourceError):
    """A script whose names or types do not fit; holds every fault found."""


class AssemblyError(SourceError):
    """Assembler text that names no valid instruction."""


class DynEventError(SourceError):
    """The definition of a dynamic event that a kernel refuses; ``errno`` is what it answers."""

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic], errno: int) -> None:
        self.errno = errno
        super().__init__(diagnostics)


class EncodingError(PybpfError):
    """Bytes or fields that are no valid instruction; ``index`` counts slots or instructions."""

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        self.reason = reason
        super().__init__(f"instruction {index}: {reason}")


class TargetError(PybpfError):
    """A target (a live machine or a snapshot) that lacks what was asked of it."""

    def __init__(self, message: str, *, hints: Sequence[str] = ()) -> None:
        self.message = message
        self.hints = tuple(hints)
        super().__init__("\n".join((message, *(f"  hint: {hint}" for hint in hints))))


class BtfError(TargetError):
    """Bytes that are no type information, or types that make no sense.

    ``offset`` is the place in bytes from their beginning, as far as it is known.
    """

    def __init__(self, reason: str, offset: int | None = None) -> None:
        self.reason = reason
        self.offset = offset
        place = "" if offset is None else f"offset {offset:#x}: "
        super().__init__(f"no BTF: {place}{reason}")


class EventError(PybpfError):
    """Record bytes that do not fit their schema; ``path`` says where."""


class ObjectError(PybpfError):
    """An object file that is damaged or asks for what cannot be.

    ``path`` names the file, ``section`` and ``offset`` (in bytes, within that section, or within
    the file where there is none) the place, as far as it is known.
    """

    def __init__(
        self,
        path: str,
        reason: str,
        *,
        section: str | None = None,
        offset: int | None = None,
        hints: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.reason = reason
        self.section = section
        self.offset = offset
        self.hints = tuple(hints)
        place = ""
        if section is not None:
            place += f" section {section or '(without a name)'}"
        if offset is not None:
            place += f" offset {offset:#x}"
        message = f"{path}:{place}{':' if place else ''} {reason}"
        super().__init__("\n".join((message, *(f"  hint: {hint}" for hint in hints))))


class ValueMismatch(PybpfError, ValueError):
    """A Python value that a C type cannot hold; ``path`` is the part of it, as ``.member[3]``."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path.lstrip('.')}: {reason}" if path else reason)


class VmFault(PybpfError):
    """An invalid action of a program in the VM; ``pc`` is the index of the instruction."""

    def __init__(self, pc: int, insn: str, reason: str) -> None:
        self.pc = pc
        self.insn = insn
        self.reason = reason
        super().__init__(f"{pc}: {insn}: {reason}")


# What the kernel means where the C library speaks of something else: EILSEQ, of a probe's place.
_WORDS = {84: "No instruction begins there"}


class KernelError(PybpfError, OSError):
    """A refusal by the kernel: ``errno``, what was attempted, and the kernel's own log if any.

    ``span`` is the part of a script that it is about, where it is about one.
    """

    def __init__(
        self, errno: int, action: str, *, log: str = "", hints: Sequence[str] = ()
    ) -> None:
        self.action = action
        self.log = log
        self.hints = tuple(hints)
        self.span: Span | None = None
        OSError.__init__(self, errno, _WORDS.get(errno) or os.strerror(errno))

    def _message(self) -> str:
        return f"{self.action}: {self.strerror} (errno {self.errno})"

    def __str__(self) -> str:
        return "\n".join((self._message(), *(f"  hint: {hint}" for hint in self.hints)))

    def diagnostic(self) -> Diagnostic:
        """Return the same as a message about a place in the script."""
        return Diagnostic(self._message(), self.span, self.hints)


@contextmanager
def about(span: Span | None) -> Iterator[None]:
    """Say of a KernelError in a ``with`` block which part of a script it is about."""
    try:
        yield
    except KernelError as error:
        error.span = error.span or span
        raise
