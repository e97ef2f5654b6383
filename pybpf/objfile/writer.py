"""Sections, symbols and relocations in; the bytes of a relocatable ELF file for eBPF, out.

The reverse of ``elf.read``. What only tells where things are is made here, and comes behind what
was given, in this order:

    Elf64_Ehdr, 64 bytes | the sections' bytes, each at a multiple of 8 | .rel… of each section that
    is relocated | .symtab, local symbols first | .strtab | Elf64_Shdr, 64 bytes for each section

Source: the System V ABI's chapter on object files.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pybpf.isa.insn import ByteOrder
from pybpf.objfile.elf import Binding, Section, Symbol

_ET_REL, _EM_BPF, _EV_CURRENT = 1, 247, 1
_EHDR, _SHDR, _SYM, _REL = 64, 64, 24, 16
_ALIGN = 8
_SHF_INFO_LINK = 0x40
TYPES = {"SHT_PROGBITS": 1, "SHT_SYMTAB": 2, "SHT_STRTAB": 3, "SHT_NOBITS": 8, "SHT_REL": 9}
"""The types of sections that can be written."""


def write(sections: Sequence[Section], symbols: Sequence[Symbol], byteorder: ByteOrder) -> bytes:
    """Return an object file with these sections, whose indices count from 1, and symbols.

    Relocations are written without addends (SHT_REL), and their symbols must be among ``symbols``.
    """
    return _Writer(sections, symbols, byteorder).file()


class _Writer:
    def __init__(
        self, sections: Sequence[Section], symbols: Sequence[Symbol], byteorder: ByteOrder
    ) -> None:
        assert [s.index for s in sections] == list(range(1, len(sections) + 1))
        self._mark = "<" if byteorder == "little" else ">"
        self._sections = sections
        self._symbols = sorted(symbols, key=lambda symbol: symbol.binding != Binding.LOCAL)
        self._names: dict[str, int] = {"": 0}
        self._names_size = 1
        self._body = bytearray(_EHDR)
        self._headers = [bytes(_SHDR)]

    def file(self) -> bytes:
        numbers = {symbol: number for number, symbol in enumerate(self._symbols, start=1)}
        moved = [section for section in self._sections if section.relocations]
        table = len(self._sections) + len(moved) + 1
        for section in self._sections:
            self._add(section.name, section.type, section.flags, section.data, size=section.size)
        for section in moved:
            rows = b"".join(
                struct.pack(f"{self._mark}QQ", r.offset, numbers[r.symbol] << 32 | r.type)
                for r in section.relocations
            )
            self._add(
                f".rel{section.name}", "SHT_REL", _SHF_INFO_LINK, rows,
                link=table, info=section.index, entry=_REL,
            )  # fmt: skip
        rows = bytes(_SYM) + b"".join(map(self._symbol, self._symbols))
        local = 1 + sum(symbol.binding == Binding.LOCAL for symbol in self._symbols)
        self._add(".symtab", "SHT_SYMTAB", 0, rows, link=table + 1, info=local, entry=_SYM)
        self._name(".strtab")
        names = b"".join(name.encode() + b"\0" for name in self._names)
        self._add(".strtab", "SHT_STRTAB", 0, names)
        self._align()
        self._body[:_EHDR] = self._header()
        return bytes(self._body) + b"".join(self._headers)

    def _name(self, name: str) -> int:
        """Return where in .strtab a name is."""
        if name not in self._names:
            self._names[name] = self._names_size
            self._names_size += len(name.encode()) + 1
        return self._names[name]

    def _align(self) -> None:
        self._body += bytes(-len(self._body) % _ALIGN)

    def _add(
        self, name: str, kind: str, flags: int, data: bytes, *,
        size: int | None = None, link: int = 0, info: int = 0, entry: int = 0,
    ) -> None:  # fmt: skip
        """Append a section; ``size`` is that of one without bytes in the file."""
        self._align()
        start = len(self._body)
        self._body += data
        self._headers.append(
            struct.pack(
                f"{self._mark}IIQQQQIIQQ", self._name(name), TYPES[kind], flags, 0, start,
                len(data) if size is None else size, link, info, _ALIGN, entry,
            )
        )  # fmt: skip

    def _symbol(self, symbol: Symbol) -> bytes:
        return struct.pack(
            f"{self._mark}IBBHQQ", self._name(symbol.name), symbol.binding << 4 | symbol.type,
            symbol.visibility, symbol.section or 0, symbol.value, symbol.size,
        )  # fmt: skip

    def _header(self) -> bytes:
        ident = b"\x7fELF" + bytes((2, 1 if self._mark == "<" else 2, _EV_CURRENT))
        count = len(self._headers)
        return struct.pack(
            f"{self._mark}16sHHIQQQIHHHHHH", ident, _ET_REL, _EM_BPF, _EV_CURRENT, 0, 0,
            len(self._body), 0, _EHDR, 0, 0, _SHDR, count, count - 1,
        )  # fmt: skip
