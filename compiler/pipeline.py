"""The stages in order: script text and a Target in, a CompiledScript out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from pybpf.compiler import ir, tast
from pybpf.compiler.builtins.values import STACKS
from pybpf.compiler.codegen import generate
from pybpf.compiler.infer import infer
from pybpf.compiler.lower import lower
from pybpf.compiler.lowering.state import failure_index
from pybpf.compiler.parser import parse_text
from pybpf.compiler.providers import row_of
from pybpf.compiler.registers import reads_traced_only
from pybpf.compiler.runtime import CGROUP, EVENTS, LOST, TARGET, ZERO
from pybpf.dataclass import dataclass, replace
from pybpf.isa.abi import MapType
from pybpf.script import (
    BUFFER,
    STACK_ERRORS,
    CompiledScript,
    Filled,
    MapRole,
    MapSpec,
    Needs,
    ProbeSpec,
    Provider,
)
from pybpf.source import Source
from pybpf.target.features import RINGBUF
from pybpf.target.target import Target
from pybpf.types import INT, Type, size_of

_SMALL_BUFFER = 1 << 18
_SELDOM = frozenset({Provider.BEGIN, Provider.END, Provider.INTERVAL})

SCRATCH = ".scratch"
"""What does not fit the stack: a per-CPU array with one element for each program."""


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes that a user may set: entries of each map, bytes of the ring buffer, stacks kept.

    Without ``buffer_size`` it is what the script needs, see ``_buffer_size``.
    ``cgroup`` is the one whose tasks alone are traced: a directory, or ``self``; None for all.
    """

    map_entries: int = 4096
    buffer_size: int | None = None
    stacks: int = 4096
    stack_depth: int = 32
    cgroup: str | None = None


def compile_script(
    text: str | Source,
    target: Target,
    options: Options | None = None,
) -> CompiledScript:
    """Compile a script; raises LexError, ParseError or ScriptTypeError with the places at fault."""
    return _compile(text, target, options)[1]


def compile_ahead(
    text: str | Source,
    target: Target,
    options: Options | None = None,
) -> tuple[CompiledScript, Needs]:
    """Compile a script that may run later and elsewhere; return what it needs to be as here, too.

    Where the environment lacks ``target``, ``$target`` is what it is when the script runs. Raises
    as ``compile_script`` does.
    """
    from pybpf.compiler.needs import Watched, needs

    source = Source("<script>", text) if isinstance(text, str) else text
    watched = Watched(target)
    typed, script = _compile(source, cast("Target", watched), options)
    return script, needs(typed, script, watched)


def _compile(
    text: str | Source, target: Target, options: Options | None
) -> tuple[tast.TypedScript, CompiledScript]:
    options = options or Options()
    source = Source("<script>", text) if isinstance(text, str) else text
    with deep_recursion(source):
        typed = infer(parse_text(source), target)
        narrow = options.cgroup is not None
        functions = [lower(typed, p, target, cgroup=narrow) for p in typed.probes]
        return typed, link(typed, functions, target, options)


@contextmanager
def deep_recursion(source: Source) -> Iterator[None]:
    """Let the stages descend into a script as deep as it goes.

    The parser bounds how deep parentheses and blocks nest, but not the length of a chain such as
    ``a < b < c``, which has two characters or more for each step down. Python 3.11 and later need
    no C stack for calls from Python to Python.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 20_000 + 8 * len(source.text)))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def link(
    typed: tast.TypedScript,
    functions: list[ir.Function],
    target: Target,
    options: Options,
) -> CompiledScript:
    """Turn each probe's IR into a program, and gather the maps that they need."""
    probes: list[ProbeSpec] = []
    scratch = 0
    for index, (probe, function) in enumerate(zip(typed.probes, functions, strict=True)):
        generated = generate(
            function,
            features=target.features,
            prog_type=row_of(probe.specs[0].provider).prog_type,
            scratch_index=index,
            byteorder=target.arch.byteorder,
        )
        scratch = max(scratch, generated.scratch_size)
        program = generated.program
        probes += (
            replace(spec, program=program, traced=_traced(spec, function, target))
            for spec in probe.specs
        )
    maps = [_script_map(typed, decl, options) for decl in typed.maps]
    uses = [_maps_used(function) for function in functions]
    room = _buffer_size(typed, uses, options)
    maps += _runtime_maps(typed, set().union(*uses), target, options, room)
    if scratch:
        count = len(typed.probes)
        maps.append(MapSpec(SCRATCH, MapRole.SCRATCH, MapType.PERCPU_ARRAY, 4, scratch, count))
    return CompiledScript(
        typed.source,
        target.arch.name,
        tuple(probes),
        tuple(maps),
        typed.events,
        options.cgroup,
        room,
    )


