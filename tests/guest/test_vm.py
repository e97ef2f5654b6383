"""Random programs that the kernel accepts: BPF_PROG_TEST_RUN and the VM say the same."""

import os

import pytest

from pybpf.testing.guestbatch import Kernel
from pybpf.testing.programs import runnable
from pybpf.vm.batch import vm_run
from pybpf.vm.world import World

COUNT = int(os.environ.get("PYBPF_PROGRAMS", "400"))
RELEASE = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
SEED = 20


@pytest.fixture
def first_cpu():
    """Run on the CPU that the VM is, and whose values of per-CPU maps are compared."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {0})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("first_cpu")
# The types of programs stay open as long as the process that judges them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_the_vm_computes():
    kernel, compared = Kernel(), 0
    for program in runnable(SEED, COUNT):
        _, theirs = kernel.run(program)
        if theirs is None:
            continue
        for fast in (False, True):
            ours = vm_run(program, fast=fast, world=World(release=RELEASE))
            assert ours == theirs, (program.id, fast)
        compared += 1
    assert compared > COUNT // 2
