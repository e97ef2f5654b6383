"""The model's verdicts of programs that clang made of C: real shapes, all of which kernels take.

What guests of Linux 6.1, 6.12 and 7.3 said of those that need no types of their own is the same.
"""

import pytest

from pybpf.objfile.corpus import corpus_programs
from pybpf.objfile.object import Object
from pybpf.target.profile import profile
from pybpf.verifier.verify import verify

KERNELS = ("6.1", "6.12", "7.3")
# Object and program, and why the kernel does not take them.
REFUSED = {
    ("data", "mix"): "math between map_value pointer and register with unbounded min value is not "
    "allowed",
    ("refused", "unchecked"): "R0 pointer arithmetic on map_value_or_null prohibited, null-check "
    "it first",
    ("unlicensed", "forbidden"): "cannot call GPL-restricted function from non-GPL compatible "
    "program",
}
NOT_IN_6_1 = {"netfilter"}
# Linux 6.14 began to know that arrays have the entry of a constant key.
THERE = ("7.3", "refused", "unchecked")
# They ask Bloom filters for what is on the stack.
UNKNOWN = {("7.3", "maps_pinned", "on_switch"), ("7.3", "values", "fill")}


@pytest.mark.parametrize("kernel", KERNELS)
def test_verdicts_of_objects(c_objects, kernel):
    wrong = {}
    seen = 0
    for path in sorted(c_objects.glob("*.el.o")):
        name = path.name.removesuffix(".el.o")
        if name.startswith("own_"):
            continue  # test_owned.py
        for program, corpus in corpus_programs(Object.open(path)):
            if program.kind is None or (kernel == "6.1" and name in NOT_IN_6_1):
                continue
            seen += 1
            report = verify(corpus, profile(kernel))
            if corpus.attach_to or corpus.ksyms or name.startswith("typed_"):
                # Nobody has said here what the kernel's types are.
                assert report.verdict != "accept"
                continue
            if (kernel, name, program.name) in UNKNOWN:
                assert "Bloom filter" in report.message
                continue
            expected = ("accept", "")
            if (name, program.name) in REFUSED and (kernel, name, program.name) != THERE:
                expected = ("reject", REFUSED[name, program.name])
            if (report.verdict, report.message) != expected:
                wrong[name, program.name] = report.verdict, report.message
    assert seen > 100
    assert wrong == {}
