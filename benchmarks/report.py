"""Say what was measured: numbers in; a median with its spread, Markdown tables, JSON out."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """What repeated measurements of one thing gave; in whatever unit they were.

    The median and the quartiles do not care about the few that something else disturbed.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Half of the values lie between these two."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    def scaled(self, factor: float) -> Spread:
        """Return the same in another unit."""
        return Spread(tuple(value * factor for value in self.values))

    @property
    def error(self) -> float:
        """Half the distance of the quartiles."""
        low, high = self.quartiles
        return (high - low) / 2

    def shown(self, digits: int = 1) -> str:
        """Return the median ± the error."""
        return f"{self.median:,.{digits}f} ± {self.error:,.{digits}f}"

    def data(self) -> dict[str, Any]:
        """Return it for JSON."""
        low, high = self.quartiles
        return {
            "median": round(self.median, 6),
            "quartiles": [round(low, 6), round(high, 6)],
            "values": [round(value, 6) for value in self.values],
        }


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a heading; ``note`` says how to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """Return the table as Markdown that is readable as it stands: numbers to the right."""
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [_line(self.columns, widths)]
        rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines.append(_line(rules, widths))
        lines += [_line(row, widths) for row in self.rows]
        note = "".join(f"\n{_filled(one)}\n" for one in self.note.split("\n\n") if one)
        return f"### {self.title}\n{note}\n" + "\n".join(lines) + "\n"


def _filled(paragraph: str) -> str:
    """Return a paragraph in lines as long as those of the page that it is put into."""
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    shown = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return f"| {' | '.join(shown)} |"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one benchmark: ``data`` for JSON, the tables for people."""

    data: Sequence[dict[str, Any]]
    tables: Sequence[Table]

    def markdown(self) -> str:
        """Return all tables."""
        return "\n".join(table.markdown() for table in self.tables)


def replace_block(text: str, name: str, content: str) -> str:
    """Replace what stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``, where these are."""
    start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    return f"{before}{start}\n{content}\n{end}{after}" if found and closed else text
