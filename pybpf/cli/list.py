"""List tracepoints and kernel functions, as probe specifications."""

from __future__ import annotations

import argparse
import sys

from pybpf.cli import inputs
from pybpf.errors import TargetError


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "pattern", nargs="?", default="*", metavar="GLOB",
        help="such as 'tracepoint:sched/*', 'kprobe:vfs_*' or '*read*'",
    )  # fmt: skip
    parser.add_argument("--target", metavar="FILE", help="of a snapshot, not of this machine")


def main(options: argparse.Namespace) -> int:
    """Print what matches, one a line; 1 where nothing does."""
    from pybpf.compiler.glob import matching

    target = inputs.target(options.target, {})
    names: list[str] = []
    problems: list[TargetError] = []
    for prefix, read in (("tracepoint", target.event_names), ("kprobe", target.functions)):
        if ":" in options.pattern and not prefix.startswith(options.pattern.split(":")[0]):
            continue
        try:
            names += (f"{prefix}:{name}" for name in read())
        except TargetError as error:
            problems.append(error)
    pattern = options.pattern
    if ":" in pattern:
        head, _, tail = pattern.partition(":")
        found = [n for n in matching(f"*:{tail}", names) if n.startswith(head)]
    else:
        found = matching(f"*:{pattern}", names)
    for name in found:
        print(name)
    if problems and not names:
        raise problems[0]
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if not found:
        print(f"nothing matches '{pattern}'", file=sys.stderr)
    return 0 if found else 1
