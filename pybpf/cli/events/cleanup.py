"""Remove the events and instances of tracers that were killed, and nothing else."""

from __future__ import annotations

import argparse


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: there are none."""
    parser.set_defaults()


def main(options: argparse.Namespace) -> int:
    """Print what is removed; 1 where something of theirs is in use by others."""
    from pybpf.cli import report
    from pybpf.kernel.ftrace.cleanup import cleanup
    from pybpf.kernel.tracefs import open_tracefs

    del options
    with open_tracefs() as tree:
        gone, failures = cleanup(tree)
    for name in gone:
        print(f"removed {name}")
    for error in failures:
        report(error, debug=False)
    return int(bool(failures))
