"""Save what compiling depends on (formats, symbols, features) for use on another machine."""

from __future__ import annotations

import argparse


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="such as host.tar.gz")


def main(options: argparse.Namespace) -> int:
    """Write the snapshot of this machine."""
    from pybpf.kernel.live import LiveTarget
    from pybpf.target.snapshot import write_snapshot

    write_snapshot(LiveTarget(), options.output)
    return 0
