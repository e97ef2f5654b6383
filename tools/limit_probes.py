"""Ask the running kernel for limits of programs: how deep calls, and how much stack, may be.

Each question is a program of empty subprograms, which the verifier counts.
"""

from __future__ import annotations

from bpf_probes import EXIT, SUBJECTS, Kernel, insn, mov

from pybpf.target.profile import Limits

SOCKET_FILTER = SUBJECTS[0]
_MORE = 2
"""How far beyond the usual limit is looked."""


def chain(frames: int, stack: int) -> bytes:
    """Encode functions that call one another, each with some bytes of stack, in frames."""
    code = b""
    for frame in range(frames):
        code += insn(0x7A, 10, off=-stack) if stack else b""
        if frame < frames - 1:
            code += insn(0x85, src=1, imm=2)  # the function behind the next two instructions
        code += mov(0, 0) + EXIT
    return code


def functions(count: int) -> bytes:
    """Encode a program that calls so many functions, itself included."""
    calls = b"".join(insn(0x85, src=1, imm=count + i) for i in range(count - 1))
    return calls + mov(0, 0) + EXIT + (mov(0, 0) + EXIT) * (count - 1)


def greatest(usual: int, takes: list[bool], first: int) -> int:
    """Return the last number, from the first on, that is taken; the usual where all or none are."""
    taken = [first + i for i, yes in enumerate(takes) if yes]
    return max(taken) if taken and not all(takes) else usual


def limits(kernel: Kernel) -> dict[str, int]:
    """Return those limits that are not the usual ones, by the names of profile.Limits."""
    usual = Limits()

    def takes(code: bytes) -> bool:
        return kernel.load(SOCKET_FILTER, code, log_level=0).accepted

    frames = range(usual.frames - _MORE, usual.frames + _MORE + 1)
    stacks = range(usual.stack // 2 - 16, usual.stack // 2 + 64, 8)
    found = {
        "frames": greatest(usual.frames, [takes(chain(n, 0)) for n in frames], frames[0]),
        "stack": 2 * max((n for n in stacks if takes(chain(2, n))), default=0),
        "subprograms": greatest(
            usual.subprograms,
            [takes(functions(usual.subprograms + n)) for n in range(-_MORE, _MORE + 1)],
            usual.subprograms - _MORE,
        ),
    }
    return {name: number for name, number in found.items() if number != getattr(usual, name)}
