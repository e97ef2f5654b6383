"""The text of a query in, its tree out.

query:      'SELECT' selected {',' selected} 'FROM' table [join] ['WHERE' or] [';']
join:       'JOIN' table 'ON' pair {(',' | 'AND') pair}
selected:   sum ['AS' LABEL]
sum:        product {('+' | '-') product}        product: atom {('*' | '/') atom}
atom:       NUMBER | name | '(' sum ')' | 'CAST' '(' name 'AS' KIND ['=' N] ')'
          | ('SUM' | 'USTRING' | 'STRING') '(' name ')'
table:      name ['AS' ALIAS]                    pair: name '=' name
or:         and {('OR' | '||') and}              and: not {('AND' | '&&') not}
not:        ('NOT' | '!') not | '(' or ')' | name OPERATOR (NUMBER | STRING)
name:       WORD {'.' WORD}

Words that mean something may be in any case.
"""

from __future__ import annotations

import errno
import re
from typing import Literal

from pybpf.dataclass import dataclass
from pybpf.errors import Diagnostic, DynEventError
from pybpf.source import Source, Span
from pybpf.tracefs.sql.syntax import (
    Arithmetic,
    Cast,
    Compared,
    Condition,
    Expression,
    Literally,
    Logical,
    Name,
    Query,
    Selected,
    Table,
)

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)(?!\w)|(?P<word>[A-Za-z_]\w*)"
    r"""|(?P<string>"[^"]*"|'[^']*')|(?P<sign>&&|\|\||==|!=|<>|<=|>=|[-+*/(),.;=<>~&!]))""",
    re.ASCII,
)
_KEYWORDS = frozenset(
    {"select", "from", "as", "join", "on", "where", "and", "or", "not", "cast", "sum", "ustring"}
    | {"string"}
)
_COMPARISONS = frozenset({"=", "==", "!=", "<>", "<", "<=", ">", ">=", "~", "&"})
_DEPTH = 60


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["number", "word", "string", "sign", "end"]
    text: str
    span: Span


def fault(message: str, span: Span, *hints: str) -> DynEventError:
    """Return the error about a part of a query."""
    return DynEventError(Diagnostic(message, span, hints), errno.EINVAL)


def parse_query(text: str, name: str = "<query>") -> Query:
    """Return the tree of a query. Raises DynEventError with a caret."""
    return _Parser(Source(name, text)).query()


def _tokens(source: Source) -> list[_Token]:
    found, place, text = [], 0, source.text
    end = len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            start = place + len(text[place:]) - len(text[place:].lstrip())
            what = "a quote is not closed" if text[start] in "\"'" else "what is this?"
            raise fault(what, Span(source, start, start + 1))
        span = Span(source, match.start(match.lastgroup), match.end())
        found.append(_Token(match.lastgroup, span.text, span))  # type: ignore[arg-type]
        place = match.end()
    found.append(_Token("end", "", Span(source, end, end)))
    return found


