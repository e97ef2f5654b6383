"""Calls in the model: each case of calls.cases gets the verdict and the words of three kernels."""

import re
from pathlib import Path

import pytest

from pybpf.testing.cases import KERNELS, Case, read_cases, words
from pybpf.testing.oracles import model_verdict

HERE = Path(__file__).parent
CASES = [case for file in sorted(HERE.glob("calls*.cases")) for case in read_cases(file)]

# What the model does not say, and why that is right.
UNKNOWN = {
    # Linux 6.1 looks at the fixed part of the offset only, and the dynptr may be elsewhere.
    ("dynptr-var", "6.1"),
}


def says(case: Case, kernel: str) -> str:
    """Return what a kernel said; the map is called m there, and lines without an end go on."""
    text = case.says[kernel].replace("map 'm'", "map ''")
    return re.sub(r"processed \d+ insns.*", "", text)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdict_is_the_kernels(case: Case, kernel: str) -> None:
    if kernel not in case.says:
        pytest.skip(f"not judged by {kernel}")
    verdict = model_verdict(case.program(), kernel)
    if (case.name, kernel) in UNKNOWN:
        assert verdict.verdict == "unknown"
        return
    assert words(verdict) == says(case, kernel)


def test_cases_are_about_many_things() -> None:
    verdicts = [text == "accept" for case in CASES for text in case.says.values()]
    assert len(CASES) > 250
    assert verdicts.count(True) > 250
    assert verdicts.count(False) > 250
    assert len({case.name for case in CASES}) == len(CASES)
