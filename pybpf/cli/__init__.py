"""The command line: arguments in; text on the terminal and an exit status out."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from pybpf import __version__
from pybpf.errors import KernelError, PybpfError, SourceError

_COMMANDS = {
    "run": "run a ply script on the kernel, or on recorded events",
    "ply": "the same, with the options that ply has and no others",
    "compile": "compile a ply script and print what a stage of the compiler made of it",
    "asm": "assemble eBPF text to bytes",
    "dis": "disassemble objects, loaded programs and bytes",
    "inspect": "show what is in an object or a loaded program, and what it needs",
    "diff": "show how two objects, loaded programs or files of instructions differ",
    "btf": "print the types of a kernel, a module or an object, as C or as they are",
    "verify": "judge programs as a kernel's verifier would, one or many",
    "load": "load an object into the kernel: attach its programs, read its maps",
    "exec": "run eBPF programs in the VM, one or many",
    "fuzz": "hold the parts of pybpf to each other with random programs",
    "events": "check, make, trace and remove the kernel's dynamic events",
    "list": "list the places that probes can be put on",
    "doctor": "check what this kernel and user can do, by doing it",
    "snapshot": "save what compiling depends on, for use on another machine",
}

_OPTIONS = {"help": "-h", "version": "-v"}
"""What others have as commands."""


class UsageError(PybpfError):
    """Arguments that make no sense, alone or together."""


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError, where argparse would print all there is to know and exit.

    ``elsewhere`` names a command that has more arguments.
    """

    elsewhere = ""

    def __init__(self, prog: str, description: str | None = None) -> None:
        # A given width keeps argparse from loading what finds out the terminal's (3 ms).
        layout = partial(argparse.HelpFormatter, width=80)
        super().__init__(prog=prog, description=description, formatter_class=layout)
        # Like a number, what removes a dynamic event (-:GROUP/EVENT) is no option.
        self._negative_number_matcher = re.compile(r"-\d+$|-\d*\.\d+$|-:")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        more = f"; `{self.elsewhere}` has more" if self.elsewhere else ""
        raise UsageError(f"{message}\n  hint: `{self.prog} -h` shows the arguments{more}")


def parser() -> Parser:
    """Return the parser of what may stand in place of a command."""
    top = Parser("pybpf", "An eBPF toolchain and tracer without LLVM, bcc or headers.")
    top.usage = "pybpf [-h] [-v] COMMAND ..."
    top.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=80)
    top.epilog = _table("pybpf", _COMMANDS)
    top.add_argument("-v", "--version", action="version", version=f"pybpf {__version__}")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; what goes wrong is one message on stderr."""
    # (The names of command modules, such as `list`, hide built-ins here once they are loaded.)
    arguments = _given() if arguments is None else [*arguments]
    debug = "-d" in arguments or "--debug" in arguments
    _open_standard_files()
    try:
        status = _status(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        _give_up_output()
        return 1
    except KeyboardInterrupt as end:
        return _interrupted(end)
    except PybpfError as error:
        report(error, debug=debug)
        return 1
    except OSError as error:  # a full disk, a terminal that is gone
        _give_up_output()
        print(f"error: {error.strerror or error}", file=sys.stderr)
        return 1
    except MemoryError:
        print("error: there is not enough memory for this", file=sys.stderr)
        return 1
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            # Python 3.11 makes another error of it while a class is made (__set_name__).
            return _interrupted(error.__cause__)
        if debug:
            raise
        print(f"internal error: {type(error).__name__}: {error}", file=sys.stderr)
        print("  hint: this is a bug in pybpf; -d shows where", file=sys.stderr)
        return 1
    return status


def _interrupted(end: KeyboardInterrupt) -> int:
    """Return the status of a process that a signal ends."""
    # Whoever does not read the output may be what holds us up.
    _give_up_output()
    return 128 + (end.args[0] if end.args else signal.SIGINT)


def _given() -> list[str]:
    """Return the arguments of this process; whoever calls it ply by a link means that command."""
    program, *arguments = sys.argv
    return ["ply", *arguments] if os.path.basename(program) == "ply" else arguments  # noqa: PTH119


def _open_standard_files() -> None:
    """Give a place to what is closed of standard input, output and error, lest a map takes it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            _open_nowhere()  # under this number: it is the lowest that is free
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    out = sys.stdout
    if isinstance(out, TextIOWrapper) and out.encoding.lower() not in {"utf-8", "utf8"}:
        # What the locale has no letters for is told all the same.
        out.reconfigure(errors="backslashreplace")