def _buffer_size(typed: tast.TypedScript, uses: list[set[str]], options: Options) -> int:
    """Return the room for records: little, which starts faster, where few come at a time.

    What BEGIN and END print is printed once, but before anybody reads.
    """
    if options.buffer_size is not None:
        return options.buffer_size
    for probe, used in zip(typed.probes, uses, strict=True):
        if probe.specs[0].provider not in _SELDOM and EVENTS in used:
            return BUFFER
    once = sum(event.payload.size for event in typed.events)
    return min(BUFFER, max(_SMALL_BUFFER, 1 << (4 * once).bit_length()))


def _traced(spec: ProbeSpec, function: ir.Function, target: Target) -> bool:
    if spec.provider not in {Provider.KPROBE, Provider.KRETPROBE}:
        return False
    on_return = spec.provider is Provider.KRETPROBE
    return reads_traced_only(function, target.arch, on_return=on_return)


def _script_map(typed: tast.TypedScript, decl: tast.MapDecl, options: Options) -> MapSpec:
    key = decl.layout
    plain = decl.role is MapRole.MAP
    if decl.constants:
        return MapSpec(
            decl.name,
            decl.role,
            MapType.PERCPU_ARRAY,
            4,
            # A sum may be zero: a second word says that it has begun.
            16 if decl.role is MapRole.SUM else aggregate_size(decl.role, decl.value),
            _elements(decl, options),
            key=key,
            value=decl.value,
            constants=decl.constants,
            filled=decl.filled,
        )
    return MapSpec(
        decl.name,
        decl.role,
        MapType.HASH if plain else MapType.PERCPU_HASH,
        key.size,
        size_of(decl.value) if plain else aggregate_size(decl.role, decl.value),
        options.map_entries if decl.keys else 1,
        key=key,
        value=decl.value,
        failures=failure_index(typed, decl.name),
    )


def _elements(decl: tast.MapDecl, options: Options) -> int:
    """Return how many elements an array has.

    Ids of stacks are below the next power of two. Source: n_buckets in kernel/bpf/stackmap.c.
    """
    if any(what is Filled.STACK for _, what in decl.filled):
        return STACK_ERRORS + (1 << (options.stacks - 1).bit_length())
    return len(decl.constants)


def aggregate_size(role: MapRole, value: Type) -> int:
    """Return the size of one CPU's value: a u64, or one for each bit of what is counted."""
    return 8 * 8 * size_of(value) if role is MapRole.QUANTIZE else 8


def _maps_used(function: ir.Function) -> set[str]:
    used: set[str] = set()
    for block in function.blocks:
        for instr in block.instrs:
            match instr.op:
                case ir.CallHelper(args=args):
                    used |= {a.name for a in args if isinstance(a, ir.MapRef)}
                case ir.Copy(src=ir.MapRef(name=name)) | ir.MapValueAddr(name=name):
                    used.add(name)
                case _:
                    pass
    return used


def _runtime_maps(
    typed: tast.TypedScript, used: set[str], target: Target, options: Options, room: int
) -> list[MapSpec]:
    maps = []
    if EVENTS in used:
        if RINGBUF in target.features:
            events = MapSpec(EVENTS, MapRole.EVENTS, MapType.RINGBUF, 0, 0, room)
        else:
            events = MapSpec(EVENTS, MapRole.EVENTS, MapType.PERF_EVENT_ARRAY, 4, 4, target.cpus)
        maps.append(events)
    if LOST in used:
        counters = bytes(8 * (1 + len(typed.maps)))
        initial = counters + (1).to_bytes(8, target.arch.byteorder)
        size = len(initial)
        maps.append(MapSpec(LOST, MapRole.LOST, MapType.ARRAY, 4, size, 1, initial=initial))
    if ZERO in used:
        largest = max(aggregate_size(d.role, d.value) for d in typed.maps)
        maps.append(MapSpec(ZERO, MapRole.ZERO, MapType.ARRAY, 4, largest, 1))
    if CGROUP in used:
        maps.append(MapSpec(CGROUP, MapRole.CGROUP, MapType.CGROUP_ARRAY, 4, 4, 1))
    if TARGET in used:
        maps.append(MapSpec(TARGET, MapRole.TARGET, MapType.ARRAY, 4, 4, 1, value=INT))
    if STACKS in used:
        depth = 8 * options.stack_depth
        maps.append(MapSpec(STACKS, MapRole.STACKS, MapType.STACK_TRACE, 4, depth, options.stacks))
    return maps
