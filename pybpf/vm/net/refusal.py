"""What BPF_PROG_TEST_RUN refuses to run."""

from __future__ import annotations

from pybpf.errors import PybpfError


class Refused(PybpfError):
    """A packet or context that the kernel does not take; ``errno`` is what it says."""

    def __init__(self, errno: int, reason: str) -> None:
        self.errno = errno
        super().__init__(reason)
