"""Facts, code and what a verifier knows of it in; one page of HTML, which needs nothing else, out.

What is shown is data within the page: JSON in which no ``<`` occurs. The script of the page makes
text of it, never markup, and the page allows itself neither network nor other scripts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pybpf.dataclass import dataclass
from pybpf.inspect.graph import loops
from pybpf.inspect.layout import plan
from pybpf.inspect.report import lines_of
from pybpf.output.escape import escape_text

if TYPE_CHECKING:
    from pybpf.inspect.code import Code
    from pybpf.inspect.facts import Facts, Judged, ProgramFacts
    from pybpf.inspect.states import States
    from pybpf.isa.cfg import Block

_LETTER, _LINE, _PAD = 6.7, 15, 9
"""Pixels: the width of a letter and the height of a line in a graph, and around a block's text."""
_SHOWN, _LETTERS = 8, 46
"""The most lines and letters of a block in a graph."""
_BLOCKS = 4000
"""A function of more basic blocks is not drawn."""
_TITLE_HEIGHT, _BELOW = 26, 40


@dataclass(frozen=True, slots=True)
class Shown:
    """A program on the page: its facts, its code, and what a verifier found, where one looked."""

    facts: ProgramFacts
    code: Code
    states: States | None = None


def page(facts: Facts, programs: Sequence[Shown]) -> str:
    """Return the page as text."""
    import json
    from importlib.resources import files

    strings = _Strings()
    data = {
        "title": facts.name,
        "facts": [escape_text(line) for line in lines_of(facts, programs=False)],
        "programs": [_program(one, strings) for one in programs],
        "strings": strings.every,
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    # Neither an end of the script nor a comment can be in it.
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    template = files("pybpf.inspect").joinpath("page.html").read_text(encoding="utf-8")
    title, rest = template.split("@TITLE@")
    before, after = rest.split("@DATA@")
    return "".join((title, escape(escape_text(facts.name)), before, text, after))


class _Strings:
    """Texts that occur again and again, each once, and their numbers."""

    def __init__(self) -> None:
        self.every: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.every)
            self.every.append(escape_text(text))
        return found


def _program(shown: Shown, strings: _Strings) -> Mapping[str, Any]:
    facts, code = shown.facts, shown.code
    lines, line_of = _source(code)
    targets, slots = dict(code.jumps()), code.slots()
    labels = {target: code.program.insns[index].symbol for index, target in targets.items()}
    insns = [
        [
            slots[index], escape_text(code.text(index)), escape_text(code.notes.get(index, "")),
            labels.get(index) or "", targets.get(index, -1), line_of[index],
        ]
        for index in range(len(code.program.insns))
    ]  # fmt: skip
    judged = facts.verdict
    return {
        "name": escape_text(facts.name),
        "type": facts.type,
        "section": escape_text(facts.section),
        "slots": facts.slots,
        "verdict": judged.verdict if judged else "",
        "kernel": judged.kernel if judged else "",
        "message": escape_text(judged.message) if judged else "",
        "advice": _advice(judged),
        "fault": _index(code, judged.insn) if judged else -1,
        "facts": [escape_text(line) for line in lines_of(facts)],
        "parts": [[escape_text(p.name), p.index, escape_text(p.prototype)] for p in code.parts],
        "lines": lines,
        "insns": insns,
        "states": _states(shown, strings),
        **_graph(code),
    }


def _index(code: Code, slot: int | None) -> int:
    return -1 if slot is None else bisect_right(code.slots(), slot) - 1


def _source(code: Code) -> tuple[list[tuple[str, int, str]], list[int]]:
    """Return the source lines by file and number, and the place of each instruction's among them.

    -1 where there is none.
    """
    rows = {(line.file, line.line): line.text.strip() for line in code.program.lines if line.line}
    ordered = sorted(rows)
    places = {row: place for place, row in enumerate(ordered)}
    found, current, lines = [], -1, code.lines()
    starts = {part.index for part in code.parts}
    for index in range(len(code.program.insns)):
        current = -1 if index in starts else current
        if (line := lines.get(index)) is not None and line.line:
            current = places[line.file, line.line]
        found.append(current)
    shown = [
        (escape_text(file), number, escape_text(rows[file, number])) for file, number in ordered
    ]
    return shown, found


