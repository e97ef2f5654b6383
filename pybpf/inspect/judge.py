"""Programs of an object and a kernel's profile in; what its verifier says of each out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybpf.inspect.facts import Judged
from pybpf.verifier.within import verify_within

if TYPE_CHECKING:
    from pybpf.objfile.object import Object
    from pybpf.target.profile import Profile
    from pybpf.verifier.report import Report


def judge(
    found: Object, programs: Iterable[int], kernel: Profile, seconds: float
) -> dict[int, Judged]:
    """Return what a kernel says of programs, by their indices; each may take so many seconds.

    Raises ObjectError for an object of the other byte order.
    """
    from pybpf.verifier.subject import of_object

    subjects = [*of_object(found)]
    return {
        index: judged(verify_within(subjects[index].program, kernel, seconds), kernel)
        for index in programs
    }


def judged(report: Report, kernel: Profile) -> Judged:
    """Return a report as facts of a program."""
    return Judged(
        kernel.name, report.verdict, report.message, report.processed, report.states, report.depths
    )
