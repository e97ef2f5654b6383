"""BTF for a program that pybpf made: types and source lines in, what BPF_PROG_LOAD takes out.

With it the kernel quotes the script in its verifier log, and ``bpftool prog dump`` shows it beside
the instructions. Source: Documentation/bpf/btf.rst and include/uapi/linux/btf.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pybpf.btf import types as btf
from pybpf.btf.abi import Encoding, Kind, Linkage, line_word
from pybpf.btf.builder import Builder
from pybpf.dataclass import dataclass
from pybpf.isa.abi import ProgType
from pybpf.isa.cfg import entries
from pybpf.isa.insn import ByteOrder, LineInfo, Program
from pybpf.isa.layout import slot_offsets
from pybpf.types import (
    INT,
    U32,
    UINT,
    VOID,
    Array,
    DataLoc,
    Func,
    Int,
    Ptr,
    Struct,
    Type,
    Typedef,
    Void,
)


@dataclass(frozen=True, slots=True)
class ProgramBtf:
    """What describes one program to the kernel; types are numbered within ``btf``.

    ``func_info`` holds a struct bpf_func_info (8 bytes) for the program and each subprogram,
    ``line_info`` a struct bpf_line_info (16 bytes) for each line. ``maps`` gives the numbers of key
    and value type of every map that was asked for.
    """

    btf: bytes
    func_info: bytes
    line_info: bytes
    maps: Mapping[str, tuple[int, int]]


def build(
    program: Program,
    name: str = "",
    *,
    maps: Mapping[str, tuple[Type, Type]] | None = None,
    byteorder: ByteOrder = "little",
) -> ProgramBtf:
    """Return the BTF of a program, called ``name`` or by its own name.

    ``maps`` gives the key and value type of maps whose content ``bpftool map dump`` shall show.
    """
    writer = Writer(byteorder)
    numbers = {
        map_name: (writer.type(key), writer.type(value))
        for map_name, (key, value) in (maps or {}).items()
    }
    func_info, line_info = writer.program(program, name)
    return ProgramBtf(writer.blob(), func_info, line_info, MappingProxyType(numbers))


# The argument of a program, by the name that the kernel knows it under.
_CONTEXTS: Mapping[ProgType, Type] = {
    ProgType.KPROBE: Typedef("bpf_user_pt_regs_t", Typedef("struct pt_regs", VOID)),
    ProgType.PERF_EVENT: Typedef("struct bpf_perf_event_data", VOID),
    ProgType.RAW_TRACEPOINT: Typedef("struct bpf_raw_tracepoint_args", VOID),
}
# What the kernel has room for.
_MAX_NAME, _MAX_TEXT = 127, 500


class Writer:
    """A BTF of C types in the making; equal types and strings are written once."""

    def __init__(self, byteorder: ByteOrder = "little") -> None:
        self._order = "<" if byteorder == "little" else ">"
        self._builder = Builder(byteorder)
        self._known: dict[btf.BtfType, int] = {}

    def type(self, t: Type) -> int:
        """Return the number of a type, which is written with all that it is made of."""
        match t:
            case Void():
                return 0
            case Int():
                return self.add(_int(t))
            case Ptr():
                return self.add(btf.Reference(Kind.PTR, self.type(t.to)))
            case Array():
                index = self.type(UINT)
                return self.add(btf.Array(self.type(t.element), index, t.count))
            case Struct(fields=()) if t.name:
                return self._forward(f"struct {t.name}")
            case Struct():
                return self._struct(t)
            case Typedef():
                return self._typedef(t)
            case DataLoc():
                return self.type(U32)
            case Func():
                params = tuple((_identifier(name), self.type(param)) for name, param in t.params)
                return self.add(btf.FuncProto(self.type(t.returns), params))

    def add(self, t: btf.BtfType) -> int:
        """Return the number of a type that names others by their numbers."""
        if t not in self._known:
            self._known[t] = self._builder.add(t)
        return self._known[t]

    def _struct(self, t: Struct) -> int:
        members = tuple(
            btf.Field(_identifier(field.name), self.type(field.type), field.offset * 8)
            for field in t.fields
        )
        name = _identifier(t.name) if t.name else ""
        return self.add(btf.Composite(Kind.STRUCT, name, t.size, members))

    def _typedef(self, t: Typedef) -> int:
        """Write a typedef; ``struct x`` that is void behind stands for a struct known by name only.

        Any other name that C cannot have gives way to the type behind it.
        """
        if t.name.isidentifier() and t.name.isascii():
            return self.add(btf.Reference(Kind.TYPEDEF, self.type(t.type), t.name))
        if t.type == VOID and t.name.startswith(("struct ", "union ")):
            return self._forward(t.name)
        return self.type(t.type)

    def _forward(self, name: str) -> int:
        keyword, _, tag = name.partition(" ")
        return self.add(btf.Forward(_identifier(tag), union=keyword == "union"))

    def function(self, name: str, t: Func, linkage: Linkage = Linkage.STATIC) -> int:
        """Return the number of a function."""
        return self.add(btf.Func(_identifier(name), self.type(t), linkage))

    def string(self, text: str) -> int:
        """Return the offset of a text among the strings."""
        return self._builder.string(text)

    def main(self, program: Program, name: str = "") -> int:
        """Return the number of the function that a program begins with."""
        context = Ptr(_CONTEXTS.get(program.prog_type, VOID))
        return self.function(name or program.name or "prog", Func(INT, (("ctx", context),)))

    def program(self, program: Program, name: str = "") -> tuple[bytes, bytes]:
        """Add a program's functions and lines; return its func_info and line_info."""
        offsets = slot_offsets(program)
        starts = entries(program)
        labels = {index: label for label, index in program.labels.items()}
        functions, lines = bytearray(), bytearray()
        for start in starts:
            if start == 0:
                number = self.main(program, name)
            else:
                number = self.function(labels.get(start, f"sub_{start}"), Func(INT))
            functions += struct.pack(f"{self._order}2I", offsets[start], number)
        for line in _every_start_has_one(program.lines, starts, len(program.insns)):
            lines += self._line(line, offsets[line.index])
        return bytes(functions), bytes(lines)

    # struct bpf_line_info, 32 bits each; the last has the line in bits 31-10 and the column below.
    #
    #     +-------------+------------------+----------------+---------------+
    #     | slot offset | name of the file | text of a line | line | column |
    #     +-------------+------------------+----------------+---------------+
    def _line(self, line: LineInfo, offset: int) -> bytes:
        place = line_word(line.line, line.column)
        file, text = (
            self._builder.string(printable(line.file)),
            self._builder.string(printable(line.text)),
        )
        return struct.pack(f"{self._order}4I", offset, file, text, place)

    def blob(self) -> bytes:
        """Return the header, types and strings written so far."""
        return self._builder.blob()


