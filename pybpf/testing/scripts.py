"""Strategies for ply scripts: random syntax trees that some text gives, and texts that few do."""

from __future__ import annotations

from hypothesis import strategies as st

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
)
from pybpf.compiler.tokens import KEYWORDS, LEVELS, PREFIX
from pybpf.source import Source, Span

_NOWHERE = Span(Source("<generated>", ""), 0, 0)

_RESERVED = KEYWORDS | {"BEGIN", "END"}
_SPECS = (
    "BEGIN",
    "END",
    "B:x",
    "interval:50ms",
    "profile:0:99hz",
    "kprobe:vfs_@(read|write)",
    "k:__x64_sys_!(x)",
    "kr:vfs_?[ab]*",
    "kprobe:schedule+0x8",
    "tracepoint:sched/sched_switch",
    "t:syscalls/sys_enter_*",
    "uprobe:/bin/sh:main",
)
_LEXEMES = (
    *_SPECS,
    *KEYWORDS,
    *LEVELS,
    *PREFIX,
    *"(){}[];,=.@$?:'\"\\",
    *("->", "x", "pid", "@n", "$target", "0", "0x1f", "017", "1_0u", "'c'", '"s\\n"', "u64"),
    *(" ", "\n", "# c\n", "// c\n", "/* c */", "/*", "é", "\0"),
)


def names() -> st.SearchStrategy[str]:
    """Draw identifiers that are no keywords, often those of built-ins."""
    known = st.sampled_from(["pid", "comm", "print", "count", "m", "_9", "x"])
    return known | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
        lambda text: text not in _RESERVED
    )


def exprs() -> st.SearchStrategy[Expr]:
    """Draw expressions of all forms."""
    return st.recursive(_leaves(), _compounds, max_leaves=12)


def stmts() -> st.SearchStrategy[Stmt]:
    """Draw statements of all forms."""
    expr = exprs()
    simple = st.one_of(
        st.builds(Return, st.just(_NOWHERE)),
        st.builds(Delete, _maps(expr), st.just(_NOWHERE)),
        st.builds(Assign, _maps(expr), expr, st.just(_NOWHERE)),
        st.builds(ExprStmt, expr, st.just(_NOWHERE)),
    )
    return st.recursive(simple, lambda inner: _blocks(inner) | _ifs(expr, inner), max_leaves=6)


def asts() -> st.SearchStrategy[Script]:
    """Draw scripts of all forms: each is what some text parses to, with no regard to its types."""
    stmt = stmts()
    spec = st.sampled_from(_SPECS)
    places = (st.just(_NOWHERE), st.just(_NOWHERE))
    probe = st.builds(Probe, spec, st.none(), stmt | _blocks(stmt), *places) | st.builds(
        Probe, spec, exprs(), _blocks(stmt), *places
    )
    probes = st.lists(probe, min_size=1, max_size=3).map(tuple)
    return st.builds(Script, probes, st.just(_NOWHERE))


def soups() -> st.SearchStrategy[str]:
    """Draw texts of lexemes in any order: few are scripts, and many go wrong late."""
    return st.lists(st.sampled_from(_LEXEMES), max_size=40).map(" ".join) | st.lists(
        st.sampled_from(_LEXEMES), max_size=40
    ).map("".join)


def _leaves() -> st.SearchStrategy[Expr]:
    numbers = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**31, 2**32, 2**63])
    suffixes = st.sampled_from(["", "", "u", "l", "ul", "ll", "ull"])
    texts = st.binary(max_size=12) | st.text(st.characters(codec="utf-8"), max_size=8).map(
        str.encode
    )
    parameters = (names() | st.integers(0, 12).map(str)).map("${}".format)
    return st.one_of(
        st.builds(_number, numbers, suffixes, decimal=st.booleans()),
        st.builds(String, texts, st.just(_NOWHERE)),
        _name(names() | parameters),
        st.builds(Index, _aggregation(), st.just(()), st.just(_NOWHERE)),
    )


def _compounds(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    place = st.just(_NOWHERE)
    return st.one_of(
        st.builds(Call, _name(names()), st.lists(inner, max_size=3).map(tuple), place),
        st.builds(Index, _name(names()) | _aggregation(), _keys(inner), place),
        st.builds(Member, inner, _name(names() | st.just("if")), st.booleans(), place),
        st.builds(Element, inner, inner, place),
        st.builds(Unary, st.sampled_from(sorted(PREFIX)), inner, place),
        st.builds(Binary, st.sampled_from(list(LEVELS)), inner, inner, place, place),
    )


def _number(value: int, suffix: str, *, decimal: bool) -> Number:
    return Number(value, _NOWHERE, suffix, decimal or value == 0)


def _name(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Name]:
    return st.builds(Name, texts, st.just(_NOWHERE))


def _aggregation() -> st.SearchStrategy[Name]:
    return _name((st.just("") | names() | st.just("9")).map("@{}".format))


def _keys(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[tuple[Expr, ...]]:
    return st.lists(inner, min_size=1, max_size=3).map(tuple)


def _maps(expr: st.SearchStrategy[Expr]) -> st.SearchStrategy[Index]:
    """Draw what can stand before ``=`` and behind ``delete``."""
    name = _name(names()) | _aggregation()
    return st.builds(Index, name, st.just(()) | _keys(expr), st.just(_NOWHERE))


def _blocks(inner: st.SearchStrategy[Stmt]) -> st.SearchStrategy[Block]:
    return st.builds(Block, st.lists(inner, max_size=3).map(tuple), st.just(_NOWHERE))


def _ifs(expr: st.SearchStrategy[Expr], inner: st.SearchStrategy[Stmt]) -> st.SearchStrategy[Stmt]:
    """Draw conditions; braces keep an ``if`` inside one from taking its ``else``."""
    place = st.just(_NOWHERE)
    unclear = inner.map(lambda stmt: Block((stmt,), _NOWHERE) if isinstance(stmt, If) else stmt)
    return st.builds(If, expr, inner, st.none(), place) | st.builds(If, expr, unclear, inner, place)
