"""How much work a caller lets a verification do, beside the kernel's own limits."""

from __future__ import annotations

from pybpf.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Where the model gives up with 'unknown: limit'. None: nowhere before the kernel would.

    ``insns``: instructions processed; ``states``: checkpoints kept; ``seconds``: of processor time.
    """

    insns: int | None = None
    states: int | None = 100_000
    seconds: float | None = None


DEFAULT_LIMITS = Limits()
