"""Measure what pybpf does without a kernel, on fixed inputs: its own times only."""

from __future__ import annotations

import lzma
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from plan import Plan
from pybpf.compiler.pipeline import compile_script
from pybpf.events.decode import Decoder
from pybpf.isa.assembler import assemble
from pybpf.isa.disassembler import disassemble
from pybpf.isa.encoding import decode
from pybpf.isa.insn import Program
from pybpf.source import Source
from pybpf.target.snapshot import SnapshotTarget
from pybpf.target.symbols import parse_kallsyms
from pybpf.testing.dynevents import definition
from pybpf.testing.filters import SYNTHETIC, event_filter
from pybpf.testing.triggers import writes
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.profiles import profile
from pybpf.tracefs.dynevents.world import World, read_formats
from pybpf.tracefs.filters.judge import judge_filter
from pybpf.tracefs.triggers.judge import judge_trigger
from pybpf.types import size_of
from pybpf.vm.machine import Machine
from report import Finding, Spread, Table
from tracers import SCRIPTS, script_names

_DATA = Path(__file__).resolve().parent.parent / "tests/data"
_SNAPSHOT = _DATA / "targets/6.12.tar.gz"
_FORMATS = _DATA / "dynevents/formats-7.3.txt.xz"

_BLOCK = """\
again{n}:
    r6 = *(u64 *)(r1 + 8)
    r7 = 0x123456789 ll
    *(u32 *)(r10 - 16) = w6
    r6 += r7
    w6 s>>= 3
    if r6 s> 100 goto again{n}
    call bpf_ktime_get_ns
    lock *(u64 *)(r10 - 24) += r0
    r2 = r10
    r2 += -24
"""
_LOOP = """\
    r0 = 0
    r1 = 250000
again:
    r0 += r1
    r0 ^= 5
    r1 -= 1
    if r1 != 0 goto again
    exit
"""
_HASH = """\
    r0 = 0xcbf29ce484222325 ll
    r1 = 125000
    r3 = 0x100000001b3 ll
again:
    r2 = r1
    r2 &= 255
    r0 ^= r2
    r0 *= r3
    r4 = r0
    r4 >>= 32
    *(u64 *)(r10 - 8) = r4
    r1 += -1
    if r1 != 0 goto again
    exit
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Something to do, and how many of what that is."""

    name: str
    number: int
    unit: str
    run: Callable[[], object]


def measure(plan: Plan) -> Finding:
    """Time every case a few times, in turns."""
    cases = _cases()
    seconds: dict[str, list[float]] = {case.name: [] for case in cases}
    for number in plan.rounds(full=9, quick=2):
        for case in cases:
            plan.say(f"offline: {number + 1}: {case.name}")
            start = time.perf_counter()
            case.run()
            seconds[case.name].append(time.perf_counter() - start)
    data = [
        {
            "name": case.name,
            "number": case.number,
            "unit": case.unit,
            "seconds": Spread(tuple(seconds[case.name])).data(),
        }
        for case in cases
    ]
    return Finding(data, (_table(cases, seconds),))


def _cases() -> list[Case]:
    text = "".join(_BLOCK.format(n=n) for n in range(1000))
    program = assemble(text)
    code = bytes(program)
    loop = assemble(_LOOP)
    step, fast = Machine(budget=2_000_000), Machine(budget=2_000_000, fast=True)
    target = SnapshotTarget.load(_SNAPSHOT)
    scripts = [Source(name, (SCRIPTS / f"{name}.ply").read_text()) for name in script_names()]
    records, decoder = _records(target)
    symbols = _kallsyms()
    return [
        Case("assemble", len(program.insns), "insns", lambda: assemble(text)),
        Case("encode", len(program.insns), "insns", lambda: bytes(program)),
        Case("decode", len(program.insns), "insns", lambda: decode(code, "little")),
        Case("disassemble", len(program.insns), "insns", lambda: disassemble(program)),
        *(
            Case(f"{verb} {name}", number, "insns", partial(_run, machine, loaded))
            for name, loaded, number in (
                ("a sum", loop, 1_000_003),
                ("a hash", assemble(_HASH), 1_125_004),
            )
            for verb, machine in (("step through", step), ("run fast", fast))
        ),
        Case("decode records", len(records), "records", lambda: _decode_all(decoder, records)),
        Case("compile the scripts", len(scripts), "scripts", lambda: _compile(scripts, target)),
        Case("load a snapshot", 1, "snapshot", lambda: SnapshotTarget.load(_SNAPSHOT)),
        Case("parse kallsyms", symbols.count("\n"), "symbols", lambda: parse_kallsyms(symbols)),
        *_verdicts(),
    ]


