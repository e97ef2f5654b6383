"""Objects as programs that can be judged: maps, what refers to them, types and flags."""

import struct

import pytest

from pybpf.btf.reader import Btf
from pybpf.corpus import format_program, parse_program
from pybpf.errors import ObjectError
from pybpf.isa.abi import AttachType, MapType, ProgType
from pybpf.objfile.corpus import corpus_programs
from pybpf.objfile.object import Object


@pytest.fixture
def programs_of(c_objects):
    """Return a function: the name of a source in, its programs by their names out."""

    def programs(name, order="el"):
        found = Object.open(c_objects / f"{name}.{order}.o")
        return {program.name: corpus for program, corpus in corpus_programs(found)}

    return programs


def test_all_objects_make_lines_that_can_be_read_back(c_objects):
    for path in c_objects.glob("*.el.o"):
        for program, corpus in corpus_programs(Object.open(path)):
            assert corpus.id == program.name
            assert parse_program(format_program(corpus)) == corpus


def test_maps_are_those_that_the_program_names_in_the_order_of_its_instructions(programs_of):
    mix = programs_of("data")["mix"]

    assert {fixup.kind for fixup in mix.fixups} == {"map_value"}
    assert [fixup.insn for fixup in mix.fixups] == sorted(fixup.insn for fixup in mix.fixups)
    first_named = list(dict.fromkeys(fixup.map for fixup in mix.fixups))
    assert first_named == [*range(len(mix.maps))]


def test_constants_are_frozen_and_variables_are_not(programs_of):
    frozen = [made for made in programs_of("data")["mix"].maps if made.frozen]

    (constants,) = frozen
    assert constants.type == MapType.ARRAY
    assert constants.map_flags & 0x80  # BPF_F_RDONLY_PROG
    ((key, value),) = constants.entries
    assert key == bytes(4)
    assert b"three" in value
    assert struct.pack("<I", 100) in value


def test_declared_maps_have_their_types_where_the_kernel_takes_them(programs_of):
    locked = [made for program in programs_of("spin_lock").values() for made in program.maps]
    jumps = [made for program in programs_of("tail_call").values() for made in program.maps]

    assert all(made.btf_value for made in locked)
    assert MapType.PROG_ARRAY in {made.type for made in jumps}
    assert all(made.btf_value == 0 for made in jumps if made.type == MapType.PROG_ARRAY)


def test_what_the_name_of_a_section_says(programs_of):
    frags, devmap = programs_of("xdp_frags").values()

    assert (frags.prog_type, devmap.prog_type) == (ProgType.XDP, ProgType.XDP)
    assert frags.expected_attach_type == AttachType.XDP
    assert devmap.expected_attach_type == AttachType.XDP_DEVMAP
    assert (frags.prog_flags, devmap.prog_flags) == (32, 32)  # BPF_F_XDP_HAS_FRAGS


def test_functions_have_their_types(programs_of):
    entry = programs_of("subprogs_global")["entry"]
    types = Btf(entry.btf)

    records = [*struct.iter_unpack("<II", entry.func_info)]
    assert [types.name(number) for _, number in records] == [
        "entry", "clamp", "scale", "hidden", "maybe",
    ]  # fmt: skip
    assert records[0][0] == 0


def test_an_object_without_types(programs_of):
    for program in programs_of("no_btf").values():
        assert (program.btf, program.func_info) == (b"", b"")


def test_objects_of_the_other_byte_order_are_refused(programs_of):
    with pytest.raises(ObjectError, match="the object is for a big-endian machine"):
        programs_of("xdp_pass", "eb")


def test_what_programs_name_of_the_kernel(programs_of):
    """What typed programs are attached to, and the variables that they load."""

    assert programs_of("tp_btf")["on_switch"].attach_to == "sched_switch"
    assert programs_of("lsm")["file_open_slowly"].attach_to == "file_open"
    assert programs_of("struct_ops")["half"].attach_to == "tcp_congestion_ops.ssthresh"
    assert programs_of("struct_ops")["undo"].attach_to == "tcp_congestion_ops.undo_cwnd"
    assert programs_of("xdp_pass")["pass"].attach_to == ""
    assert {(one.name, one.typed, one.weak) for one in programs_of("ksyms")["use"].ksyms} == {
        ("init_task", False, False),
        ("runqueues_not_there", True, True),
    }
