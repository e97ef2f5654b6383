"""Ask the running kernel about calls of helpers: what it says of arguments, licences and packets.

Used by tests/guest/test_verifier_tables.py and map_probes.py. Programs call one helper each.
"""

from __future__ import annotations

import re

from bpf_probes import EXIT, Kernel, Subject, call, insn, mov

from pybpf.isa.abi import ProgType
from pybpf.verifier.protos import Arg, Proto

# Program type -> size, and offsets in its context, of the addresses of a packet and of its end.
PACKETS = {
    ProgType.SCHED_CLS: (0x61, 76, 80),
    ProgType.XDP: (0x61, 0, 4),
    ProgType.LWT_XMIT: (0x61, 76, 80),
    ProgType.LWT_SEG6LOCAL: (0x61, 76, 80),
    ProgType.SK_SKB: (0x61, 76, 80),
    ProgType.SK_MSG: (0x79, 0, 8),
    ProgType.SOCK_OPS: (0x79, 192, 200),
}
ROOM = 64
"""Bytes of stack that ``arguments`` sets to zero and passes."""


# What the tests look for. Linux 7.3 puts advice behind its complaints.
_COMPLAINT = re.compile(r".*(?:R\d+ !read_ok|R\d+ type=|cannot pass map_type|GPL|sleep)")


def complaint(log: str) -> str:
    """Return the line of a log that says what is wrong: one that is known, or the last."""
    lines = [line for line in log.splitlines() if line and not line.startswith("processed ")]
    known = [line for line in lines if _COMPLAINT.match(line)]
    return known[0] if known else (lines or [""])[-1]


def with_context_alone(kernel: Kernel, subject: Subject, number: int) -> str:
    """Call a helper with the context as first argument, and no other; empty where that will do."""
    answer = kernel.load(subject, call(number) + mov(0, subject.result) + EXIT)
    return "" if answer.accepted else complaint(answer.log)


def without_licence(kernel: Kernel, subject: Subject, number: int) -> str:
    """Call a helper so in a program that is not under the GPL."""
    answer = kernel.load(subject, call(number) + mov(0, subject.result) + EXIT, gpl=False)
    return "" if answer.accepted else complaint(answer.log)


def arguments(helper: Proto, descriptor: int) -> bytes:
    """Encode arguments of a helper, as far as numbers, stack, the context and a map can be these.

    R6 holds the context afterwards, and the last 64 bytes of the stack are zero.
    """
    code = insn(0xBF, 6, 1)
    for place in range(8, ROOM + 8, 8):
        code += insn(0x7A, 10, off=-place)
    for number, arg in enumerate(helper.args, start=1):
        match arg.kind:
            case Arg.CONST_MAP_PTR:
                code += insn(0x18, number, 1, 0, descriptor) + insn(0)
            case Arg.PTR_TO_CTX:
                code += insn(0xBF, number, 6)
            case Arg.CONST_SIZE | Arg.CONST_SIZE_OR_ZERO | Arg.CONST_ALLOC_SIZE_OR_ZERO:
                code += mov(number, 8)
            case Arg.ANYTHING | Arg.SCALAR:
                code += mov(number, 0)
            case _:
                code += insn(0xBF, number, 10) + insn(0x07, number, imm=-ROOM)
    return code


def keeps_packet(kernel: Kernel, subject: Subject, helper: Proto) -> bool | None:
    """Whether a packet can be read after a call as before; None where the call is refused."""
    load, start, end = PACKETS[subject.type]
    before = insn(load, 7, 1, start) + insn(load, 8, 1, end) + insn(0xBF, 9, 7)
    before += insn(0x07, 9, imm=1)
    ready = arguments(helper, 0) + call(helper.number)
    finish = mov(0, subject.result) + EXIT
    read = insn(0x71, 2, 7)  # r2 = *(u8 *)r7
    if not kernel.load(subject, before + ready + finish).accepted:
        return None
    # if r9 > r8 goto finish
    slots = (len(ready) + len(read)) // 8
    guarded = insn(0x2D, 9, 8, slots) + ready + read
    return kernel.load(subject, before + guarded + finish).accepted
