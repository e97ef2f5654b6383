"""An object's types in; the bytes of BTF as a kernel takes them, out.

A compiler leaves to the loader what only that can know: where variables are in their sections, how
large these are, and what is meant by ``extern``. Every change is made in place, so that the numbers
of types stay the same:

    DATASEC   its size, and the offsets of its variables, sorted; one that is not loaded (.ksyms)
              becomes a structure of as many integers
    VAR       extern becomes global, and of a kernel symbol an integer
    FUNC      hidden becomes static; extern becomes a typedef of its prototype

Source: btf_datasec_check_meta, btf_var_check_meta and btf_func_check of kernel/bpf/btf.c.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pybpf.btf.abi import COUNT_MASK, KIND_MASK, KIND_SHIFT
from pybpf.btf.reader import Btf, Kind, Linkage
from pybpf.errors import ObjectError
from pybpf.objfile.elf import Section, Symbol
from pybpf.objfile.externs import Extern, ExternKind
from pybpf.objfile.object import Object

_KSYMS, _KCONFIG = ".ksyms", ".kconfig"
_U32 = 0xFFFFFFFF
_KIND_AND_COUNT = KIND_MASK << KIND_SHIFT | COUNT_MASK


def kernel_types(found: Object) -> bytes:
    """Return the object's BTF ready to be loaded, empty where it has none.

    Raises ObjectError where a size or an offset does not fit it.
    """
    section = found.elf.section(".BTF")
    if found.btf is None or section is None:
        return b""
    return _Types(found, found.btf, section).fixed()


class _Types:
    def __init__(self, found: Object, btf: Btf, section: Section) -> None:
        self._found = found
        self._btf = btf
        self._data = bytearray(section.data)
        self._mark = "<" if found.byteorder == "little" else ">"
        self._externs: Mapping[str, Extern] = {extern.name: extern for extern in found.externs}
        self._symbols: Mapping[str, Symbol] = {s.name: s for s in found.elf.symbols if s.name}
        self._sections = {section.name: section for section in reversed(found.elf.sections)}
        self._integer = next((n for n in range(1, len(btf)) if btf.kind(n) is Kind.INT), 0)

    def fixed(self) -> bytes:
        hidden = {
            info.type for program in self._found.programs for info in program.functions
            if not info.is_global
        }  # fmt: skip
        for number in range(1, len(self._btf)):
            match self._btf.kind(number):
                case Kind.DATASEC:
                    self._section(number)
                case Kind.VAR if self._btf.linkage(number) is Linkage.EXTERN:
                    self._variable(number)
                case Kind.FUNC if self._btf.linkage(number) is Linkage.EXTERN:
                    self._recast(number, Kind.TYPEDEF, 0)
                case Kind.FUNC if number in hidden:
                    self._recast(number, Kind.FUNC, Linkage.STATIC)
                case _:
                    pass
        return bytes(self._data)

    def _put(self, at: int, *words: int) -> None:
        for word in words:
            if not 0 <= word <= _U32:
                reason = f"{word}, a size or a place, has more than 32 bits"
                raise ObjectError(self._found.path, reason, section=".BTF", offset=at)
        struct.pack_into(f"{self._mark}{len(words)}I", self._data, at, *words)

    def _recast(self, number: int, kind: Kind, count: int) -> None:
        """Give a type another kind, and a number of parts or a linkage."""
        at = self._btf.place(number) + 4
        (info,) = struct.unpack_from(f"{self._mark}I", self._data, at)
        self._put(at, info & ~_KIND_AND_COUNT | kind << KIND_SHIFT | count)

    def _variable(self, number: int) -> None:
        extern = self._externs.get(self._btf.name(number))
        at = self._btf.place(number)
        if extern is None or extern.kind is not ExternKind.KCONFIG:
            self._put(at + 8, self._integer)
        self._put(at + 12, Linkage.GLOBAL)

    def _section(self, number: int) -> None:
        btf, name, at = self._btf, self._btf.name(number), self._btf.place(number)
        (info,) = struct.unpack_from(f"{self._mark}I", self._data, at + 4)
        count = info & COUNT_MASK
        if name == _KSYMS:
            size = btf.size(self._integer) or 4
            self._recast(number, Kind.STRUCT, count)
            self._put(at, 0)
            self._put(at + 8, size * count)
            for index in range(count):
                self._put(at + 12 + 12 * index, 0, self._integer, 8 * size * index)
            return
        words = struct.unpack_from(f"{self._mark}{3 * count}I", self._data, at + 12)
        rows = [
            (self._offset(name, inner, offset), inner, size)
            for inner, offset, size in zip(words[::3], words[1::3], words[2::3], strict=True)
        ]
        self._put(at + 8, self._size(name, rows))
        for index, (offset, inner, size) in enumerate(sorted(rows)):
            self._put(at + 12 + 12 * index, inner, offset, size)

    def _size(self, name: str, rows: list[tuple[int, int, int]]) -> int:
        section = self._sections.get(name)
        end = max((offset + size for offset, _, size in rows), default=0)
        return end if section is None else max(section.size, end)

    def _offset(self, section: str, number: int, offset: int) -> int:
        """Return where a variable is: as its symbol says, where it has one of its own."""
        name = self._btf.name(number)
        if section == _KCONFIG:
            extern = self._externs.get(name)
            return extern.offset if extern else offset
        if self._btf.linkage(number) is Linkage.STATIC:
            return offset
        symbol = self._symbols.get(name)
        return symbol.value if symbol and symbol.section is not None else offset
