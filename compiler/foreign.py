"""Recognise C and bpftrace: the tokens around a syntax error, or an unknown name, in; advice out.

Only what has been refused comes here, so none of this can refuse a valid script.
"""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.compiler.tokens import Kind, Token
from pybpf.errors import Diagnostic
from pybpf.source import Span

_LOOPS = frozenset({"while", "for", "do", "switch", "unroll"})
_COUNTS = frozenset({"++", "--"})
_COMPOUNDS = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_BASIC_TYPES = """
    bool char double enum float int long short signed size_t ssize_t struct union unsigned void
    s8 s16 s32 s64 u8 u16 u32 u64 __s8 __s16 __s32 __s64 __u8 __u16 __u32 __u64
    int8 int16 int32 int64 uint8 uint16 uint32 uint64
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
"""
_TYPES = frozenset(_BASIC_TYPES.split())
_DECLARES = _TYPES | {"auto", "const", "let", "static", "var"}

# What bpftrace's words are here, and what stands for those that are nothing here.
_RENAMED = {
    "args": "data (arg0, arg1 … in kprobe probes)",
    "buf": "mem",
    "elapsed": "time",
    "func": "caller",
    "hist": "quantize",
    "kstack": "stack",
    "lhist": "quantize (by powers of two)",
    "nsecs": "time",
    "reg": "regs, as in regs->NAME",
    "strftime": "walltime",
    "strncmp": "strcmp",
    "tid": "kpid",
    "zero": "clear",
}
_MISSING = {
    "avg": "keep sum() and count() in two maps",
    "max": "quantize() shows how large values get",
    "min": "quantize() shows how small values get",
    "stats": "keep sum() and count() in two maps",
    "ustack": "stack is the kernel's",
}
_PROVIDERS = {
    "fentry": "kprobe",
    "fexit": "kretprobe",
    "hardware": "profile, at times instead of events",
    "kfunc": "kprobe",
    "kretfunc": "kretprobe",
    "rawtracepoint": "tracepoint",
    "software": "profile, at times instead of events",
}
_OF_USER_SPACE = frozenset({"uprobe", "uretprobe", "usdt"})


def foreign_name(name: str) -> str | None:
    """Return what an unknown name of bpftrace's is in the language; None for any other name."""
    if name in _RENAMED:
        return f"bpftrace's {name} is here {_RENAMED[name]}"
    if name in _MISSING:
        return f"there is no {name} as in bpftrace: {_MISSING[name]}"
    return None


def foreign_provider(name: str) -> str | None:
    """Return what an unknown provider of bpftrace's is in the language; None for any other name."""
    if name in _PROVIDERS:
        return f"bpftrace's {name} is here {_PROVIDERS[name]}"
    if name in _OF_USER_SPACE:
        return f"there is no {name} as in bpftrace: probes are put on the kernel only"
    return None


def foreign(tokens: Sequence[Token], at: int, statement: Token | None) -> Diagnostic | None:
    """Return what is wrong if the script looks like another language at ``tokens[at]``.

    ``statement`` is the first token of the statement that the error is in.
    """
    if statement is not None and statement.text in _LOOPS:
        return Diagnostic(
            f"there is no '{statement.text}' in the language",
            statement.span,
            ("a probe runs straight through at each event; 'if' and 'else' are its only branches",),
        )
    return _compound(tokens, at) or _cast(tokens, at) or _declaration(tokens, at)


def _compound(tokens: Sequence[Token], at: int) -> Diagnostic | None:
    """``x += 1``, ``x++``, ``++x`` and the like; the tokens of each stand side by side."""
    for first in (at - 2, at - 1, at):
        pair = tokens[max(first, 0) : first + 2]
        if len(pair) < 2 or pair[0].span.end != pair[1].span.start:
            continue
        op = pair[0].text + pair[1].text
        span = pair[0].span.to(pair[1].span)
        # "--" is no fault in itself, nor is "++" two tokens back.
        if op in _COUNTS and (first != at or op == "++"):
            hint = f"write m[key] = m[key] {op[0]} 1"
            if op == "++":
                hint += "; to count events, @[key] = count()"
            return Diagnostic(f"there is no '{op}' in the language", span, (hint,))
        if op in _COMPOUNDS and first == at - 1:
            hint = f"write m[key] = m[key] {op[:-1]} …"
            return Diagnostic(f"there is no '{op}' in the language", span, (hint,))
    return None


def _cast(tokens: Sequence[Token], at: int) -> Diagnostic | None:
    """``(u64)x``, ``(char *)p`` and ``(struct s *)p``, refused up to three tokens after ``(``."""
    for first in range(at - 1, max(at - 4, -1), -1):
        if tokens[first].text == "(" and tokens[first + 1].text in _TYPES:
            return Diagnostic(
                "there are no casts in the language",
                Span(tokens[first].span.source, tokens[first].span.start, tokens[at].span.end),
                ("values keep the type of their field, argument or map",),
            )
    return None


def _declaration(tokens: Sequence[Token], at: int) -> Diagnostic | None:
    """``int x = 1`` and ``let $x = 1``."""
    if at and tokens[at - 1].text in _DECLARES and tokens[at].kind in {Kind.NAME, Kind.PARAMETER}:
        name = tokens[at].text.lstrip("$")
        return Diagnostic(
            "there are no declarations in the language",
            tokens[at - 1].span.to(tokens[at].span),
            (f"assign to a map, which needs none: {name}[kpid] = …",),
        )
    return None
