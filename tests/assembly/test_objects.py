"""Objects of the assembler hold what their text says, for pybpf and for libbpf."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pybpf.assembly.objects import write
from pybpf.assembly.read import read
from pybpf.errors import AssemblyError
from pybpf.isa.disassembler import format_insn
from pybpf.objfile.code import Reference, Use
from pybpf.objfile.externs import ExternKind
from pybpf.objfile.object import Object

EVERYTHING = Path(__file__).with_name("everything.s").read_text()


@pytest.fixture(params=["little", "big"])
def found(request) -> Object:
    return Object.parse(write(read(EVERYTHING, "x.s", request.param)))


def test_programs(found):
    assert found.licence == "Dual MIT/GPL"
    assert [(p.name, p.section) for p in found.programs] == [
        ("first", "xdp"), ("third", "xdp"), ("second", "socket"),
    ]  # fmt: skip
    first = found.program("first")
    assert first.references == (
        Reference(1, Use.DATA, ".data"), Reference(4, Use.DATA, ".data", 12),
        Reference(7, Use.DATA, ".rodata"), Reference(9, Use.MAP, "hits"),
        Reference(11, Use.MAP, "outer"),
    )  # fmt: skip
    assert [(f.name, f.slot, f.is_global) for f in first.functions] == [
        ("first", 0, True), ("again", 23, False), ("double", 25, False),
    ]  # fmt: skip
    shown = [format_insn(one) for one in first.program.insns]
    assert shown[:3] == ["r6 = 0", "r1 = map_value:.data ll", "r3 = *(u64 *)(r1 + 0)"]
    assert shown[9:15] == [
        "r2 = subprog:again ll", "r3 = 0", "r4 = 0", "call bpf_loop", "r1 = 5", "call double",
    ]  # fmt: skip
    assert shown[17:] == ["r0 = 0", "exit", "r0 = r1", "r0 += r0", "exit"]


def test_maps(found):
    assert [
        (m.name, m.type_name, m.key_size, m.value_size, m.max_entries, m.flags, m.values)
        for m in found.maps
    ] == [
        ("hits", "hash", 4, 32, 64, 1, ()),
        ("one", "array", 4, 8, 1, 0, ()),
        ("outer", "array_of_maps", 4, 4, 3, 0, ((2, "one"),)),
        ("jumps", "prog_array", 4, 4, 4, 0, ((1, "second"),)),
        ("events", "ringbuf", 0, 0, 4096, 0, ()),
        ("sizes", "percpu_hash", 8, 12, 2, 0, ()),
        (".rodata", "array", 4, 6, 1, 0x480, ()),
        (".data", "array", 4, 20, 1, 0x400, ()),
        (".bss", "array", 4, 16, 1, 0x400, ()),
    ]
    inner = found.map("outer").inner
    assert (inner.type_name, inner.value_size, inner.max_entries) == ("array", 8, 1)
    seven = (7).to_bytes(8, found.byteorder)
    assert found.map(".data").initial[:8] == seven
    assert found.map(".rodata").initial == b"hello\0"


def test_types(found):
    btf = found.btf
    event = btf.skip(found.map("hits").value_type)
    assert [(name, member.bit_offset) for name, member in btf.fields(event)] == [
        ("time", 0), ("pid", 64), ("comm", 96),
    ]  # fmt: skip
    variables = btf.variables(btf.datasec(".data"))
    assert [(v.name, v.offset, v.size) for v in variables] == [("counter", 0, 8), ("table", 8, 12)]


def test_lines(found):
    program = found.program("third").program

    assert [(row.index, row.file, row.text) for row in program.lines] == [
        (0, "x.s", "r1 = 1"), (1, "x.s", "call checked"), (2, "x.s", "r0 = XDP_DROP"),
        (3, "x.s", "exit"), (4, "x.s", "r0 = 3"), (5, "x.s", "exit"),
    ]  # fmt: skip
    assert program.lines[2].line == 1 + EVERYTHING[: EVERYTHING.index("r0 = XDP_DROP")].count("\n")


def test_externs():
    found = Object.parse(
        write(
            read(
                """
                .extern bpf_task_from_pid, struct task_struct *(s32 pid)
                .extern jiffies
                .extern runqueues, struct rq, weak
                .extern CONFIG_HZ, unsigned int, kconfig
                .prog tp_btf/task_newtask
                    r1 = 1
                    call bpf_task_from_pid
                    r1 = jiffies ll
                    r1 = CONFIG_HZ ll
                    r1 = runqueues ll
                    call kfunc bpf_rcu_read_lock
                    exit
                """
            )
        )
    )

    assert {e.name: (e.kind, e.weak) for e in found.externs} == {
        "bpf_task_from_pid": (ExternKind.KFUNC, False),
        "bpf_rcu_read_lock": (ExternKind.KFUNC, False),
        "jiffies": (ExternKind.KSYM, False),
        "runqueues": (ExternKind.TYPED_KSYM, True),
        "CONFIG_HZ": (ExternKind.KCONFIG, False),
    }
    assert found.programs[0].references == (
        Reference(1, Use.KFUNC, "bpf_task_from_pid"), Reference(2, Use.EXTERN, "jiffies"),
        Reference(4, Use.DATA, ".kconfig"), Reference(6, Use.EXTERN, "runqueues"),
        Reference(8, Use.KFUNC, "bpf_rcu_read_lock"),
    )  # fmt: skip


def test_an_object_without_functions():
    found = Object.parse(write(read(".map m, type=ringbuf, entries=4096\n.data\n.byte 1")))

    assert [m.name for m in found.maps] == ["m", ".data"]


def test_instructions_in_no_program():
    with pytest.raises(AssemblyError) as caught:
        write(read("r0 = 0\nexit\n", "x.s"))

    assert str(caught.value) == (
        "x.s:1:1: error: an object has all instructions in programs and functions\n"
        "    r0 = 0\n"
        "    ^^^^^^\n"
        "  hint: begin it with .prog and a section such as xdp or kprobe/vfs_read"
    )


def test_more_members_than_types_can_have():
    fields = " ".join(f"u8 f{i};" for i in range(70_000))
    text = f".struct s {{ {fields} }}\n.map m, type=hash, key=4, value=struct s, entries=1"

    with pytest.raises(AssemblyError, match="a STRUCT has no room for all that it says"):
        write(read(text))


def test_the_same_text_gives_the_same_bytes():
    assert write(read(EVERYTHING)) == write(read(EVERYTHING))


def test_llvm_reads_it(tmp_path):
    if shutil.which("llvm-objdump") is None:
        pytest.skip("llvm-objdump is not installed")
    file = tmp_path / "x.o"
    file.write_bytes(write(read(EVERYTHING)))

    done = subprocess.run(
        ["llvm-objdump", "-dr", "-t", file], capture_output=True, text=True, check=True
    )

    assert "warning" not in done.stderr
    for line in (
        r"g +F xdp\t[0-9a-f]+ first\n", r"l +F .text\t0+18 double\n", r"g +O .maps\t.* hits\n",
        r"R_BPF_64_64\tcounter\n", r"R_BPF_64_32\tdouble\n", r"R_BPF_64_64\t.text\n",
    ):  # fmt: skip
        assert re.search(line, done.stdout), line
