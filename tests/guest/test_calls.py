"""What the cases about calls say of a kernel, held to the kernel that this runs on."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from pybpf.target.profile import nearest
from pybpf.testing.cases import read_cases, words
from pybpf.testing.guestbatch import Kernel

FILES = sorted((Path(__file__).parents[1] / "verifier").glob("calls*.cases"))
RELEASE = nearest(os.uname().release)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_cases_say_what_this_kernel_says(file):
    cases = [case for case in read_cases(file) if RELEASE in case.says]
    if not cases:
        pytest.skip(f"no case is about Linux {RELEASE}")
    with closing(Kernel()) as kernel:
        found = {case.name: words(kernel.judge(case.program())) for case in cases}

    assert found == {case.name: case.says[RELEASE] for case in cases}
