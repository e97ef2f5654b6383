"""Remove dynamic events by their names, what others are made of last."""

from __future__ import annotations

import argparse
import errno
import re
import sys

from pybpf.cli import UsageError


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("events", nargs="+", metavar="GROUP/EVENT", help="as `list` shows them")


def main(options: argparse.Namespace) -> int:
    """Remove all of them, or none where one is not there, or in use."""
    from pybpf.cli import report
    from pybpf.errors import KernelError, TargetError
    from pybpf.kernel.ftrace.cleanup import found, remove_all
    from pybpf.kernel.ftrace.dynevents import users
    from pybpf.kernel.ftrace.instance import Instance
    from pybpf.kernel.tracefs import open_tracefs
    from pybpf.output.text import counted
    from pybpf.suggest import did_you_mean

    if wrong := [name for name in options.events if not re.fullmatch(r"[^/\s]+/[^/\s]+", name)]:
        raise UsageError(f"'{wrong[0]}' is no GROUP/EVENT\n  hint: without a group, all match")
    with open_tracefs() as tree:
        known = [one.name for one in found(tree) if one.line]
        for name in options.events:
            if name not in known:
                raise TargetError(f"there is no dynamic event {name}{did_you_mean(name, known)}")
        order = [name for name in known if name in options.events]
        for name in order:
            if hints := tuple(users(tree, name, but=order)):
                raise KernelError(errno.EBUSY, f"cannot remove {name}", hints=hints)
        if waiting := Instance(tree).waiting():
            print(
                f"warning: {counted(waiting, 'record')} in the top instance: they are gone if one "
                "of these events was ever enabled there",
                file=sys.stderr,
            )
        _, failures = remove_all(tree, order)
    for error in failures:
        report(error, debug=False)
    return int(bool(failures))
