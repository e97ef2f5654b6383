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
    # Linux 7 reads it where no branch is in between: it takes bpf_map_peek_elem for a call that
    # only writes, and may have forgotten what it is to be asked for.
    ("bloom-peek", "7.3"),
    ("bloom-peek-uninit", "7.3"),
}
# Calls of what a kernel does not have: guests get further than loaders do.
MISSING = {("wq-callback-new", "6.12"), ("wq-callback", "7.3"), ("wq-callback-1", "7.3")}


def says(case: Case, kernel: str) -> str:
    """Return what a kernel said; the map is called m there, and lines without an end go on."""
    text = case.says[kernel].replace("map 'm'", "map ''")
    if re.match(r"\d+: \([0-9a-f]{2}\) ", text):
        # The kernel gives no reason, and its last line is the instruction.
        return "errno 22"
    return re.sub(r"processed \d+ insns.*", "", text)


@pytest.mark.parametrize(
    ("case", "kernel"),
    [
        pytest.param(case, kernel, id=f"{case.name}-{kernel}")
        for case in CASES
        for kernel in KERNELS
        if kernel in case.says
    ],
)
def test_verdict_is_the_kernels(case: Case, kernel: str) -> None:
    verdict = model_verdict(case.program(), kernel)
    if (case.name, kernel) in UNKNOWN:
        assert verdict.verdict == "unknown"
        return
    if (case.name, kernel) in MISSING:
        assert re.fullmatch(r"extern \(func ksym\) '\w+': not found .*", verdict.message)
        assert says(case, kernel) != "accept"
        return
    assert words(verdict) == says(case, kernel)


def test_cases_are_about_many_things() -> None:
    verdicts = [text == "accept" for case in CASES for text in case.says.values()]
    assert len(CASES) > 400
    assert verdicts.count(True) > 250
    assert verdicts.count(False) > 250
    assert len({case.name for case in CASES}) == len(CASES)
