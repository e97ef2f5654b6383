"""The C expressions of a ``print fmt``: its text in, a format string and expressions out.

The kernel prints with code of its own; this text describes that code to others, as far as C without
its headers can. ``REC`` is the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pybpf.dataclass import dataclass
from pybpf.tracefs.cnames import INTEGERS, integer
from pybpf.types import INT, LONG, U64, UINT, ULONG, VOID, Int, Ptr, Type


class Unprintable(Exception):
    """A print format that needs more than the text tells: a macro, a function, an enum."""


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: int
    type: Int


@dataclass(frozen=True, slots=True)
class String:
    """A string literal, its escapes undone."""

    text: str


@dataclass(frozen=True, slots=True)
class Name:
    """A bare name: a field in ``__get_str(name)``, else something unknown."""

    name: str


@dataclass(frozen=True, slots=True)
class RecordField:
    """``REC->name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """``name(args)``."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """``base[index]``."""

    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """``op operand``; op is one of ``- + ! ~ * &``."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """``left op right``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional:
    """``test ? then : other``."""

    test: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """``(type)operand``."""

    type: Type
    operand: Expr


@dataclass(frozen=True, slots=True)
class Braces:
    """``{ a, b }``: an entry of a table of names."""

    items: tuple[Expr, ...]


