"""Compile the C programs beside this module and use them: make events, time commands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from tracers import BenchmarkError

_SOURCES = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Timed:
    """What a command took from start to exit, on the clock and on CPUs, and its most memory."""

    seconds: float
    cpu_seconds: float
    kib: int


class Hammer:
    """A process that calls getppid on one CPU when it is told to; use it as a context manager."""

    def __init__(self, program: Path, cpu: int) -> None:
        self._process = subprocess.Popen(
            [program, str(cpu)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        """The process that makes the events."""
        return self._process.pid

    def begin(self, events: int, rate: int = 0) -> None:
        """Start making events: ``rate`` a second, or as fast as it goes."""
        assert self._process.stdin
        self._process.stdin.write(f"{events} {rate}\n")
        self._process.stdin.flush()

    def burst(self, events: int, rate: int = 0) -> float:
        """Make events; return the seconds that took."""
        assert self._process.stdout
        self.begin(events, rate)
        answer = self._process.stdout.readline()
        if not answer:
            raise BenchmarkError("the hammer broke")
        return int(answer) / 1e9

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            self._process.terminate()


@dataclass(frozen=True, slots=True)
class Tools:
    """The compiled programs."""

    folder: Path

    def hammer(self, cpu: int) -> Hammer:
        """Start a hammer on a CPU."""
        return Hammer(self.folder / "hammer", cpu)

    def timed(self, command: Sequence[str], timeout: float = 120) -> Timed:
        """Run a command without output; raises BenchmarkError where it does not end well."""
        try:
            done = subprocess.run(
                [self.folder / "timed", *command],
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"{command[0]} was not done after {timeout:.0f} s") from None
        if done.returncode:
            raise BenchmarkError(done.stderr.strip())
        status, wall, cpu, kib = map(int, done.stdout.split())
        if status:
            raise BenchmarkError(f"{command[0]} ended with {status}: {done.stderr.strip()}")
        return Timed(wall / 1e9, cpu / 1e9, kib)


@contextmanager
def compiled() -> Iterator[Tools]:
    """Compile the programs into a folder that goes away; raises BenchmarkError without a cc."""
    with TemporaryDirectory(prefix="pybpf-benchmark-") as name:
        folder = Path(name)
        for source in sorted(_SOURCES.glob("*.c")):
            command = ["cc", "-O2", "-o", str(folder / source.stem), str(source)]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except FileNotFoundError:
                raise BenchmarkError("no C compiler found: apt-get install gcc") from None
            except subprocess.CalledProcessError as error:
                raise BenchmarkError(f"{source.name}: {error.stderr}") from None
        yield Tools(folder)
