"""Give the tracers the file systems that they need, in a mount namespace of this process's own.

The machine's own mounts stay as they are, and nothing is left when the process ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_MARK = "PYBPF_BENCHMARK_MOUNTS"


def start_again_in_namespace() -> None:
    """Start this program anew, with its arguments, in a mount namespace of its own; once."""
    if _MARK not in os.environ:
        command = ["unshare", "--mount", sys.executable, *sys.orig_argv[1:]]
        os.execvpe(command[0], command, {**os.environ, _MARK: "1"})


def mount_tracing() -> None:
    """Mount tracefs and debugfs where they are not: bpftrace looks for events in both."""
    for kind, place in (("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug")):
        if not Path(place).is_mount():
            subprocess.run(["mount", "-t", kind, kind, place], check=True)


def mount_roots(roots: Iterable[Path | None]) -> None:
    """Show folders that are used as ``/`` what the machine has in /proc, /sys and /dev."""
    for root in filter(None, roots):
        for place in ("proc", "sys", "dev"):
            if not (root / place).is_mount():
                subprocess.run(["mount", "--rbind", f"/{place}", str(root / place)], check=True)
