"""Findings kept: a loop, a program and what is wrong with it in; files that reproduce it out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pybpf.corpus import CorpusProgram, format_program, parse_program
from pybpf.testing.render import listing


@dataclass(frozen=True, slots=True)
class Finding:
    """A program that a loop does not like, made as small as it gets."""

    loop: str
    kernel: str
    program: CorpusProgram
    problem: str

    @property
    def name(self) -> str:
        """A name for files and functions."""
        return re.sub(r"\W+", "_", f"{self.loop}_{self.program.id}")


def write(finding: Finding, folder: Path) -> tuple[Path, Path]:
    """Write the program as a line of JSON, and a test that fails while it is wrong; return both."""
    folder.mkdir(parents=True, exist_ok=True)
    line = format_program(finding.program)
    programs = folder / f"{finding.name}.jsonl"
    programs.write_text(line + "\n")
    test = folder / f"test_{finding.name}.py"
    test.write_text(_test(finding, line))
    return programs, test


def _test(finding: Finding, line: str) -> str:
    comment = "\n".join(
        f"# {text}".rstrip()
        for text in (*finding.problem.splitlines(), *listing(finding.program).splitlines())
    )
    return f'''"""Found by `pybpf fuzz`, loop {finding.loop}, with Linux {finding.kernel}."""

from pybpf.testing.findings import problem

{comment}
PROGRAM = """
{line}
"""


def test_{finding.name}() -> None:
    assert problem({finding.loop!r}, PROGRAM, kernel={finding.kernel!r}) is None
'''


def problem(loop: str, line: str, kernel: str) -> str | None:
    """Return what a loop says of the program in a line; boots a guest where the loop needs one."""
    from pybpf.testing.loops import loops

    (found,) = (one for one in loops(kernel) if one.name == loop)
    return next(found.check([parse_program(line.strip())]))
