"""Where a program sends a packet."""

from __future__ import annotations

from pybpf.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Redirect:
    """What a program asked for: the helper, the device or key, its flags, the map, the copy."""

    kind: str
    target: int
    flags: int = 0
    map: str = ""
    data: bytes = b""
