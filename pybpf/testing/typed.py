"""Random ply scripts that are well typed, the tracepoint they trace, and events of it.

The scripts use every operator on every width and sign, built-ins, plain maps with up to three keys
(integers and strings), all aggregations, conditions, strings, printing. They are text, so that
a failing one can be read and run.
"""

from __future__ import annotations

from hypothesis import strategies as st

from pybpf.target.snapshot import SnapshotTarget

PROBE = "tracepoint:test/event"

_FIELDS: tuple[tuple[str, str, int, bool], ...] = (
    ("s64", "a", 8, True),
    ("u64", "b", 8, False),
    ("int", "c", 4, True),
    ("unsigned int", "d", 4, False),
    ("short", "e", 2, True),
    ("unsigned short", "f", 2, False),
    ("signed char", "g", 1, True),
    ("unsigned char", "h", 1, False),
)
_STRING = ("char name[16]", "name", 16)


def _format() -> str:
    """Return the format file of the event: every integer type, then a string."""
    lines = [
        "name: event",
        "ID: 7",
        "format:",
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;",
        "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;",
        "",
    ]
    offset = 8
    for declared, name, size, signed in _FIELDS:
        lines.append(
            f"\tfield:{declared} {name};\toffset:{offset};\tsize:{size};\tsigned:{int(signed)};"
        )
        offset += size
    declared, _, size = _STRING
    lines.append(f"\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:0;")
    return "\n".join([*lines, "", 'print fmt: ""', ""])


def target(**changes: object) -> SnapshotTarget:
    """Return a target that knows the event; ``changes`` are arguments of SnapshotTarget."""
    return SnapshotTarget(formats={"test/event": _format()}, **{"cpus": 2, **changes})  # type: ignore[arg-type]


_INTERESTING = st.sampled_from(
    [edge for bits in (0, 1, 5, 6, 7, 8, 15, 16, 31, 32, 63) for edge in (2**bits - 1, 2**bits)]
)
_NUMBERS = st.one_of(st.integers(0, 20), _INTERESTING, st.integers(0, 2**64 - 1))
_SUFFIXES = st.sampled_from(["", "", "", "u", "l", "ul"])
_WORDS = st.sampled_from(["", "a", "dd", "dash", "exactly7", "sixteen bytes ok", "x" * 20])
_STRINGS = st.one_of(st.sampled_from(["comm", "data->name"]), _WORDS.map(lambda word: f'"{word}"'))

# Maps by name: key kinds ("i" integer, "s" string) and the value's kind.
_MAPS = {"m": ("i", "i"), "n": ("ii", "i"), "p": ("si", "i"), "q": ("i", "s"), "r": ("isi", "i")}
_AGGREGATES = {"@": "i", "@c": "ii", "@s": "s", "@q": "", "@t": "is", "@z": "i"}
_AGGREGATION = {"@": "count", "@c": "sum", "@s": "count", "@q": "quantize", "@t": "quantize",
                "@z": "sum"}  # fmt: skip


@st.composite
def _literals(draw: st.DrawFn) -> str:
    number, suffix = draw(_NUMBERS), draw(_SUFFIXES)
    spelled = draw(st.sampled_from(["{}", "{:#x}"])).format(number)
    return f"{'-' * draw(st.booleans())}{spelled}{suffix}"


_LEAVES = st.one_of(
    _literals(),
    st.sampled_from([f"data->{name}" for _, name, _, _ in _FIELDS]),
    st.sampled_from(["pid", "kpid", "uid", "gid", "cpu", "time"]),
)


_TESTS = ("==", "!=", "<=", ">=", "&&", "||", "^^")


def _grow(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from([*"+-*/%&|^<>", "<<", ">>", *_TESTS])
    return st.one_of(
        st.tuples(children, operators, children).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from("-~!"), children).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(_STRINGS, _STRINGS).map(lambda t: f"strcmp({t[0]}, {t[1]})"),
        _keys("i", children).map(lambda keys: f"m[{keys}]"),
        _keys("si", children).map(lambda keys: f"p[{keys}]"),
    )