class _Parser:
    def __init__(self, source: Source) -> None:
        self.tokens = _tokens(source)
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self, *texts: str) -> _Token | None:
        """Take the next token if it is one of these signs or words of meaning."""
        token = self.next
        word = token.text.lower() if token.kind == "word" else token.text
        if token.kind not in {"word", "sign"} or word not in texts:
            return None
        self.at += 1
        return token

    def expect(self, text: str) -> _Token:
        token = self.take(text)
        if token is None:
            raise self.wrong(text.upper() if text.isalpha() else f"'{text}'")
        return token

    def wrong(self, wanted: str) -> DynEventError:
        found = f"'{self.next.text}'" if self.next.text else "the end"
        return fault(f"{wanted} expected, not {found}", self.next.span)

    def word(self, what: str) -> _Token:
        token = self.next
        if token.kind != "word":
            raise self.wrong(what)
        self.at += 1
        return token

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEPTH:
            raise fault("too many brackets", self.next.span)

    def query(self) -> Query:
        first = self.expect("select")
        selected = [self.selected()]
        while self.take(","):
            selected.append(self.selected())
        self.expect("from")
        start, end, on = self.table(), None, []
        if self.take("join"):
            end = self.table()
            self.expect("on")
            on.append(self.pair())
            while self.take(",", "and", "&&"):
                on.append(self.pair())
        where = self.either() if self.take("where") else None
        self.take(";")
        if self.next.kind != "end":
            raise self.wrong("the end")
        span = first.span.to(self.next.span)
        return Query(tuple(selected), start, end, tuple(on), where, span)

    def selected(self) -> Selected:
        expression = self.sum()
        label = self.word("a name").text if self.take("as") else None
        return Selected(expression, label, expression.span)

    def table(self) -> Table:
        name = self.name("an event")
        if self.take("as"):
            return Table(name, self.word("a name").text)
        # As in SQL, AS may be left out.
        token = self.next
        if token.kind == "word" and token.text.lower() not in _KEYWORDS:
            self.at += 1
            return Table(name, token.text)
        return Table(name, None)

    def pair(self) -> tuple[Name, Name]:
        first = self.name("a field")
        if self.take("=", "==") is None:
            raise self.wrong("'='")
        return first, self.name("a field")

    def name(self, what: str) -> Name:
        token = self.next
        if token.kind != "word" or token.text.lower() in _KEYWORDS - {"string", "sum"}:
            raise self.wrong(what)
        self.at += 1
        words, span = [token.text], token.span
        while self.take("."):
            more = self.word("a name after the dot")
            words.append(more.text)
            span = span.to(more.span)
        return Name(tuple(words), span)

    def sum(self) -> Expression:
        found = self.product()
        while sign := self.take("+", "-"):
            found = self.combined(found, sign, self.product())
        return found

    def product(self) -> Expression:
        found = self.atom()
        while sign := self.take("*", "/"):
            found = self.combined(found, sign, self.atom())
        return found

    def combined(self, left: Expression, sign: _Token, right: Expression) -> Arithmetic:
        span = left.span.to(right.span)
        return Arithmetic(sign.text, left, right, span)  # type: ignore[arg-type]

    def atom(self) -> Expression:
        token = self.next
        if token.kind == "number":
            self.at += 1
            return Literally(_number(token), token.span)
        if self.take("("):
            self.deeper()
            found = self.sum()
            self.expect(")")
            self.depth -= 1
            return found
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)].text
        if following == "(" and self.take("cast", "sum", "ustring", "string"):
            return self.call(token)
        return self.name("what to select")

    def call(self, token: _Token) -> Cast:
        self.expect("(")
        name = self.name("a field")
        kind, width = token.text.lower(), None
        if kind == "cast":
            self.expect("as")
            kind = self.word("a type").text.lower()
            if self.take("-"):
                kind += f"-{self.word('a type').text.lower()}"
            if self.take("="):
                number = self.next
                if number.kind != "number":
                    raise self.wrong("a number")
                self.at += 1
                width = _number(number)
        span = token.span.to(self.expect(")").span)
        return Cast(name, kind, width, span)

    def either(self) -> Condition:
        parts = [self.both()]
        while self.take("or", "||"):
            parts.append(self.both())
        return self.joined("or", parts)

    def both(self) -> Condition:
        parts = [self.negated()]
        while self.take("and", "&&"):
            parts.append(self.negated())
        return self.joined("and", parts)

    def joined(self, operator: Literal["and", "or"], parts: list[Condition]) -> Condition:
        if len(parts) == 1:
            return parts[0]
        return Logical(operator, tuple(parts), parts[0].span.to(parts[-1].span))

    def negated(self) -> Condition:
        self.deeper()
        found: Condition
        if sign := self.take("not", "!"):
            inner = self.negated()
            found = Logical("not", (inner,), sign.span.to(inner.span))
        elif self.take("("):
            found = self.either()
            self.expect(")")
        else:
            found = self.comparison()
        self.depth -= 1
        return found

    def comparison(self) -> Compared:
        name = self.name("a field")
        sign = self.take(*_COMPARISONS)
        if sign is None:
            raise self.wrong("an operator")
        minus = self.take("-")
        token = self.next
        operand: int | str
        if token.kind == "number":
            operand = -_number(token) if minus else _number(token)
        elif token.kind == "string" and not minus:
            operand = token.text[1:-1]
        else:
            raise self.wrong("a number or a string")
        self.at += 1
        operator = {"=": "==", "<>": "!="}.get(sign.text, sign.text)
        return Compared(name, operator, operand, name.span.to(token.span))


def _number(token: _Token) -> int:
    value = int(token.text[:40], 16 if token.text[:2].lower() == "0x" else 10)
    if value >= 1 << 64:
        raise fault("the number has more than 64 bits", token.span)
    return value
