"""Show how two objects, loaded programs or files of instructions differ."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pybpf.cli import opened, report
from pybpf.errors import PybpfError

if TYPE_CHECKING:
    from pybpf.inspect.diff import Side

SAME, DIFFERENT, TROUBLE = 0, 1, 2
"""The exit status, as that of diff(1)."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("before", metavar="A", help=opened.HELP)
    add("after", metavar="B", help="the same")
    add("--prog", metavar="NAME", help="only this program")
    add("--json", action="store_true", help="print one JSON object, with all instructions")


def main(options: argparse.Namespace) -> int:
    """Compare two; 0 where they are the same, 1 where they differ, 2 where one is unreadable."""
    from pybpf.inspect.diff import compare
    from pybpf.inspect.difftext import as_data, text

    try:
        sides = [_side(name, options.prog) for name in (options.before, options.after)]
    except PybpfError as error:
        report(error, debug=False)
        return TROUBLE
    found = compare(*sides)
    if options.json:
        import json

        print(json.dumps(as_data(found), indent=2))
    elif not found.same:
        print("\n".join(text(found)))
    return SAME if found.same else DIFFERENT


def _side(name: str, program: str | None) -> Side:
    from pybpf.inspect import diff
    from pybpf.inspect.code import Code
    from pybpf.objfile.object import Object

    found = opened.opened(name)
    if isinstance(found, Object):
        names = None if program is None else [program]
        return diff.of_object(found, opened.codes(found, names, whole=True))
    (code,) = opened.codes(found)
    if isinstance(found, Code):
        return diff.of_code(code)
    from pybpf.inspect.loaded import map_facts

    return diff.of_loaded(code, map(map_facts, found.maps))
