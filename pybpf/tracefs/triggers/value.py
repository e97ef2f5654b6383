"""Triggers as values: what is written to the ``trigger`` file of an event.

``str`` of each is the text that sets it; that of a Removal removes it.
"""

from __future__ import annotations

from typing import Literal

from pybpf.dataclass import dataclass
from pybpf.tracefs.filters.value import Filter
from pybpf.tracefs.triggers.model import Handler


@dataclass(frozen=True, slots=True)
class HistField:
    """A field of the event, or ``hitcount``, ``common_timestamp`` and so on.

    ``modifier`` is how it is shown: hex, sym, sym-offset, execname, syscall, log2, buckets (of
    ``width``), usecs, percent, graph, stacktrace.
    """

    name: str
    modifier: str | None = None
    width: int | None = None

    def __str__(self) -> str:
        text = self.name if self.modifier is None else f"{self.name}.{self.modifier}"
        return text if self.width is None else f"{text}={self.width}"


@dataclass(frozen=True, slots=True)
class VariableRef:
    """``$NAME``: a variable of this histogram or of another one, on ``system.event`` if given."""

    name: str
    system: str | None = None
    event: str | None = None

    def __str__(self) -> str:
        return (
            f"${self.name}" if self.system is None else f"{self.system}.{self.event}.${self.name}"
        )


@dataclass(frozen=True, slots=True)
class Number:
    """An unsigned number of 64 bits."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Binary:
    """Two expressions combined; there are no brackets, so ``right`` binds tighter."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{self.left}{self.operator}{self.right}"


@dataclass(frozen=True, slots=True)
class Negated:
    """``-(INNER)``, which cannot be part of another expression, nor hold a minus."""

    inner: Expression

    def __str__(self) -> str:
        return f"-({self.inner})"


Expression = HistField | VariableRef | Number | Binary | Negated


@dataclass(frozen=True, slots=True)
class Variable:
    """``NAME=EXPRESSION``: what is kept for each key, for actions and other histograms."""

    name: str
    expression: Expression

    def __str__(self) -> str:
        return f"{self.name}={self.expression}"


@dataclass(frozen=True, slots=True)
class SortKey:
    """A key or a value to sort by, by its name without a modifier."""

    name: str
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.name}.descending" if self.descending else self.name


@dataclass(frozen=True, slots=True)
class Trace:
    """Make a synthetic event: ``trace(NAME,…)``, or ``NAME(…)`` without ``keyword``.

    ``parameters`` are as written: ``$lat``, ``next_pid``, ``sched.sched_waking.pid``.
    """

    synthetic: str
    parameters: tuple[str, ...] = ()
    keyword: bool = True

    def __str__(self) -> str:
        if self.keyword:
            return f"trace({','.join((self.synthetic, *self.parameters))})"
        return f"{self.synthetic}({','.join(self.parameters)})"


@dataclass(frozen=True, slots=True)
class Save:
    """Keep what fields held when the watched variable changed or had its greatest value."""

    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"save({','.join(self.fields)})"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Keep the trace buffer as it was then."""

    def __str__(self) -> str:
        return "snapshot()"


@dataclass(frozen=True, slots=True)
class Act:
    """``handler(ON).ACTION``: ``on`` is SYSTEM.EVENT for onmatch, $VARIABLE for the others."""

    handler: Handler
    on: str
    action: Trace | Save | Snapshot

    def __str__(self) -> str:
        return f"{self.handler}({self.on}).{self.action}"


@dataclass(frozen=True, slots=True)
class Hist:
    """A histogram.

    ``mode`` pauses, continues or clears the one that is there. ``size`` is how many keys it holds,
    rounded up to a power of two; ``clock`` is that of its timestamps.
    """

    keys: tuple[Expression, ...]
    values: tuple[Expression, ...] = ()
    variables: tuple[Variable, ...] = ()
    sort: tuple[SortKey, ...] = ()
    size: int | None = None
    clock: str | None = None
    name: str | None = None
    nohitcount: bool = False
    actions: tuple[Act, ...] = ()
    mode: Literal["", "pause", "cont", "clear"] = ""
    filter: Filter | None = None

    def __str__(self) -> str:
        parts = [f"hist:keys={_list(self.keys)}"]
        parts += [f"vals={_list(self.values)}"] if self.values else []
        parts += [_list(self.variables)] if self.variables else []
        parts += [f"sort={_list(self.sort)}"] if self.sort else []
        parts += [f"size={self.size}"] if self.size is not None else []
        parts += [f"clock={self.clock}"] if self.clock is not None else []
        parts += [f"name={self.name}"] if self.name is not None else []
        parts += ["nohitcount"] if self.nohitcount else []
        parts += map(str, self.actions)
        parts += [self.mode] if self.mode else []
        return ":".join(parts) + _if(self.filter)


@dataclass(frozen=True, slots=True)
class Simple:
    """Tracing switched on or off, a snapshot or a stack taken; ``count`` times at most."""

    command: Literal["traceon", "traceoff", "snapshot", "stacktrace"]
    count: int | None = None
    filter: Filter | None = None

    def __str__(self) -> str:
        count = "" if self.count is None else f":{self.count}"
        return f"{self.command}{count}{_if(self.filter)}"


@dataclass(frozen=True, slots=True)
class Enable:
    """An event, or the histograms on it, enabled or disabled; ``count`` times at most."""

    command: Literal["enable_event", "disable_event", "enable_hist", "disable_hist"]
    system: str
    event: str
    count: int | None = None
    filter: Filter | None = None

    def __str__(self) -> str:
        count = "" if self.count is None else f":{self.count}"
        return f"{self.command}:{self.system}:{self.event}{count}{_if(self.filter)}"


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of a trigger; of histograms, the one that is made the same way."""

    trigger: Hist | Simple | Enable

    def __str__(self) -> str:
        return f"!{self.trigger}"


TriggerValue = Hist | Simple | Enable | Removal


def _list(items: tuple[object, ...]) -> str:
    return ",".join(map(str, items))


def _if(condition: Filter | None) -> str:
    return "" if condition is None else f" if {condition}"
