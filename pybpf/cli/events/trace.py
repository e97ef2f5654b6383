"""Record events, those defined here for as long as it takes, and print them as they happen.

What is not used by another line is recorded: no eprobe is on it, no trigger. All that is made has
names of its own, and is removed at the end.
"""

from __future__ import annotations

import argparse

from pybpf.cli.events.programs import chosen, declare_backend, is_eprobe, run_eprobes


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from pybpf.cli.events.tracing import declare_run

    parser.add_argument(
        "lines", nargs="*", metavar="DEF-or-EVENT",
        help="'e:g/x sched.sched_switch p=$prev_pid:u32', 'sched/sched_waking if pid == 7', "
        "'syscalls/sys_enter_read hist:keys=fd'",
    )  # fmt: skip
    parser.add_argument("-f", "--file", metavar="FILE", help="a file with more of them, one a line")
    declare_run(parser)
    declare_backend(parser)


def main(options: argparse.Namespace) -> int:
    """Record and print."""
    from pybpf.cli.events.tracing import lines_of, run

    lines = lines_of(options)
    return chosen(
        options,
        lambda: run(lines, options),
        lambda: run_eprobes(lines, options),
        able=all(map(is_eprobe, lines)),
    )
