"""Programs of a corpus in the VM: maps, fixups, entries, and what cannot be run."""

import json
import weakref

import pytest

from pybpf.corpus import CorpusMap, CorpusProgram, Fixup, RunResult
from pybpf.errors import VmFault
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.vm.batch import run_lines, vm_run
from pybpf.vm.machine import Machine

COUNT = """
    r1 = map[idx:0] ll
    *(u32 *)(r10 - 4) = 1
    r2 = r10
    r2 += -4
    call bpf_map_lookup_elem
    if r0 == 0 goto none
    r1 = *(u64 *)(r0 + 0)
    r1 += 1
    *(u64 *)(r0 + 0) = r1
    r2 = map[idx:0] + 8 ll
    *(u32 *)(r2 + 0) = 3
none:
    r0 = 2
    exit
"""
HASH = CorpusMap(MapType.HASH, 4, 8, 4, entries=((b"\1\0\0\0", b"\5" + bytes(7)),))
ARRAY = CorpusMap(MapType.ARRAY, 4, 16, 1)
FIXUPS = (Fixup(0, "map_fd", 0), Fixup(10, "map_value", 1))


def program(text, maps=(), fixups=(), **more):
    more = {"prog_type": ProgType.XDP, "data": bytes(20)} | more
    return CorpusProgram(id="p", insns=bytes(assemble(text)), maps=maps, fixups=fixups, **more)


@pytest.mark.parametrize("fast", [False, True])
def test_a_program_with_maps(fast):
    found = vm_run(program(COUNT, (HASH, ARRAY), FIXUPS), fast=fast)

    assert found == RunResult(
        "p",
        2,
        bytes(20),
        (
            ((b"\1\0\0\0", b"\6" + bytes(7)),),
            ((bytes(4), bytes(8) + b"\3" + bytes(7)),),
        ),
    )


@pytest.mark.parametrize(
    ("refused", "errno"),
    [
        (program("r0 = 0; exit", prog_type=99), 22),
        (program("r0 = 0; exit", (CorpusMap(99, 4, 4, 1),)), 22),
        (program("r0 = 0; exit", (), (Fixup(0, "map_fd", 0),)), 22),
        (program("r0 = 0; exit", data=b""), 22),
    ],
)
def test_what_cannot_be_run(refused, errno):
    assert vm_run(refused) == RunResult("p", errno=errno)


def test_a_fault_is_no_result():
    with pytest.raises(VmFault, match="null pointer"):
        vm_run(program("r1 = 0; r0 = *(u8 *)(r1 + 0); exit"))


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"key_size": 0, "value_size": 8, "max_entries": 4}, "keys have 4 bytes, not 0"),
        ({"key_size": 4, "value_size": (1 << 32) - 1, "max_entries": 1}, "more than 256 MiB"),
        ({"key_size": 4, "value_size": 8, "max_entries": (1 << 32) - 1}, "have 51539607540 bytes"),
    ],
)
def test_maps_that_no_machine_holds(spec, fault):
    program = {
        "id": "a",
        "prog_type": 1,
        "insns": bytes(assemble("r0 = 1; exit")).hex(),
        "data": "00" * 14,
    }
    lines = [json.dumps({**program, "maps": [{"type": 2, **spec}]}), json.dumps(program)]
    first, second = map(json.loads, run_lines(lines))
    assert first["r0"] is None
    assert fault in first["fault"]
    assert second["fault"] is None


def test_the_memory_of_a_run_is_given_back(monkeypatch):
    """Machines refer to themselves: one that took much must not wait for others."""
    made = []
    init = Machine.__init__

    def watched(self, *arguments, **more):
        init(self, *arguments, **more)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Machine, "__init__", watched)
    vm_run(
        program(
            "*(u32 *)(r10 - 4) = 0; r1 = map[idx:0] ll; r2 = r10; r2 += -4\n"
            "call bpf_map_lookup_elem; r0 = 2; exit",
            (CorpusMap(MapType.ARRAY, 4, 20 << 20, 1),),
            (Fixup(1, "map_fd", 0),),
        )
    )
    assert [reference() for reference in made] == [None]
