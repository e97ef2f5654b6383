"""Print what strings a system call was given, read when it returns.

When a system call begins its strings may not be in memory yet, and cannot be read: `(fault)`. This
keeps their address until it returns, as the third example of the kernel's documentation does.
"""

from __future__ import annotations

import argparse
import re

from pybpf.cli import UsageError
from pybpf.cli.events.programs import chosen, declare_backend, run_strings

_CALL = re.compile(r"(?:syscalls[/.])?(?:sys_enter_)?(\w+)", re.ASCII)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from pybpf.cli.events.tracing import declare_run

    add = parser.add_argument
    add("call", metavar="SYSCALL", help="such as openat")
    add("fields", nargs="+", metavar="FIELD", help="arguments of it, such as filename")
    declare_run(parser)
    declare_backend(parser)


def main(options: argparse.Namespace) -> int:
    """Record and print."""
    if options.call.startswith("raw_syscalls"):
        return run_strings(options.call, options.fields, options)
    return chosen(
        options,
        lambda: _by_tracefs(options),
        lambda: run_strings(options.call, options.fields, options),
    )


def _by_tracefs(options: argparse.Namespace) -> int:
    from pybpf.cli.events.tracing import run
    from pybpf.kernel.ftrace.trace import query_lines

    match = _CALL.fullmatch(options.call)
    if match is None or not all(re.fullmatch(r"\w+", field) for field in options.fields):
        raise UsageError("a system call and its arguments are words, such as openat filename")
    chosen = ", ".join(f"USTRING(start.{field}) AS {field}" for field in options.fields)
    start, end = (f"syscalls.sys_{moment}_{match[1]}" for moment in ("enter", "exit"))
    query = f"SELECT {chosen} FROM {start} AS start JOIN {end} AS end"  # noqa: S608 - no database
    _, lines = query_lines(f"{query} ON start.common_pid = end.common_pid", name=match[1])
    return run(lines, options)