def _keys(kinds: str, numbers: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = [numbers if kind == "i" else _STRINGS for kind in kinds]
    return st.tuples(*parts).map(", ".join)


EXPRESSIONS: st.SearchStrategy[str] = st.recursive(_LEAVES, _grow, max_leaves=8)
"""Expressions that are numbers."""


@st.composite
def _assignments(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(_MAPS)))
    keys, value = _MAPS[name]
    right = draw(EXPRESSIONS if value == "i" else _STRINGS)
    return f"{name}[{draw(_keys(keys, EXPRESSIONS))}] = {right};"


@st.composite
def _aggregations(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(_AGGREGATES)))
    function = _AGGREGATION[name]
    argument = "" if function == "count" else draw(EXPRESSIONS)
    keys = draw(_keys(_AGGREGATES[name], EXPRESSIONS))
    left = f"{name}[{keys}]" if keys else name
    return f"{left} = {function}({argument});"


@st.composite
def _prints(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.one_of(EXPRESSIONS, _STRINGS), min_size=1, max_size=4))
    return f"print({', '.join(parts)});"


@st.composite
def _deletes(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(_MAPS)))
    return f"delete {name}[{draw(_keys(_MAPS[name][0], EXPRESSIONS))}];"


def _nest(statements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = st.lists(statements, max_size=3).map(lambda body: f"{{ {' '.join(body)} }}")
    return st.one_of(
        st.tuples(EXPRESSIONS, block).map(lambda t: f"if ({t[0]}) {t[1]}"),
        st.tuples(EXPRESSIONS, block, block).map(lambda t: f"if ({t[0]}) {t[1]} else {t[2]}"),
    )


STATEMENTS: st.SearchStrategy[str] = st.recursive(
    st.one_of(_assignments(), _aggregations(), _prints(), _deletes(), st.just("return;")),
    _nest,
    max_leaves=6,
)


@st.composite
def typed_scripts(draw: st.DrawFn, probe: str = PROBE) -> str:
    """Generate the text of a script with one to three probes on the event.

    Every map that a clause may read or delete from is stored to in the first clause, so that its
    type is known.
    """
    stores = " ".join(
        [
            f"{name}[{', '.join('0' if k == 'i' else chr(34) * 2 for k in keys)}] = "
            f"{'0' if value == 'i' else chr(34) + 'x' + chr(34)};"
            for name, (keys, value) in _MAPS.items()
        ]
    )
    clauses = [f"{probe} {{ {stores} }}"]
    for _ in range(draw(st.integers(1, 2))):
        predicate = f"/ {draw(EXPRESSIONS)} / " if draw(st.booleans()) else ""
        body = " ".join(draw(st.lists(STATEMENTS, max_size=5)))
        clauses.append(f"{probe} {predicate}{{ {body} }}")
    return "\n".join(clauses)


@st.composite
def events(draw: st.DrawFn) -> dict[str, object]:
    """Generate one recorded event of the tracepoint, as the driver's JSON lines have it."""
    data: dict[str, object] = {}
    for _, name, size, signed in _FIELDS:
        bits = 8 * size
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        edges = st.sampled_from([low, high, 0, 1, min(high, 100), max(low, -1)])
        data[name] = draw(st.one_of(edges, st.integers(low, high)))
    data["name"] = draw(st.sampled_from(["", "dd", "dash", "exactly7", "fifteen_letters"]))
    small = st.integers(0, 2**31 - 1)
    return {
        "probe": PROBE,
        "cpu": draw(st.integers(0, 1)),
        "time": draw(st.integers(0, 2**62)),
        "pid": draw(small),
        "tid": draw(small),
        "uid": draw(st.integers(0, 2**32 - 1)),
        "gid": draw(st.integers(0, 2**32 - 1)),
        "comm": draw(st.sampled_from(["a", "dd", "dash", "fifteen_letters"])),
        "data": data,
    }
