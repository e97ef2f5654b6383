"""What is packed to .BTF.ext is what is parsed of it."""

import pytest

from pybpf.btf import ext
from pybpf.btf.builder import Builder
from pybpf.btf.ext import FuncInfo, SourceLine
from pybpf.btf.reader import Btf


@pytest.mark.parametrize("order", ["little", "big"])
def test_functions_and_lines(order):
    functions = {"xdp": [FuncInfo(0, 1), FuncInfo(16, 2)], ".text": [FuncInfo(8, 3)]}
    lines = {"xdp": [SourceLine(0, "x.s", "r0 = 1", 7, 3), SourceLine(8, "x.s", "exit", 8, 1)]}
    builder = Builder(order)

    data = ext.pack(functions, lines, builder.string, order)
    found = ext.parse(data, Btf(builder.blob()))

    assert {name: list(rows) for name, rows in found.functions.items()} == functions
    assert {name: list(rows) for name, rows in found.lines.items()} == lines
    assert not found.relocations


def test_places_that_there_is_no_room_for_are_cut():
    builder = Builder()
    lines = {"xdp": [SourceLine(0, "x.s", "exit", 1 << 30, 1 << 30)]}

    found = ext.parse(ext.pack({}, lines, builder.string), Btf(builder.blob()))

    (line,) = found.lines["xdp"]
    assert (line.line, line.column) == ((1 << 22) - 1, 1023)
