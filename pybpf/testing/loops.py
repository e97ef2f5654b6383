"""The differential loops of `pybpf fuzz`: programs in; what is wrong with them out.

A loop holds two parts of pybpf to each other, or one to a kernel. ``check`` says what is wrong with
each of some programs, or None; only the loops with a kernel gain from many at once, since they boot
a guest for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pybpf.corpus import CorpusProgram, RunResult, Verdict
from pybpf.errors import EncodingError, PybpfError, VmFault
from pybpf.testing import programs as generator

_T = TypeVar("_T")

Check = Callable[[Sequence[CorpusProgram]], Iterator[str | None]]
Source = Callable[[int, int, int], Iterator[CorpusProgram]]


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop. ``source`` takes seed, count and first; ``batch`` is how many to check at once."""

    name: str
    about: str
    source: Source
    check: Check
    batch: int = 50
    guest: bool = False


def loops(kernel: str) -> tuple[Loop, ...]:
    """Return all loops; the model is that of ``kernel``, and so is the guest."""
    random, runnable = generator.programs, generator.runnable
    return (
        Loop("text", "assembler and disassembler undo each other", random, _each(round_trip)),
        Loop("modes", "both modes of the VM do the same", runnable, _each(vm_modes)),
        Loop(
            "values",
            "what the VM computes lies within what the model says",
            runnable,
            _each(partial(model_values, kernel=kernel)),
        ),
        Loop(
            "model",
            "the model accepts nothing that a kernel rejects",
            random,
            partial(model_accepts, kernel=kernel),
            batch=2000,
            guest=True,
        ),
        Loop(
            "runs",
            "the VM gives what BPF_PROG_TEST_RUN gives",
            runnable,
            partial(kernel_runs, kernel=kernel),
            batch=1000,
            guest=True,
        ),
    )


def _each(check: Callable[[CorpusProgram], str | None]) -> Check:
    def every(programs: Sequence[CorpusProgram]) -> Iterator[str | None]:
        return (_guarded(check, program) for program in programs)

    return every


def _guarded(check: Callable[[CorpusProgram], _T], program: CorpusProgram) -> _T | str:
    """Check one; that an error other than pybpf's own gets out is a finding as well, a text."""
    try:
        return check(program)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return f"{type(error).__name__}: {error}"


def round_trip(program: CorpusProgram) -> str | None:
    """Decode, disassemble, assemble and encode what can be decoded."""
    from pybpf.isa.assembler import assemble
    from pybpf.isa.disassembler import disassemble
    from pybpf.isa.encoding import decode

    try:
        decoded = decode(program.insns)
    except EncodingError:
        return None
    text = disassemble(decoded)
    again = bytes(assemble(text))
    return None if again == program.insns else f"other bytes come back from\n{text}"


def vm_modes(program: CorpusProgram) -> str | None:
    """Run a program in both modes of the VM; the fast one relies on what a verifier ensures."""
    from pybpf.vm.batch import vm_run

    try:
        step = vm_run(program)
    except PybpfError:
        return None
    fast = vm_run(program, fast=True)
    found = difference(step, fast, ("by steps", "fast"))
    return None if found is None else f"the modes differ in {found}"


def model_values(program: CorpusProgram, kernel: str) -> str | None:
    """Hold each value that the VM computes to what the model says."""
    from pybpf.testing.containment import escape

    try:
        found = escape(program, kernel)
    except VmFault as fault:
        return f"the model accepts it, and the VM faults: {fault}"
    except PybpfError:  # a packet, a map or an instruction that the VM does not take
        return None
    return None if found is None else str(found)


def model_accepts(programs: Sequence[CorpusProgram], kernel: str) -> Iterator[str | None]:
    """Ask a kernel, in a guest, about what the model accepts."""
    from pybpf.testing.oracles import judge, model_verdict

    models = [_guarded(lambda one: model_verdict(one, kernel), program) for program in programs]
    accepted = [
        program
        for program, model in zip(programs, models, strict=True)
        if isinstance(model, Verdict) and model.verdict == "accept"
    ]
    verdicts = {judged.verdict.id: judged.verdict for judged in judge(accepted, kernel)}
    for program, model in zip(programs, models, strict=True):
        if isinstance(model, str):
            yield model
            continue
        verdict = verdicts.get(program.id)
        if verdict is None or verdict.verdict != "reject":
            yield None
            continue
        where = "" if verdict.insn is None else f"\nat slot {verdict.insn}"
        why = verdict.message or f"errno {verdict.errno}"
        yield f"unsound: Linux {kernel} says {why}{where}"


def kernel_runs(programs: Sequence[CorpusProgram], kernel: str) -> Iterator[str | None]:
    """Run programs on a kernel, in a guest, and in the VM."""
    from pybpf.testing.oracles import judge

    for program, judged in zip(programs, judge([*programs], kernel, run=True), strict=True):
        yield None if judged.result is None else other_run(program, judged.result)


def other_run(program: CorpusProgram, kernel: RunResult) -> str | None:
    """Run a program in the VM; return how that differs from what a kernel gave, or None."""
    from pybpf.vm.batch import vm_run

    for fast in (False, True):
        try:
            ours = vm_run(program, fast=fast)
        except PybpfError as error:
            return f"the VM faults (fast {fast}): {error}"
        found = difference(kernel, ours, ("the kernel", "the VM"))
        if found is not None:
            return f"the VM (fast {fast}) differs in {found}"
    return None


def difference(a: RunResult, b: RunResult, names: tuple[str, str]) -> str | None:
    """Return in what two runs of a program differ, and in the next line how; None where in nothing.

    It is the first of errno, retval, data and maps: what runs that fail alike have in common.
    """
    for name in ("errno", "retval"):
        first, second = getattr(a, name), getattr(b, name)
        if first != second:
            return f"{name}\n{names[0]} {first:#x}, {names[1]} {second:#x}"
    if a.data != b.data:
        return f"data\n{_bytes(a.data, b.data, names)}"
    if len(a.maps) != len(b.maps):
        return f"maps\n{names[0]} {len(a.maps)} of them, {names[1]} {len(b.maps)}"
    for number, pair in enumerate(zip(a.maps, b.maps, strict=True)):
        first, second = (dict(entries) for entries in pair)
        for key in sorted({*first, *second}):
            one, other = first.get(key), second.get(key)
            if one is None or other is None:
                has = names[one is None]
                return f"maps\nmap {number}: only {has} has the key {key.hex()}"
            if one != other:
                return f"maps\nmap {number}, key {key.hex()}: {_bytes(one, other, names)}"
    return None


_SHOWN = 16


def _bytes(a: bytes, b: bytes, names: tuple[str, str]) -> str:
    """Say where two strings of bytes begin to differ, and how they go on from there."""
    if len(a) != len(b):
        return f"{names[0]} {len(a)} bytes, {names[1]} {len(b)}"
    at = next(n for n, pair in enumerate(zip(a, b, strict=True)) if pair[0] != pair[1])
    one, other = (data[at : at + _SHOWN].hex() for data in (a, b))
    return f"from byte {at} on {names[0]} {one}, {names[1]} {other}"
