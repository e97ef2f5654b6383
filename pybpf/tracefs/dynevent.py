"""Dynamic events as values: what stands on a line of the kernel's ``dynamic_events``.

``str`` of each is the line that creates it, as the kernel lists it where it can; ``None`` for a
group or an event leaves the name to the kernel. ``dynevents.build`` has makers of them that check
what they make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pybpf.dataclass import dataclass
from pybpf.tracefs.fetch import FetchArg

if TYPE_CHECKING:
    from pybpf.tracefs.dynevents.build import Args


@dataclass(frozen=True, slots=True)
class Eprobe:
    """An event on another event: ``e:GROUP/EVENT SYSTEM.NAME ARGS [if FILTER]``.

        Eprobe("sched.sched_switch", event="x", args={"prev": field("prev_pid").as_("u32")})

    With expressions for arguments it is checked as ``dynevents.build.eprobe`` does. Raises
    DynEventError where that does.
    """

    target: str
    args: tuple[FetchArg, ...] = ()
    group: str | None = None
    event: str | None = None
    filter: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            target: str,
            args: tuple[FetchArg, ...] | Args = (),
            group: str | None = None,
            event: str | None = None,
            filter: str | None = None,  # noqa: A002
        ) -> None: ...

    def __post_init__(self) -> None:
        args = cast("tuple[FetchArg, ...] | Args", self.args)
        if not isinstance(args, tuple):
            from pybpf.tracefs.dynevents.build import eprobe

            made = eprobe(
                self.target,
                group=self.group,
                event=self.event,
                args=args,
                filter_=self.filter,
            )
            object.__setattr__(self, "target", made.target)
            object.__setattr__(self, "args", made.args)

    def __str__(self) -> str:
        words = [_head("e", self.group, self.event), self.target, *map(str, self.args)]
        return " ".join(words if self.filter is None else [*words, "if", self.filter])


@dataclass(frozen=True, slots=True)
class Kprobe:
    """An event at an instruction of the kernel, or (``returns``) at the return of a function.

    ``place`` is ``[MODULE:]SYMBOL[+OFFSET]`` or an address.
    """

    place: str
    args: tuple[FetchArg, ...] = ()
    group: str | None = None
    event: str | None = None
    returns: bool = False
    maxactive: int | None = None

    def __str__(self) -> str:
        kind = "r" if self.returns else "p"
        active = "" if self.maxactive is None else str(self.maxactive)
        return " ".join(
            [_head(kind + active, self.group, self.event), self.place, *map(str, self.args)]
        )


@dataclass(frozen=True, slots=True)
class Uprobe:
    """An event at an offset of a file, ``PATH:OFFSET[(REFCOUNT)]``, or at a return from there."""

    path: str
    offset: int
    args: tuple[FetchArg, ...] = ()
    group: str | None = None
    event: str | None = None
    returns: bool = False
    ref_ctr_offset: int | None = None

    def __str__(self) -> str:
        count = "" if self.ref_ctr_offset is None else f"({self.ref_ctr_offset:#x})"
        place = f"{self.path}:{self.offset:#018x}{count}"
        head = _head("r" if self.returns else "p", self.group, self.event)
        return " ".join([head, place, *map(str, self.args)])


@dataclass(frozen=True, slots=True)
class Fprobe:
    """An event at the entry or (``returns``) the exit of a function, by ftrace."""

    symbol: str
    args: tuple[FetchArg, ...] = ()
    group: str | None = None
    event: str | None = None
    returns: bool = False
    maxactive: int | None = None

    def __str__(self) -> str:
        active = "" if self.maxactive is None else str(self.maxactive)
        place = f"{self.symbol}%return" if self.returns else self.symbol
        return " ".join([_head("f" + active, self.group, self.event), place, *map(str, self.args)])


@dataclass(frozen=True, slots=True)
class Tprobe:
    """An event on a raw tracepoint, with the arguments that the kernel passes it."""

    tracepoint: str
    args: tuple[FetchArg, ...] = ()
    group: str | None = None
    event: str | None = None

    def __str__(self) -> str:
        return " ".join([_head("t", self.group, self.event), self.tracepoint, *map(str, self.args)])


@dataclass(frozen=True, slots=True)
class SyntheticField:
    """``TYPE NAME``: the type as C spells it, with its brackets (``char[16]``, ``char[]``)."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@dataclass(frozen=True, slots=True)
class Synthetic:
    """An event that hist triggers make: ``s:synthetic/NAME FIELD; FIELD …``."""

    name: str
    fields: tuple[SyntheticField, ...]

    def __str__(self) -> str:
        return f"s:synthetic/{self.name}\t{'; '.join(map(str, self.fields))}"


@dataclass(frozen=True, slots=True)
class Removal:
    """``-:GROUP/EVENT``, without a group of all groups, without an event of all in the group.

    ``rest``, the words that follow, must be how the event goes on, for it to be removed.
    """

    group: str | None = None
    event: str | None = None
    rest: str = ""

    def __str__(self) -> str:
        head = _head("-", self.group, self.event or ("" if self.group else None))
        return f"{head} {self.rest}" if self.rest else head


DynEvent = Eprobe | Kprobe | Uprobe | Fprobe | Tprobe | Synthetic | Removal


def _head(kind: str, group: str | None, event: str | None) -> str:
    if group is not None:
        return f"{kind}:{group}/{event or ''}"
    return kind if event is None else f"{kind}:{event}"
