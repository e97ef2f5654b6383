"""Random ply scripts that are well typed, on the probes of ``testing.places``.

The scripts use every operator on every width and sign, built-ins, fields of all kinds, registers,
arguments, stacks, maps of numbers, texts, times, arrays and structs with up to three keys of these,
all aggregations (with keys that make arrays of them, too), conditions, early returns, pointers,
printing and clearing. They are text, so that a failing one can be read and run. Most of what they
do has an effect: maps have few keys, and most statements print or store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from pybpf.testing.places import POINTERS, Place, places

# Maps by name: the kinds of their keys, then of their values. "i" is a number, "t" a text, "w" an
# array of words, "s" the record of the first tracepoint, "S" a stack; "c" and "k" are constants, a
# number and a text, and "p" is the CPU; "T" is a time, and the others are the integer field of that
# name, so that the map is as narrow as the field.
_MAPS = {
    "m": ("i", "i"), "n": ("ii", "i"), "p": ("ti", "i"), "q": ("i", "t"), "r": ("iti", "i"),
    "start": ("i", "T"), "x": ("", "i"), "words": ("i", "w"), "byword": ("w", "i"),
    "saved": ("i", "s"), "bytes": ("i", "g"), "chars": ("i", "h"), "halves": ("t", "e"),
    "shorts": ("i", "f"), "uints": ("", "d"), "at": ("i", "S"), "by": ("S", "i"),
}  # fmt: skip
_AGGREGATIONS = {
    "@": ("i", "count"), "@sum": ("ii", "sum"), "@texts": ("t", "count"), "@q": ("", "quantize"),
    "@qq": ("it", "quantize"), "@total": ("i", "sum"), "@words": ("w", "count"),
    "@records": ("s", "count"), "@both": ("i", "count sum"), "@cpu": ("p", "count"),
    "@consts": ("ck", "sum"), "@few": ("c", "count sum"), "@buckets": ("pc", "quantize"),
    "@stacks": ("S", "count"), "@where": ("Sp", "sum"), "@spread": ("S", "quantize"),
    "@fallen": ("Si", "count"), "@one": ("", "count sum"),
}  # fmt: skip
_NUMERIC = sorted(name for name, (_, value) in _MAPS.items() if value not in "twsS")
_INITIAL = {"i": "data->a", "t": "comm", "w": "data->words", "s": "*data", "T": "time - 1000",
            "S": "stack"}  # fmt: skip
_FIRST_KEY = {"i": "0", "t": '"dd"', "w": "data->words", "s": "*data", "c": "1", "k": '"k"',
              "p": "cpu", "S": "stack"}  # fmt: skip
_MAP_NAME = re.compile(r"@?\w+|@")

_EDGES = [2**bits - less for bits in (0, 1, 5, 6, 7, 8, 15, 16, 31, 32, 63) for less in (0, 1)]
_SPELLINGS = ("{}", "{:_}", "{:#x}", "{:#b}", "0{:o}")
_SUFFIXES = ("", "", "", "u", "l", "ul")
_LEAVES = (
    "pid", "kpid", "uid", "gid", "cpu", "time", "walltime", "x", "uints", "'c'", "saved[0].d",
    "(time - start[0])", "(pid == $target)", "$target", "$1", "!ctx", "(ctx == ctx)",
    "(words[0])[2]",    "saved[cpu].words[1]",
)  # fmt: skip
_WORDS = ("", "a", "dd", "dash", "exactly7", "sixteen bytes ok", "x" * 20, "not terminated!!")
_TEXTS = (
    "comm", "execname", "q[0]", "saved[0].name", "q[cpu]", "$word", '"d" "d"', r'"\x64\144"',
    *(f'"{word}"' for word in _WORDS),
)  # fmt: skip
_VALUES = ("words[0]", "saved[0]", "time", "walltime", "stack", "ctx")
"""What can be printed but is neither a number to compute with nor a text."""
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_CONNECTIVES = ("&&", "||", "^^")
_OPERATORS = (*"+-*/%&|^", "<<", ">>", *_COMPARISONS, *_CONNECTIVES)
_BETWEEN = ("\n", "\n", " # A comment,\n", " // another\n", " /* and * a\n third */ ")
_CONVERSIONS = ("%d", "%s", "%#x", "%v")


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the text of one clause. ``draw`` makes the choices."""

    draw: st.DrawFn
    place: Place

    def pick(self, choices: Sequence[str]) -> str:
        return self.draw(st.sampled_from(choices))

    def below(self, count: int) -> int:
        return self.draw(st.integers(0, count - 1))

    def several(self, least: int, most: int, write: Callable[[], str]) -> list[str]:
        return [write() for _ in range(self.draw(st.integers(least, most)))]

    def literal(self) -> str:
        number = self.draw(st.integers(0, 20) | st.sampled_from(_EDGES) | st.integers(0, 2**64 - 1))
        sign = "-" if self.below(2) else ""
        return f"{sign}{self.pick(_SPELLINGS).format(number)}{self.pick(_SUFFIXES)}"

    def leaf(self) -> str:
        own = self.place.numbers
        form = self.below(3 if own else 2)
        return self.literal() if form == 0 else self.pick(own if form == 2 else _LEAVES)

    def number(self, depth: int = 3) -> str:
        """Return an expression that is a number, ``depth`` operators deep at most."""
        form = self.below(16) if depth else 0
        if form < 4:
            return self.leaf()
        depth -= 1
        match form:
            case 4 | 5:
                return f"{self.pick('-~!')}({self.number(depth)})"
            case 6:
                return f"strcmp({self.text(depth)}, {self.text(depth)})"
            case 7:
                return self.entry(self.pick(_NUMERIC), depth)
            case 8 if self.place.pointers:
                return self.of_pointers(depth)
            case 9:
                # Without parentheses, the operators' levels decide what this means.
                parts = [self.number(depth) for _ in range(3)]
                return f"({f' {self.pick(_OPERATORS)} '.join(parts)})"
            case _:
                return f"({self.number(depth)} {self.pick(_OPERATORS)} {self.number(depth)})"

    def of_pointers(self, depth: int) -> str:
        left = self.pointer(depth)
        if self.place.data and self.below(4) == 0:
            return f"{self.pick(POINTERS)}[{self.number(depth)}]"
        right = self.pointer(depth) if self.below(2) else self.number(depth)
        return f"({left} {self.pick((*_COMPARISONS, *_CONNECTIVES))} {right})"

    def pointer(self, depth: int) -> str:
        pointer = self.pick(self.place.pointers)
        return f"({pointer} + {self.number(depth)})" if self.below(2) else pointer

    def deep(self) -> str:
        """Return a number with more values alive at once than there are registers."""
        leaves = self.several(8, 24, lambda: self.pick((*self.place.numbers, *_LEAVES)))
        chain = "(".join(f"{leaf} {self.pick('+-*^|&')} " for leaf in leaves)
        return f"{chain}1{')' * (len(leaves) - 1)}"

    def text(self, depth: int = 1) -> str:
        """Return an expression that is a text."""
        if depth and self.below(6) == 0:
            number = self.number(depth - 1)
            forms = f"q[{number}]", f"saved[{number}].name", f"str({number}, 9)", f"mem({number})"
            return self.pick(forms)
        return self.pick(self.place.texts if self.place.texts and self.below(2) else _TEXTS)

    def entry(self, name: str, depth: int = 2) -> str:
        """Return an entry of a map, most often one that is there."""
        kinds = (_MAPS.get(name) or _AGGREGATIONS[name])[0]
        keys = [self.key(kind, depth) for kind in kinds]
        return f"{name}[{', '.join(keys)}]" if keys else name

    def key(self, kind: str, depth: int) -> str:
        data = self.place.data
        match kind:
            case "i":
                few = ("0", "0", "cpu", *(("data->h & 1", "data->c") if data else ()))
                return self.number(depth) if self.below(3) == 0 else self.pick(few)
            case "t":
                few = ('"dd"', "comm", *(("data->name",) if data else ()))
                return self.text(depth) if self.below(2) else self.pick(few)
            case "w":
                return self.pick(("data->words", "words[0]") if data else ("words[0]",))
            case "s":
                return "*data" if self.place.records else "saved[0]"
            case "c":
                return self.pick(("0", "1", "-1", "300", "'c'", "$target"))
            case "k":
                return self.pick(('"k"', '"keyhole"', '""'))
            case "p":
                return "cpu"
            case _:
                return "stack"

    def assignment(self) -> str:
        name = self.pick(tuple(_MAPS))
        return f"{self.entry(name)} = {self.right(name, _MAPS[name][1])};"

    def right(self, name: str, kind: str) -> str:
        """Return a value that a map keeps without growing wider."""
        data = self.place.data
        match kind:
            case "i":
                return self.deep() if self.below(3) == 0 else self.number()
            case "t":
                text = self.text()
                return f"str({text})" if text in POINTERS else text
            case "w":
                return self.pick(("data->words", "words[x]") if data else ("words[x]",))
            case "s":
                return self.pick(("*data", "saved[x]") if self.place.records else ("saved[x]",))
            case "S":
                return "stack"
            case "T":
                return self.pick(("time", "time - start[0]", "start[x]", "1"))
            case field:
                return f"data->{field}" if data else self.pick(("1", "77", self.entry(name, 0)))

    def aggregation(self) -> str:
        name = self.pick(tuple(_AGGREGATIONS))
        function = self.pick(_AGGREGATIONS[name][1].split())
        return f"{self.entry(name)} = {function}({'' if function == 'count' else self.number(2)});"

    def printed(self) -> str:
        match self.below(5):
            case 0 | 1:
                return self.number()
            case 2:
                return self.text()
            case 3 if self.below(3) == 0:
                return self.pick((*_MAPS, *_AGGREGATIONS))
            case _:
                return self.pick((*self.place.values, *_VALUES))

    def print(self) -> str:
        return f"print({', '.join(self.several(1, 4, self.printed))});"

    def printf(self) -> str:
        conversions = self.several(0, 4, lambda: self.pick(_CONVERSIONS))
        args = "".join(f", {self.converted(each)}" for each in conversions)
        return f'printf("{" ".join(conversions)}"{args});'

    def converted(self, conversion: str) -> str:
        match conversion:
            case "%d":
                return self.number()
            case "%#x":
                return self.pointer(1) if self.place.pointers else self.number()
            case "%s":
                return "stack" if self.below(8) == 0 else self.text()
            case _:
                return self.printed()

    def statement(self, depth: int = 2) -> str:
        form = self.below(20)
        match form:
            case 0:
                return self.rare()
            case 1:
                return f"delete {self.entry(self.pick((*_MAPS, *_AGGREGATIONS)))};"
            case 2 | 3 | 4 if depth:
                then, otherwise = self.block(depth - 1), self.block(depth - 1)
                second = f"if ({self.number(2)}) " if form == 4 else ""
                last = f" else {self.block(depth - 1)}" if form == 4 and self.below(2) else ""
                tail = f" else {second}{otherwise}{last}" if form != 3 else ""
                return f"if ({self.number()}) {then}{tail}"
            case 5 | 6 | 7:
                return self.assignment()
            case 8 if self.place.statements:
                return self.pick(self.place.statements)
            case 9 | 10 | 11 | 12:
                return self.aggregation()
            case 13:
                return self.printf()
            case _:
                return self.print()

    def rare(self) -> str:
        match self.below(4):
            case 0:
                return "return;"
            case 1:
                return f"exit({self.number(1)});"
            case 2:
                return "exit();"
            case _:
                return f"clear({self.pick((*_MAPS, *_AGGREGATIONS))});"

    def block(self, depth: int) -> str:
        return f"{{ {' '.join(self.several(0, 2, lambda: self.statement(depth)))} }}"

    def clause(self) -> str:
        probe = self.place.probe
        predicate = f"/ {self.number(2)} / " if self.below(4) == 0 else ""
        match self.below(16):
            case 0:
                return f"{probe} {predicate}"
            case 1 if not predicate:
                return f"{probe} {self.statement()}"
            case _:
                body = self.several(1, 4, self.statement)
                return f"{probe} {predicate}{{ {' '.join(body)} }}"


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
        for name, (keys, functions) in _AGGREGATIONS.items()
        for function in functions.split()
        if name in used
    ]
    return f"tracepoint:test/first {{ {' '.join(plain + counted)} }}"


def _first_keys(kinds: str) -> str:
    return f"[{', '.join(_FIRST_KEY[kind] for kind in kinds)}]" if kinds else ""


@st.composite
def typed_scripts(draw: st.DrawFn, *, least: int = 1, most: int = 3, arch: str = "x86_64") -> str:
    """Draw a script of some random clauses for an architecture."""
    where = st.sampled_from(places(arch))
    count = draw(st.integers(least, most))
    clauses = [_Writer(draw, draw(where)).clause() for _ in range(count)]
    found = draw(st.sampled_from(_BETWEEN)).join(clauses)
    return f"{_stores(found)}\n{found}"