def _run(machine: Machine, program: Program) -> None:
    machine.run(program)


def _verdicts() -> list[Case]:
    """Return what judges texts good and bad, as tests compare them with kernels."""
    random, world = Random(7), _world()
    definitions = [definition(random) for _ in range(1000)]
    filters = [event_filter(random) for _ in range(1000)]
    triggers = [writes(random) for _ in range(300)]
    number = sum(map(len, triggers))
    return [
        Case("judge definitions", 1000, "definitions", lambda: _judge(definitions, world)),
        Case("judge filters", 1000, "filters", lambda: _judge_filters(filters, world)),
        Case("judge triggers", number, "triggers", lambda: _judge_triggers(triggers, world)),
    ]


def _world() -> World:
    """Return kernel 7.3, with the synthetic events that filters and triggers name."""
    world = profile("7.3", read_formats(lzma.decompress(_FORMATS.read_bytes()).decode()))
    for text in SYNTHETIC:
        world = judge(text, world).after
    return world


def _judge(texts: Iterable[str], world: World) -> None:
    for text in texts:
        judge(text, world)


def _judge_filters(filters: Iterable[tuple[str, str]], world: World) -> None:
    for event, text in filters:
        judge_filter(text, event, world)


def _judge_triggers(lists: Iterable[Iterable[tuple[str, str]]], world: World) -> None:
    for steps in lists:
        after = world
        for event, text in steps:
            after = judge_trigger(text, event, after).after


def _compile(scripts: Iterable[Source], target: SnapshotTarget) -> None:
    for script in scripts:
        compile_script(script, target)


def _decode_all(decoder: Decoder, records: Iterable[bytes]) -> None:
    for record in records:
        decoder.decode(record)


class _NoMaps:
    """Maps that records do not refer to."""

    def items(self, _name: str, /) -> Iterable[tuple[bytes, Sequence[bytes]]]:
        return ()

    def clear(self, _name: str, /) -> None:
        pass

    def stack(self, _stack_id: int, /) -> tuple[int, ...]:
        return ()


def _records(target: SnapshotTarget) -> tuple[list[bytes], Decoder]:
    """Return 100,000 records of a printf of a command and two numbers, and what decodes them."""
    text = 'tracepoint:sched/sched_switch { printf("%s %d %d\\n", comm, pid, time); }'
    script = compile_script(text, target)
    (schema,) = script.events
    places = {size_of(field.type): field.offset for field in schema.payload.fields}
    records = []
    for number in range(100_000):
        record = bytearray(schema.payload.size)
        record[:4] = schema.id.to_bytes(4, "little")
        for size, offset in places.items():
            value = b"hammer" if size == 16 else number.to_bytes(size, "little")
            record[offset : offset + len(value)] = value
        records.append(bytes(record))
    return records, Decoder(script, _NoMaps())


def _kallsyms() -> str:
    """Return the text of a kallsyms with as many symbols as a distribution's kernel has."""
    kinds = "tTtTdDrRb"
    return "".join(
        f"{0xFFFFFFFF81000000 + 64 * n:016x} {kinds[n % len(kinds)]} symbol_number_{n}"
        + ("\t[module]\n" if n % 5 == 0 else "\n")
        for n in range(200_000)
    )


def _table(cases: Iterable[Case], seconds: dict[str, list[float]]) -> Table:
    rows = []
    for case in cases:
        spread = Spread(tuple(seconds[case.name]))
        rate = case.number / spread.median
        number = f"{case.number:,} {case.unit}"
        rows.append([case.name, number, spread.scaled(1000).shown(), f"{rate:,.0f}"])
    return Table("Without a kernel", ["what", "of", "ms", "a second"], rows)
