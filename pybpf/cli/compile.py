"""Compile a ply script to an object file, or print what a stage of the compiler made of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs

if TYPE_CHECKING:
    from pybpf.script import CompiledScript
    from pybpf.target.target import Target

_STAGES = ("tokens", "ast", "types", "ir", "alloc", "asm")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "script", nargs="?", metavar="SCRIPT-or-FILE", help="the script, or a file with it"
    )
    parser.add_argument("arguments", nargs="*", metavar="ARG", help="what $1, $2 … stand for")
    parser.add_argument("-d", "--dump", choices=_STAGES, help="the stage (asm)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write an object that `run` takes")
    parser.add_argument("--target", metavar="FILE", help="compile for a snapshot, not this machine")
    inputs.declare_sizes(parser)
    parser.add_argument("--no-verify", action="store_true", help="do not ask the verifier's model")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell what the model says")


def main(options: argparse.Namespace) -> int:
    """Print the dump of a stage; of bytecode, say then whether the target's kernel would take it.

    In this order, since it takes as long to load the verifier's model as to compile.
    """
    if options.output is not None:
        return _write(options)
    from pybpf.compiler.dump import dump, programs
    from pybpf.compiler.pipeline import compile_script

    source = inputs.script(options.script)
    target = inputs.target(options.target, inputs.environment(options.arguments))
    sizes = inputs.sizes(options)
    if options.dump not in {None, _STAGES[-1]}:
        print(dump(source, target, options.dump, sizes), end="")
        return 0
    script = compile_script(source, target, sizes)
    print(programs(script), end="")
    return _judge(options, script, target)


def _write(options: argparse.Namespace) -> int:
    """Write an object file, unless the target's kernel would not take what is in it."""
    from pybpf.compiler.pipeline import compile_ahead
    from pybpf.objfile.pack import pack

    if options.dump is not None:
        raise UsageError("-d prints a stage, -o writes an object: one or the other")
    source = inputs.script(options.script)
    given = {str(i): a for i, a in enumerate(options.arguments, start=1)}
    target = inputs.target(options.target, given)
    script, needs = compile_ahead(source, target, inputs.sizes(options))
    status = _judge(options, script, target)
    if status == 0:
        inputs.write_bytes(options.output, pack(script, needs))
    return status


def _judge(options: argparse.Namespace, script: CompiledScript, target: Target) -> int:
    if options.no_verify:
        return 0
    from pybpf.cli.checked import check

    return check(script, target, verbose=options.verbose)
