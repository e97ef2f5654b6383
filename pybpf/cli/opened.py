"""What the argument of ``dis``, ``inspect`` and ``diff`` names in; an object, code, a program out.

That is an object file, raw instructions (bytes, or in hexadecimal), or a program that the kernel
has loaded: ``prog:ID``, ``pinned:PATH``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybpf.inspect.code import Code
    from pybpf.isa.insn import ByteOrder
    from pybpf.kernel.loaded import Loaded
    from pybpf.objfile.object import Object

HELP = "an object, bytes, prog:ID or pinned:PATH of a loaded program; - is stdin"
_ID, _PIN = "prog:", "pinned:"


def opened(name: str, byteorder: ByteOrder = "little") -> Object | Code | Loaded:
    """Return what an argument names; ``byteorder`` is that of raw instructions.

    Raises UsageError, ObjectError or KernelError for what is none of it.
    """
    if name.startswith((_ID, _PIN)):
        return _loaded(name)
    data = inputs.read_bytes(name)
    title = "<stdin>" if name == "-" else name
    if data.startswith(inputs.ELF):
        from pybpf.objfile.object import Object

        return Object.parse(data, title)
    code = inputs.from_hex(data, title)
    if not code.strip():
        raise UsageError(f"{title} is empty")
    from pybpf.inspect.code import of_bytes

    with inputs.instructions(code, title):
        return of_bytes(code, byteorder, title.rpartition("/")[2])


def _loaded(name: str) -> Loaded:
    if name.startswith(_PIN):
        from pybpf.kernel.loaded import by_pin

        return by_pin(name.removeprefix(_PIN))
    number = name.removeprefix(_ID)
    if not number.isdecimal() or not number.isascii() or not 0 < int(number[:11]) < 1 << 32:
        raise UsageError(f"'{number}' is no number of a loaded program\n  hint: such as prog:7")
    from pybpf.kernel.loaded import by_id

    return by_id(int(number))


def codes(
    found: Object | Code | Loaded, programs: Iterable[str] | None = None, *, whole: bool = False
) -> Iterable[Code]:
    """Return the code of what was opened: an object's by section, or of some programs, linked.

    ``whole``: of all programs, linked, where none are named. Raises UsageError for a program that
    there is not.
    """
    from pybpf.inspect.code import Code, of_program, of_sections
    from pybpf.inspect.names import Names
    from pybpf.objfile.object import Object

    if isinstance(found, Code):
        return [found]
    if not isinstance(found, Object):
        from pybpf.inspect.loaded import of_loaded

        return [of_loaded(found)]
    names = Names(found.btf, found.elf)
    if programs is not None:
        return [of_program(found.programs[n], names) for n in chosen(found, programs)]
    if whole:
        return [of_program(program, names) for program in found.programs]
    return of_sections(found, names)


def chosen(found: Object, programs: Iterable[str]) -> list[int]:
    """Return the indices of the programs that have these names; raises UsageError."""
    names = [program.name for program in found.programs]
    for name in programs:
        if name not in names:
            from pybpf.suggest import did_you_mean

            similar = did_you_mean(name, names) or f": there are {', '.join(names) or 'none'}"
            raise UsageError(f"no program is called '{name}'{similar}")
    return [index for index, name in enumerate(names) if name in set(programs)]


def plain_terminal() -> bool:
    """Whether standard output has no letters but those of ASCII."""
    return (sys.stdout.encoding or "ascii").lower() not in {"utf-8", "utf8"}
