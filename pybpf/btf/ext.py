"""The bytes of .BTF.ext in, func_info, line_info and CO-RE relocations out; and the reverse.

    +--------+---------+-------+--------------------------------------------------------------+
    | 0xeb9f | version | flags | header size; offset and size of func_info, of line_info, and |
    | u16    | u8      | u8    | in newer ones of core_relo: u32 each                         |
    +--------+---------+-------+--------------------------------------------------------------+
    | each: the size of a record, u32; then for each section its name, u32, the number of its |
    | records, u32, and these                                                                 |
    +------------------------------------------------------------------------------------------+

    func_info   byte in the section, type                                        u32 each
    line_info   byte in the section, file name, text, line << 10 | column        u32 each
    core_relo   byte in the section, type, access string, kind                   u32 each

Source: Documentation/bpf/btf.rst, section 4.2. Records may be longer than what is read of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from pybpf.btf.abi import MAGIC, VERSION, line_column, line_word
from pybpf.btf.blob import byteorder_of
from pybpf.btf.reader import Btf
from pybpf.dataclass import dataclass
from pybpf.errors import TargetError
from pybpf.isa.insn import ByteOrder

_TEXTS_AT_MOST = 64 << 20


class CoreKind(IntEnum):
    """``BPF_CORE_*``: what about a type, a field or a value is asked."""

    FIELD_BYTE_OFFSET = 0
    FIELD_BYTE_SIZE = 1
    FIELD_EXISTS = 2
    FIELD_SIGNED = 3
    FIELD_LSHIFT_U64 = 4
    FIELD_RSHIFT_U64 = 5
    TYPE_ID_LOCAL = 6
    TYPE_ID_TARGET = 7
    TYPE_EXISTS = 8
    TYPE_SIZE = 9
    ENUMVAL_EXISTS = 10
    ENUMVAL_VALUE = 11
    TYPE_MATCHES = 12


class FuncInfo(NamedTuple):
    """A function begins at ``offset`` (bytes) of its section; its type is a number of .BTF."""

    offset: int
    type: int


class SourceLine(NamedTuple):
    """From ``offset`` (bytes) of the section on, the code is that of a line of a C file."""

    offset: int
    file: str
    text: str
    line: int
    column: int


class CoreRelocation(NamedTuple):
    """The instruction at ``offset`` (bytes) depends on what the target's types are.

    ``access`` walks through ``type``: ``0:1:2`` is member 2 of member 1 of what a pointer to it
    points to. ``kind`` is a plain number, as an object may ask for what we do not know.
    """

    offset: int
    type: int
    access: str
    kind: int


@dataclass(frozen=True, slots=True)
class BtfExt:
    """What .BTF.ext says of each section of instructions, by the sections' names, in its order."""

    functions: Mapping[str, tuple[FuncInfo, ...]]
    lines: Mapping[str, tuple[SourceLine, ...]]
    relocations: Mapping[str, tuple[CoreRelocation, ...]]


def pack(
    functions: Mapping[str, Sequence[FuncInfo]],
    lines: Mapping[str, Sequence[SourceLine]],
    string: Callable[[str], int],
    byteorder: ByteOrder = "little",
) -> bytes:
    """Return the bytes of what sections' functions and lines are; ``string`` places texts in .BTF.

    Lines and columns are cut down to the greatest that there is room for.
    """
    mark = "<" if byteorder == "little" else ">"

    def part(width: int, rows: Mapping[str, Sequence[bytes]]) -> bytes:
        found = struct.pack(f"{mark}I", width)
        for section, records in rows.items():
            head = struct.pack(f"{mark}2I", string(section), len(records))
            found += b"".join((head, *records))
        return found

    def line(row: SourceLine) -> bytes:
        place = line_word(row.line, row.column)
        return struct.pack(f"{mark}4I", row.offset, string(row.file), string(row.text), place)

    infos = part(8, {name: [struct.pack(f"{mark}2I", *row) for row in rows]
                     for name, rows in functions.items()})  # fmt: skip
    places = part(16, {name: [line(row) for row in rows] for name, rows in lines.items()})
    header = struct.pack(f"{mark}HBB", MAGIC, VERSION, 0)
    header += struct.pack(f"{mark}5I", 24, 0, len(infos), len(infos), len(places))
    return header + infos + places


def parse(data: bytes, btf: Btf) -> BtfExt:
    """Return what a .BTF.ext section says; names and texts are those of ``btf``.

    Raises TargetError where it is none, or says more than it has room for.
    """
    try:
        return _parse(data, btf)
    except struct.error as error:
        raise TargetError(f"no .BTF.ext: {error}") from None


def _parse(data: bytes, btf: Btf) -> BtfExt:
    byteorder = byteorder_of(data)
    if byteorder is None:
        raise TargetError("no .BTF.ext: its first two bytes are not 0xeb9f")
    mark = "<" if byteorder == "little" else ">"
    (header,) = struct.unpack_from(f"{mark}I", data, 4)
    parts = []
    for at in (8, 16, 24):
        start, size = struct.unpack_from(f"{mark}II", data, at) if at + 8 <= header else (0, 0)
        if header + start + size > len(data):
            raise TargetError(f"no .BTF.ext: {size} bytes from {header + start} on end behind it")
        parts.append(data[header + start : header + start + size])
    texts = _Texts(btf)
    functions = _sections(parts[0], mark, "II", texts, "func_info")
    lines = _sections(parts[1], mark, "IIII", texts, "line_info")
    relocations = _sections(parts[2], mark, "IIII", texts, "core_relo")
    return BtfExt(
        {name: tuple(FuncInfo(*row) for row in rows) for name, rows in functions.items()},
        {
            name: tuple(
                SourceLine(at, texts[file], texts[text], *line_column(word))
                for at, file, text, word in rows
            )
            for name, rows in lines.items()
        },
        {
            name: tuple(
                CoreRelocation(at, number, texts[access], kind) for at, number, access, kind in rows
            )
            for name, rows in relocations.items()
        },
    )


class _Texts(dict[int, str]):
    """The strings of a BTF by their offsets, each made once; TargetError where they overlap."""

    def __init__(self, btf: Btf) -> None:
        super().__init__()
        self._btf = btf
        self._room = _TEXTS_AT_MOST

    def __missing__(self, offset: int) -> str:
        text = self[offset] = self._btf.text(offset)
        self._room -= len(text)
        if self._room < 0:
            raise TargetError(f"no .BTF.ext: its texts have over {_TEXTS_AT_MOST >> 20} MiB")
        return text


def _sections(
    data: bytes, mark: str, layout: str, texts: _Texts, what: str
) -> dict[str, list[tuple[Any, ...]]]:
    if not data:
        return {}
    row = struct.Struct(mark + layout)
    (width,) = struct.unpack_from(f"{mark}I", data, 0)
    if width < row.size or width % 4:
        raise TargetError(f"no .BTF.ext: a {what} of {width} bytes, but it has {row.size}")
    found: dict[str, list[tuple[Any, ...]]] = {}
    at = 4
    while at < len(data):
        name, count = struct.unpack_from(f"{mark}II", data, at)
        at += 8
        if at + count * width > len(data):
            raise TargetError(f"no .BTF.ext: {count} of {what} from {at} on end behind it")
        rows = found.setdefault(texts[name], [])
        rows += (row.unpack_from(data, at + index * width) for index in range(count))
        at += count * width
    return found
