"""Measure reading objects and types, beside llvm-objdump, bpftool and libbpf where they are.

The object is made here, by clang: some hundred programs, over a megabyte with what -g adds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plan import Plan
from report import Finding, Spread, Table
from tools import Timed
from tracers import BenchmarkError

_PROGRAMS = 600
_RELOCATIONS = 1000
_VMLINUX = "/sys/kernel/btf/vmlinux"
_HEAD = """\
typedef unsigned int u32;
typedef unsigned long long u64;
#define SEC(name) __attribute__((section(name), used))
#define KERNEL __attribute__((preserve_access_index))
struct {
    int (*type)[1];
    u32 *key;
    u64 *value;
    int (*max_entries)[64];
} counts SEC(".maps");
static void *(*lookup)(void *, const void *) = (void *)1;
struct args { u64 pad, args[6]; };
char _license[] SEC("license") = "GPL";
"""
_PROGRAM = """\
SEC("tracepoint/syscalls/sys_enter_{n}") int program_{n}(struct args *ctx)
{{
    u32 key = ctx->args[0] & 63;
    u64 sum = {n}, *found;
#pragma unroll
    for (int at = 0; at < 6; at++) {{
        if (ctx->args[at] > {n} * 7)
            sum += ctx->args[at] * ({n} + 3);
        else
            sum ^= ctx->args[at] >> ({n} % 60 + 1);
    }}
    found = lookup(&counts, &key);
    if (found)
        *found += sum;
    return 0;
}}
"""
# Each program reads four fields of two structures: four relocations.
_CORE_HEAD = """\
struct task_struct { int pid, tgid; struct task_struct *group_leader; } KERNEL;
struct file { unsigned f_flags; } KERNEL;
"""
_CORE = """\
SEC("raw_tp/sched_switch") int program_{n}(u64 *ctx)
{{
    struct task_struct *task = (void *)ctx[1];
    struct file *file = (void *)ctx[2];
    return __builtin_preserve_field_info(task->pid, 0)
        + __builtin_preserve_field_info(task->tgid, 0)
        + __builtin_preserve_field_info(task->group_leader, 0)
        + __builtin_preserve_field_info(file->f_flags, 1) + {n};
}}
"""

# What is measured within Python, each in a process of its own; `seconds` is what it took.
_THREE = f"""
from pybpf.btf.reader import Btf
btf = Btf(open({_VMLINUX!r}, "rb").read())
for name in "task_struct", "file", "sock":
    assert btf.fields(btf.struct(name))
