"""Ask the running kernel which maps can be made, and which helpers take them; JSON out.

    python tools/guest.py run 6.12 -- python tools/map_probes.py

A grid of sizes and flags for each map type, around those that work, with the errno of each; and for
each helper that takes a map, which map types it is refused. tests/guest/test_verifier_tables.py
compares both with pybpf.verifier. In a guest, since maps of many sizes are made.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Container, Iterator

from bpf_probes import EXIT, SUBJECTS, Kernel, Subject, call, mov
from call_probes import arguments, complaint
from record_profile import MAPS, made_maps, may_call

from pybpf.isa.abi import MapType
from pybpf.isa.helpers import HELPERS
from pybpf.verifier.protos import Arg, proto

# What sizes and flags alone do not make.
UNASKED = frozenset(
    {
        MapType.UNSPEC,
        MapType.SK_STORAGE,
        MapType.INODE_STORAGE,
        MapType.TASK_STORAGE,
        MapType.CGRP_STORAGE,
        MapType.STRUCT_OPS,
        MapType.ARRAY_OF_MAPS,
        MapType.HASH_OF_MAPS,
    }
)
Case = tuple[int, int, int, int, int]
SIZES = (0, 1, 3, 4, 5, 8, 12, 16, 24, 32, 260, 261, 513, 1016, 1024, 32768, 32769)
ENTRIES = (0, 1, 3, 4096, 6144, 8192)
FLAGS = 19


def cases(kind: MapType) -> Iterator[Case]:
    """Yield maps of a type to make: type, sizes of key and value, entries, flags."""
    key, value, entries, flags = MAPS.get(kind, (4, 4, 1, 0))
    for size in SIZES:
        yield kind, size, value, entries, flags
        yield kind, key, size, entries, flags
    for number in ENTRIES:
        yield kind, key, value, number, flags
    for bit in range(FLAGS):
        yield kind, key, value, entries, flags ^ 1 << bit
        yield kind, key, value, entries, flags ^ 1 << bit ^ 1 << 3
        yield kind, key, value, entries, flags ^ 1 << bit ^ 1 << 7


def made(kernel: Kernel, case: Case) -> int:
    """Make a map, and return 0 or the errno."""
    kind, key, value, entries, flags = case
    fd = kernel.create_map(kind, key, value, entries, flags)
    if fd >= 0:
        os.close(fd)
    return max(-fd, 0)


def creations(kernel: Kernel) -> list[tuple[Case, int]]:
    """Return what happened to each case."""
    kinds = [kind for kind in MapType if kind not in UNASKED]
    return [(case, made(kernel, case)) for kind in kinds for case in cases(kind)]


# Kinds of programs to ask beside those that are a program type alone.
WITH_MAPS = frozenset({"sk_reuseport/select", "cgroup_skb/inet_ingress", "tracing/trace_iter"})


# What depends on the program type, too.
BY_TYPE = frozenset({HELPERS["bpf_map_update_elem"], HELPERS["bpf_map_delete_elem"]})


def refused(
    kernel: Kernel, subject: Subject, known: Container[int] = ()
) -> dict[int, dict[MapType, str]]:
    """Return for each helper that takes a map, and each map type, the last line of the refusal.

    That is empty where the call is accepted. Many are refused for other arguments than the map.
    Helpers in ``known`` are left out, but for those that depend on the program type.
    """
    found: dict[int, dict[MapType, str]] = {}
    version = (99, 0)
    maps = dict(made_maps(kernel))
    for number in range(1, len(HELPERS) + 1):
        helper = proto(number, version, subject.type)
        if not helper or not any(arg.kind is Arg.CONST_MAP_PTR for arg in helper.args):
            continue
        if number in known and number not in BY_TYPE:
            continue
        if not may_call(kernel, subject, number):
            continue
        found[number] = {}
        for kind, fd in maps.items():
            code = arguments(helper, fd) + call(number) + mov(0, subject.result) + EXIT
            answer = kernel.load(subject, code)
            found[number][kind] = "" if answer.accepted else complaint(answer.log)
    for fd in maps.values():
        os.close(fd)
    return found


def main() -> int:
    """Print what was found."""
    kernel = Kernel()
    answers: dict[str, dict[int, dict[MapType, str]]] = {}
    for subject in SUBJECTS:
        if ("/" not in subject.name or subject.name in WITH_MAPS) and kernel.loads(subject):
            known = {number for found in answers.values() for number in found}
            answers[subject.name] = refused(kernel, subject, known)
    found = {
        "release": os.uname().release,
        "creations": creations(kernel),
        "refused": answers,
    }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
