"""Remove dynamic events by their names, what others are made of last."""

from __future__ import annotations

import argparse
import re

from pybpf.cli import UsageError


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("events", nargs="+", metavar="GROUP/EVENT", help="as `list` shows them")


def main(options: argparse.Namespace) -> int:
    """Remove them; 1 where one is not there, or in use."""
    from pybpf.cli import report
    from pybpf.errors import TargetError
    from pybpf.kernel.ftrace.cleanup import found, remove_all
    from pybpf.kernel.tracefs import open_tracefs
    from pybpf.suggest import did_you_mean

    if wrong := [name for name in options.events if not re.fullmatch(r"[^/\s]+/[^/\s]+", name)]:
        raise UsageError(f"'{wrong[0]}' is no GROUP/EVENT\n  hint: without a group, all match")
    with open_tracefs() as tree:
        known = [one.name for one in found(tree) if one.line]
        for name in options.events:
            if name not in known:
                raise TargetError(f"there is no dynamic event {name}{did_you_mean(name, known)}")
        order = [name for name in known if name in options.events]
        _, failures = remove_all(tree, order)
    for error in failures:
        report(error, debug=False)
    return int(bool(failures))
