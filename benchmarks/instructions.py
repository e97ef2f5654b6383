"""Count instructions, by script and tracer: as emitted, and as the kernel rewrote them.

As emitted are the instructions of the object file that bpftrace would load, and of our compiler's
program. A slot has 8 bytes; loads of 64-bit constants and of map addresses take two. The verifier
drops, patches and inlines, and what comes of that is what it calls xlated.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cost import programs_of
from plan import Plan
from pybpf.compiler.pipeline import compile_script
from pybpf.kernel.live import LiveTarget
from report import Finding, Table
from running import attached
from tracers import BenchmarkError, Tracer

_LDDW = 0x18
_SHF_EXECINSTR = 4


def measure(plan: Plan) -> Finding:
    """Count for every script and tracer."""
    rows = []
    for script in plan.scripts:
        plan.say(f"instructions: {script}")
        for tracer in plan.tracers:
            row: dict[str, Any] = {"script": script, "tracer": tracer.name}
            try:
                row |= _emitted(tracer, script)
                row |= _loaded(tracer, script)
            except BenchmarkError as error:
                row["error"] = str(error)
            rows.append(row)
    return Finding(rows, (_table(plan, rows),))


def count_code(code: bytes) -> dict[str, int]:
    """Return how many instructions and slots encoded instructions are."""
    slots = len(code) // 8
    wide = at = 0
    while at < slots:
        is_wide = code[8 * at] == _LDDW
        wide += is_wide
        at += 1 + is_wide
    return {"insns": slots - wide, "slots": slots}


def _emitted(tracer: Tracer, script: str) -> dict[str, int]:
    """Count what a tracer hands to the kernel; nothing for one that does not show it."""
    if tracer.name == "pybpf":
        probes = compile_script(tracer.script(script), LiveTarget()).probes
        return count_code(b"".join(bytes(probe.program) for probe in probes))
    if tracer.language == "bt":
        return count_code(_code_of(_emit_elf(tracer, script)))
    return {}


def _emit_elf(tracer: Tracer, script: str) -> bytes:
    """Return the object file that bpftrace makes of a script."""
    root = tracer.root or Path("/")
    with TemporaryDirectory(prefix="pybpf-benchmark-", dir=root / "tmp") as folder:
        path = Path(folder) / "script.o"
        seen = Path("/") / path.relative_to(root)
        options = ["--emit-elf", str(seen), *_dry_run(tracer)]
        command = tracer.command(tracer.script(script), *options)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if not path.exists():
            raise BenchmarkError(f"{tracer.name} --emit-elf: {done.stderr.strip()}")
        return path.read_bytes()


def _dry_run(tracer: Tracer) -> list[str]:
    """Return the option without which newer ones run the script once they have written the file."""
    helped = subprocess.run([*tracer.start, "--help"], capture_output=True, text=True, check=False)
    option = "--dry-run"
    return [option] if option in helped.stdout + helped.stderr else []


def _code_of(elf: bytes) -> bytes:
    """Return the content of all sections that hold code."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    return b"".join(
        section.data()
        for section in ELFFile(BytesIO(elf)).iter_sections()
        if section["sh_flags"] & _SHF_EXECINSTR
    )


def _loaded(tracer: Tracer, script: str) -> dict[str, int]:
    """Count what the kernel made of the programs."""
    with attached(tracer, tracer.script(script), programs=programs_of(script)) as running:
        infos = running.infos()
    return {
        "xlated": sum(info.xlated_size for info in infos) // 8,
        "jited_bytes": sum(info.jited_size for info in infos),
    }


def _table(plan: Plan, rows: list[dict[str, Any]]) -> Table:
    found = {(row["script"], row["tracer"]): row for row in rows}
    columns = ["script"]
    for tracer in plan.tracers:
        columns += [f"{tracer.name}, insns", "slots", "xlated", "bytes"]
    shown = []
    for script in plan.scripts:
        cells = [script]
        for tracer in plan.tracers:
            row = found[script, tracer.name]
            names = ("insns", "slots", "xlated", "jited_bytes")
            cells += [str(row.get(name, "-")) for name in names]
        shown.append(cells)
    note = (
        "Instructions of all programs of a script as emitted, the slots of 8 bytes they take, the "
        "slots of what the verifier rewrote them to, and the bytes of machine code.\n\n"
    )
    own, *others = (tracer.name for tracer in plan.tracers)
    for other in others:
        pairs = [(found[s, own].get("insns"), found[s, other].get("insns")) for s in plan.scripts]
        won = sum(bool(ours and theirs and ours < theirs) for ours, theirs in pairs)
        note += f"Fewer instructions than {other} in {won} of {len(pairs)}. "
    note = note.rstrip()
    return Table("Instructions", columns, shown, note)
