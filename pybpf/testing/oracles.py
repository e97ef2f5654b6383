"""What judges and runs programs, for tests and fuzzing: programs in; verdicts and results out.

``kernel_verdict`` and ``kernel_test_run`` ask a real kernel, **which they boot in a guest**: a
Debian kernel under QEMU, by ``tools/guest.py`` of a checkout. They never touch this machine's own
kernel, since a random program may crash one. A guest takes some ten seconds to boot, and then
judges hundreds of programs a second: ask about many at once.

``model_verdict`` and ``vm_run`` ask pybpf's own verifier and VM.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pybpf
from pybpf.corpus import (
    CorpusProgram,
    RunResult,
    Verdict,
    format_program,
    parse_run,
    parse_verdict,
)
from pybpf.errors import PybpfError

if TYPE_CHECKING:
    from pybpf.verifier.kerneltypes import KernelTypes

KERNEL = "6.12"
CRASHED = "the kernel crashed"

_CHECKOUT = Path(pybpf.__file__).resolve().parent.parent
_TOOL = _CHECKOUT / "tools" / "guest.py"
_FLUSH = 64
_SECONDS = 3000
_CONSOLE = 20


class GuestUnavailable(PybpfError):
    """There is no guest to be had; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A program's verdict and, where it was run, the result; of a crash the console's end."""

    verdict: Verdict
    result: RunResult | None = None
    console: str = ""


def kernel_verdict(programs: Iterable[CorpusProgram], kernel: str = KERNEL) -> list[Verdict]:
    """Return what the verifier of a kernel says, in a guest, in the order of the programs.

    A program that crashes the guest gets the verdict ``unknown`` with the message CRASHED, and
    another guest goes on behind it. One that takes the verifier seconds is ``unknown``, too. Raises
    GuestUnavailable.
    """
    return [judged.verdict for judged in judge([*programs], kernel)]


def kernel_test_run(programs: Iterable[CorpusProgram], kernel: str = KERNEL) -> list[Judged]:
    """Load programs in a guest and run those accepted once, by BPF_PROG_TEST_RUN.

    Each gets maps of its own with the entries that it asks for; per-CPU maps have one CPU. Raises
    GuestUnavailable.
    """
    return list(judge([*programs], kernel, run=True))


def guest_problem(kernel: str = KERNEL) -> str | None:
    """Say why there can be no guest with this kernel here, or None where there may be one."""
    if not _TOOL.exists():
        return "guests need tools/guest.py, which only a checkout of pybpf has"
    tool = runpy.run_path(str(_TOOL))
    if kernel not in tool["KERNELS"]:
        return f"there are guests with {', '.join(tool['KERNELS'])}, not with {kernel}"
    if not (tool["kernels_dir"]() / kernel).is_dir():
        return f"there is no kernel {kernel}: run `python tools/guest.py fetch {kernel}`"
    missing: list[str] = tool["missing_programs"](tool["host_environment"]()["PATH"])
    return f"a guest needs {', '.join(missing)}" if missing else None


def judge(
    programs: Sequence[CorpusProgram], kernel: str = KERNEL, *, run: bool = False
) -> Iterator[Judged]:
    """Yield what a kernel makes of programs, in their order, as it becomes known.

    Guests are booted until every program is judged; one that crashes them costs a boot or two.
    Raises GuestUnavailable.
    """
    if not programs:
        return
    if problem := guest_problem(kernel):
        raise GuestUnavailable(problem)
    done = careful = 0
    with tempfile.TemporaryDirectory(prefix="pybpf-corpus-") as room:
        path = Path(room) / "corpus.jsonl"
        path.write_text("".join(format_program(program) + "\n" for program in programs))
        while done < len(programs):
            before = done
            guest = _Guest(kernel, path, done, 1 if careful else _FLUSH, run=run)
            for judged in guest.results():
                done += 1
                careful = max(0, careful - 1)
                yield judged
            if guest.complete:
                break
            if careful:
                # Results were not held back, so this is the one that did it.
                verdict = Verdict(programs[done].id, "unknown", message=CRASHED)
                yield Judged(verdict, console=guest.console)
                done += 1
                careful -= 1
            elif done == before and guest.never_ran:
                raise GuestUnavailable(f"the guest did not run:\n{guest.console}")
            else:
                careful = _FLUSH


class _Guest:
    """One boot: its results as they come, and whether it came to the end."""

    def __init__(self, kernel: str, path: Path, first: int, flush: int, *, run: bool) -> None:
        self.complete = False
        self.never_ran = True
        self.console = ""
        command = ["python", "-m", "pybpf.testing.guestbatch", str(path)]
        command += ["--first", str(first), "--flush", str(flush)]
        # A guest must not outlive those who asked for it, however they end.
        self._argv = ["setpriv", "--pdeathsig", "TERM"]
        self._argv += [sys.executable, str(_TOOL), "run", "--cpus", "1", "--timeout", str(_SECONDS)]
        self._argv += [kernel, "--", *command, *(["--run"] if run else [])]

    def results(self) -> Iterator[Judged]:
        with subprocess.Popen(  # noqa: S603 - our own tool
            self._argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        ) as process:
            assert process.stdout
            assert process.stderr
            try:
                yield from self._read(process.stdout)
                self.console = process.stderr.read().decode(errors="replace")
            finally:
                if process.poll() is None:
                    process.terminate()
            self.complete = process.wait() == 0
        self.console = "\n".join([*self._other, *self.console.splitlines()[-_CONSOLE:]])

    def _read(self, lines: Iterable[bytes]) -> Iterator[Judged]:
        verdict: Verdict | None = None
        self._other: list[str] = []
        for line in lines:
            if not line.startswith(b"{") or not line.endswith(b"}\n"):
                self._other.append(line.decode(errors="replace").rstrip())
                continue
            self.never_ran = False
            if b'"retval"' in line.split(b",", 2)[1]:
                assert verdict
                yield Judged(verdict, parse_run(line))
                verdict = None
                continue
            if verdict:
                yield Judged(verdict)
            verdict = parse_verdict(line)
        if verdict:
            yield Judged(verdict)


def model_verdict(
    program: CorpusProgram,
    kernel: str = KERNEL,
    *,
    seconds: float | None = None,
    types: KernelTypes | None = None,
) -> Verdict:
    """Return what pybpf's model of a kernel's verifier says, unknown after so many ``seconds``.

    A fault of the model, which should raise nothing, gets out.
    """
    from pybpf.target.profile import profile
    from pybpf.verifier.limits import Limits
    from pybpf.verifier.verify import verify

    report = verify(program, profile(kernel), limits=Limits(seconds=seconds), types=types)
    return Verdict(
        program.id, report.verdict, report.insn, report.message, report.processed, report.errno
    )


def vm_run(program: CorpusProgram, *, fast: bool = False) -> RunResult:
    """Return what BPF_PROG_TEST_RUN would give, by pybpf's VM; raises VmFault."""
    from pybpf.vm.batch import vm_run as run

    return run(program, fast=fast)
