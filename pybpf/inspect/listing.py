"""Code in; a listing for people out: numbers, jump arrows, instructions, notes, source lines.

    count:                              ; int count(struct xdp_md *ctx)
    ; count.c:12  if (data + 1 > end)
            3  ╭──   if r2 > r3 goto L1
            4  │     r1 = *(u8 *)(r1 + 0)
       L1:  5  ╰─▶   r0 = 2

An arrow has a lane; the shortest are nearest to the text, and jumps to one place share a lane.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pybpf.dataclass import dataclass
from pybpf.output.escape import columns, escape_text

if TYPE_CHECKING:
    from pybpf.inspect.code import Code, Part

_LANES = 8
"""Arrows side by side. Those that find no room are left out: a label says where they lead."""
_NOTE_COLUMN = 40
_SLOT = 8


@dataclass(frozen=True, slots=True)
class Style:
    """What a listing shows. ``ascii``: arrows of ``|``, ``-`` and ``+`` alone."""

    source: bool = False
    arrows: bool = True
    ascii: bool = False
    bytes: bool = False


@dataclass(frozen=True, slots=True)
class _Glyphs:
    """How an arrow is drawn: down, across, its corners, a branch, its head.

    ``through`` is what becomes of each where another arrow goes across it.
    """

    down: str
    across: str
    first: str
    last: str
    branch: str
    head: str
    through: Mapping[str, str]


_LINES = _Glyphs("│", "─", "╭", "╰", "├", "▶", {" ": "─", "│": "┼", "╭": "┬", "╰": "┴", "├": "┼"})
_PLAIN = _Glyphs("|", "-", "+", "+", "+", ">", {" ": "-", "|": "+"})


def listing(code: Code, style: Style) -> Iterator[str]:
    """Yield the lines of a listing without line ends, fit for a terminal."""
    slots = code.slots()
    parts = {part.index: part for part in code.parts}
    starts = sorted(parts) or [0]
    labels = _labels(code)
    widths = (max(map(len, labels.values()), default=-1) + 1, len(str(slots[-1])))
    jumps = sorted(code.jumps())
    for start, end in zip(starts, [*starts[1:], len(code.program.insns)], strict=True):
        if start in parts:
            yield _heading(parts[start])
        first, last = bisect_left(jumps, (start, 0)), bisect_left(jumps, (end, 0))
        glyphs = _PLAIN if style.ascii else _LINES
        gutter = arrows(jumps[first:last], start, end, glyphs) if style.arrows else {}
        yield from _part(code, range(start, end), style, _Rows(slots, labels, widths, gutter))


@dataclass(frozen=True, slots=True)
class _Rows:
    """What stands before the instructions: numbers, labels, the widths of both, and arrows."""

    slots: Sequence[int]
    labels: Mapping[int, str]
    widths: tuple[int, int]
    gutter: Mapping[int, str]


def _part(code: Code, indices: range, style: Style, rows: _Rows) -> Iterator[str]:
    blank = " " * max(map(len, rows.gutter.values()), default=0)
    lines = code.lines() if style.source else {}
    shown: tuple[str, int] | None = None
    for index in indices:
        line = lines.get(index)
        # Line 0 is what a compiler made for no line of its own.
        if line is not None and line.line and (line.file, line.line) != shown:
            shown = line.file, line.line
            text = f"{_base(line.file)}:{line.line}  {line.text.strip()}"
            yield f"; {escape_text(text.rstrip())}"
        label = f"{rows.labels[index]}:" if index in rows.labels else ""
        slot = rows.slots[index]
        head = f"  {label:>{rows.widths[0]}} {slot:>{rows.widths[1]}}  "
        text, note = code.text(index), code.notes.get(index)
        if note:
            text = f"{text:{_NOTE_COLUMN}}  ; {note}"
        arrow = rows.gutter.get(index, blank)
        if not style.bytes:
            yield escape_text(f"{head}{arrow}{text}")
            continue
        first = (slot - rows.slots[0]) * _SLOT
        data = code.data[first : first + _SLOT * code.program.insns[index].op.slots]
        yield escape_text(f"{head}{data[:_SLOT].hex(' ')}  {arrow}{text}")
        if data[_SLOT:]:
            yield f"{' ' * len(head)}{data[_SLOT:].hex(' ')}"


def _heading(part: Part) -> str:
    title = escape_text(f"{part.name}:")
    if not part.prototype:
        return title
    return f"{title}{' ' * max(1, _NOTE_COLUMN - columns(title))}; {escape_text(part.prototype)}"


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _labels(code: Code) -> Mapping[int, str]:
    """Return the labels of places that jumps lead to, by index; names of functions not."""
    names = {index: name for name, index in reversed([*code.program.labels.items()])}
    return {target: names[target] for _, target in code.jumps() if target in names}


def arrows(
    jumps: Sequence[tuple[int, int]], start: int, end: int, glyphs: _Glyphs = _LINES
) -> Mapping[int, str]:
    """Return for each line of ``start`` … ``end`` - 1 the arrows left of it, all of one width.

    Empty where there are none. ``jumps`` are pairs of lines.
    """
    ends: dict[int, list[int]] = {}
    for origin, target in jumps:
        if start <= target < end:
            ends.setdefault(target, []).append(origin)
    lanes = _lanes(ends)
    if not lanes:
        return {}
    count = 1 + max(lanes.values())
    rows = {line: [" "] * (2 * count + 2) for line in range(start, end)}
    for target, lane in sorted(lanes.items(), key=itemgetter(1)):
        places = sorted({target, *ends[target]})
        column = 2 * (count - 1 - lane)
        for line in range(places[0], places[-1] + 1):
            rows[line][column] = glyphs.down
    for target, lane in sorted(lanes.items(), key=itemgetter(1)):
        places = sorted({target, *ends[target]})
        column = 2 * (count - 1 - lane)
        for line in places:
            row = rows[line]
            row[column] = _corner(line, places, glyphs)
            for at in range(column + 1, len(row) - 1):
                row[at] = glyphs.through.get(row[at], row[at])
            if line == target:
                row[-2] = glyphs.head
    return {line: "".join(row) for line, row in rows.items()}


def _corner(line: int, places: Sequence[int], glyphs: _Glyphs) -> str:
    if len(places) == 1:  # a jump to itself
        return glyphs.across
    ends = {places[0]: glyphs.first, places[-1]: glyphs.last}
    return ends.get(line, glyphs.branch)


def _lanes(ends: Mapping[int, Sequence[int]]) -> Mapping[int, int]:
    """Return the lane of each target, 0 the innermost; those for which there is none are absent."""
    spans = {target: (min(target, *o), max(target, *o)) for target, o in ends.items()}
    taken: list[list[tuple[int, int]]] = [[] for _ in range(_LANES)]
    found = {}
    for target, (first, last) in sorted(spans.items(), key=lambda s: (s[1][1] - s[1][0], s[0])):
        for lane, used in enumerate(taken):
            at = bisect_left(used, (first, last))
            before, after = used[max(at - 1, 0) : at], used[at : at + 1]
            if not (before and before[0][1] >= first) and not (after and after[0][0] <= last):
                insort(used, (first, last))
                found[target] = lane
                break
    return found


def as_data(code: Code) -> Mapping[str, Any]:
    """Return code as the object that docs/inspect.md describes."""
    slots, labels, targets = code.slots(), _labels(code), dict(code.jumps())
    lines = code.lines()
    rows = []
    for index in range(len(code.program.insns)):
        row: dict[str, Any] = {"slot": slots[index], "text": code.text(index)}
        if index in labels:
            row["label"] = labels[index]
        if index in targets:
            row["target"] = slots[targets[index]]
        if note := code.notes.get(index):
            row["note"] = note
        if line := lines.get(index):
            place = {"file": line.file, "line": line.line, "column": line.column}
            row["source"] = {**place, "text": line.text.strip()}
        rows.append(row)
    functions = [
        {"name": part.name, "slot": slots[part.index], "prototype": part.prototype}
        for part in code.parts
    ]
    return {"name": code.name, "section": code.section, "functions": functions, "insns": rows}
