"""Rows: what a run yields, as data. Text and JSON lines are renderings of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pybpf.dataclass import dataclass
from pybpf.script import Conversion, Text
from pybpf.types import Type


@dataclass(frozen=True, slots=True)
class Stack:
    """A kernel stack: addresses, innermost first; ``id`` is negative where none was captured."""

    id: int
    frames: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Buckets:
    """A power-of-two histogram: ``counts[i]`` values in bucket i (see ``events.quantize``)."""

    counts: tuple[int, ...]


Value = int | bytes | Stack | Buckets | tuple["Value", ...]
"""int for integers, pointers and addresses; bytes for char arrays, whole and with any NULs; a tuple
for other arrays (elements) and structs (fields in order)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value and the type that says how to print it."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class MapRow:
    """The whole content of a map: entries as (key values, value), sorted by value, then key."""

    name: str
    keys: tuple[Type, ...]
    value: Type
    entries: tuple[tuple[tuple[Value, ...], Value], ...]


@dataclass(frozen=True, slots=True)
class PrintRow:
    """What one ``print`` printed; a map argument is a MapRow."""

    cells: tuple[Cell | MapRow, ...]


@dataclass(frozen=True, slots=True)
class PrintfRow:
    """What one ``printf`` printed: format pieces and the arguments of its conversions, in order."""

    format: tuple[Text | Conversion, ...]
    cells: tuple[Cell | MapRow, ...]


@dataclass(frozen=True, slots=True)
class ExitRow:
    """The script called ``exit(code)``; the status is already reduced to 0..255."""

    code: int


@dataclass(frozen=True, slots=True)
class LostRow:
    """Records lost for want of buffer space, or (``map``) updates that a full map refused."""

    records: int
    map: str | None = None


@dataclass(frozen=True, slots=True)
class RecordRow:
    """What an eprobe recorded of one hit: the cells of the record of schema ``event``."""

    event: int
    cells: tuple[Cell | MapRow, ...]


Row = PrintRow | PrintfRow | MapRow | ExitRow | LostRow | RecordRow


@dataclass(frozen=True, slots=True)
class Block:
    """Many PrintRows and PrintfRows at once, by columns.

    ``events`` has the id of each row's event, in the order of the rows. ``columns``: by event, for
    each of its arguments, the values in the rows of that event.
    """

    events: Sequence[int]
    columns: Mapping[int, tuple[Sequence[Value], ...]]
