"""What is in tracefs and whose it is: a listing out; and what dead processes left, removed."""

from __future__ import annotations

from collections.abc import Iterable

from pybpf.dataclass import dataclass
from pybpf.errors import KernelError
from pybpf.kernel.ftrace.dynevents import remove
from pybpf.kernel.ftrace.instance import Instance, enabled_in, instances, remove_instance
from pybpf.kernel.ftrace.owner import Owner, alive, owner_of
from pybpf.kernel.ftrace.world import listed
from pybpf.kernel.tracefs import Tree


@dataclass(frozen=True, slots=True)
class Found:
    """A dynamic event as it is listed, or an instance (``line`` is empty) that carries an owner.

    ``enabled`` are the instances that record it, the empty name the top one.
    """

    name: str
    line: str = ""
    owner: Owner | None = None
    alive: bool = False
    enabled: tuple[str, ...] = ()


def found(tree: Tree) -> list[Found]:
    """Return the dynamic events of anybody, in the order they were made, and our instances."""
    events = []
    for line in listed(tree):
        name = line.split(maxsplit=1)[0].partition(":")[2]
        owner = _owner(name)
        is_alive = owner is not None and alive(owner)
        events.append(Found(name, line, owner, is_alive, tuple(enabled_in(tree, name))))
    owned = ((name, owner_of(name)) for name in instances(tree))
    return events + [Found(name, "", owner, alive(owner)) for name, owner in owned if owner]


def _owner(name: str) -> Owner | None:
    group, _, event = name.partition("/")
    return owner_of(event if group == "synthetic" else group)


def cleanup(tree: Tree) -> tuple[list[str], list[KernelError]]:
    """Remove what processes left that are no more, and nothing else.

    Returns the names of what is gone, and why other things of theirs are not.
    """
    dead = [one for one in found(tree) if one.owner is not None and not one.alive]
    gone: list[str] = []
    failures: list[KernelError] = []
    for one in dead:
        if not one.line:
            left = Instance(tree, one.name)
            try:
                left.clear()
                remove_instance(left)
            except KernelError as error:
                if one.name in instances(tree):
                    failures.append(error)
                    continue
            gone.append(f"instances/{one.name}")
    events, errors = remove_all(tree, [one.name for one in dead if one.line])
    return gone + events, failures + errors


def remove_all(tree: Tree, names: Iterable[str]) -> tuple[list[str], list[KernelError]]:
    """Remove events, the last first, again and again as long as that makes others free."""
    gone: list[str] = []
    left = list(dict.fromkeys(names))[::-1]
    while True:
        failures, busy = [], []
        for name in left:
            try:
                remove(tree, name)
            except KernelError as error:
                failures.append(error)
                busy.append(name)
            else:
                gone.append(name)
        if not busy or len(busy) == len(left):
            return gone, failures
        left = busy
