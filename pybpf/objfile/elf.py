"""An ELF file's bytes in; its sections, symbols and relocations out, all bounds checked.

pyelftools reads the header and the section table. Symbols and relocations may be hundreds of
thousands in a file that means harm, so that their tables are unpacked in one go:

    Elf64_Sym   name u32, info u8, other u8, shndx u16, value u64, size u64          24 bytes
    Elf64_Rel   offset u64, info u64 (symbol << 32 | type)                           16 bytes
    Elf64_Rela  the same, and addend s64                                             24 bytes

Sources: the System V ABI's chapter on object files; Documentation/bpf/llvm_reloc.rst.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pybpf.dataclass import dataclass, field
from pybpf.errors import ObjectError
from pybpf.isa.insn import ByteOrder

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_SECTIONS_AT_MOST = 20_000
_NAMES_AT_MOST = 64 << 20
_FILE_HEADER = _SECTION_HEADER = 64
_SHF_EXECINSTR = 4
_EMPTY = frozenset({"SHT_NOBITS", "SHT_NULL"})
"""Sections that take no room in the file."""
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2


class SymbolType(IntEnum):
    """``STT_*``."""

    NOTYPE = 0
    OBJECT = 1
    FUNC = 2
    SECTION = 3
    FILE = 4
    COMMON = 5
    TLS = 6


class Binding(IntEnum):
    """``STB_*``."""

    LOCAL = 0
    GLOBAL = 1
    WEAK = 2


class Visibility(IntEnum):
    """``STV_*``."""

    DEFAULT = 0
    INTERNAL = 1
    HIDDEN = 2
    PROTECTED = 3


class RelocationType(IntEnum):
    """``R_BPF_*``."""

    NONE = 0
    INSN_64 = 1
    """The imm of both slots of a lddw."""
    ABS64 = 2
    ABS32 = 3
    NODYLD32 = 4
    """A place in .BTF or .BTF.ext, which no loader relocates."""
    INSN_32 = 10
    """The imm of a call, in slots."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol; ``section`` is an index of ``Elf.sections``, None for what is defined elsewhere."""

    name: str
    type: int
    binding: int
    visibility: int
    section: int | None
    value: int
    size: int

    @property
    def undefined(self) -> bool:
        """Whether something else has to define it."""
        return self.section is None


@dataclass(frozen=True, slots=True)
class Relocation:
    """A place in a section, in bytes, that depends on where a symbol will be."""

    offset: int
    type: int
    symbol: Symbol
    addend: int


@dataclass(frozen=True, slots=True)
class Section:
    """A section and what relocates it; ``data`` is empty where it takes no room in the file."""

    index: int
    name: str
    type: str
    flags: int
    size: int
    data: bytes = field(repr=False)
    relocations: tuple[Relocation, ...] = field(default=(), repr=False)

    @property
    def executable(self) -> bool:
        """Whether it holds instructions."""
        return self.type == "SHT_PROGBITS" and bool(self.flags & _SHF_EXECINSTR)


@dataclass(frozen=True, slots=True)
class Elf:
    """An object file for eBPF, or for any machine (``EM_NONE``), as old compilers wrote it."""

    path: str
    byteorder: ByteOrder
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    by_section: Mapping[int, Sequence[Symbol]] = field(repr=False, compare=False)
    """The symbols that are defined, in the file's order, by the index of their section."""
    size: int = 0
    """Of the whole file, in bytes."""

    def section(self, name: str) -> Section | None:
        """Return the first section called ``name``, or None."""
        return next((s for s in self.sections if s.name == name), None)

    def symbols_of(self, section: Section) -> Sequence[Symbol]:
        """Return the symbols that lie in a section, in the file's order."""
        return self.by_section.get(section.index, ())


_offset = attrgetter("offset")


def between(rows: tuple[Relocation, ...], start: int, end: int) -> tuple[Relocation, ...]:
    """Return the relocations of a section's bytes from ``start`` on, before ``end``."""
    first = bisect_left(rows, start, key=_offset)
    return rows[first : bisect_left(rows, end, first, key=_offset)]


def read(data: bytes, path: str) -> Elf:
    """Return what an ELF file holds.

    Raises ObjectError, which names ``path``, the section and the offset, for bytes that are no
    relocatable eBPF object.
    """
    return _Reader(data, path).elf()


