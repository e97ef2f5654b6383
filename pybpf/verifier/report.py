"""What verifying a program found: the noun; how it is shown is up to cli/verify.py."""

from __future__ import annotations

from pybpf.corpus import VerdictKind
from pybpf.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """A verdict and its reason.

    ``insn``: the slot that is at fault (None: the program as a whole). ``message``: the kernel's
    own last line for a reject; for an unknown, what the model could not decide
    (``limit: 1000000 states``, ``not modelled: …``). ``processed``: instructions looked at.
    ``errno``: what bpf(2) would return for a reject, else 0. ``states``: checkpoints made, in all
    and at most per slot. ``depths``: bytes of stack per subprogram.
    """

    verdict: VerdictKind
    insn: int | None = None
    message: str = ""
    processed: int = 0
    errno: int = 0
    states: int = 0
    depths: tuple[int, ...] = ()
