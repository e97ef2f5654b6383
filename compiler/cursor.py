"""A place in the tokens of a script: what comes next, and the error where something else should."""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.compiler.foreign import foreign
from pybpf.compiler.tokens import Kind, Token
from pybpf.errors import Diagnostic, ParseError
from pybpf.source import Span


class Cursor:
    """Walks over tokens of which the last is END; it never passes END."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.statement: Token | None = None
        """The first token of the expression or assignment that is being parsed."""

    @property
    def token(self) -> Token:
        """The next token, not passed yet."""
        return self._tokens[self._at]

    @property
    def follower(self) -> Token:
        """The token behind the next one; END is behind END."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    @property
    def previous(self) -> Token:
        """The token passed last."""
        return self._tokens[self._at - 1]

    def next(self) -> Token:
        """Pass the next token and return it."""
        token = self.token
        self._at += token.kind is not Kind.END
        return token

    def expect(self, text: str, expected: str = "", *hints: str) -> Token:
        """Pass the operator ``text``; ``expected`` describes it in the error if it is missing."""
        if self.token.text != text:
            raise self.unexpected(expected or f"'{text}'", *hints)
        return self.next()

    def close(self, opening: Token, text: str, expected: str) -> Token:
        """Pass the bracket ``text`` that closes ``opening``."""
        hint = f"the '{opening.text}' at {place(opening)} is not closed"
        return self.expect(text, expected, hint)

    def unexpected(self, expected: str, *hints: str) -> ParseError:
        """Return the error that the next token is not what was expected."""
        token = self.token
        if diagnostic := foreign(self._tokens, self._at, self.statement):
            return ParseError(diagnostic)
        if token.text == "=":
            hints = ("'=' assigns and is a statement of its own; '==' compares",)
        return fault(token.span, f"unexpected {_shown(token)}, expected {expected}", *hints)


def fault(span: Span, message: str, *hints: str) -> ParseError:
    """Return an error about a span."""
    return ParseError(Diagnostic(message, span, hints))


def place(token: Token) -> str:
    """Return where a token begins, as ``line:column``."""
    return f"{token.span.line}:{token.span.column}"


def _shown(token: Token) -> str:
    """Describe a token in a message."""
    text = token.text if len(token.text) <= 40 else f"{token.text[:39]}…"
    match token.kind:
        case Kind.END:
            return token.kind
        case Kind.STRING:
            return f"string {text}"
        case Kind.SPEC | Kind.NUMBER:
            return f"{token.kind} '{text}'"
        case _:
            return f"'{text}'"
