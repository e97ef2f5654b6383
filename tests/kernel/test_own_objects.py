"""The C programs of tests/objects: the running kernel and its model say the same of them.

They are made right for this kernel's types as a loader does (CO-RE). `make test-kernels` runs this
in guests, where no program is refused for what it is.
"""

import os
import signal
from collections import Counter

import pytest

from pybpf.isa.abi import ProgType
from pybpf.objfile.corpus import corpus_programs
from pybpf.objfile.object import Object
from pybpf.target.profile import profile
from pybpf.verifier.kerneltypes import types_of
from pybpf.verifier.verify import verify

EPERM = 1
TYPED = frozenset({ProgType.TRACING, ProgType.LSM, ProgType.EXT, ProgType.STRUCT_OPS})


@pytest.fixture
def kernel():
    from pybpf.testing.guestbatch import Kernel

    before = signal.getsignal(signal.SIGALRM)
    made = Kernel()
    yield made
    made.close()
    signal.signal(signal.SIGALRM, before)


def refused_by_machine(verdict):
    """Whether what forbids the program is not the verifier, but this machine's policy."""
    return verdict.errno == EPERM and not verdict.message and "PYBPF_GUEST" not in os.environ


@pytest.mark.kernel
@pytest.mark.timeout(600)  # objects are compiled, which takes minutes in an emulated machine
def test_verdicts_are_those_of_the_kernel(c_objects, kernel):
    known = types_of(None, live=True)
    if known is None:
        pytest.skip("this kernel does not show its types")
    model, different = profile("live"), {}
    compared = Counter()
    for path in sorted(c_objects.glob("*.el.o")):
        for program, subject in corpus_programs(Object.open(path), known.btf):
            if program.program.prog_type is ProgType.UNSPEC:
                continue
            verdict = kernel.judge(subject)
            if refused_by_machine(verdict):
                assert program.program.prog_type in TYPED
                continue
            report = verify(subject, model, types=known)
            compared[verdict.verdict] += 1
            if report.verdict != verdict.verdict:
                different[path.name, program.name] = report.verdict, report.message, verdict.message
    assert compared["accept"] > 100
    assert compared["reject"] > 20
    # The model may say that it does not know; one in a hundred at most.
    assert {place: one for place, one in different.items() if one[0] != "unknown"} == {}
    assert len(different) <= compared.total() / 100, different
