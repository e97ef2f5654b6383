"""Code in; its control flow and its calls out, as values and as Graphviz's text."""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.inspect.code import Code, kept
from pybpf.output.escape import escape_text

_SHOWN = 40
"""A longer block is cut in a graph: its first and last instructions say where it is."""


@kept
def loops(code: Code) -> frozenset[tuple[int, int]]:
    """Return the edges between blocks that lead back to one that led there: one or more a loop."""
    found = code.blocks()
    back: set[tuple[int, int]] = set()
    done: set[int] = set()
    roots = {part.index for part in code.parts}
    for root in (n for n, block in enumerate(found) if block.start in roots):
        if root in done:
            continue
        path = {root}
        walk = [(root, iter(found[root].successors))]
        while walk:
            block, after = walk[-1]
            for goal in after:
                if goal in path:
                    back.add((block, goal))
                elif goal not in done:
                    path.add(goal)
                    walk.append((goal, iter(found[goal].successors)))
                    break
            else:
                walk.pop()
                path.discard(block)
                done.add(block)
    return frozenset(back)


def calls(code: Code) -> tuple[tuple[int, int, int], ...]:
    """Return which part calls which, and how often, in the order of the parts."""
    counts: dict[tuple[int, int], int] = {}
    for index, target in code.calls():
        pair = (code.part_of(index), code.part_of(target))
        counts[pair] = counts.get(pair, 0) + 1
    return tuple((caller, called, count) for (caller, called), count in sorted(counts.items()))


def flow_dot(code: Code) -> Iterator[str]:
    """Yield the lines of a graph of blocks: one cluster for each function, back edges dashed."""
    found = code.blocks()
    back = loops(code)
    slots = code.slots()
    yield f"digraph {_quoted(code.name)} {{"
    yield "    node [shape=box, fontname=monospace];"
    for number, (part, blocks) in enumerate(zip(code.parts, code.blocks_of_parts(), strict=True)):
        if not blocks:
            continue
        yield f"    subgraph cluster{number} {{"
        yield f"        label={_quoted(part.name)};"
        for at in blocks:
            block = found[at]
            lines = [f"{slots[i]}: {code.text(i)}" for i in range(block.start, block.end)]
            if len(lines) > _SHOWN:
                cut = len(lines) - _SHOWN
                lines[_SHOWN // 2 : -_SHOWN // 2] = [f"… {cut} more"]
            yield f"        b{at} [label={_quoted(*lines)}];"
        yield "    }"
    for number, block in enumerate(found):
        for position, goal in enumerate(block.successors):
            options = ['label="yes"'] if position else []
            options += ["style=dashed"] if (number, goal) in back else []
            how = f" [{', '.join(options)}]" if options else ""
            yield f"    b{number} -> b{goal}{how};"
    yield "}"


def calls_dot(code: Code) -> Iterator[str]:
    """Yield the lines of a graph of functions; an edge says how often one calls another."""
    yield f"digraph {_quoted(code.name)} {{"
    yield "    node [shape=box, fontname=monospace];"
    for number, part in enumerate(code.parts):
        yield f"    f{number} [label={_quoted(part.name)}];"
    for caller, called, count in calls(code):
        label = f' [label="{count}"]' if count > 1 else ""
        yield f"    f{caller} -> f{called}{label};"
    yield "}"


def _quoted(*lines: str) -> str:
    """Return lines as a quoted text of Graphviz, each flush left."""
    escaped = [escape_text(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    joined = escaped[0] if len(lines) == 1 else "".join(line + "\\l" for line in escaped)
    return f'"{joined}"'
