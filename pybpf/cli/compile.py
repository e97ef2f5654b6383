"""Compile a ply script and print what a stage of the compiler made of it."""

from __future__ import annotations

import argparse
import os

from pybpf.cli import inputs

_STAGES = ("tokens", "ast", "types", "ir", "alloc", "asm")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "script", nargs="?", metavar="SCRIPT-or-FILE", help="the script, or a file with it"
    )
    parser.add_argument("arguments", nargs="*", metavar="ARG", help="what $1, $2 … stand for")
    parser.add_argument("-d", "--dump", choices=_STAGES, default="asm", help="the stage (asm)")
    parser.add_argument("--target", metavar="FILE", help="compile for a snapshot, not this machine")


def main(options: argparse.Namespace) -> int:
    """Print the dump of a stage."""
    from pybpf.compiler.dump import dump

    source = inputs.script(options.script)
    environment = {str(i): a for i, a in enumerate(options.arguments, start=1)}
    environment.setdefault("target", os.environ.get("target", "0"))  # noqa: SIM112 - ply's name
    print(dump(source, inputs.target(options.target, environment), options.dump), end="")
    return 0
