"""What a kernel is told of the functions and lines of programs is what .BTF.ext says of them."""

import struct

import pytest

from pybpf.btf.reader import Btf, Kind
from pybpf.isa.layout import slot_offsets
from pybpf.objfile.debuginfo import DebugRecords, debug_info
from pybpf.objfile.object import Object


@pytest.mark.parametrize("order", ["el", "eb"])
def test_records_refer_to_the_lines_of_the_source(c_objects, order):
    files = sorted(c_objects.glob(f"*.{order}.o"))
    lines = 0
    for file in files:
        found = Object.open(file)
        told = debug_info(found)
        if not told.btf:
            assert found.btf is None
            continue
        btf = Btf(told.btf)
        mark = "<" if order == "el" else ">"
        for program in found.programs:
            records = told.programs[program.name]
            slots = slot_offsets(program.program)
            rows = list(struct.iter_unpack(f"{mark}4I", records.line_info))
            assert [row[0] for row in rows] == [slots[line.index] for line in program.program.lines]
            for (_, name, text, place), line in zip(rows, program.program.lines, strict=True):
                said = btf.text(name), btf.text(text).rstrip(), place >> 10, place & 1023
                assert said == (line.file, line.text, line.line, line.column)
            lines += len(rows)
            for slot, number in struct.iter_unpack(f"{mark}II", records.func_info):
                assert btf.kind(number) is Kind.FUNC
                assert (slot, btf.name(number)) in {(f.slot, f.name) for f in program.functions}
    assert lines > 1000


def test_an_object_without_types_has_no_records(c_objects):
    told = debug_info(Object.open(c_objects / "no_btf.el.o"))
    assert told.btf == b""
    assert told.programs == {}
    assert DebugRecords() == DebugRecords(b"", b"")
