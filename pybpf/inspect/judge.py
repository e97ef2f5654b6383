"""Programs of an object and a kernel's profile in; what its verifier says of each out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybpf.inspect.facts import Judged
from pybpf.target.profile import LIVE
from pybpf.verifier.subject import of_object
from pybpf.verifier.within import verify_within

if TYPE_CHECKING:
    from pybpf.inspect.states import States
    from pybpf.objfile.object import Object
    from pybpf.target.profile import Profile
    from pybpf.verifier.kerneltypes import KernelTypes


def judge(
    found: Object,
    programs: Iterable[int],
    kernel: Profile,
    seconds: float,
    types: KernelTypes | None = None,
    states: dict[int, States] | None = None,
) -> dict[int, Judged]:
    """Return what a kernel says of programs, by their indices; each may take so many seconds.

    ``types`` are the kernel's; without, the object's own are taken for CO-RE.

    What was known before their instructions is put into ``states``, where it is given. Raises
    ObjectError for an object of the other byte order.
    """
    subjects = [*of_object(found, None if types is None else types.btf)]
    verdicts = {}
    name = f"{LIVE} ({kernel.release})" if kernel.name == LIVE else kernel.name
    for index in programs:
        listener = None
        if states is not None:
            from pybpf.inspect.states import States

            listener = states[index] = States()
        report = verify_within(subjects[index].program, kernel, seconds, log=listener, types=types)
        verdicts[index] = Judged(
            name, report.verdict, report.message, report.processed, report.states,
            report.depths, report.insn,
        )  # fmt: skip
    return verdicts
