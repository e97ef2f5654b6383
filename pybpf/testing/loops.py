"""The differential loops of `pybpf fuzz`: programs in; what is wrong with them out.

A loop holds two parts of pybpf to each other, or one to a kernel. ``check`` says what is wrong with
each of some programs, or None; only the loops with a kernel gain from many at once, since they boot
a guest for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pybpf.corpus import CorpusProgram, RunResult, Verdict
from pybpf.errors import EncodingError, PybpfError, VmFault
from pybpf.testing import programs as generator

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
    from functools import partial

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


def _guarded(check: Callable[[CorpusProgram], str | None], program: CorpusProgram) -> str | None:
    """Check one; that an error other than pybpf's own gets out is a finding as well."""
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
    return None if step == fast else f"by steps {step}, fast {fast}"


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

    models = [_verdict(model_verdict, program, kernel) for program in programs]
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
        refused = verdict is not None and verdict.verdict == "reject"
        yield f"unsound: Linux {kernel} says {verdict}" if refused else None


def _verdict(
    model: Callable[[CorpusProgram, str], Verdict], program: CorpusProgram, kernel: str
) -> Verdict | str:
    try:
        return model(program, kernel)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return f"{type(error).__name__}: {error}"


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
        for name in ("errno", "retval", "data", "maps"):
            theirs, mine = getattr(kernel, name), getattr(ours, name)
            if theirs != mine:
                return f"{name} (fast {fast}): the kernel {theirs!r}, the VM {mine!r}"
    return None
