"""List tracepoints and kernel functions, as probe specifications."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from pybpf.cli import UsageError, inputs
from pybpf.errors import TargetError
from pybpf.script import Provider
from pybpf.target.target import Target


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
    problems: list[TargetError] = []
    found: list[str] = []
    providers, where = _split(options.pattern)
    for provider in providers:
        try:
            names = _reader(provider, target, live=options.target is None)()
        except TargetError as error:
            problems.append(error)
        else:
            found += (f"{provider}:{name}" for name in matching(where, names))
    for line in found:
        print(line)
    if len(problems) == len(providers):
        raise problems[0]
    sys.stdout.flush()
    # Whoever looks for a name and finds it does not miss the other kind of places.
    for problem in [] if found and options.pattern != "*" else problems:
        print(f"warning: {problem}", file=sys.stderr)
    if not found:
        print(f"nothing matches '{options.pattern}'", file=sys.stderr)
    return 0 if found else 1


def _split(pattern: str) -> tuple[list[Provider], str]:
    """Return the providers that a pattern is about, and the pattern for their places."""
    from pybpf.compiler.providers import find

    name, colon, where = pattern.partition(":")
    if not colon:
        return [Provider.TRACEPOINT, Provider.KPROBE], pattern
    row = find(name)
    listed = {Provider.TRACEPOINT, Provider.KPROBE, Provider.KRETPROBE}
    if row is None or row.provider not in listed:
        raise UsageError(
            f"there is nothing to list of '{name}'\n"
            f"  hint: there are places for {', '.join(sorted(listed))}"
        )
    return [row.provider], where or "*"


def _reader(provider: Provider, target: Target, *, live: bool) -> Callable[[], Sequence[str]]:
    """Return what reads the names of all places; raises TargetError."""
    if provider is Provider.TRACEPOINT:
        return target.event_names
    if live:
        from pybpf.kernel.refusal import why_no_kprobes

        if reason := why_no_kprobes():
            raise TargetError(reason)
    return target.functions