def _states(shown: Shown, strings: _Strings) -> Mapping[str, Any]:
    """Return by index how often an instruction was reached, and by register the values it had."""
    if shown.states is None:
        return {}
    index_of = {slot: index for index, slot in enumerate(shown.code.slots())}
    number = strings.number
    return {
        str(index_of[slot]): [
            shown.states.visits[slot],
            *([number(name), *map(number, values)] for name, values in known.items()),
        ]
        for slot, known in shown.states.values.items()
        if slot in index_of
    }


def _advice(judged: Judged | None) -> list[str]:
    """Return why a program was rejected, and what to change, where that is known."""
    if judged is None or judged.verdict != "reject":
        return []
    from pybpf.verifier.explain import explain

    found = explain(judged.message)
    return [] if found is None else [f"why: {found.why}", f"fix: {found.fix}"]


def _graph(code: Code) -> Mapping[str, Any]:
    """Return the blocks with their places and texts, the edges with their points, and the size."""
    found = code.blocks()
    back, slots = loops(code), code.slots()
    blocks: dict[int, list[Any]] = {}
    edges: list[list[Any]] = []
    titles: list[tuple[str, float]] = []
    top = width = 0.0
    for part, numbers in zip(code.parts, code.blocks_of_parts(), strict=True):
        large = len(numbers) > _BLOCKS
        title = f"{part.name}: {len(numbers)} blocks are too many to draw" if large else part.name
        titles.append((escape_text(title), top))
        top += _TITLE_HEIGHT
        if large:
            continue
        place = {number: at for at, number in enumerate(numbers)}
        texts = [_texts(code, slots, found[number]) for number in numbers]
        sizes = [
            (max(map(len, text)) * _LETTER + 2 * _PAD, len(text) * _LINE + 2.0 * _PAD)
            for text in texts
        ]
        pairs = [*_edges(found, numbers, place)]
        own_back = {(place[a], place[b]) for a, b in back if a in place and b in place}
        drawn = plan(sizes, [(a, b) for a, b, _ in pairs], own_back)
        for at, number in enumerate(numbers):
            x, y = drawn.places[at]
            box = [found[number].start, found[number].end, x, y + top, *sizes[at]]
            blocks[number] = [*(round(each, 1) for each in box), texts[at]]
        for at, ((one, other, kind), path) in enumerate(zip(pairs, drawn.paths, strict=True)):
            style = "back" if (one, other) in own_back else kind
            points = [round(each, 1) for x, y in path for each in (x, y + top)]
            edges.append([numbers[one], numbers[other], style, at in drawn.beside, points])
        top += drawn.height + _BELOW
        width = max(width, drawn.width)
    return {
        "blocks": [blocks.get(number) for number in range(len(found))],
        "edges": edges, "titles": titles, "size": [round(width, 1), round(top, 1)],
    }  # fmt: skip


def _edges(
    found: Sequence[Block], numbers: Sequence[int], place: Mapping[int, int]
) -> Iterator[tuple[int, int, str]]:
    """Yield the edges of one function, and of each whether its jump is taken."""
    for number in numbers:
        after = found[number].successors
        for at, goal in enumerate(after):
            if goal in place:
                kind = "only" if len(after) == 1 else "taken" if at else "next"
                yield place[number], place[goal], kind


def _texts(code: Code, slots: Sequence[int], block: Block) -> list[str]:
    """Return a block's text for the graph, cut to what can be read there."""
    indices = [*range(block.start, block.end)]
    lines = [f"{slots[i]:>4}  {escape_text(code.text(i))}" for i in indices[:_SHOWN]]
    if len(indices) > _SHOWN:
        last = [f"{slots[i]:>4}  {escape_text(code.text(i))}" for i in indices[-2:]]
        lines = [*lines[: _SHOWN - 3], f"      … {len(indices) - _SHOWN + 1} more", *last]
    return [line if len(line) <= _LETTERS else f"{line[: _LETTERS - 1]}…" for line in lines]
