"""The command line: arguments in; text on the terminal and an exit status out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from pybpf import __version__
from pybpf.errors import KernelError, PybpfError, SourceError

_COMMANDS = {
    "run": "run a ply script on the kernel, or on recorded events",
    "compile": "compile a ply script and print what a stage of the compiler made of it",
    "asm": "assemble eBPF text to bytes",
    "dis": "disassemble eBPF bytes",
    "list": "list the places that probes can be put on",
    "snapshot": "save what compiling depends on, for use on another machine",
}


class UsageError(PybpfError):
    """Arguments that make no sense together."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command declares its own arguments."""
    top = argparse.ArgumentParser(
        prog="pybpf", description="An eBPF toolchain and tracer without LLVM, bcc or headers."
    )
    top.add_argument("-v", "--version", action="version", version=f"pybpf {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        commands.add_parser(name, help=summary, description=summary, add_help=False)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; what goes wrong is one message on stderr."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    debug = "-d" in arguments or "--debug" in arguments
    try:
        command, rest = _command(arguments)
        status = _run(command, rest)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing more may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except PybpfError as error:
        report(error, debug=debug)
        return 1
    except SystemExit as end:
        # argparse ends with 2 for a wrong command line; ply's users expect 1.
        return 1 if end.code else 0
    except Exception as error:
        if debug:
            raise
        print(f"internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("  hint: this is a bug in pybpf; -d shows where", file=sys.stderr)
        return 1
    return status


def _command(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    if arguments and arguments[0] in _COMMANDS:
        return arguments[0], arguments[1:]
    parser().parse_args([*arguments])
    raise UsageError("no command given")


def _run(command: str, arguments: Sequence[str]) -> int:
    # A command's module is loaded only when it is asked for: start-up is part of the product.
    module = import_module(f"pybpf.cli.{command}")
    own = argparse.ArgumentParser(prog=f"pybpf {command}", description=module.__doc__)
    module.declare(own)
    # A script that `#!` runs has its options behind it, and they may precede its arguments.
    status: int = module.main(own.parse_intermixed_args([*arguments]))
    return status


def report(error: PybpfError, *, debug: bool) -> None:
    """Print an error; with ``debug`` the kernel's whole log too."""
    if isinstance(error, SourceError):
        print(error, file=sys.stderr)
        return
    print(f"error: {error}", file=sys.stderr)
    if isinstance(error, KernelError) and error.log:
        if debug:
            print(error.log, file=sys.stderr, end="")
        else:
            print("  hint: -d shows the kernel's whole log", file=sys.stderr)
