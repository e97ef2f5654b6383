"""Render rows as text, in ply's layout: a row -> what is printed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybpf.output.printf import render_printf
from pybpf.output.table import table
from pybpf.output.values import Style, show
from pybpf.rows import Cell, ExitRow, LostRow, MapRow, PrintfRow, PrintRow, RecordRow, Row

if TYPE_CHECKING:
    from pybpf.target.target import Symbols


def render(row: Row, symbols: Symbols, *, walltime_offset: int = 0, unicode: bool = True) -> str:
    """Return a row's text with all its line ends; an ExitRow and an empty map have none.

    ``walltime_offset`` is what to add to the monotonic clock, in nanoseconds, for the Unix time;
    without ``unicode`` histogram bars are drawn in ASCII. Never raises.
    """
    style = Style(symbols, walltime_offset, unicode)
    match row:
        case PrintRow(cells=cells) | RecordRow(cells=cells):
            return ", ".join([_cell(cell, style) for cell in cells]) + "\n"
        case PrintfRow(format=pieces, cells=cells):
            return render_printf(pieces, cells, style)
        case MapRow():
            return table(row, style)
        case ExitRow():
            return ""
        case LostRow():
            return render_lost(row) + "\n"


def render_lost(row: LostRow) -> str:
    """Return the warning for lost records or refused map updates, without a line end."""
    if row.map is None:
        return f"warning: {counted(row.records, 'record')} lost; a bigger --buffer may help"
    lost = counted(row.records, "update")
    return f"warning: {lost} of {row.map} lost: the map is full (--map-size)"


def _cell(cell: Cell | MapRow, style: Style) -> str:
    if isinstance(cell, MapRow):
        return table(cell, style)
    return show(cell.value, cell.type, style)


def render_skipped(number: int, noun: str) -> str:
    """Return the warning for events that the kernel ran no program for, without a line end."""
    return (
        f"warning: {counted(number, noun)} came while another program ran on that CPU: "
        "the kernel skipped them"
    )


def counted(number: int, noun: str) -> str:
    """Return ``1 record`` or ``2 records``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
