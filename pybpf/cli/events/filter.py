"""Show or set the filter of an event: one that is refused leaves the one that was set.

The kernel itself drops it, and the event is recorded unfiltered.
"""

from __future__ import annotations

import argparse


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("event", metavar="SYS/EVENT", help="such as sched/sched_switch")
    add("filter", nargs="?", metavar="EXPR", help="'prev_pid == 0 && next_comm ~ \"a*\"'; 0 clears")
    add("--instance", default="", metavar="NAME", help="of that instance, not the top one")


def main(options: argparse.Namespace) -> int:
    """Print the filter, or set it."""
    from pybpf.cli import printable
    from pybpf.cli.events.tracing import warn
    from pybpf.kernel.ftrace.instance import Instance
    from pybpf.kernel.ftrace.world import live_world
    from pybpf.kernel.tracefs import open_tracefs

    event = options.event.replace(".", "/", 1)
    with open_tracefs() as tree:
        chosen = Instance(tree, options.instance)
        if options.filter is None:
            print(printable(chosen.read(f"events/{event}/filter").rstrip("\n")))
        else:
            warn(chosen.set_filter(event, options.filter, live_world(tree)))
    return 0
