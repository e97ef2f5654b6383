"""What all measurements are told: how long to measure, with what, and what they say meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools import Tools
from tracers import Tracer


@dataclass(frozen=True, slots=True)
class Plan:
    """``quick`` is for trying things out: fewer and shorter rounds, so numbers to be doubted.

    ``scripts`` are the names of those to measure; ``say`` is called with what is done now.
    """

    tracers: Sequence[Tracer]
    scripts: Sequence[str]
    tools: Tools
    quick: bool
    say: Callable[[str], None]

    def rounds(self, full: int, quick: int) -> range:
        """Return as many rounds as there shall be."""
        return range(quick if self.quick else full)
