"""What is known while one argument is parsed, and the steps found so far.

The kernel compiles an argument to steps (its struct fetch_insn): where the value comes from, the
dereferences, how it is stored. Which types an argument may have depends on the last of them, and
an argument may not have more than 15.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from enum import Enum, Flag, auto

from pybpf.btf.reader import Btf, Proto
from pybpf.tracefs.dynevents.log import Log, Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.rules import MAX_OPS, Rules
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.format import EventField

UNKNOWN_TYPE = -1
"""The type of a value that only BTF, which is not at hand, could tell."""


class Where(Flag):
    """What kind of place an argument is fetched at."""

    RETURN = auto()
    KERNEL = auto()
    ENTRY = auto()
    EVENT = auto()
    USER = auto()
    FPROBE = auto()
    TRACEPOINT = auto()


_PLACE = Where.RETURN | Where.KERNEL | Where.ENTRY | Where.EVENT | Where.USER


class Op(Enum):
    """A step of an argument."""

    REG = auto()
    STACK = auto()
    STACKP = auto()
    RETVAL = auto()
    IMM = auto()
    COMM = auto()
    CURRENT = auto()
    ARG = auto()
    EDATA = auto()
    FOFFS = auto()
    DATA = auto()
    SYMBOL = auto()
    FIELD = auto()
    DEREF = auto()
    UDEREF = auto()
    CPU_PTR = auto()
    STORE = auto()
    BITS = auto()
    ARRAY = auto()


class Context:
    """One event's arguments being parsed; ``offset`` is where in the argument's word we are.

    ``fields`` are those of the event that an eprobe is attached to, None where they are unknown.
    """

    def __init__(
        self,
        log: Log,
        world: World,
        where: Where,
        *,
        fields: Mapping[str, EventField] | None = None,
        function: str | None = None,
    ) -> None:
        self.log = log
        self.rules: Rules = log.rules
        self.world = world
        self.types: Btf | None = world.types
        self.where = where
        self.fields = fields
        self.function = function
        self.assumptions: list[str] = []
        self.proto: Proto | None = None
        self.begin(0)

    def begin(self, offset: int) -> None:
        """Begin an argument, whose body starts ``offset`` bytes into its word."""
        self.offset = offset
        self.ops: list[Op] = []
        self.nesting = 0
        self.symbol: str | None = None
        self.type: int | None = None
        self.bit_size = 0
        self.bit_offset = 0

    @property
    def at_entry(self) -> bool:
        """Say whether the arguments of a kernel function are in their registers."""
        return self.where & _PLACE == Where.KERNEL | Where.ENTRY

    @property
    def at_return(self) -> bool:
        """Say whether this is the return from a kernel function."""
        return self.where & _PLACE == Where.KERNEL | Where.RETURN

    def step(self, op: Op, *, too_many: int = errno.EINVAL) -> None:
        """Add a step. Raises Refused where there are too many."""
        if len(self.ops) == MAX_OPS:
            raise self.refuse(Message.TOO_MANY_OPS, errno_=too_many)
        self.ops.append(op)

    def refuse(self, message: Message, ahead: int = 0, *, errno_: int = errno.EINVAL) -> Refused:
        """Log a message about the place ``ahead`` of where we are, and return what to raise."""
        return self.log.refuse(message, errno_, self.offset + ahead)

    def assume(self, what: str) -> None:
        """Note what a verdict takes for granted."""
        if what not in self.assumptions:
            self.assumptions.append(what)

    def nest(self) -> None:
        """Go one level deeper. Raises Refused where that is too deep."""
        self.nesting += 1
        if self.rules.nesting is not None and self.nesting > self.rules.nesting:
            raise self.refuse(Message.TOO_MANY_NESTED, errno_=errno.E2BIG)
