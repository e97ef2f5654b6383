"""The run of a fuzzer: loops, a seed and a time in; findings out, each made small and kept.

Every program has a number in the corpus of the seed, and the loops take turns with what follows.
Programs in the folder of the corpus, those found earlier among them, are checked first, and mutants
of them now and then. Any number of processes may share a folder: each file is written whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random

from pybpf import corpus
from pybpf.corpus import CorpusError, CorpusProgram
from pybpf.dataclass import replace
from pybpf.testing import findings, shrink
from pybpf.testing.findings import Finding
from pybpf.testing.loops import Loop
from pybpf.testing.programs.mutate import mutate
from pybpf.testing.soundness import normalised

_GUEST_ROUNDS = 12
_MUTANTS = 10
_TURN = 10.0


@dataclass(slots=True)
class Fuzzer:
    """One run. ``say`` is told of findings, ``show`` of progress: lines of text.

    ``checked`` counts programs by loop; ``found`` has a finding of each kind, ``again`` counts
    those that were of a kind already found.
    """

    loops: Sequence[Loop]
    kernel: str
    seed: int
    folder: Path
    say: Callable[[str], None]
    show: Callable[[str], None]
    checked: dict[str, int] = field(default_factory=dict)
    found: dict[tuple[str, str], Finding] = field(default_factory=dict)
    again: int = 0
    given: list[CorpusProgram] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Check programs for so long; a batch that has begun is finished."""
        end = time.monotonic() + seconds
        self.given = list(self._read())
        for loop in self.loops:
            if self.given and time.monotonic() < end:
                self._check(loop, self.given)
        # A boot takes long, so the others have as much time again between two of them.
        guests = [loop for loop in self.loops if loop.guest]
        local = [loop for loop in self.loops if not loop.guest]
        took = _TURN
        while time.monotonic() < end:
            turn = min(end, time.monotonic() + took) if guests else end
            self._take_turns(local, turn)
            began = time.monotonic()
            for loop in guests:
                if time.monotonic() < end:
                    self._check(loop, self._next(loop))
            took = max(_TURN, time.monotonic() - began)

    def _take_turns(self, loops: Sequence[Loop], end: float) -> None:
        while loops and time.monotonic() < end:
            for loop in loops:
                if time.monotonic() < end:
                    self._check(loop, self._next(loop))

    def _read(self) -> Iterator[CorpusProgram]:
        for path in sorted(self.folder.glob("*.jsonl")):
            try:
                yield from corpus.read_file(str(path))
            except (CorpusError, OSError) as error:
                self.say(f"{path}: {error}")

    def _next(self, loop: Loop) -> list[CorpusProgram]:
        first = self.checked.get(loop.name, 0)
        fresh = list(loop.source(self.seed, loop.batch, first))
        if self.given and loop.name in {"text", "model"}:
            rng = Random(f"{self.seed}-{loop.name}-{first}")  # noqa: S311 - no secret
            for number in range(loop.batch // _MUTANTS):
                old = rng.choice(self.given)
                name = f"{old.id}-{self.seed}-{first + number}"
                fresh[number] = replace(mutate(rng, old), id=name)
        return fresh

    def _check(self, loop: Loop, programs: Sequence[CorpusProgram]) -> None:
        for program, problem in zip(programs, loop.check(programs), strict=True):
            self.checked[loop.name] = count = self.checked.get(loop.name, 0) + 1
            if count % 50 == 0:
                self.show(self.progress())
            if problem is not None:
                self._keep(loop, program, problem)

    def progress(self) -> str:
        """Return how far the run has come."""
        counts = ", ".join(f"{loop.name} {self.checked.get(loop.name, 0):,}" for loop in self.loops)
        return f"{counts}; {len(self.found)} found"

    def _keep(self, loop: Loop, program: CorpusProgram, problem: str) -> None:
        kind = loop.name, _kind(problem)
        if kind in self.found:
            self.again += 1
            return

        def failing(candidates: Sequence[CorpusProgram]) -> Iterator[bool]:
            # Guests tell verdicts apart by id.
            named = [replace(c, id=f"{c.id}-{n}") for n, c in enumerate(candidates)]
            for found in loop.check(named):
                yield found is not None and _kind(found) == kind[1]

        self.found[kind] = Finding(loop.name, self.kernel, program, problem)
        self.show(f"{loop.name}: making {program.id} smaller")
        rounds = _GUEST_ROUNDS if loop.guest else shrink.ROUNDS
        small = shrink.shrink(program, failing, rounds=rounds)
        (last,) = islice(loop.check([small]), 1)
        finding = Finding(loop.name, self.kernel, small, last or problem)
        self.found[kind] = finding
        _, test = findings.write(finding, self.folder)
        self.say(f"{loop.name}: {finding.problem}\n  {small.slots} slots; reproduced by {test}")


def _kind(problem: str) -> str:
    """Return what problems of one kind have in common: the first words, without numbers."""
    return normalised(problem.partition("\n")[0])[:60]
