"""What is read of objects that clang made of tests/objects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pybpf.isa.disassembler import disassemble
from pybpf.objfile.externs import ExternKind
from pybpf.objfile.object import Object

SOURCES = Path(__file__).parents[1] / "objects/src"


@pytest.fixture
def opened(c_objects):
    """Return a function: the name of a program's source in, its object out."""

    def open_object(name: str, order: str = "el") -> Object:
        return Object.open(c_objects / f"{name}.{order}.o")

    return open_object


def test_both_byte_orders_say_the_same(c_objects):
    files = sorted(c_objects.glob("*.el.o"))
    assert len(files) >= 60
    for file in files:
        little = Object.open(file)
        big = Object.open(file.with_name(file.name.replace(".el.", ".eb.")))
        assert (little.byteorder, big.byteorder) == ("little", "big")
        assert little.licence == big.licence
        assert [(p.name, p.section, p.kind) for p in little.programs] == [
            (p.name, p.section, p.kind) for p in big.programs
        ]
        sizes = ["name", "map_type", "key_size", "value_size", "max_entries", "flags", "values"]
        for one, other in zip(little.maps, big.maps, strict=True):
            assert [getattr(one, s) for s in sizes] == [getattr(other, s) for s in sizes]
        for one, other in zip(little.programs, big.programs, strict=True):
            assert len(one.functions) == len(other.functions), one.name
            assert [r.kind for _, r in _core(one)] == [r.kind for _, r in _core(other)]


def _core(program):
    return [(at.slot, at.relocation) for at in program.relocations]


def test_subprograms_come_behind_in_the_order_of_the_calls(opened):
    entry = opened("subprogs_global").program("entry")
    names = [f.name for f in entry.functions]
    assert names == ["entry", "clamp", "scale", "hidden", "maybe"]
    assert [f.is_global for f in entry.functions] == [True, True, True, False, True]
    assert all(f.type for f in entry.functions)
    assert entry.program.labels["scale"] == 31
    assert "call clamp" in disassemble(entry.program)


def test_functions_whose_address_is_taken_are_part_of_the_program(opened):
    walk = opened("callbacks").program("walk")
    assert [f.name for f in walk.functions] == ["walk", "add_entry", "add_index"]


def test_maps_and_data_are_named_in_the_instructions(opened):
    found = opened("data")
    assert [m.name for m in found.maps] == [".rodata", ".data", ".bss"]
    assert [m.kernel_name for m in found.maps] == ["data.rodata", "data.data", "data.bss"]
    assert found.map(".data").initial[8:12] == (1).to_bytes(4, "little")
    symbols = [i.symbol for i in found.programs[0].program.insns if i.symbol and i.symbol[0] == "."]
    assert symbols == [".rodata", ".data", ".bss", ".data", ".data", ".rodata"]
    offsets = [r.offset for r in found.programs[0].references]
    assert offsets == [0, 8, 0, 0, 24, 4]


def test_maps_hold_maps_and_programs_from_the_start(opened):
    outer = opened("maps_inner").map("outer")
    assert outer.values == ((0, "first"), (3, "second"))
    assert (outer.inner.type_name, outer.inner.max_entries) == ("array", 4)
    assert opened("tail_call").map("jumps").values == ((0, "first"), (2, "second"))


def test_kinds_of_externs(opened):
    assert {e.name: (e.kind, e.weak) for e in opened("ksyms").externs} == {
        "init_task": (ExternKind.KSYM, False),
        "runqueues_not_there": (ExternKind.TYPED_KSYM, True),
    }
    assert {e.name: (e.kind, e.weak) for e in opened("kfuncs").externs} == {
        "bpf_task_from_pid": (ExternKind.KFUNC, False),
        "bpf_task_release": (ExternKind.KFUNC, False),
        "bpf_not_there": (ExternKind.KFUNC, True),
    }
    places = {e.name: (e.offset, e.size) for e in opened("kconfig").externs}
    assert places == {
        "CONFIG_HZ": (0, 4),
        "LINUX_KERNEL_VERSION": (4, 4),
        "CONFIG_BPF_SYSCALL": (8, 1),
        "CONFIG_NOT_THERE": (9, 1),
    }


def test_lines_of_the_source(opened):
    program = opened("subprogs_static").program("one").program
    assert program.lines[0].index == 0
    assert {line.file.rsplit("/", 1)[-1] for line in program.lines} == {"subprogs_static.c"}
    texts = {line.text for line in program.lines}
    assert {"\treturn twice(skb, 5);", "\treturn a + b * 3;"} <= texts


def test_old_objects(opened):
    found = opened("maps_legacy")
    assert [(m.name, m.type_name, m.max_entries, m.flags) for m in found.maps] == [
        ("counts", "hash", 100, 1),
        ("slots", "array", 10, 0),
    ]
    assert found.version == 0x50A00
    assert opened("no_btf").btf is None
    assert opened("text_only").programs[0].kind is None


def test_the_64_bits_that_say_where_an_arena_begins(newest_clang, tmp_path):
    """Of libbpf 1.4 and later, so no object of tests/objects has it: Debian 12 has an older one."""
    text = """
        #include "bpf.h"
        struct { int (*type)[33]; int (*max_entries)[10]; int (*map_flags)[1024];
                 __ulong(map_extra, 0x1ull << 44); } arena SEC(".maps");
        SEC("syscall") int run(void *ctx) { return (long)&arena & 1; }
    """
    file = tmp_path / "arena.o"
    options = ["-target", "bpfel", "-g", "-O2", f"-I{SOURCES}", "-xc", "-", "-c", "-o", file]
    subprocess.run([newest_clang, *options], input=text, text=True, check=True, capture_output=True)
    found = Object.open(file).map("arena")
    assert found is not None
    assert found.extra == 1 << 44


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("throws", ["throws"]),
        ("catches", ["catches", "caught"]),
        ("catches_nobody", ["catches_nobody"]),
        ("calls_callback", ["calls_callback", "caught"]),
    ],
)
def test_what_exceptions_end_in_is_linked(c_objects, name, functions):
    program = Object.open(c_objects / "own_exceptions.el.o").program(name)

    assert [info.name for info in program.functions] == functions
