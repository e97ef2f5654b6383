"""List the dynamic events there are, whose they are, and where they are recorded."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybpf.kernel.ftrace.cleanup import Found


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="one JSON object for each")


def main(options: argparse.Namespace) -> int:
    """Print events in the order they were made, then the instances of tracers."""
    from pybpf.cli import printable
    from pybpf.kernel.ftrace.cleanup import found
    from pybpf.kernel.tracefs import open_tracefs

    show = _json if options.json else _line
    with open_tracefs() as tree:
        for one in found(tree):
            print(printable(show(one)))
    return 0


def _json(one: Found) -> str:
    from json import dumps

    return dumps(
        {
            "name": one.name,
            "definition": one.line or None,
            "owner": None if one.owner is None else one.owner.pid,
            "alive": one.alive if one.owner is not None else None,
            "enabled": [where or "top" for where in one.enabled],
        }
    )


def _line(one: Found) -> str:
    notes = []
    if one.owner is not None:
        state = "" if one.alive else ", which is dead: `pybpf events cleanup` removes it"
        notes.append(f"of pybpf, process {one.owner.pid}{state}")
    notes += [f"enabled in {f'instance {w}' if w else 'the top instance'}" for w in one.enabled]
    text = one.line.replace("\t", " ") or f"instance {one.name}"
    return f"{text}  # {'; '.join(notes)}" if notes else text
