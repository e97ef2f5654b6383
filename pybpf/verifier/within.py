"""A program, a profile and seconds in; a verdict out, whatever happens in the model.

``verify`` looks at its limits as it goes from instruction to instruction. This also ends what takes
long in between, and turns an error in the model into ``unknown``: whoever judges many programs, or
only wants to warn, needs an answer.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Never

from pybpf.corpus import CorpusProgram
from pybpf.errors import TargetError
from pybpf.target.profile import Profile
from pybpf.verifier.env import Log
from pybpf.verifier.kerneltypes import KernelTypes
from pybpf.verifier.limits import Limits
from pybpf.verifier.report import Report
from pybpf.verifier.verify import verify


class _OutOfTimeError(Exception):
    """The model did not look at its own limit for long."""


def verify_within(
    program: CorpusProgram,
    profile: Profile,
    seconds: float,
    *,
    privileged: bool = True,
    log: Log | None = None,
    types: KernelTypes | None = None,
) -> Report:
    """Return a report in not much more than so many seconds of processor time; raises nothing.

    What takes longer is ``unknown`` with the message ``limit: …``, an error in the model
    ``unknown`` with ``internal: …``.
    """
    limits = Limits(seconds=seconds)
    try:
        with _deadline(2 * seconds + 1):
            return verify(
                program, profile, limits=limits, privileged=privileged, log=log, types=types
            )
    except _OutOfTimeError:
        return Report("unknown", message=f"limit: {seconds} s of processor time")
    except TargetError as error:
        return Report("unknown", message=f"the kernel's types: {error.message}")
    except Exception as error:  # noqa: BLE001 - it is a defect of the model, whatever it is
        return Report("unknown", message=f"internal: {type(error).__name__}: {error}")


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Raise _OutOfTimeError in the block after that much processor time, in the main thread."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _out_of_time)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _out_of_time(_number: int, _frame: object) -> Never:
    raise _OutOfTimeError
