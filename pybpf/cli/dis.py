"""Disassemble an object, a loaded program, or eBPF instructions, raw or in hexadecimal."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, opened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybpf.inspect.code import Code


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("file", nargs="?", default="-", metavar="FILE", help=opened.HELP)
    add("-S", "--source", action="store_true", help="source lines between the instructions")
    add("--prog", metavar="NAME", help="only this program, with all that it calls behind it")
    add("--bytes", action="store_true", help="show the bytes of instructions too")
    add("--arrows", action=argparse.BooleanOptionalAction, help="show where jumps lead")
    add("--json", action="store_true", help="print one JSON object")
    add("--big-endian", action="store_true", help="raw instructions of a big-endian machine")


def main(options: argparse.Namespace) -> int:
    """Disassemble one file."""
    from pybpf.inspect.code import Code

    found = opened.opened(options.file, "big" if options.big_endian else "little")
    if isinstance(found, Code) and options.prog is not None:
        raise UsageError(f"{options.file} is not an object: it has no program of a name")
    if isinstance(found, Code) and not (options.json or options.bytes or options.arrows):
        from pybpf.isa.disassembler import disassemble

        print(disassemble(found.program).rstrip("\n"))
        return 0
    codes = opened.codes(found, None if options.prog is None else [options.prog])
    if options.json:
        import json

        from pybpf.inspect.listing import as_data

        print(json.dumps({"code": [as_data(code) for code in codes]}, indent=2))
        return 0
    return _print(codes, options)


def _print(codes: Iterable[Code], options: argparse.Namespace) -> int:
    from pybpf.inspect.listing import Style, listing
    from pybpf.output.escape import escape_text

    arrows = options.arrows is not False
    style = Style(options.source, arrows, opened.plain_terminal(), options.bytes)
    section: str | None = None
    lined = False
    for code in codes:
        if section is not None:
            print()
        if code.section not in {section, ""}:
            print(f"section {escape_text(code.section)}\n")
        section = code.section
        lined = lined or bool(code.program.lines)
        print("\n".join(listing(code, style)))
    if section is None:
        print(f"{options.file} has no instructions", file=sys.stderr)
    elif options.source and not lined:
        print(f"{options.file} has no source lines: `clang -g` adds them", file=sys.stderr)
    return 0
