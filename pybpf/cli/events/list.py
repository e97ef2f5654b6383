"""List the dynamic events there are: whose they are, where they are recorded, and who uses them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybpf.kernel.ftrace.cleanup import Found
    from pybpf.kernel.tracefs import Tree


@dataclass(frozen=True, slots=True)
class _Uses:
    """What is set on an event, by instance, and the event probes that are on it."""

    filters: Mapping[str, str]
    triggers: Mapping[str, list[str]]
    users: tuple[str, ...]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="one JSON object for each")


def main(options: argparse.Namespace) -> int:
    """Print events in the order they were made, then the instances of tracers."""
    from pybpf.cli import printable
    from pybpf.kernel.ftrace.cleanup import found
    from pybpf.kernel.ftrace.world import listed
    from pybpf.kernel.tracefs import open_tracefs

    show = _json if options.json else _line
    with open_tracefs() as tree:
        lines = listed(tree)
        for one in found(tree):
            print(printable(show(one, _uses(tree, lines, one))))
    return 0


def _uses(tree: Tree, lines: list[str], one: Found) -> _Uses:
    from pybpf.kernel.ftrace.dynevents import attached
    from pybpf.kernel.ftrace.instance import filters_in, triggers_in

    if not one.line:
        return _Uses({}, {}, ())
    return _Uses(
        filters_in(tree, one.name), triggers_in(tree, one.name), tuple(attached(lines, one.name))
    )


def _json(one: Found, uses: _Uses) -> str:
    from json import dumps

    return dumps(
        {
            "name": one.name,
            "definition": one.line or None,
            "owner": None if one.owner is None else one.owner.pid,
            "alive": one.alive if one.owner is not None else None,
            "enabled": [where or "top" for where in one.enabled],
            "filters": {where or "top": text for where, text in uses.filters.items()},
            "triggers": {where or "top": lines for where, lines in uses.triggers.items()},
            "users": list(uses.users),
        }
    )


def _line(one: Found, uses: _Uses) -> str:
    from pybpf.kernel.ftrace.instance import shown_instance

    notes = []
    if one.owner is not None:
        state = "" if one.alive else ", which is dead: `pybpf events cleanup` removes it"
        notes.append(f"of pybpf, process {one.owner.pid}{state}")
    notes += [f"enabled in {shown_instance(where)}" for where in one.enabled]
    for where, text in uses.filters.items():
        notes.append(f"filter in {shown_instance(where)}: {text}")
    for where, lines in uses.triggers.items():
        notes += [f"trigger in {shown_instance(where)}: {line}" for line in lines]
    notes += [f"used by {user}" for user in uses.users]
    text = one.line.replace("\t", " ") or f"instance {one.name}"
    return f"{text}  # {'; '.join(notes)}" if notes else text
