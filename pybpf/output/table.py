"""Print a whole map: a MapRow -> ply's rows of ``{ keys }: value``."""

from __future__ import annotations

from pybpf.output.values import Style, show
from pybpf.rows import MapRow


def table(row: MapRow, style: Style) -> str:
    """Return an empty line, the map's name, and a row for each entry; nothing for an empty map.

    The one entry of a map without keys, which ply does not have, stands behind the name.
    """
    if not row.entries:
        return ""
    if not row.keys:
        return "".join(f"\n{row.name}: {show(v, row.value, style)}\n" for _, v in row.entries)
    lines = ["", f"{row.name}:"]
    for key, value in row.entries:
        keys = ", ".join(show(k, t, style) for k, t in zip(key, row.keys, strict=False))
        lines.append(f"{{ {keys} }}: {show(value, row.value, style)}")
    return "\n".join(lines) + "\n"
