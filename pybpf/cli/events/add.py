"""Make dynamic events that stay when this command ends: all of them or none."""

from __future__ import annotations

import argparse


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("definitions", nargs="+", metavar="DEF", help="as for `check`")


def main(options: argparse.Namespace) -> int:
    """Make them, and print how each is listed."""
    from pybpf.cli import printable
    from pybpf.cli.events.tracing import warn
    from pybpf.kernel.ftrace.dynevents import add

    for made in add(options.definitions):
        print(printable(made.event.listed))
        warn(made.warnings)
    return 0
