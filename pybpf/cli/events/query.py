"""Answer a query in SQL: about one event as a histogram, about two as records of what matches.

SELECT start.pid AS pid, TIMESTAMP_DELTA_USECS AS lat FROM sched_waking AS start
JOIN sched_switch AS end ON start.pid = end.next_pid WHERE start.prio < 100
"""

from __future__ import annotations

import argparse


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from pybpf.cli.events.tracing import declare_run

    add = parser.add_argument
    add("query", metavar="QUERY", help="SELECT … FROM a AS x JOIN b AS y ON … WHERE …")
    add(
        "-d", "--define", action="append", metavar="DEF", default=[],
        help="a dynamic event that the query names",
    )  # fmt: skip
    add("--explain", action="store_true", help="print plain commands that do it, and do nothing")
    declare_run(parser)


def main(options: argparse.Namespace) -> int:
    """Print the plan, or record and print."""
    from pybpf.kernel.ftrace.trace import query_lines

    plan, lines = query_lines(options.query, options.define)
    if options.explain:
        for command in plan.commands():
            print(command)
        print("# and to take it away again:")
        for command in plan.teardown():
            print(command)
        return 0
    from pybpf.cli.events.tracing import run

    return run(lines, options)
