"""Find the tracers to compare on this machine; say how each is started and in which language."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent / "scripts"


class BenchmarkError(Exception):
    """A measurement that could not be made, and why."""


@dataclass(frozen=True, slots=True)
class Tracer:
    """One tracer. ``start`` is all of its command line before options and the script.

    ``language`` is ``ply`` or ``bt``, the suffix of its scripts. ``root`` is the folder that it
    sees as ``/``, where that is another one.
    """

    name: str
    language: str
    start: tuple[str, ...]
    root: Path | None = None

    def command(self, script: str, *options: str) -> list[str]:
        """Return the command line that runs the text of a script."""
        return [*self.start, *options, *(["-e"] if self.language == "bt" else []), script]

    def script(self, name: str) -> str:
        """Return the text of a script in this tracer's language."""
        return (SCRIPTS / f"{name}.{self.language}").read_text()


def script_names() -> list[str]:
    """Return the names of the scripts, each of which is there in both languages."""
    return sorted(path.stem for path in SCRIPTS.glob("*.ply"))


def find_tracers(pybpf: str | None = None, bpftraces: Sequence[str] = ()) -> list[Tracer]:
    """Return pybpf first, then bpftrace and ply as far as they are on PATH, then ``bpftraces``.

    The arguments are commands; one that begins with ``chroot DIR`` runs in that folder. Raises
    BenchmarkError for a command that does not tell its version.
    """
    own = Path(sys.executable).with_name("pybpf")
    default = [str(own)] if own.exists() else [sys.executable, "-m", "pybpf"]
    start = shlex.split(pybpf) if pybpf else default
    # -k: where records are lost, go on, as the others do.
    tracers = [Tracer("pybpf", "ply", (*start, "run", "-k"))]
    if shutil.which("bpftrace"):
        tracers.append(_bpftrace(["bpftrace"]))
    if shutil.which("ply"):
        tracers.append(Tracer("ply", "ply", ("ply", "-k")))
    tracers += (_bpftrace(shlex.split(command)) for command in bpftraces)
    if len({tracer.name for tracer in tracers}) < len(tracers):
        raise BenchmarkError("the same bpftrace twice: give another one by --bpftrace")
    return tracers


def _bpftrace(start: list[str]) -> Tracer:
    root = Path(start[1]).resolve() if Path(start[0]).name == "chroot" and start[1:] else None
    try:
        printed = subprocess.run([*start, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchmarkError(f"{shlex.join(start)} --version: {error}") from None
    version = re.search(r"v?(\d+(?:\.\d+)+)", printed.stdout)
    return Tracer(f"bpftrace {version[1]}" if version else "bpftrace", "bt", tuple(start), root)
