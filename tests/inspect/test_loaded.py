"""Programs as the kernel rewrote them: what it put in is shown, what it moved is put back."""

from __future__ import annotations

import struct

from pybpf.inspect.listing import Style, listing
from pybpf.inspect.loaded import map_facts, of_loaded
from pybpf.inspect.names import Names
from pybpf.isa.abi import ProgType
from pybpf.isa.assembler import assemble
from pybpf.kernel.loaded import Loaded, LoadedMap
from pybpf.kernel.programs import ProgInfo
from pybpf.objfile.object import Object


def loaded(code, calls=(), maps=()):
    info = ProgInfo(7, "main", ProgType.XDP, b"", tuple(m.id for m in maps), 0, 0, 0, 0, 0, 0)
    return Loaded(info, code, tuple(maps), b"", (), (), dict(calls))


def insn(opcode, dst=0, src=0, off=0, imm=0):
    return struct.pack("<BBhi", opcode, src << 4 | dst, off, imm)


def texts(*args, **more):
    code = of_loaded(loaded(*args, **more))
    return [code.text(index) for index in range(len(code.program.insns))]


EXIT = insn(0x95)


def test_helpers_are_named_by_number_and_what_replaced_them_by_name():
    code = insn(0x85, imm=12345) + insn(0x85, imm=99) + insn(0x85, src=2, imm=7) + EXIT
    calls = {0: "bpf_ktime_get_ns", 1: "__htab_map_lookup_elem", 2: "bpf_task_acquire"}
    found = of_loaded(loaded(code, calls))
    assert found.program.insns[0].imm == 5
    assert texts(code, calls) == [
        "call bpf_ktime_get_ns", "call __htab_map_lookup_elem", "call bpf_task_acquire", "exit",
    ]  # fmt: skip


def test_what_no_table_has_is_no_jump():
    code = insn(0xBF, 0, 1, -1) + insn(0xC2) + insn(0xFF, 1, 2, 3, 4) + EXIT
    assert texts(code) == ["r0 = this_cpu(r1)", "nospec", ".insn 0xff, 1, 2, 3, 4", "exit"]
    assert "─" not in "\n".join(listing(of_loaded(loaded(code)), Style()))


def test_a_compiled_call_has_its_distance_in_off():
    code = insn(0x85, src=1, off=1, imm=1) + EXIT + EXIT
    assert texts(code) == ["call sub1", "exit", "exit"]


def test_the_address_of_a_function_has_a_number_in_its_second_slot():
    code = insn(0x18, 1, 4, 0, 2) + insn(0, imm=1) + EXIT + EXIT
    assert texts(code) == ["r1 = subprog:sub1 ll", "exit", "exit"]


def test_maps_are_named_by_their_ids():
    code = bytes(assemble("r1 = map_fd[5] ll\nr2 = map_value[6] + 8 ll\nr3 = map_fd[9] ll\nexit"))
    maps = [LoadedMap(5, "counts", 1, 4, 8, 1, 0), LoadedMap(6, "", 2, 4, 8, 1, 0)]
    assert texts(code, maps=maps) == [
        "r1 = map_fd:counts ll", "r2 = map_value:map#6 + 8 ll", "r3 = map_fd[9] ll", "exit",
    ]  # fmt: skip


def test_types_of_keys_and_values_have_their_names(c_objects):
    found = Object.parse((c_objects / "maps_btf.el.o").read_bytes(), "maps_btf")
    one = next(each for each in found.maps if each.key_type and each.value_type)
    data = found.elf.section(".BTF").data
    row = LoadedMap(5, one.name, 999, 4, 8, 1, 0, data, one.key_type, one.value_type)
    names = Names(found.btf)
    facts = map_facts(row)
    assert (facts.type, facts.key, facts.value) == (
        "999", names.type(one.key_type), names.type(one.value_type)
    )  # fmt: skip
    assert map_facts(row._replace(btf=b"")).type == "999"