def _header(file: ELFFile, index: int) -> Mapping[str, Any]:
    """Return a section's header alone: whole sections cost pyelftools more, and can be refused."""
    size, start = file.header["e_shentsize"], file.header["e_shoff"]
    from elftools.common.utils import struct_parse

    header: Mapping[str, Any] = struct_parse(
        file.structs.Elf_Shdr, file.stream, stream_pos=start + index * size
    )
    return header


class _Reader:
    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path

    def elf(self) -> Elf:
        headers, byteorder = self._headers()
        self._mark = "<" if byteorder == "little" else ">"
        self._check_overlap(header for _, header in headers)
        plain = [self._section(index, name, header) for index, (name, header) in enumerate(headers)]
        symbols, table = self._symbols(plain, headers)
        relocations: dict[int, list[Relocation]] = {}
        for section, (_, header) in zip(plain, headers, strict=True):
            if section.type in {"SHT_REL", "SHT_RELA"}:
                if header["sh_link"] != table:
                    self._refuse(section.name, 0, "its symbols are not those of the file")
                if header["sh_info"] >= len(plain):
                    self._refuse(section.name, 0, f"there is no section {header['sh_info']}")
                known = relocations.setdefault(header["sh_info"], [])
                known += self._relocations(section, symbols, plain[header["sh_info"]])
        sections = tuple(
            Section(s.index, s.name, s.type, s.flags, s.size, s.data,
                    tuple(sorted(relocations.get(s.index, ()), key=_offset)))
            for s in plain
        )  # fmt: skip
        by_section: dict[int, list[Symbol]] = {}
        for symbol in symbols:
            if symbol.section is not None:
                by_section.setdefault(symbol.section, []).append(symbol)
        return Elf(self._path, byteorder, sections, symbols, by_section, len(self._data))

    def _check_overlap(self, headers: Iterable[Mapping[str, Any]]) -> None:
        """Refuse sections that share their bytes, lest a small file take all memory."""
        sizes = (int(h["sh_size"]) for h in headers if h["sh_type"] not in _EMPTY)
        if (total := sum(sizes)) > len(self._data):
            reason = f"its sections overlap, or end behind it: {total} of {len(self._data)} bytes"
            raise ObjectError(self._path, reason)

    def _refuse(self, section: str | None, offset: int | None, reason: str) -> None:
        raise ObjectError(self._path, reason, section=section, offset=offset)

    def _headers(self) -> tuple[list[tuple[str, Mapping[str, Any]]], ByteOrder]:
        """Return name and header of each section, as pyelftools reads them."""
        if self._data[:4] != b"\x7fELF":
            raise ObjectError(self._path, "no ELF file: it does not begin with 7f 45 4c 46")
        if len(self._data) < _FILE_HEADER:
            reason = f"no ELF file: it has only {len(self._data)} bytes"
            raise ObjectError(self._path, reason)
        import io

        from elftools.elf.elffile import ELFFile

        def opened() -> ELFFile:
            return ELFFile(io.BytesIO(self._data))

        file = self._guarded(opened, "no ELF file")
        header: Mapping[str, Any] = self._guarded(lambda: file.header, "no ELF file")
        if file.elfclass != 64:
            raise ObjectError(self._path, f"an ELF file of {file.elfclass} bits; eBPF's have 64")
        if header["e_type"] != "ET_REL":
            raise ObjectError(self._path, f"no relocatable object: its type is {header['e_type']}")
        if header["e_machine"] not in {"EM_BPF", "EM_NONE"}:
            raise ObjectError(self._path, f"for another machine: {header['e_machine']}, not EM_BPF")
        if header["e_shentsize"] != _SECTION_HEADER:
            reason = f"its section headers have {header['e_shentsize']} bytes, not 64"
            raise ObjectError(self._path, reason)
        count = self._guarded(file.num_sections, "its section table cannot be read")
        if count > _SECTIONS_AT_MOST:
            raise ObjectError(self._path, f"{count} sections are more than {_SECTIONS_AT_MOST}")
        if header["e_shoff"] + count * header["e_shentsize"] > len(self._data):
            reason = f"its table of {count} sections ends behind the end of the file"
            raise ObjectError(self._path, reason, offset=header["e_shoff"])
        found: list[Mapping[str, Any]] = [
            self._guarded(partial(_header, file, index), f"section {index}")
            for index in range(count)
        ]
        order: ByteOrder = "little" if file.little_endian else "big"
        return self._named(found, header["e_shstrndx"]), order

    def _guarded(self, call: Callable[[], Any], what: str) -> Any:
        """Call pyelftools, whose errors on hostile files are of any kind."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001
            detail = str(error).strip().splitlines()[:1]
            raise ObjectError(self._path, ": ".join([what, *detail])) from None

    def _named(
        self, headers: list[Mapping[str, Any]], index: int
    ) -> list[tuple[str, Mapping[str, Any]]]:
        if not headers:
            return []
        if index >= len(headers):
            raise ObjectError(self._path, f"the names of its sections are in none: {index}")
        names = self._bytes(headers[index], ".shstrtab")
        return [(self._name(names, h["sh_name"], ".shstrtab"), h) for h in headers]

    def _bytes(self, header: Mapping[str, Any], name: str) -> bytes:
        if header["sh_type"] in _EMPTY:
            return b""
        start, size = header["sh_offset"], header["sh_size"]
        if start + size > len(self._data):
            reason = f"{size} bytes from {start} on end behind the file's {len(self._data)}"
            self._refuse(name, None, reason)
        if header["sh_flags"] & 0x800:
            self._refuse(name, None, "it is compressed")
        return self._data[start : start + size]

    def _name(self, table: bytes, offset: int, section: str) -> str:
        end = table.find(b"\0", offset, offset + 4096)
        if offset >= len(table) and offset:
            self._refuse(section, offset, f"no name is there: it has {len(table)} bytes")
        if end < 0 and table:
            self._refuse(section, offset, "a name has no end, or one of over 4,096 bytes")
        return table[offset : max(end, offset)].decode("utf-8", "backslashreplace")

    def _section(self, index: int, name: str, header: Mapping[str, Any]) -> Section:
        kind, size = str(header["sh_type"]), int(header["sh_size"])
        return Section(index, name, kind, header["sh_flags"], size, self._bytes(header, name))

    def _symbols(
        self, sections: list[Section], headers: list[tuple[str, Mapping[str, Any]]]
    ) -> tuple[tuple[Symbol, ...], int | None]:
        table = next((s for s in sections if s.type == "SHT_SYMTAB"), None)
        if table is None:
            return (), None
        link = headers[table.index][1]["sh_link"]
        if link >= len(sections):
            self._refuse(table.name, None, f"its names are in section {link}, which is not there")
        names, found = sections[link], []
        known: dict[int, str] = {}
        room = _NAMES_AT_MOST
        rows = self._rows(table, "IBBHQQ")
        for number, (name, info, other, shndx, value, size) in enumerate(rows):
            section: int | None = shndx
            if shndx in {_UNDEFINED, _ABSOLUTE, _COMMON}:
                section = None
            elif shndx >= len(sections):
                self._refuse(
                    table.name, number * 24, f"a symbol of section {shndx} of {len(sections)}"
                )
            text = known.get(name)
            if text is None:
                text = known[name] = self._name(names.data, name, names.name)
                room -= len(text)
                if room < 0:  # which takes names that overlap
                    reason = f"the names of symbols have over {_NAMES_AT_MOST >> 20} MiB together"
                    self._refuse(table.name, number * 24, reason)
            if not text and info & 15 == SymbolType.SECTION and section is not None:
                text = sections[section].name
            found.append(Symbol(text, info & 15, info >> 4, other & 3, section, value, size))
        return tuple(found), table.index

    def _rows(self, section: Section, layout: str) -> Iterator[tuple[Any, ...]]:
        row = struct.Struct(self._mark + layout)
        if len(section.data) % row.size:
            extra = len(section.data) % row.size
            self._refuse(section.name, len(section.data) - extra, f"{extra} of {row.size} bytes")
        return row.iter_unpack(section.data)

    def _relocations(
        self, section: Section, symbols: tuple[Symbol, ...], place: Section
    ) -> Iterator[Relocation]:
        layout = "QQ" if section.type == "SHT_REL" else "QQq"
        width = struct.calcsize("=" + layout)
        for number, (offset, info, *rest) in enumerate(self._rows(section, layout)):
            symbol = info >> 32
            if symbol >= len(symbols):
                self._refuse(section.name, number * width, f"symbol {symbol} of {len(symbols)}")
            if offset >= place.size:
                reason = f"it relocates byte {offset} of {place.name}, which has {place.size}"
                self._refuse(section.name, number * width, reason)
            addend = rest[0] if rest else 0
            yield Relocation(offset, info & 0xFFFFFFFF, symbols[symbol], addend)
