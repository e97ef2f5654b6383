"""How far the model agrees with kernels: programs and a kernel's verdicts in; disagreements out.

An *unsound* accept (the model accepts what the kernel rejects) is a bug without exception. A *false
rejection* is an annoyance; of both the message tells where to look. A verdict that the model does
not give (unknown) is neither, and is counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pybpf.corpus import CorpusProgram, Verdict
from pybpf.testing.oracles import model_verdict

_NUMBER = re.compile(r"-?\b(?:0x[0-9a-f]+|\d+)\b")
# The model gives up where the kernel takes a million instructions to say no.
_SECONDS = 5.0
_REGISTER = re.compile(r"\b[rR]\d+")


@dataclass(frozen=True, slots=True)
class Compared:
    """A program, what a kernel says of it, and what the model says; how long that took, in s."""

    program: CorpusProgram
    kernel: Verdict
    model: Verdict
    seconds: float = 0.0

    @property
    def unsound(self) -> bool:
        """Whether the model lets something through."""
        return self.model.verdict == "accept" and self.kernel.verdict == "reject"

    @property
    def false_rejection(self) -> bool:
        """Whether the model is too strict."""
        return self.model.verdict == "reject" and self.kernel.verdict == "accept"

    @property
    def other_reason(self) -> bool:
        """Whether both reject it, with different words or of different instructions."""
        both = self.model.verdict == self.kernel.verdict == "reject"
        return both and self.model.message != self.kernel.message


@dataclass(slots=True)
class Tally:
    """What a corpus showed: counts, and all disagreements."""

    total: int = 0
    accepted: int = 0
    agreed: int = 0
    undecided: int = 0
    unsound: list[Compared] = field(default_factory=list)
    false_rejections: list[Compared] = field(default_factory=list)
    other_reasons: list[Compared] = field(default_factory=list)
    unknowns: list[Compared] = field(default_factory=list)
    slowest: Compared | None = None

    def add(self, one: Compared) -> None:
        """Count one program."""
        self.total += 1
        self.accepted += one.kernel.verdict == "accept"
        self.agreed += one.kernel.verdict == one.model.verdict
        self.undecided += one.kernel.verdict == "unknown"
        if one.model.verdict == "unknown":
            self.unknowns.append(one)
        if one.unsound:
            self.unsound.append(one)
        if one.false_rejection:
            self.false_rejections.append(one)
        if one.other_reason:
            self.other_reasons.append(one)
        if self.slowest is None or one.seconds > self.slowest.seconds:
            self.slowest = one

    def lines(self, most: int = 30) -> Iterator[str]:
        """Yield what there is to say, a line each; of each list the ``most`` frequent kinds."""
        yield (
            f"{self.total} programs, {self.accepted} accepted by the kernel; the same verdict: "
            f"{self.agreed}; unsound: {len(self.unsound)}; false rejections: "
            f"{len(self.false_rejections)}; unknown: {len(self.unknowns)}; "
            f"other words for a rejection: {len(self.other_reasons)}; "
            f"no verdict of the kernel: {self.undecided}"
        )
        for title, found, of_kernel in (
            ("unsound", self.unsound, True),
            ("false rejection", self.false_rejections, False),
            ("unknown", self.unknowns, False),
            ("other words", self.other_reasons, True),
        ):
            yield from _kinds(title, found, most, of_kernel=of_kernel)
        if self.slowest:
            yield f"slowest: {self.slowest.program.id}, {self.slowest.seconds:.2f} s"


def _kinds(title: str, found: list[Compared], most: int, *, of_kernel: bool) -> Iterator[str]:
    """Yield the kinds of message, the most frequent first, with the smallest programs of each."""
    kinds: dict[str, list[Compared]] = {}
    for one in found:
        text = one.kernel.message if of_kernel else one.model.message
        if title == "other words":
            text = f"{text}  <>  {one.model.message}"
        kinds.setdefault(normalised(text), []).append(one)
    counts = Counter({kind: len(ones) for kind, ones in kinds.items()})
    for kind, count in counts.most_common(most):
        ids = [f"{one.program.id}({one.program.slots})" for one in _smallest(kinds[kind])]
        yield f"{title} {count:5}  {kind}\n               {' '.join(ids)}"


def _smallest(found: list[Compared]) -> list[Compared]:
    return sorted(found, key=lambda one: one.program.slots)[:4]


def normalised(message: str) -> str:
    """Return a message without its numbers: those of one kind are equal."""
    return _NUMBER.sub("N", _REGISTER.sub("R", message))


def compare(
    programs: Iterable[CorpusProgram],
    verdicts: Iterable[Verdict],
    kernel: str,
    *,
    processes: int = 1,
) -> Iterator[Compared]:
    """Yield each program with both verdicts; the kernel's are in the order of the programs."""
    pairs = ((program, verdict, kernel) for program, verdict in zip(programs, verdicts))  # noqa: B905
    if processes == 1:
        yield from map(_one, pairs)
        return
    from multiprocessing import get_context

    with get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_one, pairs, chunksize=32)


def _one(pair: tuple[CorpusProgram, Verdict, str]) -> Compared:
    import time

    program, verdict, kernel = pair
    assert program.id == verdict.id, f"{program.id} and {verdict.id}: of different corpora?"
    began = time.perf_counter()
    try:
        model = model_verdict(program, kernel, seconds=_SECONDS)
    except Exception as error:  # noqa: BLE001 - a fault of the model is what is looked for
        model = Verdict(program.id, "unknown", message=f"fault: {type(error).__name__}: {error}")
    return Compared(program, verdict, model, time.perf_counter() - began)
