"""The name of a file in; the BTF in it out: raw, or the section .BTF of an ELF file of any kind.

Of an ELF file, which may be a kernel's of a gigabyte, only the table of sections, their names and
.BTF are read. Where it has a .BTF.base, as modules for any kernel have, .BTF goes on from that.

    Elf32_Ehdr, Elf64_Ehdr   e_shoff at 32 or 40; e_shentsize, e_shnum, e_shstrndx at 46 or 58
    Elf32_Shdr, Elf64_Shdr   sh_name at 0; sh_offset and sh_size at 16 or 24

Sources: the System V ABI's chapter on object files; Documentation/bpf/btf.rst.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, NoReturn

from pybpf.btf.blob import byteorder_of
from pybpf.btf.reader import Btf
from pybpf.errors import BtfError, ObjectError

_MOST = 256 << 20
_SECTIONS_AT_MOST = 200_000
_NAMES_AT_MOST = 16 << 20
_XINDEX = 0xFFFF


def read_btf(path: str, base: Btf | None = None) -> Btf:
    """Return the BTF in a file; ``base`` is what it goes on from.

    Raises ObjectError, which names the file, the section and the offset, for one without BTF or
    that is damaged, and OSError where it cannot be read.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib loads slowly
        start = file.read(64)
        if start[:4] != b"\x7fELF":
            # What is none need not be read: some devices have no end.
            data = start + (file.read(_MOST) if byteorder_of(start) else b"")
            if len(data) > _MOST:
                raise ObjectError(path, f"over {_MOST >> 20} MiB are more than any BTF has")
            return _parsed(data, path, None, base)
        sections = _Sections(file, start, path)
        if base is None and (below := sections.data(".BTF.base")):
            base = _parsed(below, path, ".BTF.base", None)
        data = sections.data(".BTF")
    if not data:
        hint = "clang -g writes it, and the kernel's build with CONFIG_DEBUG_INFO_BTF"
        raise ObjectError(path, "it has no section .BTF", hints=[hint])
    return _parsed(data, path, ".BTF", base)


def _parsed(data: bytes, path: str, section: str | None, base: Btf | None) -> Btf:
    try:
        return Btf(data, base=base)
    except BtfError as error:
        reason = f"no BTF: {error.reason}"
        raise ObjectError(path, reason, section=section, offset=error.offset) from None


class _Sections:
    """The sections of an ELF file, found by name."""

    def __init__(self, file: BinaryIO, start: bytes, path: str) -> None:
        self._file, self._path = file, path
        self._size = file.seek(0, 2)
        mark = ">" if start[5:6] == b"\2" else "<"
        wide = start[4:5] == b"\2"
        try:
            at = struct.unpack_from(mark + ("Q" if wide else "I"), start, 40 if wide else 32)[0]
            each, count, names = struct.unpack_from(f"{mark}3H", start, 58 if wide else 46)
        except struct.error:
            self._refuse("no ELF file: its header is cut off", len(start))
        self._row = struct.Struct(mark + ("I20xQQI" if wide else "I12xIII"))
        if each < self._row.size:
            self._refuse(f"its section headers have {each} bytes", 0)
        if at and (not count or names == _XINDEX):
            # What has no room in the header is told by section 0.
            _, _, more, link = self._row.unpack_from(self._read(at, each, "section 0"))
            count, names = count or more, link if names == _XINDEX else names
        if count > _SECTIONS_AT_MOST:
            self._refuse(f"{count} sections are more than {_SECTIONS_AT_MOST}", at)
        table = self._read(at, each * count, f"its table of {count} sections")
        self._rows = [self._row.unpack_from(table, each * n) for n in range(count)]
        self._names = b""
        if names < count:
            _, place, size, _ = self._rows[names]
            self._names = self._read(place, min(size, _NAMES_AT_MOST), "the names of its sections")

    def _refuse(self, reason: str, offset: int) -> NoReturn:
        raise ObjectError(self._path, reason, offset=offset)

    def _read(self, at: int, size: int, what: str) -> bytes:
        if at + size > self._size:
            self._refuse(f"{what}: {size} bytes from there on end behind all {self._size}", at)
        self._file.seek(at)
        return self._file.read(size)

    def data(self, name: str) -> bytes:
        """Return the bytes of a section, none where there is no such section."""
        wanted = name.encode() + b"\0"
        for at, place, size, _ in self._rows:
            if self._names[at : at + len(wanted)] == wanted:
                if size > _MOST:
                    self._refuse(f"section {name}: over {_MOST >> 20} MiB", place)
                return self._read(place, size, f"section {name}")
        return b""
