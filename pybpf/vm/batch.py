"""Programs in bulk: lines of JSON in, a line with what each gave out.

Two kinds of lines are read. One has plain memory, for which r1 and r2 are address and size:

    {"id": "a", "insns": HEX, "mem": HEX or null}
    {"id": "a", "r0": 3, "mem": HEX or null, "fault": null}

The other is that of ``pybpf.corpus``, with a type of program, maps, packet and context, and no
memory; then the answer has ``data``, ``ctx`` and ``maps``, too, and ``errno`` where the kernel
would not run it. A fault is text, and r0 null with it. The id is the line's own, text or number.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from errno import E2BIG, EINVAL
from typing import Any

from pybpf.corpus import CorpusError, CorpusProgram, RunResult, parse_json, parse_program
from pybpf.dataclass import dataclass, replace
from pybpf.errors import PybpfError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.insn import Insn, Program
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import OPS
from pybpf.script import MapRole, MapSpec
from pybpf.vm import testrun
from pybpf.vm.interpreter import run_on_memory
from pybpf.vm.machine import BUDGET, Machine, Trace
from pybpf.vm.maps import ArrayMap, Map, MapOfMaps
from pybpf.vm.net.refusal import Refused
from pybpf.vm.testrun import Result
from pybpf.vm.world import World

_LISTED = 64 << 20
_MUCH = 16 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a line, which counts from 1; ``is_program`` is False where it held none."""

    line: int
    text: str
    is_program: bool


def run_lines(
    lines: Iterable[str | bytes], *, fast: bool = False, budget: int = BUDGET
) -> Iterator[str]:
    """Yield a line of JSON for every line that is not blank: a bad one has a fault, too."""
    return (answer.text for answer in answer_lines(lines, fast=fast, budget=budget))


