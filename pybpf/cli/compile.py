"""Compile a ply script and print what a stage of the compiler made of it."""

from __future__ import annotations

import argparse

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
    parser.add_argument("--no-verify", action="store_true", help="do not ask the verifier's model")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell what the model says")


def main(options: argparse.Namespace) -> int:
    """Print the dump of a stage; of bytecode, say then whether the target's kernel would take it.

    In this order, since it takes as long to load the verifier's model as to compile.
    """
    from pybpf.compiler.dump import dump, programs
    from pybpf.compiler.pipeline import compile_script

    source = inputs.script(options.script)
    target = inputs.target(options.target, inputs.environment(options.arguments))
    if options.dump != _STAGES[-1]:
        print(dump(source, target, options.dump), end="")
        return 0
    script = compile_script(source, target)
    print(programs(script), end="")
    if options.no_verify:
        return 0
    from pybpf.cli.checked import check

    return check(script, target, verbose=options.verbose)
