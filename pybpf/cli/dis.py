"""Disassemble eBPF instructions, raw or in hexadecimal."""

from __future__ import annotations

import argparse
import re

from pybpf.cli import UsageError, inputs


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="bytes; - is stdin")
    parser.add_argument("--big-endian", action="store_true", help="from a big-endian machine")


def main(options: argparse.Namespace) -> int:
    """Disassemble one file."""
    from pybpf.isa.disassembler import disassemble
    from pybpf.isa.encoding import decode

    code = from_hex(inputs.read_bytes(options.file))
    if not code:
        raise UsageError(f"{options.file} is empty")
    print(disassemble(decode(code, "big" if options.big_endian else "little")).rstrip("\n"))
    return 0


def from_hex(data: bytes) -> bytes:
    """Return bytes that were written in hexadecimal, with any white space; others as they are."""
    digits = re.sub(rb"\s|0[xX]|,", b"", data)
    if not data.isascii() or not re.fullmatch(rb"[0-9a-fA-F]*", digits) or not data.strip():
        return data
    if len(digits) % 2:
        raise UsageError("an odd number of hexadecimal digits")
    return bytes.fromhex(digits.decode())
