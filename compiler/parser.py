"""Parse a ply script: tokens in, syntax tree out.

A grammar line stands above each method. Operators and parentheses are parsed with a stack of
their own, not by recursion, so chains and parentheses may be of any length; how deep a tree nests
is bounded by MAX_DEPTH, so that later stages may walk it by recursion.

The grammar is ply's, and a little more: a body may be missing or be a single statement, the last
``;`` of a block may be left out, ``;`` alone is a statement, ``a.b->c`` chains, adjacent strings
join, and a map may stand without keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.compiler.ast import (
    Assign,
    Binary,
    Block,
    Call,
    Delete,
    Element,
    Expr,
    ExprStmt,
    If,
    Index,
    Member,
    Name,
    Number,
    Probe,
    Return,
    Script,
    Stmt,
    String,
    Unary,
    operands,
)
from pybpf.compiler.cursor import Cursor, fault, place
from pybpf.compiler.lexer import lex
from pybpf.compiler.tokens import LEVELS, PREFIX, Kind, Token
from pybpf.dataclass import dataclass, replace
from pybpf.errors import ParseError
from pybpf.source import Source, Span

MAX_DEPTH = 256
"""How deep operators, calls, keys, members, blocks and conditions may nest in each other.

A chain of infix operators counts once, however long it is (see ``ast.chain``); parentheses leave
no trace in the tree and do not count.
"""

_PAREN_LEVEL = -1
_PREFIX_LEVEL = 1 + max(LEVELS.values())


def parse(tokens: Sequence[Token]) -> Script:
    """Return the tree of the tokens that ``lex`` made (the last one is END).

    The span of an expression includes its parentheses. Raises ParseError at the first token that
    fits no rule of the grammar.
    """
    return _Parser(tokens).script()


def parse_text(source: Source) -> Script:
    """Lex and parse a script; raises LexError or ParseError."""
    return parse(lex(source))


@dataclass(frozen=True, slots=True)
class _Pending:
    """An open parenthesis, or an operator that waits for its right operand."""

    token: Token
    level: int
    left: Expr | None = None


class _Parser(Cursor):
    """A cursor with a method for each rule of the grammar."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self._depth = 0
        self._in_predicate = False

    # script : clause+
    def script(self) -> Script:
        probes = []
        while self.token.kind is not Kind.END:
            probes.append(self._clause())
        if not probes:
            hint = 'a script is one clause or more, such as BEGIN { print("hello"); }'
            raise fault(self.token.span, "the script is empty", hint)
        return Script(tuple(probes), probes[0].span.to(probes[-1].span))

    # clause : SPEC ['/' expression '/'] [block]  |  SPEC statement
    def _clause(self) -> Probe:
        spec = self.token
        if spec.kind is not Kind.SPEC:
            hints = ["no '{' is open here"] if spec.text == "}" else []
            hints += ["a clause begins with BEGIN, END or a probe such as kprobe:vfs_read"]
            raise self.unexpected("a probe specification", *hints)
        self.next()
        self._check_specification(spec)
        predicate = self._predicate() if self.token.text == "/" else None
        body = self._clause_body()
        return Probe(spec.text, predicate, body, spec.span, spec.span.to(body.span))

    def _clause_body(self) -> Stmt:
        if self.token.kind in {Kind.SPEC, Kind.END}:
            before = self.previous.span
            return Block((), Span(before.source, before.end, before.end))
        if self.token.text == "{":
            return self._block()
        return self._statement()

    # predicate : '/' expression '/'
    def _predicate(self) -> Expr:
        opening = self.next()
        self._in_predicate = True
        expr = self._expression()
        self._in_predicate = False
        hint = f"the predicate that begins at {place(opening)} ends in a '/' before the '{{'"
        self.expect("/", "an operator or '/'", hint)
        return expr

    # block : '{' (statement | ';')* '}'
    def _block(self) -> Block:
        brace = self.next()
        body = []
        while self.token.text != "}":
            if self.token.kind in {Kind.SPEC, Kind.END}:
                hint = f"the '{{' at {place(brace)} is not closed"
                raise self.unexpected("a statement or '}'", hint)
            if self.token.text == ";":
                self.next()
            else:
                body.append(self._statement())
        return Block(tuple(body), brace.span.to(self.next().span))

    # statement : block | ';' | if | 'return' ';' | 'delete' map ';' | assignment
    def _statement(self) -> Stmt:
        start = self.token
        match start.text:
            case "{":
                self._deeper(start)
                block = self._block()
                self._depth -= 1
                return block
            case ";":
                return Block((), self.next().span)
            case "if":
                return self._if()
            case "return":
                self.next()
                return Return(start.span.to(self._end_of_statement()))
            case "delete":
                self.next()
                if self.token.kind not in {Kind.NAME, Kind.AGGREGATION}:
                    raise self.unexpected("a map", "write delete m[key];")
                target = _map(self._named(), "delete")
                return Delete(target, start.span.to(self._end_of_statement()))
            case "else":
                hint = "an 'else' follows directly the one statement or block of its 'if'"
                raise self.unexpected("a statement", hint)
            case _:
                return self._assignment()

    # if : 'if' '(' expression ')' statement ['else' statement]
    def _if(self) -> If:
        start = self.next()
        self._deeper(start)
        opening = self.expect("(")
        condition = self._expression()
        self.close(opening, ")", "an operator or ')'")
        # A block that is a branch nests no deeper than its `if`, so it does not count.
        then = self._block() if self.token.text == "{" else self._statement()
        otherwise: Stmt | None = None
        if self.token.text == "else":
            self.next()
            otherwise = self._block() if self.token.text == "{" else self._statement()
        self._depth -= 1
        return If(condition, then, otherwise, start.span.to((otherwise or then).span))

    # assignment : [map '='] expression ';'
    def _assignment(self) -> Assign | ExprStmt:
        self.statement = self.token
        expr = value = self._expression()
        target = None
        if self.token.text == "=":
            target = _map(expr, "assign to")
            self.next()
            value = self._expression()
        span = expr.span.to(self._end_of_statement())
        self.statement = None
        return ExprStmt(expr, span) if target is None else Assign(target, value, span)

    def _end_of_statement(self) -> Span:
        """Pass the ``;``, which may be missing before a ``}``; return the last token's span."""
        if self.token.text == "}":
            return self.previous.span
        missing = self.token.kind in {Kind.NAME, Kind.AGGREGATION, Kind.KEYWORD}
        hints = ["the statement before it does not end in ';'"] if missing else []
        return self.expect(";", "", *hints).span

    # expression : operand (INFIX operand)*
    # operand    : PREFIX* (named | literal | '(' expression ')') part*
    def _expression(self) -> Expr:
        expr = self._operators()
        self._check_depth(expr)
        return expr

    def _operators(self) -> Expr:
        """Operator precedence parsing (Dijkstra's shunting yard); all operators group left."""
        pending: list[_Pending] = []
        while True:
            while self.token.text == "(":
                pending.append(_Pending(self.next(), _PAREN_LEVEL))
            if self.token.text in PREFIX:
                pending.append(_Pending(self.next(), _PREFIX_LEVEL))
                continue
            named = self.token.kind in {Kind.NAME, Kind.AGGREGATION}
            expr = self._parts(self._named() if named else self._literal())
            while (level := self._infix_level()) == 0:
                expr = _apply(pending, expr, 0)
                if not pending:
                    return expr
                opening = pending.pop().token
                closing = self.close(opening, ")", "an operator or ')'")
                whole = replace(expr, span=opening.span.to(closing.span))
                expr = self._parts(whole, elements=True)
            expr = _apply(pending, expr, level)
            pending.append(_Pending(self.next(), level, expr))

    def _infix_level(self) -> int:
        """Return how tightly the next token binds as an infix operator, or 0 if it is none.

        In a predicate, a ``/`` with no operand behind it is the one that closes.
        """
        token = self.token
        if self._in_predicate and token.text == "/":
            follower = self.follower
            if follower.text in {"{", ";"} or follower.kind in {Kind.SPEC, Kind.END}:
                return 0
        return LEVELS.get(token.text, 0)

    # part : ('.' | '->') NAME           (a field may be called `if` or `END`)
    #      | '[' expression ']'          (not of what might be meant as a map)
    def _parts(self, expr: Expr, *, elements: bool = False) -> Expr:
        while True:
            if self.token.text in {".", "->"}:
                expr = self._member(expr)
                elements = True
            elif self.token.text == "[" and elements:
                expr = self._element(expr)
            else:
                break
        if self.token.text == "[":
            several = isinstance(expr, Index)
            hint = "keys are separated by commas: m[a, b]" if several else _NO_ELEMENTS
            raise self.unexpected("an operator", hint)
        if self.token.text == "(":
            raise self.unexpected("an operator", "only a name can be called")
        return expr

    def _member(self, expr: Expr) -> Member:
        dot = self.next()
        field = self.token
        if not field.text.isidentifier():
            raise self.unexpected("the name of a field")
        self.next()
        name = Name(field.text, field.span)
        return Member(expr, name, dot.text == "->", expr.span.to(field.span))

    def _element(self, expr: Expr) -> Element:
        opening = self.token
        items, closing = self._list("]")
        if len(items) != 1:
            raise fault(opening.span.to(closing.span), "an element has one number: data->args[1]")
        return Element(expr, items[0], expr.span.to(closing.span))

    # literal : NUMBER | STRING+ | PARAMETER
    def _literal(self) -> Expr:
        token = self.token
        match token:
            case Token(kind=Kind.NUMBER, value=int(value)):
                self.next()
                decimal = value == 0 or not token.text.startswith("0")
                return Number(value, token.span, token.suffix, decimal)
            case Token(kind=Kind.STRING):
                return self._string()
            case Token(kind=Kind.PARAMETER):
                self.next()
                return Name(token.text, token.span)
            case _:
                hint = _NO_PREFIX.get(token.text)
                raise self.unexpected("an expression", *([hint] if hint else []))

    def _string(self) -> String:
        start = self.token.span
        parts = []
        while isinstance(part := self.token.value, bytes):
            parts.append(part)
            self.next()
        return String(b"".join(parts), start.to(self.previous.span))

    # named : NAME | NAME '(' [list] ')' | map
    # map   : (NAME | AGGREGATION) ['[' list ']']
    def _named(self) -> Name | Call | Index:
        token = self.next()
        name = Name(token.text, token.span)
        if self.token.text == "[":
            if self.follower.text == "]":
                self.next()
                raise self.unexpected("a key", f"write {token.text}[key], or {token.text} alone")
            keys, closing = self._list("]")
            return Index(name, keys, token.span.to(closing.span))
        if token.kind is Kind.AGGREGATION:
            return Index(name, (), token.span)
        if self.token.text == "(":
            args, closing = self._list(")")
            return Call(name, args, token.span.to(closing.span))
        return name

    # list : expression (',' expression)*
    def _list(self, closing: str) -> tuple[tuple[Expr, ...], Token]:
        """Parse from an opening bracket to its closing one, which is returned too."""
        opening = self.next()
        if self.token.text == closing:
            return (), self.next()
        self._deeper(opening)
        items = [self._operators()]
        while self.token.text == ",":
            self.next()
            items.append(self._operators())
        self._depth -= 1
        return tuple(items), self.close(opening, closing, f"',' or '{closing}'")

    def _deeper(self, token: Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _too_deep(token.span)

    def _check_depth(self, expr: Expr) -> None:
        """Hold a whole expression to MAX_DEPTH, counting a chain of infix operators once."""
        todo = [(expr, self._depth)]
        while todo:
            node, depth = todo.pop()
            if depth > MAX_DEPTH:
                raise _too_deep(node.span)
            todo += [(operand, depth + 1) for operand in operands(node)]

    def _check_specification(self, spec: Token) -> None:
        """Say what is wrong with a specification that was cut short or that runs on."""
        token = self.token
        if spec.text.endswith("/"):
            hint = f"a blank stands before a predicate: {spec.text[:-1]} / … /"
            raise fault(spec.span, "the probe specification ends in '/'", hint)
        if token.text == ",":
            hint = "repeat the clause, or use one pattern: kprobe:vfs_@(read|write)"
            raise fault(token.span, "a clause has one probe specification", hint)
        if token.kind is Kind.NAME and self.follower.text == "{" and ":" in spec.text:
            hint = f"a probe specification holds no blanks: {spec.text}{token.text}"
            raise self.unexpected("'/' or '{'", hint)


_NO_ELEMENTS = "maps and arrays have elements: m[key], data->args[1]"
_NO_PREFIX = {
    "&": "'&' takes two operands: there are no addresses to take",
    "+": "'+' takes two operands",
}


def _apply(pending: list[_Pending], operand: Expr, level: int) -> Expr:
    """Apply the operators that bind at least as tightly as ``level``, down to a parenthesis."""
    while pending and pending[-1].level >= level:
        top = pending.pop()
        op, op_span = top.token.text, top.token.span
        if top.left is None:
            operand = Unary(op, operand, op_span.to(operand.span))
        else:
            operand = Binary(op, top.left, operand, op_span, top.left.span.to(operand.span))
    return operand


def _map(expr: Expr, action: str) -> Index:
    """Return the map that an expression names, for a statement that changes it."""
    match expr:
        case Index():
            return expr
        case Name(name=name, span=span) if not name.startswith("$"):
            return Index(expr, (), span)
        case Name(name=name):
            hint = f"'{name}' is given from outside; keep what changes in a map: m[kpid] = …"
        case _:
            hint = "only a map can change: m[key] = …, delete m[key]"
    raise fault(expr.span, f"cannot {action} this expression", hint)


def _too_deep(span: Span) -> ParseError:
    return fault(span, f"nested too deeply: more than {MAX_DEPTH} levels")
