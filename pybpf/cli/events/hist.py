"""Count hits of an event by key, in the kernel, and print the histogram at the end."""

from __future__ import annotations

import argparse

from pybpf.cli import inputs


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from pybpf.cli.events.tracing import declare_run

    add = parser.add_argument
    add("event", type=inputs.event, metavar="SYS/EVENT", help="such as syscalls/sys_enter_read")
    add("hist", metavar="KEYS", help="such as 'keys=common_pid.execname:vals=count if fd == 3'")
    add(
        "-d", "--define", action="append", metavar="DEF", default=[],
        help="a dynamic event, perhaps the one that is counted",
    )  # fmt: skip
    declare_run(parser)


def main(options: argparse.Namespace) -> int:
    """Set the trigger, wait for the end, and print."""
    from pybpf.cli.events.tracing import run

    keys = options.hist.removeprefix("hist:")
    if "=" not in keys.partition(" ")[0]:
        keys = f"keys={keys}"
    return run([*options.define, f"{options.event} hist:{keys}"], options)
