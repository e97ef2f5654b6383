"""An event's ``hist`` file: its text in, rows with keys, values and what actions kept out.

file:      histogram {histogram}
histogram: '# event histogram' '#' '# trigger info: ' TRIGGER '#' {entry} [snapshot] totals
entry:     key {' ' value} [track]
key:       '{ ' NAME ': ' … {', ' NAME ': ' …} ' }'
track:     TAB ('max' | 'changed') ': ' N {'  ' NAME ': ' …}
totals:    'Totals:' 'Hits: ' N 'Entries: ' N 'Dropped: ' N

The trigger tells which names the keys and values have, since strings may have anything in them.
Source: hist_trigger_show() of kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from pybpf.dataclass import dataclass
from pybpf.errors import TargetError


@dataclass(frozen=True, slots=True)
class Symbol:
    """An address, and the symbol it is in: ``schedule``, or ``schedule+0x10/0x90``."""

    address: int
    name: str


@dataclass(frozen=True, slots=True)
class Named:
    """A number with its name: the process of a pid, the function of a system call's number."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Power:
    """Values up to ``2 ** exponent`` and above ``2 ** (exponent - 1)``."""

    exponent: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """Values from ``low`` to ``high``, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Stack:
    """Where the event was hit: ``symbol+0xOFFSET/0xSIZE`` of each caller, the innermost first."""

    frames: tuple[str, ...]


Value = int | str | Symbol | Named | Power | Bucket | Stack


@dataclass(frozen=True, slots=True)
class Column:
    """A value of an entry: a number.

    With ``percent`` it is a percentage, None where the kernel cannot tell it; with ``graph`` the
    length of a bar of 20 characters.
    """

    name: str
    modifier: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Track:
    """What onmax or onchange kept: the watched variable, and the fields that were saved."""

    handler: Literal["onmax", "onchange"]
    value: int
    saved: Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class Entry:
    """The counts of one key, or combination of keys, by their names."""

    keys: Mapping[str, Value]
    columns: tuple[Column, ...]
    tracks: tuple[Track, ...] = ()

    @property
    def hitcount(self) -> int | None:
        """How often the key was hit; None where ``nohitcount`` hides it."""
        for column in self.columns:
            if column.name == "hitcount" and column.modifier == "" and column.value is not None:
                return int(column.value)
        return None


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """Which key, with which value of the variable, the snapshot of the buffer is of."""

    watched: str
    value: int
    keys: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Totals:
    """How many hits were counted, for how many keys, and how many found no place."""

    hits: int
    entries: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Histogram:
    """One histogram; ``totals`` is None where the text ends before them."""

    trigger: str
    entries: tuple[Entry, ...]
    snapshot: SnapshotTaken | None
    totals: Totals | None


_HEAD = "# event histogram"
_INFO = "# trigger info: "
_TOTALS = re.compile(
    r"\nTotals:\n    Hits: (\d{1,20})\n    Entries: (\d{1,20})\n    Dropped: (\d{1,20})\n?"
)
_SNAPSHOT = re.compile(
    r"\nSnapshot taken \(see tracing/snapshot\)\.  Details:\n"
    r"\ttriggering value \{ (.*?) \}: +(\d{1,20})\ttriggered by event with key: ",
)
_NAMES = re.compile(r"hist:(?:name=[^:]*:)?keys=([^:]*):vals=([^:]*)")

# How each modifier of a key is shown; of others, numbers and strings of fixed width.
_SHAPES = {
    "hex": r"[0-9a-f]+",
    "sym": r"\[[0-9a-f]+\] \S+(?: \[\S+\])? *",
    "sym-offset": r"\[[0-9a-f]+\] \S+(?: \[\S+\])? *",
    "execname": r".*?\[ *\d{1,20}\]",
    "syscall": r"\S+ *\[ *\d{1,20}\]",
    "log2": r"~ 2\^\d{1,20} *",
    "buckets": r"~ \d{1,20}-\d{1,20}",
}
_PLAIN = r"(?: *\d{1,20}|.{50,}?)"
_FRAMES = r"(?: {9}\S[^\n]*\n)*"


def parse_hist(text: str) -> tuple[Histogram, ...]:
    """Return the histograms of a ``hist`` file; none for the empty text.

    Raises TargetError, naming the line, for text that is none.
    """
    parts = re.split(rf"^{_HEAD}\n", text, flags=re.MULTILINE)
    if parts[0].strip():
        raise TargetError(f"no hist file: line 1: {_shown(parts[0])}")
    line = 1 + parts[0].count("\n")
    found = []
    for part in parts[1:]:
        found.append(_histogram(part, line + 1))
        line += 1 + part.count("\n")
    return tuple(found)


def _shown(text: str) -> str:
    return repr(text.partition("\n")[0][:80])


class _Text:
    """A text that is read from its start; ``line`` is where that is in the file."""

    def __init__(self, text: str, line: int) -> None:
        self.text, self.line, self.at = text, line, 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def wrong(self, what: str) -> TargetError:
        line = self.line + self.text.count("\n", 0, self.at)
        return TargetError(f"hist file: line {line}: {what}: {_shown(self.text[self.at :])}")


_BEGIN = re.compile(rf"#\n{_INFO}(.*(?:\n(?!#\n\n).*)*)\n#\n\n")


def _histogram(part: str, line: int) -> Histogram:
    text = _Text(part, line)
    begin = text.take(_BEGIN)
    names = begin and _NAMES.match(begin[1])
    if begin is None or names is None:
        raise text.wrong("no trigger info")
    shape = _Shape(names[1].split(","), names[2].split(","))
    entries = []
    while text.text.startswith("{", text.at):
        entries.append(_entry(text, shape))
    snapshot = _snapshot(text, shape)
    totals = text.take(_TOTALS)
    if text.text[text.at :].strip():
        raise text.wrong("no entry")
    counts = None if totals is None else Totals(*map(int, totals.groups()))
    return Histogram(begin[1], tuple(entries), snapshot, counts)


class _Shape:
    """How the entries of a histogram are written: which keys and values, each how."""

    def __init__(self, keys: list[str], values: list[str]) -> None:
        self.keys = tuple(map(_column, keys))
        self.key = re.compile(r"\{ " + _keys_pattern(self.keys) + r" ?\}", re.DOTALL)
        # Computed values have no column.
        shown = [_column(value) for value in values if value and not _is_computed(value)]
        self.columns = [(*column, _value_pattern(*column)) for column in shown]

    def read_keys(self, match: re.Match[str]) -> dict[str, Value]:
        return {
            name: _key(modifier, shown)
            for (name, modifier), shown in zip(self.keys, match.groups(), strict=True)
        }


def _value_pattern(name: str, modifier: str) -> re.Pattern[str]:
    label = " {1,2}" + re.escape(name)
    match modifier:
        case "hex":
            return re.compile(rf"{label}: +([0-9a-f]+)")
        case "percent":
            return re.compile(rf"{label} \(%\):(?: +(\d+\.\d\d)|\[ERROR\])")
        case "graph":
            return re.compile(rf"{label}: +(#* *|\[ERROR\] *)(?=  |\n)")
        case _:
            return re.compile(rf"{label}: +(\d{{1,20}})")


def _is_computed(text: str) -> bool:
    return bool(re.search(r"[-+*/]", text.removesuffix(".sym-offset")))


_Key = tuple[str, str]


def _column(text: str) -> _Key:
    """Return name and modifier of a key or value, as the trigger is listed with it."""
    # Kernel 7.3 lists common_cpu twice.
    text = text.replace("common_cpucommon_cpu", "common_cpu")
    if text.isdecimal():
        return "", ""
    if "$" in text or _is_computed(text):
        return text.removeprefix("$"), ""
    name, _, modifier = text.partition(".")
    if name in {"stacktrace", "common_stacktrace"}:
        modifier = "stacktrace"
    return name, modifier.partition("=")[0]


def _keys_pattern(keys: Iterable[_Key]) -> str:
    shown = []
    for name, modifier in keys:
        label = re.escape(name)
        if modifier == "stacktrace":
            # That of a field is shown with its modifier and without a colon.
            shown.append(rf"{label}(?:\.stacktrace|:\n)({_FRAMES})")
        else:
            shown.append(rf"{label}: ({_SHAPES.get(modifier, _PLAIN)})")
    return ", ".join(shown)


def _key(modifier: str, shown: str) -> Value:
    match modifier:
        case "hex":
            return int(shown, 16)
        case "sym" | "sym-offset":
            address, _, name = shown[1:].partition("] ")
            return Symbol(int(address, 16), name.strip())
        case "execname" | "syscall":
            name, _, number = shown[:-1].rpartition("[")
            return Named(int(number), name.rstrip())
        case "log2":
            return Power(int(shown.partition("^")[2]))
        case "buckets":
            low, _, high = shown[2:].partition("-")
            return Bucket(int(low), int(high))
        case "stacktrace":
            return Stack(tuple(line.strip() for line in shown.split("\n") if line.strip()))
        case _:
            text = shown.rstrip(" ")
            is_number = text == shown and len(shown) < 50 and text.lstrip(" ").isdecimal()
            return int(text) if is_number else text


_TRACK = re.compile(r"\n\t(max|changed): +(\d{1,20})")
_SAVED_NUMBER = re.compile(r"  (\S+): +(\d{1,20})(?=  |\n)")
_SAVED_STRING = re.compile(r"  (\S+): (.{32,}?)(?=  \S+: |\n)")
_LINE_END = re.compile(r"\n")


def _entry(text: _Text, shape: _Shape) -> Entry:
    match = text.take(shape.key)
    if match is None:
        raise text.wrong("no key")
    columns = tuple(_columns(text, shape))
    tracks = tuple(_tracks(text))
    if text.take(_LINE_END) is None:
        raise text.wrong("no value")
    return Entry(shape.read_keys(match), columns, tracks)


def _columns(text: _Text, shape: _Shape) -> Iterator[Column]:
    for name, modifier, pattern in shape.columns:
        match = text.take(pattern)
        if match is None:
            raise text.wrong(f"no value of {name}")
        value: float | None
        match modifier:
            case "hex":
                value = int(match[1], 16)
            case "percent":
                value = None if match[1] is None else float(match[1])
            case "graph":
                value = None if match[1].startswith("[") else match[1].count("#")
            case _:
                value = int(match[1])
        yield Column(name, modifier, value)


def _tracks(text: _Text) -> Iterator[Track]:
    while track := text.take(_TRACK):
        saved: dict[str, int | str] = {}
        while True:
            if number := text.take(_SAVED_NUMBER):
                saved[number[1]] = int(number[2])
            elif string := text.take(_SAVED_STRING):
                saved[string[1]] = string[2].rstrip(" ")
            else:
                break
        yield Track("onmax" if track[1] == "max" else "onchange", int(track[2]), saved)


def _snapshot(text: _Text, shape: _Shape) -> SnapshotTaken | None:
    begin = text.take(_SNAPSHOT)
    if begin is None:
        return None
    match = text.take(shape.key)
    if match is None or text.take(_LINE_END) is None:
        raise text.wrong("no key")
    return SnapshotTaken(begin[1], int(begin[2]), shape.read_keys(match))
