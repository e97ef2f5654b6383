"""Programs in bulk, lines of JSON (see pybpf.corpus), in; a line of JSON with the verdict each out.

    {"id": "a1", "verdict": "reject", "insn": 4, "message": "R0 !read_ok", "processed": 5}

Answers come in the order of the lines, each as soon as it is known. No program can stop the others:
what takes too long is ``unknown: limit: …``, and an error in the model is ``unknown: internal: …``.
A line that holds no program is answered, too: ``message`` then names the line.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache

from pybpf.corpus import CorpusError, VerdictKind, parse_program
from pybpf.dataclass import dataclass
from pybpf.target.profile import LIVE, profile
from pybpf.verifier.kerneltypes import KernelTypes, types_of
from pybpf.verifier.within import verify_within

_AHEAD = 8
"""How many lines wait for each process."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Which kernel judges (a profile's name), for how many seconds of processor time a program.

    ``btf`` is the file of that kernel's types; those of the running one need none.
    """

    kernel: str
    seconds: float
    privileged: bool = True
    btf: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to line number ``line``; ``is_program`` is False where that holds none."""

    text: str
    line: int
    is_program: bool = True


def judge_lines(lines: Iterable[str | bytes], judge: Judge, *, jobs: int = 1) -> Iterator[Answer]:
    """Yield an answer for every line that is not blank, in their order.

    Raises ProfileError for a kernel that there is no profile of.
    """
    profile(judge.kernel)
    numbered = ((n, line.strip()) for n, line in enumerate(lines, start=1) if line.strip())
    if jobs == 1:
        for number, line in numbered:
            yield answer(line, number, judge)
        return
    yield from _in_processes(numbered, judge, jobs)


def _in_processes(
    numbered: Iterator[tuple[int, str | bytes]], judge: Judge, jobs: int
) -> Iterator[Answer]:
    """Judge by several processes; a line whose process ends is judged again, by one of its own."""
    waiting: deque[tuple[int, str | bytes, Future[Answer]]] = deque()
    pool = ProcessPoolExecutor(jobs)
    try:
        more = True
        while more or waiting:
            while more and len(waiting) < jobs * _AHEAD:
                item = next(numbered, None)
                if item is None:
                    more = False
                    break
                number, line = item
                waiting.append((number, line, pool.submit(answer, line, number, judge)))
            if not waiting:
                break
            number, line, future = waiting.popleft()
            try:
                yield future.result()
            except BrokenProcessPool:
                pool.shutdown(wait=False, cancel_futures=True)
                pool = ProcessPoolExecutor(jobs)
                yield _alone(line, number, judge)
                waiting = deque(
                    (n, text, pool.submit(answer, text, n, judge)) for n, text, _ in waiting
                )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _alone(line: str | bytes, number: int, judge: Judge) -> Answer:
    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(answer, line, number, judge).result()
        except BrokenProcessPool:
            return _unknown(_id(line), "internal: the process that judged it was killed", number)


def answer(line: str | bytes, number: int, judge: Judge) -> Answer:
    """Judge the program of one line; raises nothing but ProfileError and what ends a process."""
    try:
        program = parse_program(line, number)
    except CorpusError as error:
        return _unknown(_id(line), str(error), number, is_program=False)
    report = verify_within(
        program, profile(judge.kernel), judge.seconds, privileged=judge.privileged,
        types=_types(judge.btf, live=judge.kernel == LIVE),
    )  # fmt: skip
    text = _row(_id(line), report.verdict, report.insn, report.message, report.processed)
    return Answer(text, number)


@cache
def _types(file: str | None, *, live: bool) -> KernelTypes | None:
    return types_of(file, live=live)


def _unknown(
    ident: str | int | None, message: str, number: int, *, is_program: bool = True
) -> Answer:
    return Answer(_row(ident, "unknown", None, message, 0), number, is_program)


def _row(
    ident: str | int | None, verdict: VerdictKind, insn: int | None, message: str, processed: int
) -> str:
    row = {
        "id": ident,
        "verdict": verdict,
        "insn": insn,
        "message": message,
        "processed": processed,
    }
    return json.dumps(row, separators=(",", ":"))


def _id(line: str | bytes) -> str | int | None:
    """Return the id that a line gives, a number or a text, even where it holds no program."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = row.get("id") if isinstance(row, dict) else None
    return found if isinstance(found, str | int) else None
