"""The syntax tree of a ply script, as the parser makes it; spans do not take part in equality."""

from __future__ import annotations

from pybpf.dataclass import dataclass, field
from pybpf.source import Span


@dataclass(frozen=True, slots=True)
class Number:
    """An integer literal or a character constant; the value is below 2**64.

    ``suffix`` is C's, in lower case: ``"" u l ul ll ull``. As in C, the type of a number depends on
    whether it was written in base ten (``decimal``); 0 always counts as if it were.
    """

    value: int
    span: Span = field(compare=False, repr=False)
    suffix: str = ""
    decimal: bool = True


@dataclass(frozen=True, slots=True)
class String:
    """A string literal, escapes resolved; text beyond ASCII is UTF-8."""

    value: bytes
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier, or a ``$name`` (the dollar is part of ``name``)."""

    name: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """``name(args)``."""

    name: Name
    args: tuple[Expr, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Index:
    """``name[keys]``: an element of a map (``name`` of an aggregation begins with ``@``).

    ``keys`` is empty where the brackets are left out. ``@x`` is an Index wherever it stands; a
    plain ``x`` without brackets is one only as a target of Assign or Delete, and a Name elsewhere.
    """

    name: Name
    keys: tuple[Expr, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Member:
    """``object.name`` or ``object->name`` (``arrow``)."""

    object: Expr
    name: Name
    arrow: bool
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Element:
    """``object[index]``, where the object is no map: part of an array, or of what a pointer has."""

    object: Expr
    index: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """A prefix operator: ``* - ~ !``."""

    op: str
    operand: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """An infix operator; ``op`` is as written."""

    op: str
    left: Expr
    right: Expr
    op_span: Span = field(compare=False, repr=False)
    span: Span = field(compare=False, repr=False)


Expr = Number | String | Name | Call | Index | Member | Element | Unary | Binary


def chain(expr: Binary) -> tuple[Expr, list[Binary]]:
    """Return the first operand of ``a + b * c - d …`` and its operators, innermost (first) first.

    The parser bounds how deep a tree may nest, but not how many operands a chain may have: a pass
    that walks ``left`` in a loop over this list, and not by recursion, takes chains of any length.
    """
    links = [expr]
    while isinstance(links[-1].left, Binary):
        links.append(links[-1].left)
    links.reverse()
    return links[0].left, links


def operands(expr: Expr) -> list[Expr]:
    """Return the expressions that ``expr`` is made of; a chain of infix operators is one step."""
    match expr:
        case Number() | String() | Name():
            return []
        case Call(args=items) | Index(keys=items):
            return list(items)
        case Member(object=inner) | Unary(operand=inner):
            return [inner]
        case Element(object=inner, index=index):
            return [inner, index]
        case Binary():
            first, links = chain(expr)
            return [first, *(link.right for link in links)]


@dataclass(frozen=True, slots=True)
class Block:
    """``{ statements }``."""

    body: tuple[Stmt, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """``if (condition) then [else otherwise]``."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Return:
    """``return;``: leave the probe."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """``delete map[keys];``."""

    target: Index
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assign:
    """``map[keys] = value;``, for maps and aggregations alike."""

    target: Index
    value: Expr
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ExprStmt:
    """``expression;``."""

    expr: Expr
    span: Span = field(compare=False, repr=False)


Stmt = Block | If | Return | Delete | Assign | ExprStmt


@dataclass(frozen=True, slots=True)
class Probe:
    """One clause. ``spec`` is the probe specification as written, such as ``kprobe:vfs_*``.

    A clause without a body has an empty Block.
    """

    spec: str
    predicate: Expr | None
    body: Stmt
    spec_span: Span = field(compare=False, repr=False)
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Script:
    """All clauses in order."""

    probes: tuple[Probe, ...]
    span: Span = field(compare=False, repr=False)
