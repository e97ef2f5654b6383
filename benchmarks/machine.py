"""Describe the machine that was measured, and divide its CPUs between producer and consumers."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Return what a number depends on; no name or address of the machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": _field("/proc/cpuinfo", r"model name\s*:\s*(.+)"),
        "memory_mib": int(_field("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) // 1024,
        "kernel": ".".join(platform.release().split(".")[:2]),
        "jit": _field("/proc/sys/net/core/bpf_jit_enable", r"(\d+)"),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def shown(facts: dict[str, Any]) -> str:
    """Return the facts in a sentence."""
    jit = "" if facts["jit"] != "0" else ", without the JIT compiler"
    return (
        f"Measured {facts['date']} on {facts['cpus']} CPUs ({facts['cpu']}), Linux "
        f"{facts['kernel']}{jit}, Python {facts['python']}; load {facts['load']} at the start."
    )


def _field(path: str, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(path).read_text())
    except OSError:
        return None
    return found[1].strip() if found else None


def producer_cpu() -> int:
    """Return the CPU for what makes events: the last one, since interrupts prefer the first."""
    return max(os.sched_getaffinity(0))


@contextmanager
def away_from(cpu: int) -> Iterator[None]:
    """Keep this process, and what it starts meanwhile, off a CPU; if there is another one."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {cpu} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
