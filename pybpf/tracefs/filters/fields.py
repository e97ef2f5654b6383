"""The fields that filters and triggers of an event may name: a format in, how each is treated out.

Sources: trace_find_event_field(), trace_define_generic_fields() of kernel/trace/trace_events.c,
filter_assign_type() of kernel/trace/trace_events_filter.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto

from pybpf.dataclass import dataclass
from pybpf.tracefs.filters.rules import TracingRules
from pybpf.tracefs.format import EventField


class Kind(Enum):
    """How the kernel treats a field, which it tells by the words of its C type."""

    NUMBER = auto()
    """Any field that is none of the others: also structures and arrays."""
    STATIC_STRING = auto()
    DYNAMIC_STRING = auto()
    RELATIVE_STRING = auto()
    POINTER_STRING = auto()
    CPUMASK = auto()
    CPU = auto()
    COMM = auto()
    STACK = auto()


_STRINGS = frozenset(
    {Kind.STATIC_STRING, Kind.DYNAMIC_STRING, Kind.RELATIVE_STRING, Kind.POINTER_STRING, Kind.COMM}
)


@dataclass(frozen=True, slots=True)
class KernelField:
    """A field: its C type with brackets (``char[16]``), size in bytes, and kind.

    Those that every event has without recording them (CPU, COMM) have no size.
    """

    name: str
    ctype: str
    size: int
    signed: bool
    kind: Kind

    @property
    def is_string(self) -> bool:
        """Say whether filters compare the field with strings."""
        return self.kind in _STRINGS


Fields = Mapping[str, KernelField]
"""What a name means, by name."""

_DECLARATION = re.compile(r"(.*?)\s*\b(\w+)((?:\[[^\]]*\])*)")


def _generic(rules: TracingRules) -> dict[str, KernelField]:
    found = {
        name: KernelField(name, "int", 0, signed=True, kind=Kind.CPU)
        for name in ("CPU", "cpu", "common_cpu")
    }
    words = [("COMM", Kind.COMM), ("comm", Kind.COMM)]
    if rules.stack_fields:
        words += [("STACKTRACE", Kind.STACK), ("stacktrace", Kind.STACK)]
    for name, kind in words:
        found[name] = KernelField(name, "char *", 0, signed=False, kind=kind)
    return found


def kernel_fields(
    fields: Iterable[EventField], rules: TracingRules, *, synthetic: bool = False
) -> Fields:
    """Return what the names in filters of an event stand for.

    ``fields`` are those of its format. An event's own fields go before those that all events have;
    of two with a name the kernel finds the later. ``synthetic`` says that it is a synthetic event,
    whose arrays of long are stacks.
    """
    own: list[KernelField] = []
    common: list[KernelField] = []
    for field in fields:
        (common if field.common else own).append(_field(field, rules, synthetic=synthetic))
    return {f.name: f for f in common} | _generic(rules) | {f.name: f for f in own}


def _field(field: EventField, rules: TracingRules, *, synthetic: bool) -> KernelField:
    match = _DECLARATION.fullmatch(field.declaration)
    ctype = field.declaration if match is None else match[1] + match[3]
    kind = _kind(ctype, rules)
    if synthetic and ctype.startswith("__data_loc") and "long[" in ctype:
        kind = Kind.STACK
    return KernelField(field.name, ctype, field.size, field.signed, kind)


def _kind(ctype: str, rules: TracingRules) -> Kind:
    if "__data_loc" in ctype:
        if "char" in ctype:
            return Kind.DYNAMIC_STRING
        if rules.cpu_lists and "cpumask_t" in ctype:
            return Kind.CPUMASK
    if "__rel_loc" in ctype and "char" in ctype:
        return Kind.RELATIVE_STRING
    if "[" in ctype and "char" in ctype:
        return Kind.STATIC_STRING
    if ctype in {"char *", "const char *"}:
        return Kind.POINTER_STRING
    return Kind.NUMBER
