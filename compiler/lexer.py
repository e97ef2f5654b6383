"""Lex a ply script: source text in, tokens out.

A probe specification is one token: a word, a colon and what follows, up to a blank or one of
``{ ; ,``. A slash ends it too where the provider's patterns can hold no more of them, so both
``interval:1s/pid/{`` and ``tracepoint:sched/sched_switch/pid/{`` have a predicate. What follows may
also be a text in double quotes: a backslash in it stands for itself, but before a quote or another.
Comments are ``# …``, ``// …`` and ``/* … */``: no valid script has two slashes side by side.

Where ply silently means something else or aborts, this lexer says what is wrong: ``08`` is no
octal number, ``_1`` is a name, numbers end at 64 bits, escapes are those of C. It also takes C's
number suffixes, character constants, ``0B11``, ``//`` and a comment that ends the file.
"""

from __future__ import annotations

import re

from pybpf.compiler.tokens import KEYWORDS, Kind, Token
from pybpf.errors import Diagnostic, LexError
from pybpf.source import Source, Span

# The first rule that matches wins. Faults have rules too: an `open_…` begins what never ends.
_RULES = (
    ("blank", r"[ \t\r\n\f\v]+"),
    ("comment", r"\#[^\n]* | //[^\n]* | /\*.*?\*/"),
    ("open_comment", r"/\*"),
    ("spec", r"[A-Za-z_]\w*:"),
    ("word", r"[A-Za-z_]\w*"),
    ("aggregation", r"@\w*"),
    ("parameter", r"\$\w+"),
    ("number", r"[0-9][\w.]*"),
    ("string", r'"[^"\\]*(?:\\.[^"\\]*)*"'),
    ("open_string", r'"'),
    ("character", r"'[^'\\\n]*(?:\\.[^'\\\n]*)*'"),
    ("open_character", r"'"),
    ("operator", r"\|\||&&|\^\^|==|!=|<=|>=|<<|>>|->|[-+*/%&|^~!<>=(){}\[\];,.]"),
)
_TOKEN = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for name, pattern in _RULES),
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")

# The rest of a specification, by how many slashes the provider's patterns may hold.
_PATTERN = {
    0: re.compile(r"[^\s{;,/]*"),
    1: re.compile(r"[^\s{;,/]*(?:/[^\s{;,/]*)?"),
    None: re.compile(r"[^\s{;,]*"),
}
_QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SLASHES = {
    "BEGIN": 0,
    "END": 0,
    "eprobe": 1,
    "interval": 0,
    "kprobe": 0,
    "kretprobe": 0,
    "profile": 0,
    "tracepoint": 1,
}

_ESCAPE = re.compile(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>[0-7]{1,3})|(?P<letter>.))", re.DOTALL
)
_LETTERS = {
    "n": b"\n",
    "r": b"\r",
    "t": b"\t",
    "a": b"\a",
    "b": b"\b",
    "f": b"\f",
    "v": b"\v",
    "\\": b"\\",
    '"': b'"',
    "'": b"'",
}
_ESCAPE_HINTS = {
    "e": r"the escape character is written '\x1b'",
    "x": r"'\x' is followed by one or two hexadecimal digits, as in '\x1b'",
    "u": "write the character itself: a script is UTF-8 text",
    "U": "write the character itself: a script is UTF-8 text",
    "%": "printf prints '%' for '%%'",
}
_ALL_ESCAPES = (
    r"""a backslash is written '\\'; the escapes are \n \r \t \a \b \f \v \\ \" \' \0 \ooo \xHH"""
)

_DIGITS = {2: "01", 8: "01234567", 10: "0123456789", 16: "0123456789abcdefABCDEF"}
_BASES = {2: "binary", 8: "octal", 16: "hexadecimal"}
_SUFFIXES = {"lu": "ul", "llu": "ull"} | {s: s for s in ("", "u", "l", "ul", "ll", "ull")}