def answer_lines(
    lines: Iterable[str | bytes], *, fast: bool = False, budget: int = BUDGET
) -> Iterator[Answer]:
    """Yield what ``run_lines`` yields, and of which line it is, and whether that was a program."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            row, is_program = _answer(line, number, fast=fast, budget=budget)
            yield Answer(number, json.dumps(row), is_program)


def _answer(
    line: str | bytes, number: int, *, fast: bool, budget: int
) -> tuple[Mapping[str, Any], bool]:
    row: object = None
    is_program = True
    try:
        row = parse_json(line, number)
        if isinstance(row, dict) and _has_memory(row):
            return _on_memory(row, number, fast=fast, budget=budget), True
        program = parse_program(line, number)
        answer = _on_packet(program, fast=fast, budget=budget)
        return {**answer, "id": row["id"] if isinstance(row, dict) else None}, True
    except CorpusError as error:
        fault, is_program = str(error), False
    except PybpfError as error:
        fault = str(error)
    except MemoryError:
        fault = f"line {number}: there is not enough memory for it"
    known = row.get("id") if isinstance(row, dict) else None
    return {"id": known, "r0": None, "mem": None, "fault": fault}, is_program


def _has_memory(row: Mapping[str, Any]) -> bool:
    """Whether a line is of the form with plain memory; ``mem`` says so in spite of a type."""
    return row.get("prog_type") is None or row.get("mem") is not None


def _on_memory(
    row: Mapping[str, Any], number: int, *, fast: bool, budget: int
) -> Mapping[str, Any]:
    memory = None if row.get("mem") is None else bytearray(_hex(row, "mem", number))
    code = _hex(row, "insns", number)
    result, fault = None, None
    try:
        program = Program.from_bytes(code)
        result = run_on_memory(program, memory or bytearray(), fast=fast, budget=budget)
    except PybpfError as error:
        fault = str(error)
    left = None if memory is None else memory.hex()
    return {"id": row.get("id"), "r0": result, "mem": left, "fault": fault}


def _hex(row: Mapping[str, Any], name: str, line: int) -> bytes:
    value = row.get(name)
    if value is None:
        raise CorpusError(line, f'"{name}" is missing')
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise CorpusError(line, f'"{name}" is not in hexadecimal') from None


def _on_packet(program: CorpusProgram, *, fast: bool, budget: int) -> Mapping[str, Any]:
    answer: dict[str, Any] = {"id": program.id, "r0": None, "mem": None, "fault": None}
    try:
        result, maps = run_corpus(program, fast=fast, budget=budget)
    except Refused as refused:
        return {**answer, "fault": str(refused), "errno": refused.errno}
    return {
        **answer,
        "r0": result.r0,
        "fault": None if result.fault is None else str(result.fault),
        "data": result.packet.hex(),
        "ctx": result.ctx.hex(),
        "maps": [[[key.hex(), value.hex()] for key, value in entries] for entries in maps],
    }


Entries = tuple[tuple[bytes, bytes], ...]


def vm_run(program: CorpusProgram, *, fast: bool = False, world: World | None = None) -> RunResult:
    """Return what BPF_PROG_TEST_RUN would give, by the VM.

    Raises VmFault for a program that no verifier would let through, and EncodingError for bytes
    that are none.
    """
    try:
        result, maps = run_corpus(program, fast=fast, world=world)
    except Refused as refused:
        return RunResult(program.id, errno=refused.errno)
    if result.fault is not None:
        raise result.fault
    return RunResult(program.id, result.retval, result.packet, maps)


def run_corpus(
    program: CorpusProgram,
    *,
    fast: bool = False,
    budget: int = BUDGET,
    world: World | None = None,
    trace: Trace | None = None,
) -> tuple[Result, tuple[Entries, ...]]:
    """Run a program with maps of its own; return the result and each map's sorted entries.

    Of per-CPU maps that is the first CPU's value. Raises what ``testrun.run`` raises, and
    PybpfError for a type of program or map that there is not.
    """
    try:
        prog_type = ProgType(program.prog_type)
    except ValueError:
        raise Refused(EINVAL, f"there is no program type {program.prog_type}") from None
    machine = Machine(world=world, fast=fast, budget=budget, trace=trace)
    maps = _make_maps(program, machine)
    linked = _linked(program)
    try:
        result = testrun.run(
            machine, linked, program.data or b"", program.ctx or b"", prog_type=prog_type
        )
        return result, tuple(_entries(found) for found in maps)
    finally:
        if machine.memory.total > _MUCH:
            # A machine refers to itself: its memory would stay until Python looks for such.
            del machine, maps
            gc.collect()


def _make_maps(program: CorpusProgram, machine: Machine) -> list[Map]:
    maps = []
    for number, spec in enumerate(program.maps):
        try:
            kind = MapType(spec.type)
        except ValueError:
            raise Refused(EINVAL, f"there is no map type {spec.type}") from None
        found = machine.add_map(
            MapSpec(
                f"map{number}",
                MapRole.MAP,
                kind,
                spec.key_size,
                spec.value_size,
                spec.max_entries,
                spec.map_flags,
            )
        )
        listed = spec.max_entries * (spec.key_size + spec.value_size)
        if isinstance(found, ArrayMap) and listed > _LISTED:
            raise Refused(E2BIG, f"map {number}: the elements of an array have {listed} bytes")
        for key, value in spec.entries:
            update = getattr(found, "update", None)
            if update is None:
                raise Refused(EINVAL, f"map {number} takes no entries from user space")
            update(key, value)
        maps.append(found)
    return maps


def _linked(program: CorpusProgram) -> Program:
    """Return the program with its maps named."""
    decoded = Program.from_bytes(program.insns)
    at = {slot: index for index, slot in enumerate(slot_offsets(decoded))}
    insns = list(decoded.insns)
    for fixup in program.fixups:
        index = at.get(fixup.insn)
        if index is None or insns[index].op.slots == 1:
            raise Refused(EINVAL, f"slot {fixup.insn} is no lddw")
        insns[index] = _with_map(insns[index], fixup.kind, f"map{fixup.map}")
    return replace(decoded, insns=tuple(insns))


def _with_map(insn: Insn, kind: str, name: str) -> Insn:
    offset = insn.imm & ~0xFFFF_FFFF if kind == "map_value" else 0
    return replace(insn, op=OPS[f"lddw_{kind}"], imm=offset, symbol=name)


def _entries(found: Map) -> Entries:
    if isinstance(found, MapOfMaps) or not hasattr(found, "items"):
        return ()
    return tuple(sorted((key, values[0]) for key, values in found.items()))
