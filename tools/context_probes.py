"""Ask the running kernel which parts of each context programs may load and store; JSON out.

    python tools/guest.py run 6.12 -- python tools/context_probes.py

For each kind of program: the offsets at which one load, and one store, of each size is accepted,
as ranges; and what the verifier takes a loaded value for, where that is no number.
tests/guest/test_verifier_tables.py compares that with pybpf.verifier.contexts.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping

from bpf_probes import EXIT, SUBJECTS, Kernel, Subject, insn, mov

from pybpf.isa.abi import ProgType

SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_LDX, _STX = 0x61, 0x63
EDGE = 16
"""Bytes looked at before and behind what a context may have."""

# Contexts of which the middle is all the same: the type, and where to look.
SPARSE: Mapping[ProgType, tuple[range, ...]] = {
    ProgType.TRACEPOINT: (range(-EDGE, 64), range(2040, 2056), range(8176, 8208)),
    ProgType.SYSCALL: (range(-EDGE, 24), range(32752, 32768)),
}
# Where to stop, well behind the end of the structure; elsewhere at _END.
_END = 256
ENDS: Mapping[ProgType, int] = {
    ProgType.XDP: 48,
    ProgType.CGROUP_DEVICE: 32,
    ProgType.CGROUP_SYSCTL: 32,
    ProgType.CGROUP_SOCKOPT: 64,
    ProgType.CGROUP_SOCK: 104,
    ProgType.CGROUP_SOCK_ADDR: 96,
    ProgType.NETFILTER: 40,
    ProgType.SK_MSG: 112,
    ProgType.SK_LOOKUP: 96,
    ProgType.SK_REUSEPORT: 80,
    ProgType.LIRC_MODE2: 32,
    ProgType.RAW_TRACEPOINT: 128,
    ProgType.RAW_TRACEPOINT_WRITABLE: 128,
}
# What differs from the plain kind neither in its context nor in its results.
SAME = re.compile(
    r"kprobe/|cgroup_device/|cgroup_sysctl/|sched_cls/|sk_skb/|xdp/xdp_cpumap|"
    r".*/sleepable|tracing/trace_fexit"
)


def places(subject: Subject) -> Iterable[int]:
    """Return the offsets to look at."""
    plain = range(-EDGE, ENDS.get(subject.type, _END))
    for part in SPARSE.get(subject.type, (plain,)):
        yield from part


def may(kernel: Kernel, subject: Subject, offset: int, size: int, *, write: bool) -> bool:
    """Whether the verifier accepts one load, or one store, of bytes of the context."""
    return kernel.load(
        subject, _access(offset, size, write=write) + mov(0, subject.result) + EXIT, log_level=0
    ).accepted


def _access(offset: int, size: int, *, write: bool) -> bytes:
    if write:
        return mov(2, 0) + insn(_STX | SIZES[size], 1, 2, offset)
    return insn(_LDX | SIZES[size], 6, 1, offset)


def kind(kernel: Kernel, subject: Subject, offset: int, size: int) -> str:
    """Return what the verifier takes a loaded value for: its word, without numbers."""
    code = _access(offset, size, write=False) + insn(0xBF, 7, 6) + mov(0, subject.result) + EXIT
    log = kernel.load(subject, code, log_level=2).log
    found = re.search(r"\bR6(?:_\w+)?=(\w+)", log)
    word = found[1] if found else "?"
    return "scalar" if word in {"inv", "scalar"} or word.isdigit() else word


def contexts(kernel: Kernel) -> dict[str, dict[str, dict[str, str]]]:
    """Return the accesses of all kinds of programs: name -> ``load`` and ``store`` -> size."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for subject in SUBJECTS:
        if SAME.match(subject.name) or not kernel.loads(subject):
            continue
        facts: dict[str, dict[str, str]] = {"load": {}, "store": {}, "kinds": {}}
        for size in SIZES:
            for name, write in (("load", False), ("store", True)):
                accepted = [
                    offset
                    for offset in places(subject)
                    if may(kernel, subject, offset, size, write=write)
                ]
                facts[name][str(size)] = " ".join(map(str, accepted))
                if not write:
                    kinds = {at: kind(kernel, subject, at, size) for at in accepted}
                    facts["kinds"] |= {
                        f"{at}:{size}": word for at, word in kinds.items() if word != "scalar"
                    }
        found[subject.name] = facts
    return found


def results(kernel: Kernel) -> dict[str, str]:
    """Return the results that each kind of program may have, in the verifier's own words."""
    found: dict[str, str] = {}
    for subject in SUBJECTS:
        if kernel.can_ask(subject):
            words = []
            for value in (1000, -1000):
                answer = kernel.load(subject, mov(0, value) + EXIT)
                said = re.search(r"should have been in (.*)", answer.log)
                words.append("any" if answer.accepted else said[1] if said else "refused")
            found[subject.name] = words[0] if words[0] == words[1] else " / ".join(words)
    return found


def main() -> int:
    """Print what was found."""
    kernel = Kernel()
    found = {
        "release": os.uname().release,
        "contexts": contexts(kernel),
        "results": results(kernel),
    }
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
