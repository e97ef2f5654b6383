"""The model against a kernel that runs in a guest, by random programs; and a sample kept in git."""

import lzma
from pathlib import Path

import pytest

from pybpf import corpus
from pybpf.testing import oracles
from pybpf.testing.loops import model_accepts, other_run
from pybpf.testing.programs import programs, runnable
from pybpf.testing.soundness import Tally, compare

DATA = Path(__file__).parent.parent / "data" / "verifier"
KERNELS = ("6.12", "7.3")
JUDGED, RUN = 3000, 600


def told(problem):
    """What a loop says, with all that a guest can suffer from told apart."""
    return problem is not None and oracles.CRASHED not in problem


@pytest.mark.boots_guest
@pytest.mark.timeout(1800)
def test_the_model_accepts_nothing_that_a_kernel_rejects(kernel_in_guest):
    asked = list(programs(seed=41, count=JUDGED))
    try:
        problems = list(model_accepts(asked, kernel_in_guest))
    except oracles.GuestUnavailable as error:
        pytest.skip(str(error))

    found = [(p.id, problem) for p, problem in zip(asked, problems, strict=True) if told(problem)]
    assert found == []


@pytest.mark.boots_guest
@pytest.mark.timeout(1800)
def test_the_vm_gives_what_a_kernel_gives(kernel_in_guest):
    asked = list(runnable(seed=41, count=RUN))
    try:
        judged = oracles.kernel_test_run(asked, kernel_in_guest)
    except oracles.GuestUnavailable as error:
        pytest.skip(str(error))

    ran = [(p, j.result) for p, j in zip(asked, judged, strict=True) if j.result is not None]
    assert len(ran) > 0.9 * RUN
    assert [(p.id, found) for p, result in ran if (found := other_run(p, result))] == []


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_model_agrees_with_recorded_verdicts(kernel):
    asked = corpus.read_file(str(DATA / "sample.jsonl.xz"))
    with lzma.open(DATA / f"sample.verdicts-{kernel}.jsonl.xz") as lines:
        verdicts = [corpus.parse_verdict(line) for line in lines]

    tally = Tally()
    for one in compare(asked, verdicts, kernel):
        tally.add(one)

    assert tally.total == len(verdicts)
    assert [one.program.id for one in tally.unsound] == []
    assert len(tally.false_rejections) <= 0.01 * tally.accepted