Expr = (
    Number
    | String
    | Name
    | RecordField
    | Call
    | Index
    | Unary
    | Binary
    | Conditional
    | Cast
    | Braces
)

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<char>'(?:[^'\\]|\\.)+')
  | (?P<op>->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:,.(){}\[\]=;])
    )""",
    re.VERBOSE | re.DOTALL,
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_C_WORDS = frozenset({"unsigned", "signed", "char", "short", "int", "long", "void", "const"})
_TYPE_WORDS = _C_WORDS | frozenset({"struct", "enum", "union"})
_MAX_DEPTH = 100
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "e": "\x1b"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)


def parse_print_fmt(text: str) -> tuple[str, tuple[Expr, ...]]:
    """Return the format string and its arguments. Raises Unprintable for what is no such text."""
    reader = _Reader(text)
    first = reader.string()
    args = []
    while reader.take(","):
        args.append(reader.expression())
    if reader.kind:
        raise Unprintable(f"{reader.value!r} follows an argument")
    _check_depth(args)
    return first, tuple(args)


def _check_depth(expressions: Sequence[Expr]) -> None:
    """Raise Unprintable for what could not be computed by recursion: a long chain nests too."""
    for _ in range(_MAX_DEPTH):
        expressions = [part for one in expressions for part in _parts(one)]
        if not expressions:
            return
    raise Unprintable("nested too deeply")


def _parts(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Call(args=parts) | Braces(items=parts):
            return parts
        case Index(base, index):
            return base, index
        case Unary(operand=operand) | Cast(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return left, right
        case Conditional(test, then, other):
            return test, then, other
        case Number() | String() | Name() | RecordField():
            return ()


class _Reader:
    """A cursor over the tokens; ``kind`` is empty at the end."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0
        self._load()

    def _load(self) -> None:
        self.kind, self.value = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _next(self) -> str:
        value = self.value
        self._at += 1
        self._load()
        return value

    def take(self, op: str) -> bool:
        """Pass an operator if it is there."""
        if self.kind == "op" and self.value == op:
            self._next()
            return True
        return False

    def _expect(self, op: str) -> None:
        if not self.take(op):
            raise Unprintable(f"{op!r} expected, not {self.value!r}")

    # string: STRING {STRING}
    def string(self) -> str:
        """Return string literals in a row as one."""
        if self.kind != "string":
            raise Unprintable(f"a string expected, not {self.value!r}")
        found = ""
        while self.kind == "string":
            found += _unescape(self._next()[1:-1])
        return found

    # expression: binary ['?' expression ':' expression]
    def expression(self) -> Expr:
        """Return the expression up to a ``,`` or a closing bracket."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unprintable("nested too deeply")
        test = self._binary(0)
        if self.take("?"):
            then = self.expression()
            self._expect(":")
            test = Conditional(test, then, self.expression())
        self._depth -= 1
        return test

    # binary: unary {operator unary}, by precedence
    def _binary(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self.kind == "op" and self.value in _LEVELS[level]:
            op = self._next()
            left = Binary(op, left, self._binary(level + 1))
        return left

    # unary: ('-' | '+' | '!' | '~' | '*' | '&') unary | '(' type ')' unary | postfix
    def _unary(self) -> Expr:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unprintable("nested too deeply")
        try:
            if self.kind == "op" and self.value in {"-", "+", "!", "~", "*", "&"}:
                return Unary(self._next(), self._unary())
            if (cast := self._cast()) is not None:
                return Cast(cast, self._unary())
            return self._postfix()
        finally:
            self._depth -= 1

    def _cast(self) -> Type | None:
        """Return the type of a cast and pass it; None, and nothing is passed, for what is none."""
        if not (self.kind == "op" and self.value == "("):
            return None
        words, stars, at = [], 0, self._at + 1
        while at < len(self._tokens):
            kind, value = self._tokens[at]
            if kind == "name" and not stars:
                words.append(value)
            elif value == "*":
                stars += 1
            else:
                break
            at += 1
        closed = at < len(self._tokens) and self._tokens[at][1] == ")"
        if not closed or not words or not _is_type(words):
            return None
        self._at = at + 1
        self._load()
        words = [word for word in words if word != "const"]
        known = integer(words)
        if stars:
            return Ptr(known or VOID)
        if known is None:
            raise Unprintable(f"the type {' '.join(words)} is not known")
        return known

    # postfix: primary {'[' expression ']'}
    def _postfix(self) -> Expr:
        found = self._primary()
        while True:
            if self.take("["):
                found = Index(found, self.expression())
                self._expect("]")
            elif self.kind == "op" and self.value in {".", "->"}:
                raise Unprintable(f"a member, {self._next()}{self.value}")
            else:
                return found

    # primary: NUMBER | CHAR | string | 'REC' '->' NAME | NAME ['(' args ')'] | '(' expression ')'
    #        | '{' args '}'
    def _primary(self) -> Expr:
        match self.kind:
            case "number":
                return _number(self._next())
            case "char":
                return Number(ord(_unescape(self._next()[1:-1])[:1] or "\0"), INT)
            case "string":
                return String(self.string())
            case "name":
                return self._name()
            case _:
                pass
        if self.take("("):
            if self.kind == "op" and self.value == "{":
                raise Unprintable("statements")
            found = self.expression()
            self._expect(")")
            return found
        if self.take("{"):
            return Braces(self._list("}"))
        raise Unprintable(f"an expression expected, not {self.value!r}")

    def _name(self) -> Expr:
        name = self._next()
        if name == "REC" and self.take("->"):
            if self.kind != "name":
                raise Unprintable(f"a field expected, not {self.value!r}")
            return RecordField(self._next())
        if self.take("("):
            if name == "sizeof":
                raise Unprintable("sizeof")
            return Call(name, self._list(")"))
        return Name(name)

    def _list(self, close: str) -> tuple[Expr, ...]:
        items: list[Expr] = []
        while not self.take(close):
            items.append(self.expression())
            if not self.take(","):
                self._expect(close)
                break
        return tuple(items)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if text[at:].strip():
                raise Unprintable(f"no C: {text[at : at + 20]!r}")
            return
        assert match.lastgroup is not None
        yield match.lastgroup, match[match.lastgroup]
        at = match.end()


def _is_type(words: list[str]) -> bool:
    return words[0] in _TYPE_WORDS or (len(words) == 1 and words[0] in INTEGERS)


def _unescape(text: str) -> str:
    def undone(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        if code[0] in "01234567":
            return chr(int(code, 8))
        return _ESCAPES.get(code, code)

    return _ESCAPE.sub(undone, text)


def _number(text: str) -> Number:
    digits = text.rstrip("uUlL")
    suffix = text[len(digits) :].lower()
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdecimal()
    try:
        value = int(digits, 8 if octal else 0)
    except ValueError:
        raise Unprintable(f"no number: {text[:40]!r}") from None
    if value >= 1 << 64:
        raise Unprintable(f"too large a number: {text[:40]}")
    # As C does: the first type that the value fits in, of those the suffix allows.
    decimal = digits.isdecimal() and not octal
    unsigned = "u" in suffix
    for t in (INT, UINT, LONG, ULONG):
        if ("l" in suffix and t.size < 8) or (unsigned and t.signed):
            continue
        if not t.signed and not unsigned and decimal:
            continue
        if t.wrap(value) == value:
            return Number(value, t)
    return Number(value, U64)
