"""Assembler text to labels and statements; what dumps print around an instruction is taken off.

A line may begin as those of bpftool, llvm-objdump and the kernel's verifier log do:

    12: (85) call bpf_ktime_get_ns#5            index and opcode byte
    12:  85 00 00 00 05 00 00 00  call 5        index and raw bytes
    0000000000000000 <name>:                    a function's header, read as a label

Comments begin with ``//``, or with ``;`` or ``#`` at the start of a line or after a blank. A ``;``
that directly follows a statement ends it, as in C and in LLVM's inline assembly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from pybpf.dataclass import dataclass
from pybpf.errors import AssemblyError, Diagnostic
from pybpf.source import Source, Span

_NAME = r"[A-Za-z_.$@][A-Za-z0-9_.$@]*"
_HEADER = re.compile(rf"[ \t]*[0-9a-f]{{8,16}}[ \t]+<(?P<name>{_NAME})>:[ \t\r]*$")
_DECORATION = re.compile(
    r"[ \t]*(?:\d+:[ \t]*)?"
    r"(?:(?P<byte>[0-9a-f]{2})[ \t](?:[0-9a-f]{2}[ \t]){7}(?:(?:[0-9a-f]{2}[ \t]){8})?[ \t]*)?"
    r"(?:\((?P<opcode>[0-9a-f]{2})\)[ \t]+)?"
)
_COMMENT = re.compile(r"[;#]|//")
_LABEL = re.compile(rf"[ \t]*(?P<name>{_NAME})[ \t]*:")
_TOKEN = re.compile(
    rf"""
    (?P<blank>[ \t\r\f\v]+(?:[;#].*)?|//.*)
    |(?P<mark>s(?:>>=|>=|<=|/=|%=|[<>])|<<=|>>=|[-+*/%&|^=!<>]=|[-+*&<>=()\[\],:;\#])
    |(?P<number>[0-9][0-9A-Za-z_]*)
    |(?P<word>kernel-function(?=\#)|{_NAME})
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """A piece of a statement and its place in the source; the last of a statement is ``end``."""

    kind: Literal["mark", "number", "word", "end"]
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
    """The tokens of one instruction, and the opcode that a dump says it has."""

    tokens: tuple[Token, ...]
    opcode: int | None
    span: Span


def lex(source: Source) -> Iterator[Label | Statement]:
    """Yield the labels and statements of a source; raises AssemblyError at a stray character."""
    start = 0
    for line in source.text.split("\n"):
        end = start + len(line)
        yield from _lex_line(source, start, end)
        start = end + 1


# line = header | [index ":"] [bytes] ["(" opcode ")"] {{label} [statement] ";"} [comment]
def _lex_line(source: Source, start: int, end: int) -> Iterator[Label | Statement]:
    text = source.text
    if header := _HEADER.match(text, start, end):
        yield Label(header["name"], Span(source, header.start("name"), header.end("name")))
        return
    decoration = _DECORATION.match(text, start, end)
    position, opcode = start, None
    if decoration is not None:
        position = decoration.end()
        byte = decoration["opcode"] or decoration["byte"]
        opcode = int(byte, 16) if byte else None
    if _COMMENT.match(text, position, end):
        return
    while position < end:
        while label := _LABEL.match(text, position, end):
            yield Label(label["name"], Span(source, label.start("name"), label.end("name")))
            position = label.end()
        tokens, position = _lex_statement(source, position, end)
        if tokens:
            span = Span(source, tokens[0].start, tokens[-1].end)
            tokens.append(Token("end", "", span.end, span.end))
            yield Statement(tuple(tokens), opcode, span)


def _lex_statement(source: Source, position: int, end: int) -> tuple[list[Token], int]:
    """Return the tokens up to a ``;`` or the end of the line, and where to go on."""
    tokens: list[Token] = []
    while position < end:
        found = _TOKEN.match(source.text, position, end)
        if found is None:
            raise AssemblyError(
                Diagnostic(
                    f"no instruction has a {_shown(source.text[position])} here",
                    Span(source, position, position + 1),
                )
            )
        position = found.end()
        if found[0] == ";":
            break
        if found.lastgroup == "mark":
            tokens.append(Token("mark", found[0], found.start(), position))
        elif found.lastgroup == "number":
            tokens.append(Token("number", found[0], found.start(), position))
        elif found.lastgroup == "word":
            tokens.append(Token("word", found[0], found.start(), position))
    return tokens, position


def _shown(ch: str) -> str:
    """Return a character in quotes, or the byte that was none."""
    return f"byte {ord(ch) & 0xFF:#04x}" if "\udc80" <= ch <= "\udcff" else repr(ch)
