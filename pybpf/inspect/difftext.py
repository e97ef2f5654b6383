"""Differences in; text for people, or data for JSON, out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pybpf.output.escape import escape_text

if TYPE_CHECKING:
    from pybpf.inspect.diff import Changed, Diff, Named, ProgramDiff, Row

_CONTEXT = 3
_LONGEST = 60
_WORDS = {"+": "added", "-": "removed", "=": "changed"}


def text(diff: Diff) -> Iterator[str]:
    """Yield what differs as lines without line ends, fit for a terminal; nothing for nothing."""
    for line in _text(diff):
        yield escape_text(line)


def _text(diff: Diff) -> Iterator[str]:
    for change in diff.changes:
        yield f"{change.what}: {_shown(change)}"
    for kind, rows in (("map", diff.maps), ("extern", diff.externs)):
        for named in rows:
            yield from _named(kind, named)
    for number, program in enumerate(diff.programs):
        if number or diff.changes or diff.maps or diff.externs:
            yield ""
        yield from _program(program)


def _named(kind: str, named: Named) -> Iterator[str]:
    if named.sign == "=":
        changes = ", ".join(f"{change.what} {_shown(change)}" for change in named.changes)
        yield f"{kind} {named.name}: {changes}"
        return
    facts = [change.after or change.before for change in named.changes if change.what == "type"]
    yield f"{kind} {named.name}: {_WORDS[named.sign]}{''.join(f' ({fact})' for fact in facts)}"


def _shown(change: Changed) -> str:
    """Return what was and what is; of long texts only where they begin to differ."""
    before, after = change.before, change.after
    if max(len(before), len(after)) > _LONGEST:
        pairs = zip(before, after, strict=False)
        same = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
        at = min(len(before), len(after)) if same is None else same
        before, after = (
            f"{'…' if at else ''}{each[at : at + _LONGEST]}{'…' if each[at + _LONGEST :] else ''}"
            for each in (before, after)
        )
    return f"{before or 'none'} -> {after or 'none'}"


def _program(program: ProgramDiff) -> Iterator[str]:
    if program.sign != "=":
        count = len(program.rows)
        yield f"program {program.name}: {_WORDS[program.sign]}, {count} instructions"
        return
    less, more = program.count("-"), program.count("+")
    yield f"program {program.name}: {less} removed, {more} added, {program.count('=')} the same"
    for change in program.changes:
        yield f"  {change.what}: {_shown(change)}"
    width = len(str(max((row.before or row.after or 0 for row in program.rows), default=0)))
    for hunk in _hunks(program.rows):
        yield "  ..." if hunk is None else f"  {_line(hunk, width)}"


def _line(row: Row, width: int) -> str:
    before, after = ("" if slot is None else slot for slot in (row.before, row.after))
    sign = " " if row.sign == "=" else row.sign
    return f"{before:>{width}} {after:>{width}} {sign} {row.text}"


def _hunks(rows: Sequence[Row]) -> Iterator[Row | None]:
    """Yield what changed with some lines around it, and None where lines are left out."""
    kept = set[int]()
    for number, row in enumerate(rows):
        if row.sign != "=":
            kept.update(range(number - _CONTEXT, number + _CONTEXT + 1))
    last = -1
    for number in sorted(kept & set(range(len(rows)))):
        if number != last + 1:
            yield None
        yield rows[number]
        last = number
    if 0 <= last < len(rows) - 1:
        yield None


def as_data(diff: Diff) -> Mapping[str, Any]:
    """Return what differs as the object that docs/inspect.md describes."""
    return {
        "same": diff.same,
        "changes": _changes(diff.changes),
        "maps": [_named_data(one) for one in diff.maps],
        "externs": [_named_data(one) for one in diff.externs],
        "programs": [
            {
                "name": one.name,
                "what": _WORDS[one.sign],
                "changes": _changes(one.changes),
                "insns": [
                    {"sign": row.sign, "before": row.before, "after": row.after, "text": row.text}
                    for row in one.rows
                ],
            }
            for one in diff.programs
        ],
    }


def _named_data(named: Named) -> Mapping[str, Any]:
    return {
        "name": named.name, "what": _WORDS[named.sign], "changes": _changes(named.changes),
    }  # fmt: skip


def _changes(changes: Sequence[Changed]) -> list[Mapping[str, str]]:
    return [{"what": c.what, "before": c.before, "after": c.after} for c in changes]
