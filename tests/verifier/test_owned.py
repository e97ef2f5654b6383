"""Programs that own objects: what guests of three kernels said of each, the model says, too."""

import re
from pathlib import Path

import pytest

from pybpf.objfile.corpus import corpus_programs
from pybpf.objfile.object import Object
from pybpf.target.profile import profile
from pybpf.verifier.explain import explain
from pybpf.verifier.verify import verify

KERNELS = ("6.1", "6.12", "7.3")
# What loaders say before a kernel is asked: these kernels get further, or say something else.
LOADERS = re.compile(r"extern \(func ksym\)|cannot create map")


def recorded():
    """Return what kernels say, by object, program and kernel."""
    says = {}
    name = program = ""
    for line in (Path(__file__).parent / "owned.txt").read_text().splitlines()[2:]:
        if not line.startswith(" "):
            name = line.rstrip(":")
        elif not line.startswith("    "):
            program = line.strip()
        else:
            kernels, _, text = line.strip().partition(": ")
            says.update(dict.fromkeys(((name, program, one) for one in kernels.split()), text))
    return says


SAYS = recorded()
OBJECTS = sorted({name for name, _, _ in SAYS})


@pytest.mark.parametrize("name", OBJECTS)
def test_verdicts_are_the_kernels(c_objects, name):
    path = c_objects / f"{name}.el.o"
    if not path.exists():
        pytest.skip("no clang here has what it needs")
    wrong = {}
    for program, corpus in corpus_programs(Object.open(path)):
        for kernel in KERNELS:
            report = verify(corpus, profile(kernel))
            said = SAYS[name, program.name, kernel]
            found = "accept" if report.verdict == "accept" else report.message
            if LOADERS.match(found) and report.verdict == "reject" and said != "accept":
                continue
            if found != said:
                wrong[program.name, kernel] = found
    assert wrong == {}


def test_every_rejection_is_explained():
    texts = {text for (_, _, kernel), text in SAYS.items() if kernel != "6.1"}
    assert [text for text in sorted(texts - {"accept"}) if explain(text) is None] == []


def test_all_kinds_of_verdicts_are_held_to():
    texts = [text for (_, _, kernel), text in SAYS.items() if kernel != "6.1"]
    assert texts.count("accept") > 100
    assert len(set(texts)) > 80