def _open_nowhere() -> int:
    """Open what is empty and takes all: /dev/null, or where there is none a file in memory."""
    try:
        return os.open(os.devnull, os.O_RDWR)
    except OSError:
        return os.memfd_create("null")


def _give_up_output() -> None:
    """Send what is still in the buffer of standard output nowhere, now and at exit."""
    nowhere = _open_nowhere()
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _command(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command and its arguments; raises UsageError for a command that is none."""
    if not arguments:
        raise UsageError(f"no command given: {', '.join(_COMMANDS)}\n  hint: try `pybpf -h`")
    name = arguments[0]
    if name.startswith("-"):
        parser().parse_args([name])
    if name in _COMMANDS:
        return name, arguments[1:]
    if name in _OPTIONS:
        raise UsageError(f"'{name}' is no command\n  hint: try `pybpf {_OPTIONS[name]}`")
    if any(c in name for c in ":{ "):
        raise UsageError(f"'{name}' is no command\n  hint: `pybpf run SCRIPT` runs a script")
    from pybpf.suggest import did_you_mean

    similar = did_you_mean(name, _COMMANDS)
    raise UsageError(f"'{name}' is no command{similar}\n  hint: try `pybpf -h`")


def _status(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name and return its status."""
    try:
        return _run(*_command(arguments))
    except SystemExit as end:  # argparse has printed help or the version
        return 1 if end.code else 0


def _run(command: str, arguments: Sequence[str]) -> int:
    # A command's module is loaded only when it is asked for: start-up is part of the product.
    module = import_module(f"pybpf.cli.{command}")
    title = f"pybpf {command}"
    if parts := getattr(module, "COMMANDS", None):
        aliases: Mapping[str, str] = getattr(module, "ALIASES", {})
        arguments = [aliases.get(word, word) for word in arguments[:1]] + [*arguments[1:]]
        name = _part(title, module.__doc__, parts, arguments)
        module, arguments = import_module(f"{module.__name__}.{name}"), arguments[1:]
        title += f" {name}"
    own = Parser(title, module.__doc__)
    module.declare(own)
    # A script that `#!` runs has its options behind it, and they may precede its arguments.
    status: int = module.main(own.parse_intermixed_args([*arguments]))
    return status


def _part(
    title: str, description: str | None, parts: Mapping[str, str], arguments: Sequence[str]
) -> str:
    """Return which part of a command is asked for; raises UsageError for one that is none."""
    top = Parser(title, description)
    top.usage = f"{title} [-h] COMMAND ..."
    top.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=80)
    top.epilog = _table(title, parts)
    if not arguments:
        raise UsageError(f"no command given: {', '.join(parts)}\n  hint: try `{title} -h`")
    name = arguments[0]
    if name.startswith("-"):
        top.parse_args([name])
    if name not in parts:
        from pybpf.suggest import did_you_mean

        similar = did_you_mean(name, parts)
        raise UsageError(f"'{name}' is no command{similar}\n  hint: try `{title} -h`")
    return name


def _table(title: str, commands: Mapping[str, str]) -> str:
    width = max(map(len, commands))
    return f"commands (`{title} COMMAND -h` says more):\n" + "\n".join(
        f"  {name:{width}}  {summary}" for name, summary in commands.items()
    )


def report(error: PybpfError, *, debug: bool) -> None:
    """Print an error; with ``debug`` the kernel's whole log too."""
    sys.stdout.flush()
    if isinstance(error, SourceError):
        print(printable(str(error)), file=sys.stderr)
        return
    text = error.diagnostic().render() if isinstance(error, KernelError) else f"error: {error}"
    print(printable(text), file=sys.stderr)
    if isinstance(error, KernelError) and error.log:
        if debug:
            print(printable(error.log), file=sys.stderr, end="")
        else:
            print("  hint: -d shows the kernel's whole log", file=sys.stderr)


def printable(text: str) -> str:
    """Return a message without what could upset a terminal: names in it may come from anywhere."""
    from pybpf.output.escape import escape_text

    return "".join(ch if ch.isprintable() or ch in "\n\t" else escape_text(ch) for ch in text)
