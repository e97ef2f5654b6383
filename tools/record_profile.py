"""Probe the kernel this runs on and print its profile: what programs may call, use and be.

    python tools/record_profile.py 6.12 | xz -9e > pybpf/target/profiles/6.12.json.xz
    python tools/guest.py run 6.12 -- python tools/record_profile.py --memory 6.12 > ...

Every question is a program of a few instructions that is never attached and never run, or an empty
map. What users without rights may do is asked as such a user, where the machine lets them load
programs (`sysctl kernel.unprivileged_bpf_disabled=0`, in a guest). `--loud` also asks for the
helpers that make the kernel log a warning, `--memory` reads the registered kernel functions from
/proc/kcore. What no probe can see is that of the release (behaviour.py).
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import behaviour
from bpf_probes import (
    EXIT,
    SUBJECTS,
    Kernel,
    Subject,
    call,
    insn,
    mov,
)
from limit_probes import limits

from pybpf.isa.abi import AttachType, MapFlag, MapType, ProgType
from pybpf.isa.helpers import HELPER_NAMES, HELPERS
from pybpf.target.profile import NAMES, ranges

# Loading these prints a banner or a warning to the kernel's log.
LOUD = frozenset(
    HELPERS[f"bpf_{name}"] for name in ("trace_printk", "trace_vprintk", "probe_write_user")
)
REFUSED = re.compile(
    r"unknown func|program of this type cannot use helper|invalid func|"
    r"helper call is not allowed in probe|not supported without"
)
UNPRIVILEGED = ("socket_filter", "cgroup_skb/inet_ingress")
NOBODY = 65534


def allowed_helpers(kernel: Kernel, subject: Subject, *, loud: bool) -> set[int]:
    """Ask for every helper whether a program of a kind may call it."""
    asked = [number for number in HELPER_NAMES if loud or number not in LOUD]
    return {number for number in asked if may_call(kernel, subject, number)}


def may_call(kernel: Kernel, subject: Subject, number: int) -> bool:
    """Whether the verifier comes as far as a helper's arguments, or accepts the call."""
    answer = kernel.load(subject, call(number) + mov(0, subject.result) + EXIT)
    return answer.accepted or (bool(answer.log) and not REFUSED.search(answer.log))


