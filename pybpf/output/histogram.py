"""Draw a quantize histogram: bucket counts -> ply's rows of label, count and bar."""

from __future__ import annotations

from pybpf.events.quantize import bounds
from pybpf.output.duration import duration
from pybpf.types import Show, Type, show_of

_CELLS = 32
_SUFFIXES = "kMGTPE"


def histogram(counts: tuple[int, ...], t: Type, *, unicode: bool) -> str:
    """Return a line end and the rows of the buckets that are not empty, each with its line end.

    ``t`` is the type of what was counted. The bucket of the negative values comes first.
    Three dots stand for a gap between rows, and after ``< 0`` also where bucket 0 is empty and
    nothing follows. Without ``unicode`` bars are drawn with ``#``.
    """
    total = sum(counts)
    filled = [index for index, count in enumerate(counts) if count]
    negative = [index for index in filled if bounds(index, t)[0] < 0]
    lines = ["", *(_row("         < 0", counts[i], total, unicode=unicode) for i in negative)]
    if negative and not counts[0]:
        lines.append("\t...")
    previous = None
    for index in filled[: len(filled) - len(negative)]:
        if previous is not None and index > previous + 1:
            lines.append("\t...")
        lines.append(_row(_label(index, t), counts[index], total, unicode=unicode))
        previous = index
    return "\n".join(lines) + "\n"


def _row(label: str, count: int, total: int, *, unicode: bool) -> str:
    return f"\t{label}\t{count:8} {(_bar if unicode else _ascii_bar)(count, total)}"


def _bar(count: int, total: int) -> str:
    # U+2588 is a full block; each of the seven after it is an eighth narrower.
    full, eighths = divmod((2 * 8 * _CELLS * count + total) // (2 * total), 8)
    blocks = "\u2588" * full + (chr(0x2590 - eighths) if eighths else "")
    return f"\u2524{blocks:{_CELLS}}\u2502"


def _ascii_bar(count: int, total: int) -> str:
    return f"|{'#' * ((2 * _CELLS * count + total) // (2 * total)):{_CELLS}}|"


def _label(index: int, t: Type) -> str:
    low, high = bounds(index, t)
    if show_of(t) is Show.TIME:
        return f"[{duration(low)}, {duration(high)}]"
    if high < 1000:
        return f"[{low:4}, {high:4}]"
    return f"[{_scaled(index):>4}, {_scaled(index + 1):>4})"


def _scaled(log2: int) -> str:
    thousands, rest = divmod(log2, 10)
    return f"{1 << rest}{_SUFFIXES[thousands - 1] if thousands else ''}"
