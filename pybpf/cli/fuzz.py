"""Hold the parts of pybpf to each other and to kernels by random programs; keep what fails."""

from __future__ import annotations

import argparse
import sys
import time
from errno import EACCES
from typing import TYPE_CHECKING

from pybpf.cli import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from pybpf.testing.loops import Loop

_MINUTES = 1e9
_NAMES = ("text", "modes", "values", "model", "runs")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("--minutes", type=float, default=1.0, metavar="N", help="how long (1)")
    add("--seed", type=int, metavar="N", help="which programs; chosen and printed unless given")
    add("--corpus", default="fuzz", metavar="DIR",
        help="programs to begin with, and what is found (fuzz)")  # fmt: skip
    add("--kernel", default="6.12", metavar="K", help="the model's kernel, and the guest's (6.12)")
    add("--loops", default=",".join(_NAMES), metavar="LIST", help=f"of {', '.join(_NAMES)}")


def main(options: argparse.Namespace) -> int:
    """Fuzz; the exit status is 1 where something was found."""
    from pybpf.testing.fuzzing import Fuzzer

    if not 0 < options.minutes < _MINUTES:
        raise UsageError("--minutes takes a number above 0")
    folder = _folder(options.corpus)
    seed = options.seed
    if seed is None:
        import secrets

        seed = secrets.randbelow(1 << 32)
    loops = _loops(options)
    say, show = _printers()
    say(f"seed {seed}, Linux {options.kernel}; loops: {', '.join(loop.name for loop in loops)}")
    fuzzer = Fuzzer(loops, options.kernel, seed, folder, say, show)
    try:
        fuzzer.run(60 * options.minutes)
    except KeyboardInterrupt:
        say("interrupted")
    say(fuzzer.progress())
    if fuzzer.again:
        say(f"{fuzzer.again} more programs failed as those found did")
    return 1 if fuzzer.found else 0


def _folder(name: str) -> Path:
    """Return the folder of the corpus, made if need be; raises UsageError where none can be kept.

    That is asked before hours are spent on what could not be written down.
    """
    import os
    from pathlib import Path

    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot write to {name}: {why}") from None
    return folder


def _loops(options: argparse.Namespace) -> list[Loop]:
    from pybpf.suggest import did_you_mean
    from pybpf.target.profile import profile
    from pybpf.testing.loops import loops
    from pybpf.testing.oracles import guest_problem

    profile(options.kernel)  # whether there is one
    wanted = options.loops.split(",")
    for name in wanted:
        if name not in _NAMES:
            raise UsageError(f"there is no loop '{name}'{did_you_mean(name, _NAMES)}")
    found = [loop for loop in loops(options.kernel) if loop.name in wanted]
    problem = guest_problem(options.kernel)
    left_out = [loop for loop in found if loop.guest and problem]
    for loop in left_out:
        print(f"left out: {loop.name} ({loop.about}): {problem}", file=sys.stderr)
    kept = [loop for loop in found if loop not in left_out]
    if not kept:
        raise UsageError("no loop is left")
    return kept


def _printers() -> tuple[Printer, Printer]:
    """Return what prints a line, and what shows one that the next takes the place of."""
    terminal = sys.stderr.isatty()
    next_time = [0.0]

    def say(text: str) -> None:
        if terminal:
            print("\r\x1b[K", end="", file=sys.stderr)
        print(text, file=sys.stderr, flush=True)

    def show(text: str) -> None:
        if time.monotonic() < next_time[0]:
            return
        if terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
        next_time[0] = time.monotonic() + (0.2 if terminal else 10)

    return say, show


if TYPE_CHECKING:
    from collections.abc import Callable

    Printer = Callable[[str], None]
