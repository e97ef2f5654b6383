"""What a definition is judged against: events, symbols, types and files, as far as known.

Nothing here touches a machine. Where a world does not know, a verdict takes the better answer for
granted and says so in its assumptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from pybpf.btf.reader import Btf
from pybpf.dataclass import dataclass, field
from pybpf.errors import TargetError
from pybpf.tracefs.dynevents.rules import NEWEST, Rules
from pybpf.tracefs.format import EventFormat, parse_format

if TYPE_CHECKING:
    from pybpf.tracefs.dynevents.existing import Existing
    from pybpf.tracefs.triggers.model import Trigger

Kind = Literal["eprobe", "kprobe", "uprobe", "fprobe", "synthetic"]
"""Which part of the kernel made a dynamic event; return probes and tprobes count with the rest."""
FileKind = Literal["regular", "other", "missing"]


class Formats(Mapping[str, EventFormat]):
    """Format files by ``group/event``, parsed when first asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, EventFormat] = {}

    def __getitem__(self, name: str) -> EventFormat:
        if name not in self._parsed:
            self._parsed[name] = parse_format(self._texts[name])
        return self._parsed[name]

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


_BLOCK = re.compile(r"^FILE (?:events/)?(\S+/\S+)/format\n", re.MULTILINE)


def read_formats(text: str) -> Formats:
    """Return the formats in a text of blocks, each a line ``FILE group/event/format`` and the file.

    Raises TargetError for a text without any.
    """
    parts = _BLOCK.split(text)
    if len(parts) < 3:
        raise TargetError("no format files: no line 'FILE group/event/format'")
    return Formats(dict(zip(parts[1::2], parts[2::2], strict=True)))


@dataclass(frozen=True, slots=True)
class World:
    """A kernel as far as definitions depend on it; None stands for what is not known.

    ``formats`` are those of the events that the kernel brings, ``existing`` the dynamic events in
    the order they were made, ``triggers`` those of all events, each event's in their order.
    ``functions`` are the names that a kprobe may be put on, ``symbols`` those of data and code,
    ``repeated`` those that several symbols have, ``types`` its BTF, ``cpus`` counts the CPUs it may
    have. ``files`` tells what a path leads to.
    ``lacking`` says of kinds of events that it was built without what they are, and the option.
    ``last_id`` is the highest ID of the events of ``formats``, None if those are to be looked at.
    """

    rules: Rules = NEWEST
    formats: Mapping[str, EventFormat] | None = None
    existing: tuple[Existing, ...] = ()
    functions: Container[str] | None = None
    symbols: Container[str] | None = None
    repeated: Container[str] = ()
    types: Btf | None = None
    cpus: int = 1
    files: Callable[[str], FileKind] | None = None
    triggers: tuple[Trigger, ...] = ()
    last_id: int | None = None
    lacking: Mapping[Kind, str] = field(default_factory=lambda: MappingProxyType({}))
