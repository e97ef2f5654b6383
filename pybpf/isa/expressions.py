r"""The tokens of one statement to numbers: C's operators and their precedence, names, characters.

    5   0x1f   0o17   0b1010   1_000_000   'a'   '\n'   XDP_PASS   xdp_md.data   sizeof(message)
    -x   ~x   (x)   x * y   x / y   x % y   x + y   x - y   x << y   x >> y   x & y   x ^ y   x | y

Values are whole numbers from -2**63 to 2**64 - 1; what leaves that range is refused, not wrapped.
A division rounds towards 0 and the remainder has the sign of the dividend, as in C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pybpf.errors import AssemblyError, Diagnostic
from pybpf.isa.lexer import Statement, Token
from pybpf.source import Span
from pybpf.suggest import did_you_mean

REGISTER = re.compile(r"([rw])([0-9]+)")
_NUMBER = re.compile(
    r"0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO](_?[0-7])+|0|[1-9](_?[0-9])*", re.ASCII
)
_LONGEST_NUMBER = 90
"""More digits than 64 bits have, with ``_`` between them, would be slow to convert."""
_DEEPEST = 50
_ESCAPES = {
    "n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34,
}  # fmt: skip
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)|([^\\]+)", re.DOTALL)


class Number(NamedTuple):
    """A number of at most 64 bits and how it was written; ``hexadecimal``: by one such literal."""

    value: int
    hexadecimal: bool
    span: Span

    @property
    def shown(self) -> str:
        """How a message calls it: as it was written, and its value where that tells more."""
        text = self.span.text
        literal = text.lstrip("+-")
        return text if literal[:1].isdigit() and literal.isalnum() else f"{text} ({self.value})"


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) is (b < 0) else -1)


# The operators of two operands, those that bind least first.
_LEVELS: tuple[Mapping[str, Callable[[int, int], int]], ...] = (
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"<<": lambda a, b: a << b, ">>": lambda a, b: a >> b},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": _divide, "%": lambda a, b: a - b * _divide(a, b)},
)
_OPERATORS = frozenset(operator for level in _LEVELS for operator in level)
_NO_CONSTANTS: Mapping[str, int] = MappingProxyType({})


class Tokens:
    """A place in the tokens of a statement, which every method moves behind what it returns.

    Every method raises AssemblyError where the tokens are something else. ``constants`` are the
    names that stand for numbers.
    """

    def __init__(self, statement: Statement, constants: Mapping[str, int] = _NO_CONSTANTS) -> None:
        self.constants = constants
        self._source = statement.span.source
        self._tokens = statement.tokens
        self._position = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return a token to come without moving."""
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Return the token at the cursor."""
        token = self.peek()
        self._position += 1
        return token

    def accept(self, text: str) -> bool:
        """Move over a token if it is next; return whether it was."""
        if self.peek().text == text:
            self._position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Move over a token that must be next."""
        if not self.accept(text):
            raise self.expected(f"'{text}'", self.peek())

    def finish(self, what: str) -> None:
        """Check that the statement, which errors call ``what``, ends here."""
        rest = self.peek()
        if rest.kind != "end":
            raise self.error(rest, f"unexpected '{rest.text}' after the {what}")

    def span(self, token: Token) -> Span:
        """Return where a token stands."""
        return Span(self._source, token.start, token.end)

    def since(self, first: Token) -> Span:
        """Return the span from a token to the one that was read last."""
        last = self._tokens[min(self._position, len(self._tokens)) - 1]
        return Span(self._source, first.start, max(first.end, last.end))

    def error(self, at: Token | Span, message: str, hint: str | None = None) -> AssemblyError:
        """Return the error about a token or a span."""
        span = self.span(at) if isinstance(at, Token) else at
        return AssemblyError(Diagnostic(message, span, (hint,) if hint else ()))

    def expected(self, what: str, token: Token) -> AssemblyError:
        """Return the error about a token that is not what belongs there."""
        found = "the end of the line" if token.kind == "end" else f"'{token.text}'"
        return self.error(token, f"expected {what}, found {found}")

    # number = operand of "|" {"|" operand}, and so on for the other operators
    def number(self) -> Number:
        """Return the value of an expression, from -2**63 to 2**64 - 1."""
        first = self.peek()
        signed = first.text in {"+", "-"}
        literal = self.peek(1) if signed else first
        if literal.kind == "number" and self.peek(1 + signed).text not in _OPERATORS:
            # Nearly all of them; the general way takes eight calls.
            self._position += 1 + signed
            value = self._literal(literal)
            value = self._in_range(first, -value) if first.text == "-" else value
        else:
            value = self._binary(0, 0)
        span = self.since(first)
        alone = span.end == literal.end
        hexadecimal = alone and literal.text[:2] in {"0x", "0X"}
        return Number(value, hexadecimal, span)

    # operand of level n = operand of level n + 1 {operator of level n, operand of level n + 1}
    def _binary(self, level: int, depth: int) -> int:
        if level == len(_LEVELS):
            return self._unary(depth)
        first = self.peek()
        value = self._binary(level + 1, depth)
        operators = _LEVELS[level]
        while (operator := self.peek()).kind == "mark" and operator.text in operators:
            self.next()
            start = self.peek()
            right = self._binary(level + 1, depth)
            if operator.text in {"/", "%"} and not right:
                raise self.error(self.since(start), "a division by 0")
            if operator.text in {"<<", ">>"} and not 0 <= right < 64:
                raise self.error(self.since(start), f"a shift is by 0 to 63, not by {right}")
            value = self._in_range(first, operators[operator.text](value, right))
        return value

    # unary = {"-" | "+" | "~"} ("(" number ")" | primary)
    def _unary(self, depth: int) -> int:
        first = self.peek()
        signs = []
        while self.peek().text in {"-", "+", "~"} and self.peek().kind == "mark":
            signs.append(self.next().text)
        if (bracket := self.peek()).text == "(" and bracket.kind == "mark":
            if depth == _DEEPEST:
                raise self.error(bracket, f"more than {_DEEPEST} parentheses within each other")
            self.next()
            value = self._binary(0, depth + 1)
            self.expect(")")
        else:
            value = self._primary()
        for sign in reversed(signs):
            value = -value if sign == "-" else ~value if sign == "~" else value
        return self._in_range(first, value)

    # primary = literal | character | name | "sizeof" "(" name ")"
    def _primary(self) -> int:
        token = self.next()
        if token.kind == "number":
            return self._literal(token)
        if token.kind != "word":
            raise self.expected("a number", token)
        name = token.text
        if name == "sizeof" and self.accept("("):
            name = f"sizeof({self.next().text})"
            self.expect(")")
        if name not in self.constants:
            if REGISTER.fullmatch(name):
                raise self.expected("a number", token)
            near = did_you_mean(name, self.constants)
            raise self.error(self.since(token), f"'{name}' is no number and no constant{near}")
        return self.constants[name]

    def _literal(self, token: Token) -> int:
        if token.text[0] == "'":
            found = unescape(token.text[1:-1])
            if found is None or len(found) != 1:
                raise self.error(token, f"{token.text} is no character of one byte")
            return found[0]
        if not _NUMBER.fullmatch(token.text):
            raise self.error(token, f"{token.text!r} is no number", "write it as 42 or 0x2a")
        if len(token.text) > _LONGEST_NUMBER:
            raise self.error(token, f"{token.text[:20]}… does not fit 64 bits")
        return self._in_range(token, int(token.text, 0))

    def _in_range(self, first: Token, value: int) -> int:
        if not -(1 << 63) <= value < 1 << 64:
            span = self.since(first)
            raise self.error(span, f"{span.text} does not fit 64 bits")
        return value

    def unsigned(self, bits: int) -> int:
        """Return a number that is not negative and fits ``bits``."""
        number = self.number()
        if not 0 <= number.value < 1 << bits:
            raise self.error(number.span, f"{number.shown} is not from 0 to {(1 << bits) - 1}")
        return number.value


def unescape(text: str) -> bytes | None:
    r"""Return the bytes that the inside of a string or character stands for, in UTF-8.

    None where it has a backslash before what is no escape: those are C's, without ``\u``.
    """
    data = bytearray()
    for escape, plain in _ESCAPE.findall(text):
        if plain:
            data += plain.encode("utf-8", "surrogateescape")
        elif escape in _ESCAPES:
            data.append(_ESCAPES[escape])
        elif escape[0] == "x" and len(escape) > 1:
            data.append(int(escape[1:], 16))
        elif escape[0] in "01234567":
            data.append(int(escape, 8) & 0xFF)
        else:
            return None
    return bytes(data)
