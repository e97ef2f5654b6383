"""An eprobe's definition for the compiler: its text and a Target in, arguments and parent out.

It is judged by the rules of the newest kernel, without its limits: what one kernel or another can
do, a program can. Nothing here asks whether this kernel has eprobes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pybpf.dataclass import dataclass, replace
from pybpf.errors import TargetError
from pybpf.target.target import Target
from pybpf.tracefs.dynevent import Eprobe
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.explain import the_eprobe
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.rules import MAX_LINE, NEWEST
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.format import EventFormat, parse_format

RULES = replace(NEWEST, expression=MAX_LINE, nesting=None)

HEAD = "e:e "
"""What a definition begins with where the event's own name is left out."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition that fits its parent, which is called ``target`` (``group/event``).

    ``name`` is its own. ``format`` is what the kernel would have in its format file.
    """

    value: Eprobe
    name: str
    target: str
    parent: EventFormat
    args: tuple[Argument, ...]
    format: EventFormat


class _Formats(Mapping[str, EventFormat]):
    """The formats of a target's events, each read when it is asked for."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getitem__(self, name: str) -> EventFormat:
        try:
            return self._target.event_format(name)
        except TargetError as error:
            if name in self._target.event_names():
                raise
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._target.event_names())

    def __len__(self) -> int:
        return len(self._target.event_names())


def define(definition: str | Eprobe, target: Target) -> Definition:
    """Return what a definition (``e:GROUP/EVENT TARGET ARGS``) means for a target.

    Raises DynEventError, with the place at fault, for what is no eprobe or does not fit its parent,
    and TargetError where the target lacks what is needed to tell.
    """
    text = str(definition).replace("\n", " ")
    types = target.types if "->" in text else None
    # No ID is asked for: finding the last one would read the formats of all events.
    world = World(RULES, _Formats(target), types=types, cpus=target.cpus, last_id=0)
    verdict = judge(text, world)
    made = the_eprobe(text, verdict, world)
    assert isinstance(made.value, Eprobe)
    if types is None and "->" in text:
        raise TargetError(
            "casts need the kernel's types (BTF), which are not at hand",
            hints=("+OFFSET(POINTER) reads a member without them",),
        )
    name = made.value.target.replace(".", "/", 1)
    assert made.format is not None, "all types are known"
    own = f"{made.group}/{made.event}"
    layout = parse_format(made.format, own, target.arch.byteorder)
    return Definition(made.value, own, name, target.event_format(name), made.args, layout)