_CHARACTER_HINTS = {
    "?": "there is no '?:'; use if (…) … else …",
    ":": "a probe specification has no blank before its colon: 'kprobe:vfs_read'",
    "$": "'$' is followed by the name of an environment variable or the number of an argument",
    "\\": "a statement may span lines without a mark",
    "\N{LEFT DOUBLE QUOTATION MARK}": 'strings are written between plain quotes: "…"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": 'strings are written between plain quotes: "…"',
    "\N{NO-BREAK SPACE}": "replace the no-break space by a plain one",
    "\N{ZERO WIDTH NO-BREAK SPACE}": "save the file without a byte order mark",
}


def lex(source: Source) -> tuple[Token, ...]:
    """Return the tokens of a script; the last one is END.

    Raises LexError at the first character sequence that is no token, and for text that was
    decoded (with ``surrogateescape``) from bytes that are not UTF-8.
    """
    text = source.text
    if fault := _NOT_TEXT.search(text):
        raise _not_text(Span(source, fault.start(), fault.end()))
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown_character(Span(source, at, at + 1))
        span = Span(source, at, match.end())
        rule = match.lastgroup
        if rule == "spec":
            if text[match.end() : match.end() + 1] == '"' and not _QUOTED.match(text, match.end()):
                raise _unterminated(Span(source, match.end(), match.end() + 1))
            span = Span(source, at, _specification_end(text, at, match.end()))
        if rule not in {"blank", "comment"}:
            tokens.append(_token(rule, span))
        at = span.end
    end = tokens[-1].span.end if tokens else 0
    tokens.append(Token(Kind.END, "", Span(source, end, end)))
    return tuple(tokens)


def _token(rule: str | None, span: Span) -> Token:
    """Return the token that a rule found, or raise the fault it stands for."""
    text = span.text
    match rule:
        case "spec":
            return Token(Kind.SPEC, text, span)
        case "word" if text in {"BEGIN", "END"}:
            return Token(Kind.SPEC, text, span)
        case "word":
            return Token(Kind.KEYWORD if text in KEYWORDS else Kind.NAME, text, span)
        case "aggregation":
            return Token(Kind.AGGREGATION, text, span)
        case "parameter":
            return Token(Kind.PARAMETER, text, span)
        case "number":
            return _number(span)
        case "string":
            return Token(Kind.STRING, text, span, _unescape(span))
        case "character":
            return _character(span)
        case "operator":
            return Token(Kind.OPERATOR, text, span)
        case _:
            raise _unterminated(span)


def _specification_end(text: str, start: int, colon: int) -> int:
    """Return where the specification that begins at ``start`` ends; ``colon`` is behind its colon.

    A provider may be shortened to any beginning of its name, as in ``k:vfs_read``. One that is not
    known here (its patterns may be paths) keeps its slashes.
    """
    if quoted := _QUOTED.match(text, colon):
        return quoted.end()
    word = text[start : colon - 1]
    slashes = next((n for name, n in _SLASHES.items() if name.startswith(word)), None)
    rest = _PATTERN[slashes].match(text, colon)
    return rest.end() if rest else colon


def _number(span: Span) -> Token:
    """``[1-9][0-9_]*``, ``0[0-7_]*``, ``0x…`` or ``0b…``, and a suffix."""
    text = span.text
    body = text.rstrip("uUlL")
    suffix = _SUFFIXES.get(text[len(body) :].lower())
    base = {"0x": 16, "0b": 2}.get(body[:2].lower(), 8 if body[0] == "0" and len(body) > 1 else 10)
    digits = (body[2:] if base in {2, 16} else body).replace("_", "")
    bad = digits.lstrip(_DIGITS[base])
    if suffix is None or bad or not digits:
        raise _bad_number(span, base, bad, text[len(body) :])
    # Python refuses to convert thousands of decimal digits; 2**64 has twenty.
    value = int(digits, base) if base != 10 or len(digits) <= 20 else 1 << 64
    if value >= 1 << 64:
        raise _fault(
            span,
            f"number '{_short(text)}' does not fit in 64 bits",
            "the largest number is 18446744073709551615 (0xffffffffffffffff)",
        )
    return Token(Kind.NUMBER, text, span, value, suffix)


