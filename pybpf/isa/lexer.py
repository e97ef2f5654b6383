"""Assembler text to labels and statements; what dumps print around an instruction is taken off.

A line may begin as those of bpftool, llvm-objdump and the kernel's verifier log do:

    12: (85) call bpf_ktime_get_ns#5            index and opcode byte
    12:  85 00 00 00 05 00 00 00  call 5        index and raw bytes
    0000000000000000 <name>:                    a function's header, read as a label

An index is also a label: ``goto 12f`` goes to the next one that is 12.

Comments begin with ``//``, or with ``;`` or ``#`` at the start of a line or after a blank, or are
``/* … */``. A ``;`` that directly follows a statement ends it, as in C and in LLVM's inline
assembly. A statement that begins with a ``.`` is a directive, which may hold strings and C types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from pybpf.dataclass import dataclass
from pybpf.errors import AssemblyError, Diagnostic
from pybpf.source import Source, Span

FAULTS_AT_MOST = 20
"""How many faults of one text are told."""
_ROOM = 1_200_000
"""Of a text: a token takes 1, a label 2, a statement 3. 200,000 instructions take some 400 MB."""
_LONGEST_WORD, _LONGEST_STRING = 4096, 1 << 16
_NAME = r"[A-Za-z_.$@][A-Za-z0-9_.$@]*"
_HEADER = re.compile(rf"[ \t]*[0-9a-f]{{8,16}}[ \t]+<(?P<name>{_NAME})>:[ \t\r]*$")
_DECORATION = re.compile(
    r"[ \t]*(?:(?P<index>\d+):[ \t]*)?"
    r"(?:(?P<byte>[0-9a-f]{2})[ \t](?:[0-9a-f]{2}[ \t]){7}(?:(?:[0-9a-f]{2}[ \t]){8})?[ \t]*)?"
    r"(?:\((?P<opcode>[0-9a-f]{2})\)[ \t]+)?"
)
_COMMENT = re.compile(r"[;#]|//")
# Strings, and comments of one line, hide what would begin a longer comment.
_CONTINUED = re.compile(
    r""""(?:\\.|[^"\\\n])*"|//[^\n]*|(?:(?<=[ \t])|^)[;#][^\n]*"""
    r"|(?P<long>/\*(?:.*?(?P<end>\*/)|.*)|\\\r?\n)",
    re.MULTILINE | re.DOTALL,
)
_OF_DIRECTIVES = frozenset("{}?")
_LABEL = re.compile(rf"[ \t]*(?P<name>{_NAME})[ \t]*:")
_TOKEN = re.compile(
    rf"""
    (?P<blank>[ \t\r\f\v]+(?:[;#].*)?|//.*)
    |(?P<mark>s(?:>>=|>=|<=|/=|%=|<(?!<)|>(?!>))|<<=|>>=|<<|>>|[-+*/%&|^=!<>]=
        |[-+*/%&|^~<>=()\[\]{{}}?,:;\#])
    |(?P<number>[0-9][0-9A-Za-z_]*|'(?:\\.|[^'\\])[^'\n]*')
    |(?P<string>"(?:\\.|[^"\\])*")
    |(?P<word>kernel-function(?=\#)|{_NAME})
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of a statement and its place in the source; the last of a statement is ``end``."""

    kind: Literal["mark", "number", "string", "word", "end"]
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Label:
    """A name for the place before the next statement."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """The tokens of one instruction or directive, and the opcode that a dump says it has."""

    tokens: tuple[Token, ...]
    opcode: int | None
    span: Span


def lex(source: Source, faults: list[Diagnostic]) -> Iterator[Label | Statement]:
    """Yield the labels and statements of a source.

    ``faults`` gets what is wrong; the rest of such a line is left out. Raises AssemblyError where
    there are too many faults, or where the text is too long.
    """
    lines = _Lines(source, _joined(source, faults), faults, _ROOM)
    start = 0
    for line in lines.text.split("\n"):
        end = start + len(line)
        yield from lines.lex(start, end)
        if len(faults) > FAULTS_AT_MOST:
            raise AssemblyError(faults[:FAULTS_AT_MOST])
        start = end + 1


def _joined(source: Source, faults: list[Diagnostic]) -> str:
    """Return the text with blanks for comments and for line ends behind a backslash."""
    text = source.text
    if "/*" not in text and "\\" not in text:
        return text

    def blank(found: re.Match[str]) -> str:
        hidden = found["long"]
        if hidden is None:
            return found[0]
        if hidden[0] == "\\":
            return " " * len(hidden)
        if found["end"] is None:
            span = Span(source, found.start(), found.start() + 2)
            faults.append(Diagnostic("this comment has no end", span))
        return "".join(ch if ch == "\n" else " " for ch in hidden)

    return _CONTINUED.sub(blank, text)


@dataclass(slots=True)
class _Lines:
    source: Source
    text: str
    faults: list[Diagnostic]
    room: int

    # line = header | [index ":"] [bytes] ["(" opcode ")"] {{label} [statement] ";"} [comment]
    def lex(self, start: int, end: int) -> Iterator[Label | Statement]:
        text = self.text
        if header := _HEADER.match(text, start, end):
            yield self._label(header, "name")
            return
        decoration = _DECORATION.match(text, start, end)
        position, opcode = start, None
        if decoration is not None:
            position = decoration.end()
            byte = decoration["opcode"] or decoration["byte"]
            opcode = int(byte, 16) if byte else None
            if decoration["index"]:
                yield self._label(decoration, "index")
        if _COMMENT.match(text, position, end):
            return
        while position < end:
            while label := _LABEL.match(text, position, end):
                yield self._label(label, "name")
                position = label.end()
            tokens, position = self._statement(position, end)
            if tokens:
                self._take(3, tokens[0].start)
                span = Span(self.source, tokens[0].start, tokens[-1].end)
                tokens.append(Token("end", "", span.end, span.end))
                yield Statement(tuple(tokens), opcode, span)

    def _label(self, found: re.Match[str], group: str) -> Label:
        self._take(2, found.start(group))
        return Label(found[group], Span(self.source, *found.span(group)))

    def _statement(self, position: int, end: int) -> tuple[list[Token], int]:
        """Return the tokens up to a ``;`` or the end of the line, and where to go on.

        Between braces a ``;`` is a token.
        """
        tokens: list[Token] = []
        depth = 0
        while position < end:
            start = position
            found = _TOKEN.match(self.text, start, end)
            if found is None or (found[0] in _OF_DIRECTIVES and not _directive(tokens)):
                wrong = f"no instruction has a {_shown(self.text[start])} here"
                self.faults.append(Diagnostic(wrong, Span(self.source, start, start + 1)))
                return [], end
            position = found.end()
            depth += (found[0] == "{") - (found[0] == "}")
            if found[0] == ";" and depth <= 0:
                break
            match found.lastgroup:
                case "mark" | "number" | "string" | "word" as kind:
                    if position - start > (_LONGEST_STRING if kind == "string" else _LONGEST_WORD):
                        wrong = f"{position - start} characters are more than any {kind} has"
                        self.faults.append(Diagnostic(wrong, Span(self.source, start, start + 1)))
                        return [], end
                    self._take(1, start)
                    tokens.append(Token(kind, found[0], start, position))
                case _:  # blanks and comments
                    pass
        return tokens, position

    def _take(self, room: int, start: int) -> None:
        """Take room for what is at a place; raises AssemblyError where there is none left."""
        self.room -= room
        if self.room < 0:
            wrong = "the text up to here is as long as any that can be assembled at once"
            raise AssemblyError(Diagnostic(wrong, Span(self.source, start, start + 1)))


def _directive(tokens: list[Token]) -> bool:
    return bool(tokens) and tokens[0].text[0] == "."


def _shown(ch: str) -> str:
    """Return a character in quotes, or the byte that was none."""
    return f"byte {ord(ch) & 0xFF:#04x}" if "\udc80" <= ch <= "\udcff" else repr(ch)
