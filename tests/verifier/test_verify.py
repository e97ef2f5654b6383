"""Verdicts and messages that kernels gave of small programs (verdicts.txt), and what never hangs.

A paragraph of the file is a program: its name and type, its instructions, and for each kernel
(``*`` is all of them) ``accept`` or the slot and the message. They were recorded in guests with
pybpf.testing.oracles.kernel_verdict.
"""

import re
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from pybpf.corpus import CorpusMap, CorpusProgram, Fixup
from pybpf.dataclass import replace
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.assembler import assemble
from pybpf.target.profile import profile
from pybpf.verifier.limits import Limits
from pybpf.verifier.verify import verify

KERNELS = ("6.1", "6.12", "7.3")
MAPS = {
    "hash": CorpusMap(MapType.HASH, 4, 8, 16),
    "array": CorpusMap(MapType.ARRAY, 4, 16, 1),
}
_MAP_LINE = re.compile(r"(r\d) = (map_fd|map_value) (\w+) ll")


def program(
    text: str, prog_type: ProgType = ProgType.SOCKET_FILTER, name: str = ""
) -> CorpusProgram:
    """Return the program of assembly with lines ``r1 = map_fd hash ll`` for the maps of MAPS."""
    maps: list[CorpusMap] = []
    fixups: list[Fixup] = []
    lines, slot = [], 0
    for line in text.splitlines():
        found = _MAP_LINE.fullmatch(line.strip())
        if found:
            fixups.append(Fixup(slot, found[2], len(maps)))  # type: ignore[arg-type]
            maps.append(MAPS[found[3]])
            lines.append(f"{found[1]} = 0 ll")
        else:
            lines.append(line)
        if line.strip() and not line.strip().endswith(":"):
            slot += 2 if line.strip().endswith(" ll") else 1
    insns = bytes(assemble("\n".join(lines)))
    return CorpusProgram(name, prog_type, insns, maps=tuple(maps), fixups=tuple(fixups))


def recorded(file: str) -> Iterator[tuple[CorpusProgram, str, str]]:
    """Yield programs with a kernel and what it said."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    for paragraph in text.strip().split("\n\n"):
        head, *rest = paragraph.split("\n")
        name, prog_type = head.split()
        lines = [line for line in rest if line.startswith(" ")]
        made = program("\n".join(lines), ProgType[prog_type.upper()], name)
        for line in rest:
            if not line.startswith(" "):
                kernel, said = line.split(" ", 1)
                yield from ((made, k, said) for k in (KERNELS if kernel == "*" else (kernel,)))


CASES = list(recorded("verdicts.txt"))
UNPRIVILEGED = list(recorded("unprivileged.txt"))


def said(made: CorpusProgram, kernel: str, *, privileged: bool = True) -> str:
    """Return what the model says, in the words of the files; a place only where it is known."""
    report = verify(made, profile(kernel), privileged=privileged)
    if report.verdict == "accept":
        return "accept"
    return f"{'-' if report.insn is None else report.insn}: {report.message}"


def agree(found: str, wanted: str) -> bool:
    return found == wanted or (wanted.startswith("-: ") and found.partition(": ")[2] == wanted[3:])


@pytest.mark.parametrize(
    ("made", "kernel", "wanted"), CASES, ids=[f"{p.id}-{kernel}" for p, kernel, _ in CASES]
)
def test_verdict_is_the_kernels(made: CorpusProgram, kernel: str, wanted: str) -> None:
    found = said(made, kernel)
    assert agree(found, wanted), found


@pytest.mark.parametrize(
    ("made", "kernel", "wanted"), UNPRIVILEGED, ids=[p.id for p, _, _ in UNPRIVILEGED]
)
def test_verdict_without_privileges(made: CorpusProgram, kernel: str, wanted: str) -> None:
    """The programs of socket filters again, loaded by a user without any capability."""
    found = said(made, kernel, privileged=False)
    assert agree(found, wanted), found


def test_a_slot_too_few_or_none() -> None:
    for insns in (b"", b"\x95", bytes(8)):
        assert verify(CorpusProgram("", 1, insns), profile("6.12")).verdict == "reject"


def test_a_million_instructions() -> None:
    insns = bytes(assemble("r0 = 0\n")) * 1_000_000 + bytes(assemble("exit"))
    report = verify(CorpusProgram("", 1, insns), profile("6.12"))
    assert (report.verdict, report.errno) == ("reject", 7)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(insns=1000), "limit: 1000 instructions"),
        (Limits(states=10), "limit: 10 states"),
        (Limits(seconds=0.0), "limit: 0.0 s of processor time"),
    ],
)
def test_limits(limits: Limits, message: str) -> None:
    loop = program("r0 = 0\nr0 += 1\nif r0 < 0x7fffffff goto -2\nexit")
    report = verify(loop, profile("6.12"), limits=limits)
    assert (report.verdict, report.message) == ("unknown", message)


def test_processed_instructions_are_counted_as_the_kernel_does() -> None:
    """The numbers are those of the kernel's line ``processed N insns``, in 6.12."""
    diamond = "r0 = *(u32 *)(r1 + 0)\nif r0 == 1 goto +1\nr7 = 1\nr0 = 0\nexit"
    assert verify(program(diamond), profile("6.12")).processed == 7
    loop = "r0 = 0\nr0 += 1\nif r0 < 50 goto -2\nexit"
    assert verify(program(loop), profile("6.12")).processed == 102


def test_without_privileges() -> None:
    def message(text: str) -> str:
        return verify(program(text), profile("6.12"), privileged=False).message

    assert message("r0 = r1\nexit") == "R0 leaks addr as return value"
    assert message("r0 = 0\nif r1 == 5 goto +0\nexit") == "R1 pointer comparison prohibited"
    assert message("r0 = 0\nr0 += 1\nif r0 < 5 goto -2\nexit") == "back-edge from insn 2 to 1"
    assert message("r1 = r10\nr1 += -600\nr0 = 0\nexit") == (
        "R1 stack pointer arithmetic goes out of range, prohibited for !root; off=-600"
    )
    assert message("r0 = *(u32 *)(r1 + 0)\nexit") == ""


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, ""),
        ({"frames": 1}, "the call stack of 2 frames is too deep"),
        ({"stack": 32}, "combined stack size of 2 calls is 48. Too large"),
        ({"processed": 3}, "BPF program is too large. Processed 4 insn"),
        ({"insns": 3}, ""),
        ({"subprograms": 1}, "too many subprograms"),
        ({"used_maps": 0}, "The total number of maps per program has reached the limit of 0"),
    ],
    ids=str,
)
def test_limits_are_the_profiles(limits, message):
    known = profile("6.12")
    strict = copy(known)
    strict.limits = replace(known.limits, **limits)
    code = assemble(
        "r1 = 0 ll; *(u64 *)(r10 - 8) = 0; call sub; r0 = 0; exit;"
        "sub: *(u64 *)(r10 - 32) = 0; r0 = 0; exit"
    )
    maps = (CorpusMap(MapType.ARRAY, 4, 8, 1),)
    judged = CorpusProgram(
        "a", ProgType.XDP, bytes(code), maps=maps, fixups=(Fixup(0, "map_fd", 0),)
    )  # fmt: skip
    report = verify(judged, strict)
    assert report.message == message
    assert (report.verdict == "accept") is (limits == {})