def _bad_number(span: Span, base: int, bad: str, suffix: str) -> LexError:
    """Say why ``span`` is no number; ``bad`` is what follows its last digit, up to the suffix."""
    text = _short(span.text)
    if "." in span.text:
        return _fault(span, f"'{text}' is not an integer", "a probe computes with integers only")
    if bad and base != 10:
        hints = ["a number that begins with 0 is octal"] if base == 8 else []
        return _fault(span, f"'{bad[0]}' is no {_BASES[base]} digit, in number '{text}'", *hints)
    if bad or suffix.lower() not in _SUFFIXES:
        return _fault(
            span,
            f"number '{text}' has the unknown suffix '{_short(bad + suffix)}'",
            "the suffixes of a number are u, l, ul, ll and ull",
        )
    return _fault(span, f"number '{text}' has no digits behind '{span.text[:2]}'")


def _character(span: Span) -> Token:
    """``'c'``: a number, the value of one byte."""
    value = _unescape(span)
    if len(value) != 1:
        inner = span.text[1:-1]
        raise _fault(
            span,
            f"character constant {_short(span.text)} is not one byte",
            *([f'a string is written between double quotes: "{_short(inner)}"'] if inner else []),
        )
    return Token(Kind.NUMBER, span.text, span, value[0])


def _unescape(span: Span) -> bytes:
    """Return the bytes between the quotes of a string or character constant."""
    text = span.text
    parts: list[bytes] = []
    at = 1
    for escape in _ESCAPE.finditer(text, 1, len(text) - 1):
        parts.append(text[at : escape.start()].encode())
        at = escape.end()
        where = Span(span.source, span.start + escape.start(), span.start + at)
        if escape["hex"]:
            parts.append(bytes([int(escape["hex"], 16)]))
        elif escape["octal"]:
            value = int(escape["octal"], 8)
            if value > 0xFF:
                raise _fault(where, f"escape '{escape[0]}' does not fit in a byte")
            parts.append(bytes([value]))
        elif escape["letter"] in _LETTERS:
            parts.append(_LETTERS[escape["letter"]])
        else:
            raise _unknown_escape(where)
    parts.append(text[at:-1].encode())
    return b"".join(parts)


def _fault(span: Span, message: str, *hints: str) -> LexError:
    return LexError(Diagnostic(message, span, hints))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _not_text(span: Span) -> LexError:
    if span.text == "\0":
        return _fault(span, "the script holds a NUL byte: it is not text")
    code = ord(span.text)
    byte = f": byte {code - 0xDC00:#04x}" if 0xDC80 <= code <= 0xDCFF else ""
    return _fault(span, f"the script is not UTF-8 text{byte}")


def _unknown_character(span: Span) -> LexError:
    ch = span.text
    shown = f"'{ch}'" if "!" <= ch <= "~" else f"'{ch}' (U+{ord(ch):04X})"
    if not ch.isprintable():
        shown = f"U+{ord(ch):04X}"
    hint = _CHARACTER_HINTS.get(ch)
    return _fault(span, f"unexpected character {shown}", *([hint] if hint else []))


def _unknown_escape(span: Span) -> LexError:
    letter = span.text[1]
    shown = f"'\\{letter}'" if letter.isprintable() else "'\\' at the end of a line"
    if not letter.isprintable() and letter not in "\r\n":
        shown = f"'\\' before U+{ord(letter):04X}"
    return _fault(span, f"unknown escape {shown}", _ESCAPE_HINTS.get(letter, _ALL_ESCAPES))


def _unterminated(span: Span) -> LexError:
    """Return the fault of an opening mark whose closing one is missing."""
    match span.text:
        case "/*":
            return _fault(span, "unterminated comment", "close it with '*/'")
        case '"':
            return _fault(span, "unterminated string", "close it with '\"'")
        case _:
            return _fault(
                span,
                "unterminated character constant",
                'close it with "\'"; a string is written between double quotes',
            )
