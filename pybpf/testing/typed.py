"""Random ply scripts that are well typed, on the events of ``testing.tracepoints``.

The scripts use every operator on every width and sign, built-ins, fields of all kinds, maps of
numbers, texts, times, arrays and structs with up to three keys of these, all aggregations,
conditions, early returns, pointers, printing and clearing. They are text, so that a failing one can
be read and run.
"""

from __future__ import annotations

import re

from hypothesis import strategies as st

from pybpf.testing.tracepoints import FIRST, INTEGERS, SECOND

_EDGES = [
    edge for bits in (0, 1, 5, 6, 7, 8, 15, 16, 31, 32, 63) for edge in (2**bits - 1, 2**bits)
]
_NUMBERS = st.one_of(st.integers(0, 20), st.sampled_from(_EDGES), st.integers(0, 2**64 - 1))
_SUFFIXES = st.sampled_from(["", "", "", "u", "l", "ul"])
_SPELLINGS = st.sampled_from(["{}", "{:#x}", "{:#b}", "0{:o}"])

# Maps by name: the kinds of their keys, then of their values. "i" is a number, "t" a text, "w" an
# array of words, "s" the record of the first tracepoint; "T" is a time, and the others are the
# integer field of that name, so that the map is as narrow as the field.
_MAPS = {
    "m": ("i", "i"), "n": ("ii", "i"), "p": ("ti", "i"), "q": ("i", "t"), "r": ("iti", "i"),
    "start": ("i", "T"), "x": ("", "i"), "words": ("i", "w"), "byword": ("w", "i"),
    "saved": ("i", "s"), "bytes": ("i", "g"), "chars": ("i", "h"), "halves": ("t", "e"),
    "shorts": ("i", "f"), "uints": ("", "d"),
}  # fmt: skip
_AGGREGATIONS = {
    "@": ("i", "count"), "@sum": ("ii", "sum"), "@texts": ("t", "count"), "@q": ("", "quantize"),
    "@qq": ("it", "quantize"), "@total": ("i", "sum"), "@words": ("w", "count"),
    "@records": ("s", "count"),
}  # fmt: skip
_NUMERIC = [name for name, (_, value) in _MAPS.items() if value not in "tws"]
_INITIAL = {"i": "0", "t": '""', "w": "data->words", "s": "*data", "T": "time"}
_WORD = re.compile(r"@?\w+|@")
_WORDS = ["", "a", "dd", "dash", "exactly7", "sixteen bytes ok", "x" * 20, "not terminated!!"]


@st.composite
def _literals(draw: st.DrawFn) -> str:
    spelled = draw(_SPELLINGS).format(draw(_NUMBERS)) + draw(_SUFFIXES)
    return f"{'-' * draw(st.booleans())}{spelled}"


_LEAVES = st.one_of(
    _literals(),
    st.sampled_from([f"data->{name}" for name in INTEGERS]),
    st.sampled_from(["pid", "kpid", "uid", "gid", "cpu", "time", "x", "uints", "'c'"]),
    st.sampled_from(["data->common_pid", "(*data).c", "*data->number", "*data->kernel_text"]),
)
_POINTER_TEXTS = ("data->kernel_text", "data->user_text")
_TEXT_LEAVES = st.sampled_from(
    ["comm", "data->name", "data->text", "data->tail", "data->blob", *_POINTER_TEXTS,
     "dyn(data->text, 5)", "dyn(data->tail, 300)", "dyn(data->blob, 3)", "str(data->b)",
     "str(data->kernel_text, 3)", "str(uptr(data->b), 9)", "mem(data->b, 4)",
     *(f'"{word}"' for word in _WORDS)]
)  # fmt: skip
_POINTERS = st.sampled_from(
    ["data->kernel_text", "data->user_text", "data->number", "uptr(data->b)"]
)
_TESTS = ("==", "!=", "<=", ">=", "&&", "||", "^^")
_OPERATORS = st.sampled_from([*"+-*/%&|^<>", "<<", ">>", *_TESTS])