def program_types(kernel: Kernel, *, loud: bool) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the facts of each program type that loads, and notes on what could not be asked."""
    facts: dict[str, dict[str, str]] = {}
    sets: dict[str, set[int]] = {}
    notes: list[str] = []
    for subject in SUBJECTS:
        kind, _, variant = subject.name.partition("/")
        if not kernel.loads(subject):
            if not variant or kind not in facts:
                notes.append(f"not loaded: {subject.name}")
            continue
        helpers = allowed_helpers(kernel, subject, loud=loud)
        if kind not in facts:
            facts[kind] = {"helpers": ranges(helpers)}
            sets[kind] = helpers
            if variant:
                facts[kind][f"helpers/{variant}"] = ""
        elif helpers != sets[kind]:
            facts[kind][f"helpers/{variant}"] = difference(sets[kind], helpers)
    for kind, attach_types in attaches(kernel).items():
        if kind in facts:
            facts[kind]["attach"] = ranges(attach_types)
    return {kind: {k: v for k, v in f.items() if v} for kind, f in facts.items()}, notes


def difference(usual: set[int], helpers: set[int]) -> str:
    """Return what must be added to and taken from a set of helpers, as ``+1-3 -7``."""
    parts = [("+", helpers - usual), ("-", usual - helpers)]
    return " ".join(sign + ranges(numbers) for sign, numbers in parts if numbers)


def attaches(kernel: Kernel) -> dict[str, set[int]]:
    """Return the attach types that each program type can be loaded with; not where all of them."""
    plain: dict[ProgType, Subject] = {}
    for subject in SUBJECTS:
        if subject.btf is None:
            plain.setdefault(subject.type, subject)
    found: dict[str, set[int]] = {}
    for kind, subject in plain.items():
        accepted = {
            number
            for number in range(max(AttachType) + 8)
            if kernel.loads(Subject("", kind, number, subject.flags, None, subject.result))
        }
        if len(accepted) <= max(AttachType):
            found[kind.name.lower()] = accepted
    return found


# Map type -> sizes of key and value, entries and flags with which it can be created.
MAPS: Mapping[MapType, tuple[int, int, int, int]] = {
    MapType.STACK_TRACE: (4, 8, 1, 0),
    MapType.LPM_TRIE: (8, 8, 1, MapFlag.NO_PREALLOC),
    MapType.QUEUE: (0, 8, 1, 0),
    MapType.STACK: (0, 8, 1, 0),
    MapType.RINGBUF: (0, 0, 4096, 0),
    MapType.USER_RINGBUF: (0, 0, 4096, 0),
    MapType.BLOOM_FILTER: (0, 8, 1, 0),
    MapType.CGROUP_STORAGE: (8, 8, 0, 0),
    MapType.PERCPU_CGROUP_STORAGE: (8, 8, 0, 0),
    MapType.ARENA: (0, 0, 1, 1 << 10),
    MapType.CPUMAP: (4, 4, 1, 0),
}


STORAGE = (
    MapType.SK_STORAGE,
    MapType.INODE_STORAGE,
    MapType.TASK_STORAGE,
    MapType.CGRP_STORAGE,
)


def made_maps(kernel: Kernel) -> Iterator[tuple[MapType, int]]:
    """Yield a map, by type and descriptor, of each type that can be made without more."""
    inner = kernel.create_map(MapType.ARRAY, 4, 8, 1)
    for kind in MapType:
        sizes = MAPS.get(kind, (4, 4, 1, 0))
        fd = kernel.create_map(kind, *sizes, inner=inner if "OF_MAPS" in kind.name else 0)
        if fd >= 0:
            yield kind, fd
    os.close(inner)


def map_types(kernel: Kernel) -> set[int]:
    """Return the map types there are.

    Storage maps need types of their values, struct_ops maps a structure, and some a capability
    that a user may lack. Such maps are refused as types are that the kernel does not know, so for
    them the names in the kernel's types are asked.
    """
    found: set[int] = set()
    for kind, fd in made_maps(kernel):
        os.close(fd)
        found.add(kind)
    named = kernel.enumerators("bpf_map_type")
    special = (*STORAGE, MapType.STRUCT_OPS)
    found |= {kind for kind in special if f"BPF_MAP_TYPE_{kind.name}" in named}
    return found - {MapType.UNSPEC}


def instructions(kernel: Kernel) -> set[str]:
    """Ask for every kind of instruction."""
    store = insn(0x7A, 10, off=-8)  # *(u64 *)(r10 - 8) = 0
    one, zero = mov(1, 1), mov(0, 0)
    jump = [insn(0xA5, 1, off=0, imm=1), insn(0x56, 1, off=0, imm=1)]
    context = insn(0xBF, 6, 1)  # r6 = r1
    array = kernel.create_map(MapType.ARRAY, 4, 8, 1)
    arena = kernel.create_map(MapType.ARENA, 0, 0, 1, 1 << 10)

    def lddw(kind: int, imm: int, upper: int = 0) -> bytes:
        return insn(0x18, 2, kind, 0, imm) + insn(0, imm=upper)

    programs = {
        "v1": zero,
        "ld_abs": context + insn(0x30) + zero,
        "v2": one + jump[0] + zero,
        "v3": one + jump[1] + zero,
        "atomic_add": store + one + insn(0xDB, 10, 1, -8) + zero,
        "atomic_fetch": store + one + insn(0xDB, 10, 1, -8, 1) + zero,
        "load_acquire": store + insn(0xDB, 1, 10, -8, 0x100) + zero,
        "store_release": store + one + insn(0xDB, 10, 1, -8, 0x110) + zero,
        "sdiv": one + insn(0x37, 1, off=1, imm=2) + zero,
        "smod": one + insn(0x97, 1, off=1, imm=2) + zero,
        "movsx": one + insn(0xBF, 2, 1, off=8) + zero,
        "ldsx": store + insn(0x91, 1, 10, -8) + zero,
        "bswap": one + insn(0xD7, 1, imm=16) + zero,
        "gotol": zero + insn(0x55, off=1) + insn(0x06, imm=1) + zero,
        "may_goto": zero + insn(0xE5, off=1) + zero,
        "call_local": insn(0x85, src=1, imm=1) + EXIT + zero,
        "map_fd": lddw(1, array) + zero,
        "map_value": lddw(2, array) + zero,
        "map_idx": lddw(5, 0) + zero,
        "map_idx_value": lddw(6, 0) + zero,
    }
    subject = SUBJECTS[0]
    found = {
        name
        for name, code in programs.items()
        if kernel.load(subject, code + EXIT, maps=(array,)).accepted
    }
    cast = kernel.load(subject, lddw(1, max(arena, 0)) + insn(0xBF, 1, 2, 1, 1) + zero + EXIT)
    if arena >= 0 and "reserved" not in cast.log:
        found.add("addr_space_cast")
        os.close(arena)
    os.close(array)
    return found


def unprivileged(*, loud: bool) -> dict[str, str]:
    """Ask as another user what its programs may call; empty where it may load none.

    In a child, since rights that are given up do not come back.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kernel = Kernel()
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            found = {
                subject.name.partition("/")[0]: ranges(allowed_helpers(kernel, subject, loud=loud))
                for subject in SUBJECTS
                if subject.name in UNPRIVILEGED and kernel.loads(subject)
            }
            os.write(writing, json.dumps(found).encode())
        except BaseException:  # noqa: BLE001 - nothing may return to the parent's code
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    found: dict[str, str] = json.loads(data or b"{}")
    return found


