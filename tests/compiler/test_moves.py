"""Moves that are to happen at once, one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybpf.compiler.moves import in_order

registers = st.integers(1, 5)


@given(st.dictionaries(registers, st.integers(0, 9)))
def test_every_target_gets_what_its_source_held(moves):
    held = {register: f"value {register}" for register in range(10)}

    for to, source in in_order(moves, spare=0):
        held[to] = held[source]

    assert all(held[to] == f"value {source}" for to, source in moves.items())
    assert all(held[r] == f"value {r}" for r in range(1, 10) if r not in moves)


@pytest.mark.parametrize(
    ("moves", "steps"),
    [
        ({1: 1}, []),
        ({1: 6}, [(1, 6)]),
        ({1: 2, 2: 3}, [(1, 2), (2, 3)]),
        ({2: 1, 3: 2}, [(3, 2), (2, 1)]),
        ({1: 2, 2: 1}, [(0, 2), (2, 1), (1, 0)]),
        ({1: 2, 2: 1, 3: 0}, [(3, 0), (0, 2), (2, 1), (1, 0)]),
    ],
)
def test_no_more_moves_than_needed(moves, steps):
    assert list(in_order(moves, spare=0)) == steps