def _grow(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return expressions that have ``children``, which are numbers, in them."""
    texts = _texts(children)
    pointers = _POINTERS | st.tuples(_POINTERS, children).map("({0[0]} + {0[1]})".format)
    entries = [_entry(name, children, texts) for name in _NUMERIC if _MAPS[name][0]]
    return st.one_of(
        st.tuples(children, _OPERATORS, children).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        # Without parentheses, the operators' levels decide what this means.
        st.tuples(children, _OPERATORS, children).map(" ".join).map("(0 + {})".format),
        st.tuples(st.sampled_from("-~!"), children).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(texts, texts).map(lambda t: f"strcmp({t[0]}, {t[1]})"),
        st.tuples(pointers, st.sampled_from(_TESTS), children | pointers).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.one_of(entries),
        _entry("saved", children, texts).map("{}.d".format),
        _entry("start", children, texts).map("(time - {})".format),
    )


def _texts(numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    inner = numbers.map("q[{}]".format) | numbers.map("saved[{}].name".format)
    return st.one_of(_TEXT_LEAVES, _TEXT_LEAVES, inner)


def _entry(
    name: str, numbers: st.SearchStrategy[str], texts: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    kinds = (_MAPS.get(name) or _AGGREGATIONS[name])[0]
    if not kinds:
        return st.just(name)
    arrays = st.just("data->words") | numbers.map("words[{}]".format)
    parts = {"i": numbers, "t": texts, "w": arrays, "s": st.just("*data")}
    keys = st.tuples(*(parts[kind] for kind in kinds)).map(", ".join)
    return keys.map(lambda text: f"{name}[{text}]")


EXPRESSIONS: st.SearchStrategy[str] = st.recursive(_LEAVES, _grow, max_leaves=6)
"""Expressions that are numbers."""
TEXTS: st.SearchStrategy[str] = _texts(EXPRESSIONS)
"""Expressions that are texts."""


@st.composite
def deep(draw: st.DrawFn) -> str:
    """Draw an expression with more values alive at once than there are registers."""
    leaves = draw(st.lists(_LEAVES, min_size=8, max_size=24))
    operators = draw(st.lists(st.sampled_from("+-*^|&"), min_size=24, max_size=24))
    return "(".join(f"{leaf} {op} " for leaf, op in zip(leaves, operators, strict=False)) + (
        "1" + ")" * (len(leaves) - 1)
    )


@st.composite
def _assignments(draw: st.DrawFn, *, records: bool) -> str:
    names = sorted(name for name, (_, value) in _MAPS.items() if records or value != "s")
    name = draw(st.sampled_from(names))
    match _MAPS[name][1]:
        case "i":
            right = draw(EXPRESSIONS | deep())
        case "t":
            # A map would keep the pointer.
            text = draw(TEXTS)
            right = f"str({text})" if text in _POINTER_TEXTS else text
        case "w":
            right = draw(st.sampled_from(["data->words", "words[x]"]))
        case "s":
            right = draw(st.sampled_from(["*data", "saved[x]"]))
        case "T":
            right = draw(st.sampled_from(["time", "time - time", "start[x]", "1"]))
        case field:
            right = f"data->{field}"
    return f"{draw(_entry(name, EXPRESSIONS, TEXTS))} = {right};"


@st.composite
def _aggregations(draw: st.DrawFn, *, records: bool) -> str:
    names = sorted(n for n, (keys, _) in _AGGREGATIONS.items() if records or "s" not in keys)
    name = draw(st.sampled_from(names))
    function = _AGGREGATIONS[name][1]
    argument = "" if function == "count" else draw(EXPRESSIONS | st.just("data->h"))
    return f"{draw(_entry(name, EXPRESSIONS, TEXTS))} = {function}({argument});"


@st.composite
def _prints(draw: st.DrawFn, *, records: bool) -> str:
    others = ["data->words", "data->mac", "words[1]", "saved[0]", "time", "data->number", "m", "@"]
    parts = EXPRESSIONS | TEXTS | st.sampled_from(others + ["*data"] * records)
    return f"print({', '.join(draw(st.lists(parts, min_size=1, max_size=5)))});"


@st.composite
def _printfs(draw: st.DrawFn) -> str:
    parts = {"%d": EXPRESSIONS, "%s": TEXTS, "%#x": _POINTERS, "%v": EXPRESSIONS | TEXTS}
    format_ = draw(st.lists(st.sampled_from(sorted(parts)), max_size=4))
    args = "".join(f", {draw(parts[conversion])}" for conversion in format_)
    return f'printf("{" ".join(format_)}"{args});'


@st.composite
def _deletes(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(n for n in (*_MAPS, *_AGGREGATIONS) if n != "@records")))
    return f"delete {draw(_entry(name, EXPRESSIONS, TEXTS))};"


def _nest(statements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = st.lists(statements, max_size=3).map(lambda body: f"{{ {' '.join(body)} }}")
    return st.one_of(
        st.tuples(EXPRESSIONS, block).map("if ({0[0]}) {0[1]}".format),
        st.tuples(EXPRESSIONS, block, block).map("if ({0[0]}) {0[1]} else {0[2]}".format),
        st.tuples(EXPRESSIONS, block, EXPRESSIONS, block).map(
            "if ({0[0]}) {0[1]} else if ({0[2]}) {0[3]}".format
        ),
    )


def statements(*, records: bool = True) -> st.SearchStrategy[str]:
    """Draw statements; ``records``: with values that only the first tracepoint has."""
    return st.recursive(
        st.one_of(
            _assignments(records=records),
            _aggregations(records=records),
            _prints(records=records),
            _printfs(),
            _deletes(),
            st.sampled_from(["return;", "clear(m);", "clear(@);", "exit(data->c);"]),
        ),
        _nest,
        max_leaves=6,
    )


def _stores(script: str) -> str:
    """Return a clause that stores to every map of the script, so that all types are known."""
    used = {word for word in _WORD.findall(script) if word in _MAPS or word in _AGGREGATIONS}
    plain = [
        f"{name}{_initial_keys(keys)} = {_INITIAL.get(value) or f'data->{value}'};"
        for name, (keys, value) in _MAPS.items()
        if name in used
    ]
    counted = [
        f"{name}{_initial_keys(keys)} = {function}({'' if function == 'count' else '0'});"
        for name, (keys, function) in _AGGREGATIONS.items()
        if name in used
    ]
    return f"{FIRST} / data->c == 12345 / {{ {' '.join(plain + counted)} }}"


def _initial_keys(kinds: str) -> str:
    return f"[{', '.join(_INITIAL[kind] for kind in kinds)}]" if kinds else ""


@st.composite
def clauses(draw: st.DrawFn) -> str:
    """Draw one clause on one of the tracepoints, or on both."""
    probe = draw(st.sampled_from([FIRST, SECOND, "tracepoint:test/*"]))
    predicate = f"/ {draw(EXPRESSIONS)} / " if draw(st.booleans()) else ""
    body = draw(st.lists(statements(records=probe == FIRST), max_size=4))
    return f"{probe} {predicate}{{ {' '.join(body)} }}"


@st.composite
def typed_scripts(draw: st.DrawFn, *, least: int = 1, most: int = 2) -> str:
    """Draw a script of some random clauses."""
    found = "\n".join(draw(st.lists(clauses(), min_size=least, max_size=most)))
    return f"{_stores(found)}\n{found}"