"""
_WHOLE = f"""
from pybpf.btf.reader import Btf
count = sum(1 for _ in Btf(open({_VMLINUX!r}, "rb").read()).types())
"""
_RELOCATE = f"""
from pybpf.btf.reader import Btf
from pybpf.objfile.object import Object
from pybpf.objfile.relocate import relocated
target = Btf(open({_VMLINUX!r}, "rb").read())
found = Object.open(OBJECT)
START = time.perf_counter()
count = sum(len(relocated(found, program, target).report) for program in found.programs)
"""
_FRAME = """
import json, resource, time
OBJECT, count = {path!r}, 0
START = time.perf_counter()
{body}
seconds = time.perf_counter() - START
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, peak, count]))
"""


@dataclass(frozen=True, slots=True)
class Rival:
    """What pybpf does by a command, and another tool by one of its own."""

    name: str
    ours: Sequence[str]
    theirs: Sequence[str]


def measure(plan: Plan) -> Finding:
    """Time the commands in turns, and what Python does with types."""
    big, core = plan.tools.folder / "big.o", plan.tools.folder / "core.o"
    _compile(big, _HEAD + "".join(_PROGRAM.format(n=n) for n in range(_PROGRAMS)))
    count = _RELOCATIONS // 4
    _compile(core, _HEAD + _CORE_HEAD + "".join(_CORE.format(n=n) for n in range(count)))
    size = big.stat().st_size / 1e6
    rivals = [
        Rival(f"disassemble {size:.1f} MB", ["dis", str(big)], ["llvm-objdump", "-d", str(big)]),
        Rival(
            f"open {size:.1f} MB", ["inspect", str(big)], ["bpftool", "gen", "skeleton", str(big)]
        ),
        Rival(
            "the kernel's types", ["btf", _VMLINUX, "--format", "raw"],
            ["bpftool", "btf", "dump", "file", _VMLINUX],
        ),
        Rival(
            "the kernel's types as C", ["btf", _VMLINUX],
            ["bpftool", "btf", "dump", "file", _VMLINUX, "format", "c"],
        ),
    ]  # fmt: skip
    bodies = {
        "three structures of the kernel": _THREE,
        "all types of the kernel": _WHOLE,
        f"{_RELOCATIONS:,} CO-RE relocations": _RELOCATE,
    }
    times: dict[str, list[tuple[Timed, Timed | None]]] = {}
    parts: dict[str, list[tuple[float, int]]] = {}
    for number in plan.rounds(full=7, quick=2):
        for rival in rivals:
            plan.say(f"objects: {rival.name}, {number + 1}")
            times.setdefault(rival.name, []).append(_race(plan, rival))
        for name, body in bodies.items():
            plan.say(f"objects: {name}, {number + 1}")
            parts.setdefault(name, []).append(_inside(body, core))
    return Finding([*_data(times), *_data_inside(parts)], (_table(times), _inside_table(parts)))


def _compile(path: Path, text: str) -> None:
    command = ["clang", "-g", "-O2", "-target", "bpfel", "-xc", "-", "-c", "-o", str(path)]
    try:
        subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    except FileNotFoundError:
        raise BenchmarkError("no clang found: apt-get install clang") from None
    except subprocess.CalledProcessError as error:
        raise BenchmarkError(error.stderr) from None


def _race(plan: Plan, rival: Rival) -> tuple[Timed, Timed | None]:
    ours = plan.tracers[0].start[:-2]  # without "run -k"
    mine = plan.tools.timed([*ours, *rival.ours])
    there = shutil.which(rival.theirs[0])
    return mine, plan.tools.timed(rival.theirs) if there else None


def _inside(body: str, path: Path) -> tuple[float, int]:
    """Return the seconds and the most KiB that a piece of Python takes."""
    code = _FRAME.format(path=str(path), body=body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(done.stderr.strip())
    seconds, peak, count = json.loads(done.stdout)
    if body == _RELOCATE and count != _RELOCATIONS:
        raise BenchmarkError(f"{count} relocations instead of {_RELOCATIONS}")
    return seconds, peak


def _seconds(times: Sequence[Timed]) -> Spread:
    return Spread(tuple(timed.seconds for timed in times))


def _data(times: dict[str, list[tuple[Timed, Timed | None]]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name, pairs in times.items():
        rivals = [rival for _, rival in pairs if rival]
        row: dict[str, Any] = {"name": name, "seconds": _seconds([own for own, _ in pairs]).data()}
        if rivals:
            row["rival_seconds"] = _seconds(rivals).data()
        rows.append(row)
    return rows


def _data_inside(parts: dict[str, list[tuple[float, int]]]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "seconds": Spread(tuple(seconds for seconds, _ in runs)).data(),
            "peak_kib": Spread(tuple(float(kib) for _, kib in runs)).data(),
        }
        for name, runs in parts.items()
    ]


def _table(times: dict[str, list[tuple[Timed, Timed | None]]]) -> Table:
    rows = []
    for name, pairs in times.items():
        own, rivals = _seconds([own for own, _ in pairs]), [rival for _, rival in pairs if rival]
        peak = Spread(tuple(timed.kib / 1024 for timed, _ in pairs))
        theirs = _seconds(rivals) if rivals else None
        rows.append(
            [
                name, own.scaled(1000).shown(0), peak.shown(0),
                theirs.scaled(1000).shown(0) if theirs else "-",
                f"{own.median / theirs.median:.1f}" if theirs else "-",
            ]
        )  # fmt: skip
    columns = ("what", "pybpf, ms", "peak, MB", "the other, ms", "pybpf : other")
    note = (
        "Whole processes from start to exit, their output thrown away. The other is `llvm-objdump "
        "-d`, `bpftool gen skeleton` (libbpf opens the object) and `bpftool btf dump`."
    )
    return Table("Objects and types", columns, rows, note)


def _inside_table(parts: dict[str, list[tuple[float, int]]]) -> Table:
    rows = [
        [
            name,
            Spread(tuple(seconds * 1000 for seconds, _ in runs)).shown(),
            Spread(tuple(kib / 1024 for _, kib in runs)).shown(0),
        ]
        for name, runs in parts.items()
    ]
    note = (
        "Within Python, with the imports and the reading of /sys/kernel/btf/vmlinux, but for the "
        "relocations: these come when the types and the object are read."
    )
    return Table("Types, within Python", ("what", "ms", "peak of the process, MB"), rows, note)
