"""Random ply scripts that are well typed, on the events of ``testing.tracepoints``.

The scripts use every operator on every width and sign, built-ins, fields of all kinds, maps of
numbers, texts, times, arrays and structs with up to three keys of these, all aggregations,
conditions, early returns, pointers, printing and clearing. They are text, so that a failing one can
be read and run. Most of what they do has an effect: maps have few keys, and most statements print
or store.
"""

from __future__ import annotations

import re

from hypothesis import strategies as st

from pybpf.testing.tracepoints import FIRST, INTEGERS, SECOND

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
_NUMERIC = sorted(name for name, (_, value) in _MAPS.items() if value not in "tws")
_INITIAL = {"i": "data->a", "t": "comm", "w": "data->words", "s": "*data", "T": "time - 1000"}
_FIRST_KEY = {"i": "0", "t": '"dd"', "w": "data->words", "s": "*data"}
_MAP_NAME = re.compile(r"@?\w+|@")

_EDGES = [2**bits - less for bits in (0, 1, 5, 6, 7, 8, 15, 16, 31, 32, 63) for less in (0, 1)]
_FIELDS = [*(f"data->{name}" for name in INTEGERS), "data->words[1]", "data->mac[5]"]
_LEAVES = [
    "pid", "kpid", "uid", "gid", "cpu", "time", "x", "uints", "'c'", "data->common_pid",
    "(*data).c", "*data->number", "*data->kernel_text", "saved[0].d", "(time - start[0])",
]  # fmt: skip
_WORDS = ["", "a", "dd", "dash", "exactly7", "sixteen bytes ok", "x" * 20, "not terminated!!"]
_POINTERS = ["data->kernel_text", "data->user_text"]
"""Pointers to texts, which a map would keep as they are."""
_TEXTS = [
    "comm", "data->name", "data->text", "data->tail", "data->blob", "dyn(data->text, 5)",
    "dyn(data->tail, 300)", "dyn(data->blob, 3)", "str(data->b)", "str(data->kernel_text, 3)",
    "str(uptr(data->b), 9)", "mem(data->b, 4)", "q[0]", "saved[0].name", "q[cpu]", *_POINTERS,
    *(f'"{word}"' for word in _WORDS),
]  # fmt: skip
_COMPARISONS = ["==", "!=", "<", ">", "<=", ">="]
_OPERATORS = [*"+-*/%&|^", "<<", ">>", *_COMPARISONS, "&&", "||", "^^"]


