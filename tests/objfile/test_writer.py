"""What is written is what is read, by us and by pyelftools."""

from __future__ import annotations

import io

import pytest
from elftools.elf.elffile import ELFFile

from pybpf.objfile import elf, writer
from pybpf.objfile.elf import Relocation, Section, Symbol

LOCAL = Symbol("here", elf.SymbolType.OBJECT, elf.Binding.LOCAL, 0, 2, 4, 8)
FUNCTION = Symbol("f", elf.SymbolType.FUNC, elf.Binding.GLOBAL, 0, 1, 0, 16)
ELSEWHERE = Symbol("there", elf.SymbolType.NOTYPE, elf.Binding.GLOBAL, 2, None, 0, 0)
SECTIONS = (
    Section(1, "xdp/é", "SHT_PROGBITS", 6, 16, bytes(16),
            (Relocation(0, 1, LOCAL, 0), Relocation(8, 10, ELSEWHERE, 0))),
    Section(2, ".data.a", "SHT_PROGBITS", 3, 12, b"twelve bytes"),
    Section(3, ".bss", "SHT_NOBITS", 3, 1 << 40, b""),
    Section(4, "license", "SHT_PROGBITS", 3, 4, b"GPL\0"),
)  # fmt: skip
SYMBOLS = (FUNCTION, ELSEWHERE, LOCAL)


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_what_is_written_is_read(byteorder):
    found = elf.read(writer.write(SECTIONS, SYMBOLS, byteorder), "x.o")

    assert found.byteorder == byteorder
    assert found.sections[1:5] == SECTIONS
    assert [s.name for s in found.sections] == [
        "", "xdp/é", ".data.a", ".bss", "license", ".relxdp/é", ".symtab", ".strtab",
    ]  # fmt: skip
    # Local symbols come first, behind the one that is none.
    assert found.symbols[1:] == (LOCAL, FUNCTION, ELSEWHERE)


@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_pyelftools_reads_it(byteorder):
    data = writer.write(SECTIONS, SYMBOLS, byteorder)
    file = ELFFile(io.BytesIO(data))

    assert (file.header["e_type"], file.header["e_machine"]) == ("ET_REL", "EM_BPF")
    assert file.little_endian == (byteorder == "little")
    for section in file.iter_sections():
        if not section.is_null():
            assert section["sh_offset"] % section["sh_addralign"] == 0
    table = file.get_section_by_name(".symtab")
    first = table["sh_info"]
    kinds = [symbol["st_info"]["bind"] for symbol in table.iter_symbols()]
    assert set(kinds[:first]) == {"STB_LOCAL"}
    assert set(kinds[first:]) == {"STB_GLOBAL"}
    moved = file.get_section_by_name(".relxdp/é")
    names = [table.get_symbol(r["r_info_sym"]).name for r in moved.iter_relocations()]
    assert names == ["here", "there"]


def test_an_object_of_nothing():
    found = elf.read(writer.write((), (), "little"), "x.o")

    assert [s.name for s in found.sections] == ["", ".symtab", ".strtab"]


@pytest.mark.parametrize("order", ["el", "eb"])
def test_what_clang_made_stays_the_same(c_objects, order):
    for path in sorted(c_objects.glob(f"*.{order}.o")):
        found = elf.read(path.read_bytes(), path.name)
        kept = [s for s in found.sections if s.type in {"SHT_PROGBITS", "SHT_NOBITS"}]
        numbers = {section.index: number for number, section in enumerate(kept, start=1)}
        if any(s.section is not None and s.section not in numbers for s in found.symbols):
            continue

        def moved(symbol, numbers=numbers):
            section = None if symbol.section is None else numbers[symbol.section]
            return Symbol(symbol.name, symbol.type, symbol.binding, symbol.visibility, section,
                          symbol.value, symbol.size)  # fmt: skip

        sections = [
            Section(numbers[s.index], s.name, s.type, s.flags, s.size, s.data,
                    tuple(Relocation(r.offset, r.type, moved(r.symbol), 0) for r in s.relocations))
            for s in kept
        ]  # fmt: skip
        symbols = [moved(symbol) for symbol in found.symbols[1:]]
        again = elf.read(writer.write(sections, symbols, found.byteorder), path.name)
        assert again.symbols[1:] == tuple(symbols)
        assert list(again.sections[1 : len(sections) + 1]) == sections
