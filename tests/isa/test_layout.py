"""Slots and targets, where `lddw` takes two slots."""

from __future__ import annotations

import pytest
from hypothesis import given

from pybpf.errors import EncodingError
from pybpf.isa.assembler import assemble
from pybpf.isa.insn import Program, insn
from pybpf.isa.layout import distances, slot_offsets, strip_labels, targets
from pybpf.testing.strategies import programs

PROGRAM = """
        if r1 == 0 goto out
        r1 = map:counts ll
        call sub
        goto -5
out:    exit
sub:    r2 = subprog:sub ll
        exit
"""


def test_slots_targets_and_distances():
    program = assemble(PROGRAM)

    assert slot_offsets(program) == (0, 1, 3, 4, 5, 6, 8, 9)
    assert targets(program) == (4, None, 5, 0, None, 5, None)
    assert distances(program) == (4, None, 2, -5, None, -1, None)


def test_strip_labels_leaves_map_symbols():
    program = strip_labels(assemble(PROGRAM))

    assert not program.labels
    assert [i.symbol for i in program.insns if i.symbol] == ["counts"]
    assert [i.off for i in program.insns if i.op.form.name.startswith(("JUMP", "BR"))] == [4, -5]


def test_program_without_jumps():
    assert targets(Program((insn("mov64_imm"), insn("exit")))) == (None, None)
    assert slot_offsets(Program(())) == (0,)


@given(programs())
def test_labels_and_distances_mean_the_same(program):
    assert targets(strip_labels(program)) == targets(program)
    assert distances(strip_labels(program)) == distances(program)


def test_unknown_label():
    with pytest.raises(EncodingError, match="instruction 0: no label is called 'x'"):
        targets(Program((insn("ja", symbol="x"),)))