def unasked_notes(*, loud: bool, memory: bool, nobody: bool) -> list[str]:
    """Return what was left out by the options, or as ``nobody`` may load programs here."""
    notes = []
    if not loud:
        names = ", ".join(sorted(HELPER_NAMES[number] for number in LOUD))
        notes.append(f"not asked, so not allowed: {names} (--loud)")
    if not memory:
        notes.append("not asked, so unknown: kernel functions (--memory)")
    if not nobody:
        notes.append("not asked, so nothing is allowed: users without rights may load no programs")
    return notes


def record(name: str, *, loud: bool, memory: bool) -> dict[str, Any]:
    """Return the profile of the running kernel."""
    kernel = Kernel()
    release = os.uname().release
    version = tuple(map(int, re.findall(r"\d+", release)[:2]))
    types, notes = program_types(kernel, loud=loud)
    maps = map_types(kernel)
    asked = instructions(kernel)
    documented = behaviour.known((version[0], version[1]))
    unasked = {"btf_id", "func", "call_kfunc", "gotox", "tail_call_in_subprogram"}
    nobody = unprivileged(loud=loud)
    kfuncs: Mapping[str, Mapping[str, str]] = {}
    notes += unasked_notes(loud=loud, memory=memory, nobody=bool(nobody))
    if memory:
        from kernel_memory import registered_kfuncs

        kfuncs = registered_kfuncs()
    return {
        "profile": 1,
        "name": name,
        "release": release,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "arch": os.uname().machine,
        "origin": "recorded",
        "notes": notes,
        "instructions": " ".join(sorted(asked | documented & unasked)),
        "limits": limits(kernel),
        "map_types": ranges(maps),
        "program_types": types,
        "unprivileged": nobody,
        "kfuncs": kfuncs,
    }


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Print the profile of the running kernel.")
    parser.add_argument("name", help=f"name of the profile: {', '.join(NAMES)}, or another")
    parser.add_argument("--loud", action="store_true", help="also ask what the kernel logs")
    parser.add_argument("--memory", action="store_true", help="read kernel functions from kcore")
    options = parser.parse_args()
    print(json.dumps(record(options.name, loud=options.loud, memory=options.memory), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