@st.composite
def _literals(draw: st.DrawFn) -> str:
    number = draw(st.integers(0, 20) | st.sampled_from(_EDGES) | st.integers(0, 2**64 - 1))
    spelling = draw(st.sampled_from(["{}", "{:#x}", "{:#b}", "0{:o}"]))
    suffix = draw(st.sampled_from(["", "", "", "u", "l", "ul"]))
    return f"{'-' * draw(st.booleans())}{spelling.format(number)}{suffix}"


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Draw an expression that is a number, ``depth`` operators deep at most."""
    form = draw(st.integers(0, 15)) if depth else 0
    if form < 4:
        return draw(st.one_of(_literals(), st.sampled_from(_FIELDS), st.sampled_from(_LEAVES)))
    inner = expressions(depth - 1)
    match form:
        case 4 | 5:
            return f"{draw(st.sampled_from('-~!'))}({draw(inner)})"
        case 6:
            return f"strcmp({draw(texts(depth - 1))}, {draw(texts(depth - 1))})"
        case 7:
            return draw(_entries(draw(st.sampled_from(_NUMERIC)), depth - 1))
        case 8:
            left, right = draw(_pointers(depth - 1)), draw(inner | _pointers(depth - 1))
            return f"({left} {draw(st.sampled_from([*_COMPARISONS, '&&', '||', '^^']))} {right})"
        case 9:
            # Without parentheses, the operators' levels decide what this means.
            parts = [draw(inner), draw(inner), draw(inner)]
            return f"({f' {draw(st.sampled_from(_OPERATORS))} '.join(parts)})"
        case _:
            return f"({draw(inner)} {draw(st.sampled_from(_OPERATORS))} {draw(inner)})"


@st.composite
def deep(draw: st.DrawFn) -> str:
    """Draw a number with more values alive at once than there are registers."""
    leaves = draw(st.lists(st.sampled_from(_FIELDS + _LEAVES), min_size=8, max_size=24))
    operators = draw(st.lists(st.sampled_from("+-*^|&"), min_size=24, max_size=24))
    chain = "(".join(f"{leaf} {op} " for leaf, op in zip(leaves, operators, strict=False))
    return f"{chain}1{')' * (len(leaves) - 1)}"


@st.composite
def texts(draw: st.DrawFn, depth: int = 1) -> str:
    """Draw an expression that is a text."""
    if depth and draw(st.integers(0, 5)) == 0:
        number = draw(expressions(depth - 1))
        return draw(st.sampled_from([f"q[{number}]", f"saved[{number}].name", f"str({number}, 9)"]))
    return draw(st.sampled_from(_TEXTS))


@st.composite
def _pointers(draw: st.DrawFn, depth: int) -> str:
    pointer = draw(st.sampled_from([*_POINTERS, "data->number", "uptr(data->b)"]))
    return f"({pointer} + {draw(expressions(depth))})" if draw(st.booleans()) else pointer


@st.composite
def _entries(draw: st.DrawFn, name: str, depth: int = 2) -> str:
    """Draw an entry of a map, most often one that is there."""
    keys = [draw(_keys(kind, depth)) for kind in (_MAPS.get(name) or _AGGREGATIONS[name])[0]]
    return f"{name}[{', '.join(keys)}]" if keys else name


def _keys(kind: str, depth: int) -> st.SearchStrategy[str]:
    match kind:
        case "i":
            few = st.sampled_from(["0", "0", "cpu", "data->h & 1", "data->c"])
            return st.one_of(few, few, expressions(depth))
        case "t":
            return st.sampled_from(['"dd"', "comm", "data->name"]) | texts(depth)
        case "w":
            return st.sampled_from(["data->words", "data->words", "words[0]"])
        case _:
            return st.just("*data")


@st.composite
def _assignments(draw: st.DrawFn, *, records: bool) -> str:
    name = draw(st.sampled_from([n for n, (_, value) in _MAPS.items() if records or value != "s"]))
    match _MAPS[name][1]:
        case "i":
            right = draw(st.one_of(expressions(), expressions(), deep()))
        case "t":
            text = draw(texts())
            right = f"str({text})" if text in _POINTERS else text
        case "w":
            right = draw(st.sampled_from(["data->words", "words[x]"]))
        case "s":
            right = draw(st.sampled_from(["*data", "*data", "saved[x]"]))
        case "T":
            right = draw(st.sampled_from(["time", "time - start[0]", "start[x]", "1"]))
        case field:
            right = f"data->{field}"
    return f"{draw(_entries(name))} = {right};"


@st.composite
def _aggregations(draw: st.DrawFn, *, records: bool) -> str:
    name = draw(
        st.sampled_from([n for n, (key, _) in _AGGREGATIONS.items() if records or key != "s"])
    )
    function = _AGGREGATIONS[name][1]
    argument = "" if function == "count" else draw(st.sampled_from(_FIELDS) | expressions())
    return f"{draw(_entries(name))} = {function}({argument});"


@st.composite
def _prints(draw: st.DrawFn, *, records: bool) -> str:
    others = ["data->words", "data->mac", "words[0]", "saved[0]", "time", "data->number", "m", "@"]
    part = st.one_of(
        expressions(), expressions(), texts(), st.sampled_from(others + ["*data"] * records)
    )
    return f"print({', '.join(draw(st.lists(part, min_size=1, max_size=4)))});"


@st.composite
def _printfs(draw: st.DrawFn) -> str:
    parts = {"%d": expressions(), "%s": texts(), "%#x": _pointers(1), "%v": expressions() | texts()}
    conversions = draw(st.lists(st.sampled_from(sorted(parts)), max_size=4))
    args = "".join(f", {draw(parts[conversion])}" for conversion in conversions)
    return f'printf("{" ".join(conversions)}"{args});'


@st.composite
def statements(draw: st.DrawFn, *, records: bool, depth: int = 2) -> str:
    """Draw a statement; ``records``: with values that only the first tracepoint has."""
    form = draw(st.integers(0, 19))
    match form:
        case 0:
            return draw(st.sampled_from(["return;", "clear(m);", "clear(@);", "exit(data->c);"]))
        case 1:
            maps = [name for name in (*_MAPS, *_AGGREGATIONS) if records or name != "@records"]
            return f"delete {draw(_entries(draw(st.sampled_from(maps))))};"
        case 2 | 3 | 4 if depth:
            then, otherwise = (draw(_blocks(records=records, depth=depth - 1)) for _ in range(2))
            second = f"if ({draw(expressions(2))}) " if form == 4 else ""
            tail = f" else {second}{otherwise}" if form != 3 else ""
            return f"if ({draw(expressions())}) {then}{tail}"
        case 5 | 6 | 7 | 8:
            return draw(_assignments(records=records))
        case 9 | 10 | 11 | 12:
            return draw(_aggregations(records=records))
        case 13:
            return draw(_printfs())
        case _:
            return draw(_prints(records=records))


@st.composite
def _blocks(draw: st.DrawFn, *, records: bool, depth: int) -> str:
    body = draw(st.lists(statements(records=records, depth=depth), max_size=2))
    return f"{{ {' '.join(body)} }}"


def _stores(script: str) -> str:
    """Return a clause that stores to every map of the script, so that all types are known."""
    used = set(_MAP_NAME.findall(script))
    plain = [
        f"{name}{_first_keys(keys)} = {_INITIAL.get(value) or f'data->{value}'};"
        for name, (keys, value) in _MAPS.items()
        if name in used
    ]
    counted = [
        f"{name}{_first_keys(keys)} = {function}({'' if function == 'count' else '0'});"
        for name, (keys, function) in _AGGREGATIONS.items()
        if name in used
    ]
    return f"{FIRST} {{ {' '.join(plain + counted)} }}"


def _first_keys(kinds: str) -> str:
    return f"[{', '.join(_FIRST_KEY[kind] for kind in kinds)}]" if kinds else ""


@st.composite
def clauses(draw: st.DrawFn) -> str:
    """Draw one clause on one of the tracepoints, or on both."""
    probe = draw(st.sampled_from([FIRST, SECOND, "tracepoint:test/*"]))
    predicate = f"/ {draw(expressions(2))} / " if draw(st.integers(0, 3)) == 0 else ""
    body = draw(st.lists(statements(records=probe == FIRST), min_size=1, max_size=4))
    return f"{probe} {predicate}{{ {' '.join(body)} }}"


@st.composite
def typed_scripts(draw: st.DrawFn, *, least: int = 1, most: int = 2) -> str:
    """Draw a script of some random clauses."""
    found = "\n".join(draw(st.lists(clauses(), min_size=least, max_size=most)))
    return f"{_stores(found)}\n{found}"
