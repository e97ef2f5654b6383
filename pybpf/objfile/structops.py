"""An object's structures of operations in; which member of which structure a program is, out.

A variable in ``.struct_ops`` (or ``.struct_ops.link``, and with a ``?`` before it for what is not
loaded unless asked for) is a structure of the kernel's whose pointers to functions are programs.
"""

from __future__ import annotations

from pybpf.btf.reader import Btf
from pybpf.objfile.elf import Section, between
from pybpf.objfile.object import Object

_SECTIONS = (".struct_ops", ".struct_ops.link", "?.struct_ops", "?.struct_ops.link")


def member_of(found: Object, program: str) -> str:
    """Return ``structure.member`` for the first that is that program; empty where none is.

    What follows three underscores in the structure's name is not part of it.
    """
    if found.btf is None:
        return ""
    for name in _SECTIONS:
        section = found.elf.section(name)
        if section is None:
            continue
        for variable in found.btf.variables(found.btf.datasec(name) or 0):
            start = next(
                (s.value for s in found.elf.symbols_of(section) if s.name == variable.name),
                variable.offset,
            )
            if member := _member(found, section, found.btf.skip(variable.type), start, program):
                return f"{found.btf.name(found.btf.skip(variable.type)).split('___')[0]}.{member}"
    return ""


def _member(found: Object, section: Section, struct: int, start: int, program: str) -> str:
    btf = found.btf
    assert isinstance(btf, Btf)
    members = {member.bit_offset // 8: name for name, member in btf.fields(struct)}
    for relocation in between(section.relocations, start, start + (btf.size(struct) or 0)):
        symbol = relocation.symbol
        place = symbol.value + relocation.addend
        if symbol.section is None:
            continue
        target = found.elf.sections[symbol.section]
        named = (s.name for s in found.elf.symbols_of(target) if s.value == place)
        if program in named:
            return members.get(relocation.offset - start, "")
    return ""
