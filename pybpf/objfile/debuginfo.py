"""An object in; its BTF as a kernel takes it, and each program's func_info and line_info, out.

    func_info   slot, type                                            u32 each
    line_info   slot, file name, text, line << 10 | column            u32 each

Names and texts are places among the strings of the object's own BTF. Source: struct bpf_func_info
and struct bpf_line_info of include/uapi/linux/bpf.h.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pybpf.btf.abi import line_word
from pybpf.dataclass import dataclass
from pybpf.isa.layout import slot_offsets
from pybpf.objfile.object import Object, ObjectProgram
from pybpf.objfile.types import kernel_types

_LONGEST = 4096
"""So many bytes of a string ``Btf.text`` returns."""


@dataclass(frozen=True, slots=True)
class DebugRecords:
    """What refers to the object's BTF; empty where it does not know all of a program's functions.

    A kernel takes records of lines only together with those of functions.
    """

    func_info: bytes = b""
    line_info: bytes = b""


@dataclass(frozen=True, slots=True)
class ObjectDebug:
    """The bytes of an object's BTF (empty: it has none), and the records of programs by name."""

    btf: bytes
    programs: Mapping[str, DebugRecords]


def debug_info(found: Object) -> ObjectDebug:
    """Return what tells a kernel of an object's types and lines; raises ObjectError."""
    types = kernel_types(found)
    if not types:
        return ObjectDebug(b"", {})
    mark = "<" if found.byteorder == "little" else ">"
    texts = _texts(types, mark)
    return ObjectDebug(types, {p.name: _records(p, texts, mark) for p in found.programs})


def func_info(program: ObjectProgram, mark: str) -> bytes:
    """Return the records of a program's functions, none where the type of one is not known.

    ``mark`` is the byte order, as ``struct`` has it.
    """
    if not all(info.type for info in program.functions):
        return b""
    return b"".join(struct.pack(f"{mark}II", f.slot, f.type) for f in program.functions)


def _texts(types: bytes, mark: str) -> Mapping[str, int]:
    """Return the places of all strings, without the blanks behind them."""
    header, _, _, start, size = struct.unpack_from(f"{mark}5I", types, 4)
    found: dict[str, int] = {}
    offset = 0
    for text in types[header + start : header + start + size].split(b"\0"):
        found.setdefault(text[:_LONGEST].decode("ascii", "replace").rstrip(), offset)
        offset += len(text) + 1
    return found


def _records(program: ObjectProgram, texts: Mapping[str, int], mark: str) -> DebugRecords:
    functions = func_info(program, mark)
    if not functions:
        return DebugRecords()
    slots = slot_offsets(program.program)
    lines = b"".join(
        struct.pack(
            f"{mark}4I", slots[line.index], texts.get(line.file.rstrip(), 0),
            texts.get(line.text, 0), line_word(line.line, line.column),
        )
        for line in program.program.lines
    )  # fmt: skip
    return DebugRecords(functions, lines)
