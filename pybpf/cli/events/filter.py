"""Show or set the filter of an event: one that is refused leaves the one that was set.

The kernel itself drops it, and the event is recorded unfiltered.
"""

from __future__ import annotations

import argparse

from pybpf.cli import inputs


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("event", type=inputs.event, metavar="SYS/EVENT", help="such as sched/sched_switch")
    add("filter", nargs="?", metavar="EXPR", help="'prev_pid == 0 && next_comm ~ \"a*\"'; 0 clears")
    add("--instance", default="", metavar="NAME", help="of that instance, not the top one")


def main(options: argparse.Namespace) -> int:
    """Print the filter, or set it."""
    from pybpf.cli import printable
    from pybpf.cli.events.tracing import warn
    from pybpf.errors import TargetError
    from pybpf.kernel.ftrace.instance import Instance, instances
    from pybpf.kernel.ftrace.trace import require_event
    from pybpf.kernel.ftrace.world import live_world
    from pybpf.kernel.tracefs import open_tracefs
    from pybpf.suggest import did_you_mean

    with open_tracefs() as tree:
        if options.instance and options.instance not in (there := instances(tree)):
            similar = did_you_mean(options.instance, there)
            raise TargetError(f"there is no instance {options.instance}{similar}")
        chosen, world = Instance(tree, options.instance), live_world(tree)
        require_event(options.event, world)
        if options.filter is None:
            print(printable(chosen.read(f"events/{options.event}/filter").rstrip("\n")))
        else:
            warn(chosen.set_filter(options.event, options.filter, world))
    return 0
