"""Assemble eBPF text to raw instructions: hexadecimal on a terminal, bytes elsewhere."""

from __future__ import annotations

import argparse
import sys

from pybpf.cli import UsageError, inputs


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="text; - is stdin")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the bytes to a file")
    parser.add_argument("--hex", action="store_true", help="print hexadecimal, one insn a line")
    parser.add_argument("--big-endian", action="store_true", help="for a big-endian machine")


def main(options: argparse.Namespace) -> int:
    """Assemble one file."""
    from pybpf.isa.assembler import assemble
    from pybpf.isa.encoding import encode

    source = inputs.read_text(options.file)
    code = encode(assemble(source.text, source.name), "big" if options.big_endian else "little")
    if not code:
        raise UsageError(f"{source.name} holds no instruction")
    if options.output:
        from pathlib import Path

        try:
            Path(options.output).write_bytes(code)
        except OSError as error:
            raise UsageError(f"cannot write {options.output}: {error.strerror}") from None
    elif options.hex or sys.stdout.isatty():
        for at in range(0, len(code), 8):
            print(code[at : at + 8].hex(" "))
    else:
        sys.stdout.buffer.write(code)
    return 0
