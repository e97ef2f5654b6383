"""Twenty compiled scripts, as bpftool and llvm-objdump print them, are what we print of them."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from contextlib import closing
from dataclasses import replace

import pytest

from pybpf.compiler.pipeline import compile_script
from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import format_insn
from pybpf.isa.encoding import decode, encode
from pybpf.isa.insn import Program, insn
from pybpf.isa.layout import slot_offsets, strip_labels
from pybpf.isa.table import Form
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.loader import Loaded

BPFTOOL = shutil.which("bpftool")

SCRIPTS = (
    "BEGIN { exit(0); }",
    'BEGIN { printf("%d %s\\n", pid, comm); }',
    "BEGIN { print(time, walltime, cpu, uid, gid, kpid); }",
    "BEGIN { a[1] = 2; b[pid, comm] = time; delete a[1]; }",
    "BEGIN { print(a[1]); a[1] = -5; if (a[1] < 0) { exit(1); } else { exit(2); } }",
    'BEGIN / strcmp(comm, "pybpf") / { @[stack] = count(); }',
    "BEGIN { print(-7 / (pid + 1), uid % 3, pid * gid, pid << 3, time >> uid); }",
    "BEGIN { print(pid && uid || gid, pid ^^ uid, !pid, ~gid); }",
    "BEGIN { @[pid] = sum(time - 5); @q = quantize(time); }",
    "END { print(stack); a[1, 2, 3] = 4; print(a); }",
    "interval:1s { @[cpu] = count(); @t[cpu] = sum(1); print(cpu); clear(@t); }",
    "profile:99hz { @[stack, comm] = count(); }",
    "tracepoint:raw_syscalls/sys_enter { @[data->id] = count(); }",
    "tracepoint:raw_syscalls/sys_enter / pid == 1 / { print(data->args, *data); }",
    "tracepoint:raw_syscalls/sys_exit { @[comm] = quantize(data->ret); }",
    "tracepoint:sched/sched_switch { s[data->next_pid] = time; }",
    "tracepoint:sched/sched_switch / s[1] > 3 / { @ = quantize(s[1]); s[1] = 2; }",
    "tracepoint:syscalls/sys_enter_openat { print(data->filename, data->dfd < 0); }",
    'tracepoint:syscalls/sys_enter_read { printf("%-16s %5d\\n", comm, data->count); }',
    "tracepoint:sched/sched_process_exec { print(data->filename, str(ctx), mem(uptr(pid), 16)); }",
)  # fmt: skip


@pytest.mark.kernel
@pytest.mark.skipif(BPFTOOL is None, reason="bpftool is not installed")
@pytest.mark.parametrize("text", SCRIPTS)
def test_bpftool_prints_the_loaded_program_as_we_do(text):
    script = compile_script(text, LiveTarget())

    with closing(Loaded(script)) as loaded:
        program = loaded.program(script.probes[0])
        xlated = program.xlated()
        dumped = subprocess.run(
            [BPFTOOL, "prog", "dump", "xlated", "id", str(program.info().id)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    program = strip_labels(decode(_without_internals(xlated)))
    ours = _by_slot(program)
    lines = re.findall(r"^ *(\d+): \((.*)$", dumped, re.MULTILINE)
    # The kernel turns helpers into distances, which bpftool decorates with names.
    theirs = {int(slot): re.sub(r"call \S+#", "call ", f"({line}") for slot, line in lines}
    # bpftool before 7.3 calls sign-extending loads a BUG.
    assert len(theirs) > len(ours) * 3 // 4
    assert _bytes({**ours, **theirs}) == _bytes(ours)


def _by_slot(program: Program) -> dict[int, str]:
    """Return what we print of each instruction, by the slot it begins at."""
    return dict(zip(slot_offsets(program)[:-1], map(format_insn, program.insns), strict=True))


def _bytes(lines: dict[int, str]) -> bytes:
    """Return what a dump assembles to, but for the addresses of maps, which have many spellings."""
    text = "\n".join(lines.values())
    return encode(assemble(re.sub(r"= (map.*|.* ll)$", "= 0 ll", text, flags=re.MULTILINE)))


def _without_internals(xlated: bytes) -> bytes:
    """Undo what only the kernel may write: a move with off -1, which adds the per-CPU offset."""
    slots = [xlated[i : i + 8] for i in range(0, len(xlated), 8)]
    percpu = struct.pack("<h", -1)
    return b"".join(
        slot[:2] + bytes(2) + slot[4:] if slot[0] == 0xBF and slot[2:4] == percpu else slot
        for slot in slots
    )


@pytest.mark.parametrize("text", SCRIPTS)
def test_llvm_prints_the_compiled_program_as_we_do(text, target_612, llvm_lines):
    program = _without_maps(strip_labels(compile_script(text, target_612).probes[0].program))
    ours = _by_slot(program)

    lines = llvm_lines(encode(program), "little", "--mattr=+alu32")

    theirs = [re.sub(r"^\s*\d+:(\t[0-9a-f ]+)?\t", "", line) for line in lines]
    # LLVM before 18 does not know stores of constants and a few more.
    known = {slot: text for slot, text in zip(ours, theirs, strict=True) if "<unknown>" not in text}
    assert len(known) > len(ours) // 2
    assert _bytes({**ours, **known}) == _bytes(ours)


def _without_maps(program: Program) -> Program:
    """Leave maps to relocations, as objects do: LLVM 14 ends with SIGSEGV where it sees one."""
    return replace(
        program,
        insns=tuple(
            insn("lddw", i.dst) if i.op.form is Form.LOAD_IMM64 and i.symbol else i
            for i in program.insns
        ),
    )