def _int(t: Int) -> btf.Int:
    name = printable(str(t))
    signed = Encoding.SIGNED if t.signed else Encoding.NONE
    encoding = Encoding.BOOL if name in {"bool", "_Bool"} else signed
    return btf.Int(name, t.size, encoding, t.bits)


def _every_start_has_one(
    lines: Iterable[LineInfo], starts: Iterable[int], size: int
) -> Iterator[LineInfo]:
    """Yield one line at most for an instruction, in order, and one for each start of a function.

    The kernel insists on all of that (check_btf_line in kernel/bpf/verifier.c). Where a start has
    none, the line before goes on; the first one's beginning is brought forward to 0.
    """
    at = {line.index: line for line in lines if 0 <= line.index < size}
    if not at:
        return
    current = at[min(at)]
    for index in sorted({*at, *starts}):
        current = at.get(index, current)
        yield LineInfo(index, current.file, current.line, current.column, current.text)


def _identifier(name: str) -> str:
    """Return a C identifier for a name such as ``kprobe:vfs_read`` or, of a key field, ``0``."""
    clean = "".join(ch if ch.isascii() and ch.isalnum() else "_" for ch in name)[:_MAX_NAME]
    return f"_{clean}"[:_MAX_NAME] if not clean or clean[0].isdigit() else clean


def printable(text: str) -> str:
    """Return text that can do no harm in a log; long lines are cut."""
    return "".join(
        ch if ch.isprintable() else " " if ch == "\t" else "?" for ch in text[:_MAX_TEXT]
    )
