"""Assemble eBPF text: to an object file, to raw instructions, or to a listing."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs

if TYPE_CHECKING:
    from pybpf.assembly.unit import Unit

_FORMATS = ("bin", "hex", "c", "object")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="text; - is stdin")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write to a file; an object if its name ends in .o")  # fmt: skip
    parser.add_argument("-f", "--format", choices=_FORMATS,
                        help="raw instructions, hexadecimal, a C array, an ELF object")  # fmt: skip
    parser.add_argument("--hex", action="store_const", const="hex", dest="format",
                        help="print hexadecimal, one insn a line")  # fmt: skip
    parser.add_argument("-l", "--listing", action="store_true",
                        help="print bytes beside the text")  # fmt: skip
    parser.add_argument("-p", "--prog", metavar="NAME",
                        help="the program, of several, for all but objects")  # fmt: skip
    parser.add_argument("--big-endian", action="store_true", help="for a big-endian machine")


def main(options: argparse.Namespace) -> int:
    """Assemble one file."""
    from pybpf.assembly.read import read

    data = inputs.read_bytes(options.file)
    if data.startswith(inputs.ELF):
        raise UsageError(
            f"{options.file} is an object file, and no text\n"
            "  hint: `pybpf dis` shows what it holds"
        )
    source = inputs.as_text(options.file, data)
    unit = read(source.text, source.name, "big" if options.big_endian else "little")
    for warning in unit.warnings:
        print(warning.render(), file=sys.stderr)
    wanted = _format(options)
    if wanted != "object" and not any(function.program.insns for function in unit.functions):
        raise UsageError(f"{source.name} holds no instruction")
    if options.listing:
        from pybpf.assembly.listing import listing

        for line in listing(unit):
            print(line)
        if not options.output:
            return 0
    _write(_content(unit, wanted, options.prog), options.output)
    return 0


def _format(options: argparse.Namespace) -> str:
    if options.format:
        return str(options.format)
    if options.output:
        return "object" if options.output.endswith(".o") else "bin"
    return "hex" if sys.stdout.isatty() else "bin"


def _content(unit: Unit, wanted: str, prog: str | None) -> bytes:
    if wanted == "object":
        from pybpf.assembly.objects import write

        return write(unit)
    name, code = _program(unit, prog)
    if wanted == "bin":
        return code
    rows = [code[at : at + 8] for at in range(0, len(code), 8)]
    if wanted == "hex":
        return "".join(f"{row.hex(' ')}\n" for row in rows).encode()
    lines = "".join(f"\t{', '.join(f'{byte:#04x}' for byte in row)},\n" for row in rows)
    return f"static const unsigned char {name}[] = {{\n{lines}}};\n".encode()


def _program(unit: Unit, prog: str | None) -> tuple[str, bytes]:
    """Return name and instructions of the only program, or of that which was asked for."""
    from pybpf.isa.encoding import encode

    if all(not function.section for function in unit.functions):
        if prog:
            raise UsageError(f"{unit.source.name} has no program '{prog}', but instructions alone")
        return "program", encode(unit.functions[0].program, unit.byteorder)
    from pybpf.assembly.objects import write
    from pybpf.objfile.object import Object
    from pybpf.suggest import did_you_mean

    programs = Object.parse(write(unit), unit.source.name).programs
    names = [program.name for program in programs]
    if prog is None and len(names) > 1:
        raise UsageError(
            f"{unit.source.name} has several programs: {', '.join(names)}\n"
            "  hint: -p takes the name of one, and -o FILE.o writes them all"
        )
    for program in programs:
        if prog in {None, program.name}:
            return program.name, encode(program.program, unit.byteorder)
    which = f" '{prog}'{did_you_mean(prog, names)}" if prog else ""
    raise UsageError(f"{unit.source.name} has no program{which}")


def _write(data: bytes, output: str | None) -> None:
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    from pathlib import Path

    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {output or repr(output)}: {error.strerror}") from None
