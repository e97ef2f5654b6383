"""Print tokens and trees: script text that parses to the same tree, and the dumps of ``-d``."""

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
    chain,
)
from pybpf.compiler.tokens import LEVELS, Token
from pybpf.source import Span

_INDENT = "    "
_ESCAPES = str.maketrans(
    {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\a": r"\a", "\b": r"\b", "\f": r"\f", "\v": r"\v"}
    | {"\\": r"\\", '"': r"\""}
)

_Node = Probe | Stmt | Expr


def print_script(script: Script) -> str:
    """Return text that parses to an equal tree; one blank line separates the clauses.

    Braces are added where only they keep a tree that no text gives: around the body of a predicate,
    and around an ``if`` that would take the ``else`` of the one it is in.
    """
    return "\n".join("\n".join(_probe(probe)) + "\n" for probe in script.probes)


def print_expr(expr: Expr) -> str:
    """Return the text of an expression, with the parentheses that it needs and no others."""
    match expr:
        case Number(value=value, suffix=suffix, decimal=decimal):
            return f"{value if decimal else hex(value)}{suffix}"
        case String(value=value):
            return f'"{_escape(value)}"'
        case Name(name=text):
            return text
        case Call(name=name, args=args):
            return f"{name.name}({', '.join([print_expr(arg) for arg in args])})"
        case Index(name=name, keys=()):
            return name.name
        case Index(name=name, keys=keys):
            return f"{name.name}[{', '.join([print_expr(key) for key in keys])}]"
        case Member(object=inner, name=name, arrow=arrow):
            # "5.x" would be one malformed number.
            text = _enclosed(inner, needed=isinstance(inner, Binary | Unary | Number))
            return f"{text}{'->' if arrow else '.'}{name.name}"
        case Element(object=inner, index=index):
            text = _enclosed(inner, needed=not isinstance(inner, Member | Element))
            return f"{text}[{print_expr(index)}]"
        case Unary(op=op, operand=inner):
            return op + _enclosed(inner, needed=isinstance(inner, Binary))
        case Binary():
            return _chain(expr)


def dump_tokens(tokens: Sequence[Token]) -> str:
    """Return one line for each token: where it begins, its kind, its text, and its value if any."""
    lines = []
    for token in tokens:
        value = "" if token.value is None else f"  = {token.value!r}"
        text = token.text.replace("\n", r"\n")
        lines.append(f"{_position(token.span):<8}{token.kind:<22}{text}{value}".rstrip())
    return "\n".join(lines) + "\n"


def dump_ast(script: Script) -> str:
    """Return one line for each node, below its parent: what it is and where it begins."""
    lines = []
    todo: list[tuple[int, str, _Node]] = [(0, "", probe) for probe in reversed(script.probes)]
    while todo:
        depth, role, node = todo.pop()
        label, children = _describe(node)
        lines.append(f"{'  ' * depth}{role}{label}  <{_position(node.span)}>\n")
        todo += [(depth + 1, role, child) for role, child in reversed(children)]
    return "".join(lines)


def _probe(probe: Probe) -> list[str]:
    """Return the lines of a clause."""
    if probe.predicate is None:
        return _join(probe.spec, _statement(probe.body))
    head = f"{probe.spec} / {print_expr(probe.predicate)} /"
    return _join(head, _statement(_braced(probe.body, needed=not isinstance(probe.body, Block))))


def _statement(stmt: Stmt) -> list[str]:
    """Return the lines of a statement; a block begins on the line of what it belongs to."""
    match stmt:
        case Block(body=()):
            return ["{}"]
        case Block(body=body):
            lines = ["{"]
            for inner in body:  # a comprehension would be one more level of recursion
                lines += [_INDENT + line for line in _statement(inner)]
            return [*lines, "}"]
        case If():
            return _if(stmt)
        case Return():
            return ["return;"]
        case Delete(target=target):
            return [f"delete {print_expr(target)};"]
        case Assign(target=target, value=value):
            return [f"{print_expr(target)} = {print_expr(value)};"]
        case ExprStmt(expr=expr):
            return [f"{print_expr(expr)};"]


def _if(stmt: If) -> list[str]:
    then = _braced(stmt.then, needed=stmt.otherwise is not None and _takes_else(stmt.then))
    lines = _join(f"if ({print_expr(stmt.condition)})", _statement(then))
    if stmt.otherwise is None:
        return lines
    tail = _join("else", _statement(stmt.otherwise))
    if isinstance(then, Block):
        return [*lines[:-1], f"{lines[-1]} {tail[0]}", *tail[1:]]
    return lines + tail


def _join(head: str, lines: list[str]) -> list[str]:
    """Put ``head`` before the first line."""
    return [f"{head} {lines[0]}", *lines[1:]]


def _takes_else(stmt: Stmt) -> bool:
    """Whether an ``else`` behind a statement would belong to an ``if`` inside it."""
    while isinstance(stmt, If) and stmt.otherwise is not None:
        stmt = stmt.otherwise
    return isinstance(stmt, If)


def _braced(stmt: Stmt, *, needed: bool) -> Stmt:
    return Block((stmt,), stmt.span) if needed else stmt


def _enclosed(expr: Expr, *, needed: bool) -> str:
    text = print_expr(expr)
    return f"({text})" if needed else text


def _chain(expr: Binary) -> str:
    """Print a chain of operators in a loop, for it may have thousands of operands."""
    first, links = chain(expr)
    parts = [print_expr(first)]
    opening = 0
    done = LEVELS[links[0].op]
    for link in links:
        level = LEVELS[link.op]
        if done < level:
            opening += 1
            parts.append(")")
        right = link.right
        inner = LEVELS[right.op] if isinstance(right, Binary) else level + 1
        parts.append(f" {link.op} {_enclosed(right, needed=inner <= level)}")
        done = level
    return "(" * opening + "".join(parts)


def _escape(value: bytes) -> str:
    """Return the inside of a string literal: text as it is, all else escaped."""
    out = []
    for ch in value.decode(errors="surrogateescape"):
        plain = ch.translate(_ESCAPES)
        if plain != ch or ch.isprintable():
            out.append(plain)
        else:
            out += [f"\\x{byte:02x}" for byte in ch.encode(errors="surrogateescape")]
    return "".join(out)


def _describe(node: _Node) -> tuple[str, list[tuple[str, _Node]]]:
    """Return what a node is, and its children with the role that each has."""
    match node:
        case Probe(spec=spec, predicate=predicate, body=body):
            when: list[tuple[str, _Node]] = (
                [] if predicate is None else [("predicate: ", predicate)]
            )
            return f"probe {spec}", [*when, ("", body)]
        case Block(body=statements):
            return "block", [("", inner) for inner in statements]
        case If(condition=condition, then=then, otherwise=otherwise):
            tail: list[tuple[str, _Node]] = [] if otherwise is None else [("else: ", otherwise)]
            return "if", [("", condition), ("then: ", then), *tail]
        case Return():
            return "return", []
        case Delete(target=target):
            return "delete", [("", target)]
        case Assign(target=target, value=value):
            return "assign", [("", target), ("", value)]
        case ExprStmt(expr=expr):
            return "expression", [("", expr)]
        case Number() | String():
            return f"{type(node).__name__.lower()} {print_expr(node)}", []
        case Name(name=text):
            return f"name {text}", []
        case Call(name=name, args=args):
            return f"call {name.name}", [("", arg) for arg in args]
        case Index(name=name, keys=keys):
            return f"index {name.name}", [("", key) for key in keys]
        case Member(object=inner, name=name, arrow=arrow):
            return f"member {'->' if arrow else '.'}{name.name}", [("", inner)]
        case Element(object=inner, index=index):
            return "element", [("", inner), ("", index)]
        case Unary(op=op, operand=inner):
            return f"unary {op}", [("", inner)]
        case Binary(op=op, left=left, right=right):
            return f"binary {op}", [("", left), ("", right)]


def _position(span: Span) -> str:
    return f"{span.line}:{span.column}"
