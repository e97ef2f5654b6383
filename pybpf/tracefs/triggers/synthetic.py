"""What a synthetic event takes: the event in, a slot for each of its fields out.

Source: parse_synth_field() of kernel/trace/trace_events_synth.c.
"""

from __future__ import annotations

import re

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevent import Synthetic
from pybpf.tracefs.dynevents.ctext import unsigned
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.synthetic import TYPES


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a synthetic event, by its type as the kernel writes it."""

    ctype: str
    size: int

    @property
    def string(self) -> bool:
        """Say whether it is a string."""
        return "char[" in self.ctype

    @property
    def dynamic(self) -> bool:
        """Say whether its size is that of what is put in."""
        return self.ctype.startswith("__data_loc")

    @property
    def stack(self) -> bool:
        """Say whether it is a stack."""
        return self.dynamic and not self.string

    @property
    def signed(self) -> bool:
        """Say whether it is signed."""
        return not self.ctype.startswith("u") and self.ctype != "gfp_t"


def slots_of(event: Existing) -> tuple[Slot, ...]:
    """Return what a synthetic event takes."""
    assert isinstance(event.value, Synthetic)
    return tuple(_slot(field.type) for field in event.value.fields)


def _slot(ctype: str) -> Slot:
    if ctype in TYPES:
        return Slot(ctype, TYPES[ctype][0])
    match = re.search(r"char\[([^\]]+)\]", ctype)
    if match is not None and (size := unsigned(match[1])):
        return Slot(ctype, size)
    return Slot(f"__data_loc {ctype}", 8)
