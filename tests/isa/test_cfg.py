"""Basic blocks of small programs, written as assembler text."""

from __future__ import annotations

import pytest
from hypothesis import given

from pybpf.isa.assembler import assemble
from pybpf.isa.cfg import Block, blocks, entries
from pybpf.isa.insn import Program
from pybpf.testing.strategies import programs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("exit", (Block(0, 1),)),
        ("r0 = 0; exit", (Block(0, 2),)),
        ("r0 = 0", (Block(0, 1),)),
        ("call 1; exit", (Block(0, 2),)),
        ("if r1 == 0 goto +1; r0 = 1; exit", (Block(0, 1, (1, 2)), Block(1, 2, (2,)), Block(2, 3))),
        ("if r1 == 0 goto +0; exit", (Block(0, 1, (1,)), Block(1, 2))),
        ("L: r1 += 1; goto L", (Block(0, 2, (0,)),)),
        ("L: may_goto L; exit", (Block(0, 1, (1, 0)), Block(1, 2))),
        ("gotol L; r0 = 0; L: exit", (Block(0, 1, (2,)), Block(1, 2, (2,)), Block(2, 3))),
        ("call f; exit; f: r0 = 0; exit", (Block(0, 2), Block(2, 4))),
        ("r1 = subprog:f ll; exit; f: exit", (Block(0, 2), Block(2, 3))),
        ("if r1 s< 0 goto -1", (Block(0, 1, (0,)),)),
    ],
)
def test_blocks(text, expected):
    assert blocks(assemble(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("exit", (0,)),
        ("L: goto L", (0,)),
        ("call g; call f; exit; f: exit; g: r1 = subprog:f ll; exit", (0, 3, 4)),
    ],
)
def test_entries(text, expected):
    assert entries(assemble(text)) == expected


@given(programs())
def test_blocks_tile_the_program(program: Program):
    found = blocks(program)

    assert [block.start for block in found] == [0, *(block.end for block in found[:-1])]
    assert found[-1].end == len(program.insns)
    assert all(0 <= after < len(found) for block in found for after in block.successors)
