"""Print types: of the kernel, of a module, or of a file with BTF, as a C header or as they are."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from pybpf.cli import UsageError
from pybpf.errors import BtfError, ObjectError
from pybpf.target.kernel_types import LIVE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybpf.btf.reader import Btf

_FOLDER, _OWN = os.path.split(LIVE)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("source", metavar="FILE|live|MODULE",
        help="an ELF file or a raw BTF; the running kernel; one of its modules")  # fmt: skip
    add("--format", choices=("c", "raw", "json"), default="c",
        help="a header (c, the default), a line or JSON for each type")  # fmt: skip
    add("--type", action="append", metavar="NAME",
        help="only what has this name; in C with all that it needs")  # fmt: skip
    add("--base", metavar="FILE", help="what FILE goes on from, as a module's BTF does")


def main(options: argparse.Namespace) -> int:
    """Print the types of one file."""
    path, base = _paths(options.source, options.base)
    btf = _opened(path, None if base is None else _opened(base))
    numbers = None if options.type is None else _named(btf, options.type)
    try:
        _print(btf, numbers, options)
    except BtfError as error:  # what is no type was refused before: this is one that cannot be
        raise ObjectError(path, error.reason, section=".BTF", offset=error.offset) from None
    return 0


def _print(btf: Btf, numbers: list[int] | None, options: argparse.Namespace) -> None:
    if options.format == "c":
        from pybpf.btf.cdump import dump

        sys.stdout.write(dump(btf, numbers))
        return
    from pybpf.btf.listing import facts, lines

    rows: Iterable[str] = lines(btf, numbers)
    if options.format == "json":
        import json

        rows = (json.dumps(fact) for fact in facts(btf, numbers))
    # A kernel's are 300,000: print() would take as long as it takes to make them.
    sys.stdout.writelines(f"{row}\n" for row in rows)


def _paths(source: str, base: str | None) -> tuple[str, str | None]:
    """Return the files of the types that an argument names, and of their base; else UsageError."""
    if os.path.lexists(source):
        return source, base
    name = _OWN if source == "live" else source
    path = os.path.join(_FOLDER, name)  # noqa: PTH118
    if name and "/" not in name and os.path.exists(path):  # noqa: PTH110 - pathlib loads slowly
        return path, base or (None if name == _OWN else LIVE)
    if source == "live":
        raise UsageError("this kernel does not tell its types (CONFIG_DEBUG_INFO_BTF)")
    raise UsageError(f"there is no file '{source}', and no such module with types")


def _opened(path: str, base: Btf | None = None) -> Btf:
    """Return the BTF in a file; raises UsageError, ObjectError."""
    from pybpf.btf.source import read_btf

    try:
        return read_btf(path, base)
    except OSError as error:
        raise UsageError(f"cannot read {path or repr(path)}: {error.strerror}") from None


def _named(btf: Btf, names: list[str]) -> list[int]:
    """Return the numbers of all that has one of the names; raises UsageError for one of nothing."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for number in range(1, len(btf)):
        name = btf.name(number)
        if name in found:
            found[name].append(number)
    for name, numbers in found.items():
        if not numbers:
            from pybpf.suggest import did_you_mean

            every = {btf.name(number) for number in range(1, len(btf))}
            raise UsageError(f"no type is called '{name}'{did_you_mean(name, every)}")
    return [number for numbers in found.values() for number in numbers]
