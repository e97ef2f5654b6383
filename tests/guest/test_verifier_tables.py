"""The tables of what programs may do, held to the kernel that this runs on."""

import os

import pytest

from pybpf.isa.abi import ProgType
from pybpf.isa.helpers import HELPERS
from pybpf.target.profile import NAMES, nearest, profile
from pybpf.verifier.contexts import ContextAccess, context
from pybpf.verifier.mapcompat import refuse_helper
from pybpf.verifier.mapcreate import refuse_creation
from pybpf.verifier.protos import Arg, CallFlag, proto
from pybpf.verifier.results import refusal, result_range

RELEASE = os.uname().release
VERSION = tuple(int(part) for part in RELEASE.split(".")[:2])
NAME = nearest(RELEASE)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(f"{VERSION[0]}.{VERSION[1]}" not in NAMES, reason="no profile of its own"),
]


@pytest.fixture(scope="module")
def kernel(tool):
    return tool("bpf_probes").Kernel()


@pytest.fixture(scope="module")
def subjects(tool, kernel):
    """Return the kinds of programs that this kernel takes."""
    return [subject for subject in tool("bpf_probes").SUBJECTS if kernel.loads(subject)]


def test_helpers_and_types_are_those_of_the_profile(tool, kernel):
    record = tool("record_profile")
    known = profile(NAME)

    types, _ = record.program_types(kernel, loud=True)

    wrong = {
        (kind, key): (value, known._types[kind].get(key))
        for kind, facts in types.items()
        for key, value in facts.items()
        if value != known._types[kind].get(key)
    }
    assert wrong == {}
    assert {kind.value for kind in known.map_types} == record.map_types(kernel)
    assert record.instructions(kernel) <= known.instructions
    assert {name: getattr(known.limits, name) for name in record.limits(kernel)} == (
        record.limits(kernel)
    )


@pytest.mark.timeout(1200)
def test_contexts(tool, kernel, subjects):
    """Every offset, every size, loads and stores: some 100,000 programs."""
    probes = tool("context_probes")
    wrong = []
    for subject in subjects:
        seen = context(VERSION, subject.type, subject.attach)
        if probes.SAME.match(subject.name) or seen is None or seen.typed:
            continue
        for offset in probes.places(subject):
            for size in probes.SIZES:
                for write in (False, True):
                    answer = seen.access(offset, size, write=write)
                    allowed = isinstance(answer, ContextAccess)
                    if probes.may(kernel, subject, offset, size, write=write) is not allowed:
                        wrong.append((subject.name, offset, size, write, allowed))
                    elif allowed and not write:
                        kind = probes.kind(kernel, subject, offset, size)
                        if kind != answer.kind:
                            wrong.append((subject.name, offset, size, kind, answer.kind))

    assert wrong == []


def test_results(tool, kernel, subjects):
    probes = tool("bpf_probes")
    wrong = []
    for subject in subjects:
        allowed = result_range(VERSION, subject.type, subject.attach)
        if subject.name.startswith("lsm/lsm_mac"):
            continue  # that depends on the hook
        for value in (-1000, -1, 0, 1, 2, 3, 4, 1000):
            answer = kernel.load(subject, probes.mov(0, value) + probes.EXIT)
            fits = allowed is None or allowed[0] <= value <= allowed[1]
            if answer.accepted is not fits or (
                not fits and refusal(VERSION, allowed, value, value) not in answer.log
            ):
                wrong.append((subject.name, value, allowed, answer.log))

    assert wrong == []


def test_maps_for_helpers(tool, kernel, subjects):
    probes = tool("map_probes")
    wrong, known = [], set()
    for subject in subjects:
        if "/" in subject.name and subject.name not in probes.WITH_MAPS:
            continue
        for number, answers in probes.refused(kernel, subject, known).items():
            known.add(number)
            for kind, said in answers.items():
                ours = refuse_helper(kind, number, VERSION, subject.type, subject.attach)
                told = said == "" or said.startswith("cannot pass map_type")
                if told and (ours or "") != said:
                    wrong.append((subject.name, number, kind, said, ours))

    assert wrong == []


def test_creation_of_maps(tool, kernel):
    known = profile(NAME).map_types
    wrong = [
        (case, error, ours)
        for case, error in tool("map_probes").creations(kernel)
        if case[0] in known and (ours := refuse_creation(*case) or 0) != error
    ]

    assert wrong == []


@pytest.fixture(scope="module")
def calls(tool, kernel, subjects):
    """Return each kind of program with each helper that it may call, and the prototype."""
    may_call = tool("record_profile").may_call
    return [
        (subject, proto(number, VERSION, subject.type))
        for subject in subjects
        for number in HELPERS.values()
        if may_call(kernel, subject, number)
    ]


def test_first_arguments(tool, kernel, calls):
    """The context is passed alone: the kernel asks for another, or for a second argument."""
    probes = tool("call_probes")
    wrong = []
    for subject, helper in calls:
        said = probes.with_context_alone(kernel, subject, helper.number)
        if "sleep" in said:
            continue
        kinds = [arg.kind for arg in helper.args]
        if not kinds or kinds in ([Arg.PTR_TO_CTX], [Arg.ANYTHING]):
            fits = not said.startswith("R1 ") and "!read_ok" not in said
        elif kinds[0] in {Arg.PTR_TO_CTX, Arg.ANYTHING}:
            fits = said == "R2 !read_ok"
        else:
            fits = said.startswith("R1 ")
        if not fits:
            wrong.append((subject.name, helper.name, said, kinds))

    assert wrong == []


def test_licences_and_sleep(tool, kernel, calls):
    probes = tool("call_probes")
    wrong = []
    for subject, helper in calls:
        said = probes.without_licence(kernel, subject, helper.number)
        whole = {ProgType.STRUCT_OPS, ProgType.LSM}
        if subject.type in whole or (helper.name == "get_func_ip" and subject.attach):
            continue  # all of them need it; those for several functions do not
        if ("GPL-restricted" in said) is not (CallFlag.GPL in helper.flags):
            wrong.append((subject.name, helper.name, said))
        said = probes.with_context_alone(kernel, subject, helper.number)
        sleeps = CallFlag.SLEEP in helper.flags and not subject.flags
        if ("sleep" in said) is not sleeps:
            wrong.append((subject.name, helper.name, said))

    assert wrong == []


def test_packets(tool, kernel, calls):
    probes = tool("call_probes")
    wrong, seen = [], set()
    for subject, helper in calls:
        if subject.type in probes.PACKETS and "/" not in subject.name:
            keeps = probes.keeps_packet(kernel, subject, helper)
            if keeps is not None:
                seen.add(helper.name)
                if keeps is (CallFlag.PACKET in helper.flags):
                    wrong.append((subject.name, helper.name, keeps))

    assert wrong == []
    assert {"skb_pull_data", "xdp_adjust_head", "l3_csum_replace"} <= seen
