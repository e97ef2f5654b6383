"""Dynamic events that are there: how each is listed, its format file, what it holds on to."""

from __future__ import annotations

from collections.abc import Sequence

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevent import DynEvent
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.world import Kind


@dataclass(frozen=True, slots=True)
class Existing:
    """A dynamic event.

    ``head`` is what it is listed with (``e``, ``p``, ``r10``), ``place`` what it is attached to, as
    listed; for a synthetic event its fields. ``format`` is the text of its format file, None where
    it has none or it is not known. ``parent`` is the ``group/event`` that an eprobe is attached to.
    ``triggers`` counts the histograms and other triggers that use the event.
    """

    kind: Kind
    group: str
    event: str
    head: str
    place: str
    value: DynEvent
    args: tuple[Argument, ...] = ()
    format: str | None = None
    parent: str | None = None
    enabled: bool = False
    triggers: int = 0

    @property
    def name(self) -> str:
        """``group/event``."""
        return f"{self.group}/{self.event}"

    @property
    def listed(self) -> str:
        """The event's line in ``dynamic_events``."""
        if self.kind == "synthetic":
            return f"s:{self.name}\t{self.place}"
        words = (f"{self.head}:{self.name}", self.place, *(arg.listed for arg in self.args))
        return " ".join(words)

    @property
    def returns(self) -> bool:
        """Say whether it is a return probe."""
        return self.head.startswith("r") or self.place.endswith("%return")


def busy(event: Existing, events: Sequence[Existing]) -> bool:
    """Say whether the kernel refuses to remove ``event`` while the others are there."""
    if event.enabled or event.triggers:
        return True
    return any(other.parent == event.name for other in events if other is not event)
