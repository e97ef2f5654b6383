"""Histograms as the kernel holds them, as far as judging other triggers needs to know them.

Source: struct hist_field, hist_trigger_data, action_data of kernel/trace/trace_events_hist.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Flag, auto
from typing import Literal

from pybpf.dataclass import dataclass
from pybpf.tracefs.filters.fields import KernelField

KEYS_MAX = 3
VALUES_MAX = 3
VARIABLES_MAX = 16
SORT_MAX = 2
ACTIONS_MAX = 8
PARAMETERS_MAX = 64
KEY_SIZE_MAX = 384
"""How many bytes the keys may take: a string of 256 and a stack of 16 addresses."""
STACK_SIZE = 128
BITS_MIN, BITS_DEFAULT, BITS_MAX = 7, 11, 17
UNKNOWN = "?"
"""The C type of a field of an event that is not known."""

CLOCKS = frozenset(
    {"local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai", "x86-tsc"}
)


class Is(Flag):
    """What a field of a histogram is, and how its value is shown."""

    HITCOUNT = auto()
    KEY = auto()
    STRING = auto()
    HEX = auto()
    SYM = auto()
    SYM_OFFSET = auto()
    EXECNAME = auto()
    SYSCALL = auto()
    STACKTRACE = auto()
    LOG2 = auto()
    TIMESTAMP = auto()
    USECS = auto()
    VAR = auto()
    EXPR = auto()
    VAR_REF = auto()
    CPU = auto()
    ALIAS = auto()
    BUCKET = auto()
    CONST = auto()
    PERCENT = auto()
    GRAPH = auto()
    COMM = auto()


NOTHING = Is(0)
_SHOWN = (
    (Is.HEX, "hex"),
    (Is.SYM, "sym"),
    (Is.SYM_OFFSET, "sym-offset"),
    (Is.EXECNAME, "execname"),
    (Is.SYSCALL, "syscall"),
    (Is.LOG2, "log2"),
    (Is.BUCKET, "buckets"),
    (Is.USECS, "usecs"),
    (Is.PERCENT, "percent"),
    (Is.GRAPH, "graph"),
    (Is.STACKTRACE, "stacktrace"),
)


class HistField:
    """A key, a value, a variable, or what one of them is computed from.

    ``owner`` is the histogram whose variable ``index`` it is, or refers to.
    """

    __slots__ = (
        "buckets", "constant", "ctype", "event", "field", "flags", "index", "name", "offset",
        "operands", "operator", "owner", "signed", "size", "system", "variable",
    )  # fmt: skip

    def __init__(self, flags: Is, owner: HistData, variable: str | None = None) -> None:
        self.flags, self.owner, self.variable = flags, owner, variable
        self.field: KernelField | None = None
        self.ctype: str | None = None
        self.size = self.offset = 0
        self.signed = False
        self.operands: tuple[HistField, ...] = ()
        self.operator = ""
        self.name: str | None = None
        self.index = -1
        self.constant = 0
        self.buckets = 0
        self.system: str | None = None
        self.event: str | None = None

    def has_variables(self, level: int = 0) -> bool:
        """Say whether it is a variable or computed from one."""
        if level > 3:
            return False
        if self.flags & (Is.VAR | Is.VAR_REF):
            return True
        return any(operand.has_variables(level + 1) for operand in self.operands)

    def modifier(self) -> str | None:
        """Return how the value is shown, None for as it is."""
        return next((word for flag, word in _SHOWN if self.flags & flag), None)


Handler = Literal["onmatch", "onmax", "onchange"]


@dataclass(slots=True)
class Action:
    """What happens when the handler says so.

    ``name`` is as written, ``synthetic`` the event that is made, None for save and snapshot.
    ``system`` and ``event`` are what onmatch waits for, ``variable`` is what the others watch.
    """

    handler: Handler
    kind: Literal["save", "snapshot", "trace"] = "trace"
    name: str = ""
    keyword: bool = False
    synthetic: str | None = None
    parameters: tuple[str, ...] = ()
    system: str = ""
    event: str = ""
    variable: str = ""

    def matches(self, other: Action) -> bool:
        """Say whether the kernel takes the two for the same."""
        mine = self.synthetic if self.keyword else self.name
        its = other.synthetic if other.keyword else other.name
        return (self.handler, self.kind, self.parameters, mine) == (
            other.handler,
            other.kind,
            other.parameters,
            its,
        ) and (self.system, self.event, self.variable) == (
            other.system,
            other.event,
            other.variable,
        )


class Attributes:
    """What a hist trigger's text gives, part by part."""

    def __init__(self) -> None:
        self.keys: str | None = None
        self.values: str | None = None
        self.sort: str | None = None
        self.name: str | None = None
        """With its ``name=``."""
        self.clock: str | None = None
        self.bits = 0
        self.pause = self.cont = self.clear = self.no_hitcount = False
        self.assignments: list[str] = []
        self.actions: list[str] = []
        self.variables: list[tuple[str, str]] = []


class HistData:
    """A histogram on the event ``group/event``; ``fields`` are values, variables, keys."""

    def __init__(self, event: str, attributes: Attributes, *, remove: bool) -> None:
        self.event, self.attributes, self.remove = event, attributes, remove
        self.fields: list[HistField] = []
        self.values = self.variables = 0
        self.key_size = 0
        self.sort: list[tuple[int, bool]] = []
        self.sort_count = 1
        self.bits = attributes.bits or BITS_DEFAULT
        self.timestamps = False
        self.indices = 0
        self.references: list[HistField] = []
        self.actions: list[Action] = []
        self.field_variables = 0
        self.saved: list[str] = []
        self.is_remembered = False
        """Its variables can be found, and what refers to others is known."""
        self.helpers: list[tuple[str, str]] = []
        """Events and commands of the histograms that were made on them for this one."""

    def variable(self, name: str) -> HistField | None:
        """Return the variable called ``name``, or None."""
        found = (f for f in self.fields if f.flags & Is.VAR and f.variable == name)
        return next(found, None)

    @property
    def keys(self) -> Sequence[HistField]:
        """The fields that are keys."""
        return self.fields[self.values :]


Command = Literal[
    "traceon", "traceoff", "snapshot", "stacktrace", "enable_event", "disable_event",
    "enable_hist", "disable_hist", "hist",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger that is there, on the event ``group/event``.

    ``listed`` is its line in the ``trigger`` file. ``count`` is how often it may still act, None
    for without end; ``target`` the ``group/event`` that it enables. A histogram with a ``name``
    may hold its ``data`` in common with others.
    """

    event: str
    command: Command
    listed: str
    filter: str | None = None
    count: int | None = None
    target: str | None = None
    data: HistData | None = None
    name: str | None = None
    paused: bool = False
    shares: bool = False
    """It was made with a name that was there: its data are another trigger's."""

    @property
    def uses(self) -> tuple[str, ...]:
        """The events that cannot be removed while the trigger is there."""
        made = () if self.data is None else self.data.actions
        synthetic = [f"synthetic/{action.synthetic}" for action in made if action.synthetic]
        return (self.event, *synthetic, *((self.target,) if self.target else ()))
