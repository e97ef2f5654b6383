"""Why the verifier refused a program: its log in; the instruction, its place and the reason out."""

from __future__ import annotations

import re
from bisect import bisect_right

from pybpf.errors import KernelError
from pybpf.isa.disassembler import format_insn
from pybpf.isa.insn import Program
from pybpf.isa.layout import slot_offsets

# What stands below the reason: statistics, and the two states that show an infinite loop.
_BELOW = (
    "processed ",
    "verification time ",
    "stack depth ",
    "peak memory ",
    "max_states ",
    "cur state:",
    "old state:",
)
# Linux 7 has statistics of each subprogram, too.
_SUBPROGRAM = re.compile(r"subprog [0-9]+ \(.* insns_self [0-9]+ ")
# Linux 7 explains at length what older kernels say in one line, which it still prints first.
_EXPLANATION = "Verification failed:"
# insn line: slot ': (' opcode ') ' text
_INSN = re.compile(r"([0-9]+): \([0-9a-f]{2}\) ")
_NAMED = re.compile(r"\binsn ([0-9]+)\b")


def verifier_reason(log: str) -> tuple[str, ...]:
    """Return what a verifier log gives as the reason: one line, and the source line at fault.

    The source line (from line_info) is printed ``; text @ file:line`` ahead of the instructions it
    became; the last one printed is that of the instruction at fault.
    """
    lines = _said(log)
    if not lines:
        return ()
    source = next((line[1:].strip() for line in reversed(lines) if line.startswith(";")), None)
    return (lines[-1],) if source is None else (lines[-1], source)


def rejected_slot(log: str) -> int | None:
    """Return the slot of the instruction that a verifier log is about, or None where it is not.

    The reason names it, or it is the last one that the verifier looked at.
    """
    lines = _said(log)
    if lines and (named := _NAMED.search(lines[-1])):
        return int(named[1])
    seen = (_INSN.match(line) for line in reversed(lines))
    return next((int(match[1]) for match in seen if match), None)


def _said(log: str) -> list[str]:
    """Return the lines of a log up to the reason, which is the last."""
    lines = [line.strip() for line in log.partition(_EXPLANATION)[0].splitlines()]
    return [line for line in lines if line and not _is_below(line)]


def _is_below(line: str) -> bool:
    return line.startswith(_BELOW) or bool(_SUBPROGRAM.match(line))


def locate(error: KernelError, program: Program) -> None:
    """Say in an error with a verifier's log which instruction it is about, and where that is from.

    ``program`` is what was loaded. Without a log, or a slot in it, the error stays as it is.
    """
    slot = rejected_slot(error.log)
    starts = slot_offsets(program)
    if slot is None or not 0 <= slot < starts[-1]:
        return
    index = bisect_right(starts, slot) - 1
    text = format_insn(program.insns[index])
    reason = verifier_reason(error.log)[0]
    error.hints = (f"the kernel refuses instruction {slot}, `{text}`: {reason}",)
    if index < len(program.spans):
        error.span = program.spans[index]
