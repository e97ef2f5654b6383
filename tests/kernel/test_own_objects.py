"""The C programs of tests/objects: the running kernel and its model say the same of them."""

import signal

import pytest

from pybpf.isa.abi import ProgType
from pybpf.objfile.corpus import corpus_programs
from pybpf.objfile.object import Object
from pybpf.target.profile import profile
from pybpf.verifier.verify import verify

# What is attached to the kernel's own types needs their numbers, which a loader looks up.
TYPED = frozenset({ProgType.TRACING, ProgType.LSM, ProgType.EXT, ProgType.STRUCT_OPS})


@pytest.fixture
def kernel():
    from pybpf.testing.guestbatch import Kernel

    before = signal.getsignal(signal.SIGALRM)
    made = Kernel()
    yield made
    made.close()
    signal.signal(signal.SIGALRM, before)


@pytest.mark.kernel
def test_verdicts_are_those_of_the_kernel(c_objects, kernel):
    model, compared, different = profile("live"), 0, {}
    for path in sorted(c_objects.glob("*.el.o")):
        for program, subject in corpus_programs(Object.open(path)):
            if program.program.prog_type in TYPED | {ProgType.UNSPEC} or program.relocations:
                continue
            report, verdict = verify(subject, model), kernel.judge(subject)
            if report.verdict == "unknown":
                continue
            compared += 1
            if report.verdict != verdict.verdict:
                different[path.name, program.name] = report.message, verdict.message
    assert compared > 80
    assert different == {}
