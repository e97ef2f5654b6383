"""Definitions of eprobes and a Target in; programs that record what the eprobes would, out.

Each definition is a program on its parent event. A record is a header (``HEADER``), the arguments
in their order, and words of bits that tell what could not be read.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from pybpf.compiler import tast
from pybpf.compiler.builtins.values import VALUES
from pybpf.compiler.eprobes.definition import Definition, define
from pybpf.compiler.eprobes.family import family
from pybpf.compiler.eprobes.record import STRING_SIZE, reads_of, record
from pybpf.compiler.lower import lower
from pybpf.compiler.pipeline import Options, deep_recursion, link
from pybpf.dataclass import dataclass
from pybpf.errors import Diagnostic, DynEventError, TargetError
from pybpf.isa.insn import Program
from pybpf.script import CompiledScript, EventKind, EventSchema, FieldArg, ProbeSpec, Provider
from pybpf.source import Source, Span
from pybpf.target.target import Target
from pybpf.tracefs.dynevent import Eprobe
from pybpf.types import U64, Type, struct_of

HEADER = ("time", "cpu", "kpid", "comm")
"""What a record begins with: ns of the monotonic clock, the CPU, the thread and its name."""

Marks = tuple[tuple[int, ...], ...]
"""The bits of what could not be read, of each argument: an array of strings has one for each."""


@dataclass(frozen=True, slots=True)
class CompiledEprobe:
    """One eprobe, and which bits of its records belong to which of its arguments."""

    definition: Definition
    marks: Marks


@dataclass(frozen=True, slots=True)
class CompiledEprobes:
    """The programs, and what their records mean: those of event N are of eprobe N."""

    script: CompiledScript
    eprobes: tuple[CompiledEprobe, ...]


def compile_eprobes(
    definitions: Sequence[str | Eprobe],
    target: Target,
    options: Options | None = None,
    *,
    string_size: int = STRING_SIZE,
    pids: Sequence[int] = (),
) -> CompiledEprobes:
    """Compile definitions, all or none; ``pids`` are the processes that are traced, none: all.

    What these processes start is traced too. Raises DynEventError for a definition that is faulty,
    and TargetError for a target that lacks what one takes.
    """
    source = Source("<definitions>", "\n".join(map(str, definitions)))
    ours = family(pids, target, Span(source, 0, len(source.text)))
    compiled, probes, events, start = [], list(ours.probes), [], 0
    for number, given in enumerate(definitions):
        text = str(given)
        span = Span(source, start, start + len(text))
        start += len(text) + 1
        try:
            definition = define(given, target)
            found = record(definition, target, span, string_size)
        except TargetError as error:
            where = Span(Source("<definition>", text), 0, len(text))
            diagnostic = Diagnostic(error.message, where, error.hints)
            raise DynEventError(diagnostic, errno.EOPNOTSUPP) from error
        schema, emit, marks = emitted(number, list(found.values.values()), span)
        spec = ProbeSpec(
            Provider.EPROBE, text, Program(()), tracepoint=definition.target, span=span
        )
        condition = both(ours.condition, found.condition, span)
        probes.append(tast.Probe((spec,), condition, (emit,), span))
        events.append(schema)
        compiled.append(CompiledEprobe(definition, marks))
    typed = tast.TypedScript(source, tuple(probes), ours.maps, tuple(events))
    return CompiledEprobes(compiled_script(typed, target, options), tuple(compiled))


def compiled_script(
    typed: tast.TypedScript, target: Target, options: Options | None
) -> CompiledScript:
    """Lower a typed tree that no script was typed to, and link its programs."""
    options = options or Options()
    with deep_recursion(typed.source):
        narrow = options.cgroup is not None
        functions = [lower(typed, probe, target, cgroup=narrow) for probe in typed.probes]
        return link(typed, functions, target, options)


def emitted(
    number: int, values: Sequence[tast.Expr], span: Span
) -> tuple[EventSchema, tast.Emit, Marks]:
    """Return how a record of these values is laid out and sent, and their bits."""
    header = [tast.Context(name, VALUES[name].type, span) for name in HEADER]
    marks, flat = _marks(values)
    sent = (*header, *_flattened(values))
    emit = tast.Emit(number, sent, span, (*[None] * len(header), *flat))
    return _schema(number, sent, flat), emit, marks


def both(left: tast.Expr | None, right: tast.Expr | None, span: Span) -> tast.Expr | None:
    """Return a condition that holds where two do, of which either may be none."""
    if left is None or right is None:
        return left if right is None else right
    return tast.Logical("&&", left, right, span)


def _flattened(values: Sequence[tast.Expr]) -> list[tast.Expr]:
    """Return values with each string of an array by itself, as each may be unreadable."""
    flat: list[tast.Expr] = []
    for value in values:
        flat += value.parts if isinstance(value, tast.Parts) else (value,)
    return flat


def _marks(values: Sequence[tast.Expr]) -> tuple[Marks, list[int | None]]:
    """Return the bits of values that may be unreadable, by value, and those of each flat one."""
    by_value: list[tuple[int, ...]] = []
    flat: list[int | None] = []
    used = 0
    for value in values:
        parts = value.parts if isinstance(value, tast.Parts) else (value,)
        own = [used + at for at in range(len(parts))] if any(reads_of(value)) else []
        used += len(own)
        flat += own or [None] * len(parts)
        by_value.append(tuple(own))
    return tuple(by_value), flat


def _schema(number: int, values: Sequence[tast.Expr], marks: Sequence[int | None]) -> EventSchema:
    """Return the layout of a record: fields by their numbers, then words of bits."""
    fields: list[tuple[str, Type]] = [(str(at), value.type) for at, value in enumerate(values)]
    bits = sum(mark is not None for mark in marks)
    fields += [(f"faults{word}", U64) for word in range(-(-bits // 64))]
    payload = struct_of("", fields, start=4, align=8)
    args = tuple(FieldArg(name) for name, _ in fields)
    return EventSchema(number, EventKind.RECORD, payload, args)
