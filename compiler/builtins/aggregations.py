"""Aggregations: what may stand right of ``@map[keys] =``. One row each."""

from __future__ import annotations

from pybpf.dataclass import dataclass
from pybpf.script import MapRole


@dataclass(frozen=True, slots=True)
class AggregationRow:
    """``name(arguments)``; ``arguments`` is their number."""

    name: str
    role: MapRole
    arguments: int
    doc: str


AGGREGATIONS: dict[str, AggregationRow] = {
    row.name: row
    for row in (
        AggregationRow("count", MapRole.COUNT, 0, "how often"),
        AggregationRow("sum", MapRole.SUM, 1, "the sum of a value"),
        AggregationRow("quantize", MapRole.QUANTIZE, 1, "a histogram by powers of two"),
    )
}
