"""Run eBPF programs in the VM: on memory, a packet or a context; one, or a file full of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs

if TYPE_CHECKING:
    from pybpf.isa.abi import ProgType
    from pybpf.isa.insn import Program
    from pybpf.vm.coverage import Coverage
    from pybpf.vm.machine import Trace
    from pybpf.vm.testrun import Result
    from pybpf.vm.watching import Tracer
    from pybpf.vm.world import World

_BUDGET = 1_000_000
_GREATEST = (1 << 63) - 1


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE-or-TEXT",
        help="assembler text, hexadecimal or bytes; - is stdin")  # fmt: skip
    add("--batch", metavar="FILE", help="run a program a line of JSON, answer with a line each")
    add("--mem", metavar="HEX", help="memory: r1 is its address, r2 its size")
    add("--type", metavar="NAME", help="run as a program of this type, such as xdp or sched_cls")
    add("--packet", metavar="HEX", help="the packet of such a program")
    add("--ctx", metavar="HEX", help="its context, as BPF_PROG_TEST_RUN takes it")
    add("--fast", action="store_true", help="translate to Python first")
    add("--trace", action="store_true", help="print every instruction and what it sets")
    add(
        "--watch", action="append", default=[], metavar="WHAT",
        help="print changes of r3, of r10-8:8 or mem+4:2 (bytes)",
    )  # fmt: skip
    add("--coverage", action="store_true", help="print the program, and what of it never ran")
    add("--budget", type=_number, default=_BUDGET, metavar="N", help="instructions a run may take")
    add("--time", type=_number, default=0, metavar="NS", help="what the clock says")
    add("--seed", type=_number, default=0, metavar="N", help="where random numbers begin")


def _number(text: str) -> int:
    value = int(text, 0)
    if not 0 <= value <= _GREATEST:
        raise ValueError
    return value


_number.__name__ = "number"  # which argparse names in its message


def main(options: argparse.Namespace) -> int:
    """Run one program, or a batch."""
    if options.batch is not None:
        return _batch(options)
    if options.file is None:
        raise UsageError("no program given\n  hint: FILE, or --batch FILE")
    from pybpf.errors import VmFault

    program = _program(options.file)
    tracer, coverage = _observers(options)
    observers = [seen for seen in (tracer, coverage) if seen is not None]
    found: Result | None = None
    try:
        found = _run(options, program, _together(observers), tracer)
    except VmFault as fault:
        print(f"error: {fault}", file=sys.stderr)
    if tracer is not None:
        tracer.finish()
    if coverage is not None:
        _show_coverage(program, coverage)
    if found is None:
        return 1
    _show(found)
    return 0


def _batch(options: argparse.Namespace) -> int:
    from pybpf.cli import batch

    alone = ("file", "mem", "type", "packet", "ctx", "trace", "watch", "coverage")
    batch.refuse(options, alone, "all that a run takes")
    from pybpf.vm.batch import answer_lines

    lines = batch.lines(options.batch)
    answers = answer_lines(lines, fast=options.fast, budget=options.budget)
    return batch.print_all(answers, options.batch)


def _program(name: str) -> Program:
    """Read a program in whatever form it is; raises UsageError, ObjectError, AssemblyError."""
    from pybpf.isa.assembler import assemble
    from pybpf.isa.encoding import decode

    is_text = any(each in name for each in " ;\n") and not inputs.is_file(name)
    data = os.fsencode(name) if is_text else inputs.read_bytes(name)
    if data.startswith(inputs.ELF):
        raise UsageError(f"{name} is an object; only `pybpf verify` takes those")
    title = "<program>" if is_text else "<stdin>" if name == "-" else name
    code = inputs.from_hex(data, title)
    if not code.strip():
        raise UsageError(f"{title} is empty")
    text = None if code is not data else inputs.plain_text(data)
    if text is not None:
        return assemble(text, title)
    with inputs.instructions(code, title):
        return decode(code)


def _observers(options: argparse.Namespace) -> tuple[Tracer | None, Coverage | None]:
    from pybpf.vm.coverage import Coverage
    from pybpf.vm.watching import Tracer, parse_watch

    watches = tuple(parse_watch(text) for text in options.watch)
    tracer = None
    if options.trace or watches:
        tracer = Tracer(print, steps=options.trace, watches=watches)
    return tracer, Coverage() if options.coverage else None


def _together(observers: Iterable[Trace]) -> Trace | None:
    """Return one observer for all of them."""
    found = tuple(observers)
    if len(found) <= 1:
        return found[0] if found else None

    def observe(program: Program, index: int, regs: tuple[int | None, ...]) -> None:
        for each in found:
            each(program, index, regs)

    return observe


def _run(
    options: argparse.Namespace, program: Program, trace: Trace | None, tracer: Tracer | None
) -> Result:
    from pybpf.vm import testrun
    from pybpf.vm.interpreter import run_on_memory
    from pybpf.vm.machine import Machine

    machine = Machine(world=_world(options), budget=options.budget, trace=trace, fast=options.fast)
    if tracer is not None:
        tracer.machine = machine
    if options.type is None and options.packet is None and options.ctx is None:
        memory = bytearray(_hex(options.mem, "--mem"))
        result = run_on_memory(program, memory, machine=machine)
        return testrun.Result(result, bytes(memory))
    if options.mem is not None:
        raise UsageError("--mem is for programs without --type, --packet and --ctx")
    found = testrun.run(
        machine,
        program,
        _hex(options.packet, "--packet"),
        _hex(options.ctx, "--ctx"),
        prog_type=_type(options.type, xdp=options.packet is not None),
    )
    if found.fault is not None:
        raise found.fault
    return found


def _world(options: argparse.Namespace) -> World:
    import random

    from pybpf.vm.world import World

    generator = random.Random(options.seed)  # noqa: S311 - a program's dice, not a secret
    return World(time=options.time, random=lambda: generator.getrandbits(32))


def _type(name: str | None, *, xdp: bool) -> ProgType:
    from pybpf.cli.subjects import program_type
    from pybpf.isa.abi import ProgType

    if name is None:
        return ProgType.XDP if xdp else ProgType.SYSCALL
    return program_type(name)[0]


def _hex(text: str | None, option: str) -> bytes:
    try:
        return bytes.fromhex(text or "")
    except ValueError:
        raise UsageError(f"{option} takes hexadecimal digits, two a byte") from None


def _show(found: Result) -> None:
    print(f"r0 = {found.r0} ({found.r0:#x})")
    for name, data in (("data", found.packet), ("ctx", found.ctx)):
        if data:
            print(f"{name} = {data.hex()}")


def _show_coverage(program: Program, coverage: Coverage) -> None:
    from pybpf.isa.disassembler import format_insn

    ran = coverage.ran(program)
    for index, insn in enumerate(program.insns):
        print(f"{' ' if index in ran else '-'} {index:4}: {format_insn(insn)}")
    print(f"{len(ran)} of {len(program.insns)} instructions ran")
