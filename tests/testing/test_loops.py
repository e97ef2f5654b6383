"""The loops of `pybpf fuzz` that need no kernel, driven by Hypothesis and its database."""

from dataclasses import replace

from hypothesis import given, settings

from pybpf.testing import loops
from pybpf.testing.programs import runnable
from pybpf.testing.programs.types import BY_NAME
from pybpf.testing.strategies import corpus_programs, packets


@settings(deadline=None)
@given(corpus_programs())
def test_programs_survive_as_text(program):
    assert loops.round_trip(program) is None


@settings(deadline=None)
@given(corpus_programs(valid=True, flavours=[BY_NAME["xdp"], BY_NAME["sched_cls"]]), packets())
def test_both_modes_of_the_vm_agree(program, packet):
    assert loops.vm_modes(replace(program, data=packet)) is None


@settings(max_examples=20, deadline=None)
@given(corpus_programs(valid=True, flavours=[BY_NAME["xdp"], BY_NAME["socket_filter"]]), packets())
def test_values_lie_within_what_the_model_says(program, packet):
    assert loops.model_values(replace(program, data=packet), "6.12") is None


def test_values_of_generated_programs_lie_within_what_the_model_says():
    for program in runnable(11, 60):
        assert loops.model_values(program, "7.3") is None, program.id
