"""Two ways to run a script, to be held against each other: events in, an Outcome out.

``simulated`` runs the compiled script in the VM, ``expected`` the typed one by the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from errno import EFAULT

from pybpf.compiler import tast
from pybpf.compiler.pipeline import Options
from pybpf.rows import (
    Buckets,
    Cell,
    ExitRow,
    LostRow,
    MapRow,
    PrintfRow,
    PrintRow,
    RecordRow,
    Stack,
    Value,
)
from pybpf.script import (
    CompiledScript,
    ConstArg,
    EventKind,
    FieldArg,
    MapArg,
    MapRole,
    ProbeSpec,
    Provider,
)
from pybpf.target.features import PROBE_READ_KERNEL
from pybpf.target.target import Target
from pybpf.testing.evaluator import Evaluator, Facts
from pybpf.testing.evaluator import Value as Raw
from pybpf.types import (
    Array,
    Int,
    Ptr,
    Show,
    Space,
    Struct,
    Type,
    is_string,
    show_of,
    size_of,
    strip,
)
from pybpf.vm.context import build_context, stack_arguments
from pybpf.vm.driver import run_events
from pybpf.vm.recording import RecordedEvent

Table = dict[tuple[Value, ...], Value]
"""A map's entries: values by keys."""
Line = tuple[str, tuple[object, ...]]
"""A kind of row and what is in it: values, and Tables for whole maps."""

_DEPTH = Options().stack_depth


@dataclass(slots=True)
class Outcome:
    """What a run of a script came to. ``lost`` counts records and updates that were refused."""

    lines: list[Line] = field(default_factory=list)
    maps: dict[str, Table] = field(default_factory=dict)
    lost: int = 0


def simulated(script: CompiledScript, target: Target, events: Sequence[RecordedEvent]) -> Outcome:
    """Run a compiled script in the VM."""
    outcome = Outcome()
    for row in run_events(script, target, events):
        match row:
            case MapRow(name=name):
                outcome.maps[name] = _table(row)
            case PrintRow(cells=cells) | RecordRow(cells=cells):
                outcome.lines.append(("print", tuple(_cell(c) for c in cells)))
            case PrintfRow(cells=cells):
                outcome.lines.append(("printf", tuple(_cell(c) for c in cells)))
            case ExitRow(code=code):
                outcome.lines.append(("exit", (code,)))
            case LostRow(records=records):
                outcome.lost += records
    return outcome


def _cell(cell: Cell | MapRow) -> object:
    return _table(cell) if isinstance(cell, MapRow) else _shown(cell.value, cell.type)


def _table(row: MapRow) -> Table:
    return {
        tuple(map(_common, key, row.keys)): _common(value, row.value) for key, value in row.entries
    }


def _common(value: Value, t: Type) -> Value:
    """Return a value without what only one side can know.

    That is the number of a stack, which the map of stacks chooses, and the context's address, of
    which is known that it is not 0.
    """
    if isinstance(value, Stack):
        return Stack(min(value.id, 0), value.frames)
    plain = strip(t)
    return bool(value) if isinstance(plain, Ptr) and plain.space is Space.CTX else value


def expected(script: tast.TypedScript, target: Target, events: Sequence[RecordedEvent]) -> Outcome:
    """Run a typed script by the evaluator."""
    order = target.arch.byteorder
    separate = PROBE_READ_KERNEL in target.features
    run = _Run(Evaluator(script, order, separate=separate), order)
    run.events(target, events)
    for decl in script.maps:
        if table := run.table(decl):
            run.outcome.maps[decl.name] = table
    return run.outcome


@dataclass(slots=True)
class _Run:
    """A script on its way through the events."""

    evaluator: Evaluator
    byteorder: str
    outcome: Outcome = field(default_factory=Outcome)
    exited: bool = False
    silent: bool = False
    stacks: list[tuple[int, ...]] = field(default_factory=list)

    def events(self, target: Target, events: Sequence[RecordedEvent]) -> None:
        """Run BEGIN, what the events make run, and END."""
        time = events[0].time if events else 0
        self.own(target, Provider.BEGIN, time)
        for event in events:
            if self.exited:
                break
            time = event.time
            self.event(target, event)
        self.silent = False
        self.own(target, Provider.END, time)

    def own(self, target: Target, provider: Provider, time: int) -> None:
        """Run the BEGIN or END probes."""
        event = RecordedEvent(provider, time)
        for probe in self.evaluator.script.probes:
            if probe.specs[0].provider is provider:
                self.evaluator.run(probe, self._facts(event, target, b""))
                self._drain()

    def event(self, target: Target, event: RecordedEvent) -> None:
        """Run the probes that an event makes run."""
        for probe in self.evaluator.script.probes:
            for spec in probe.specs:
                if _fires(spec, event.probe):
                    context = build_context(spec, event, target)
                    self.evaluator.run(probe, self._facts(event, target, context))
        self._drain()

    def _drain(self) -> None:
        for number, values in self.evaluator.records:
            self._record(number, values)
        self.evaluator.records.clear()

    def _record(self, number: int, values: tuple[Raw, ...]) -> None:
        schema = self.evaluator.script.events[number]
        if schema.kind is EventKind.CLEAR:
            for arg in schema.args:
                assert isinstance(arg, MapArg)
                self.evaluator.maps.pop(arg.name, None)
                self.evaluator.aggregates.pop(arg.name, None)
            return
        if self.silent:
            return
        cells = tuple(self._cells(number, values))
        if schema.kind is EventKind.EXIT:
            (code,) = cells
            assert isinstance(code, int)
            self.silent = True
            if self.exited:
                return
            self.exited = True
            cells = (code & 0xFF,)
        self.outcome.lines.append((str(schema.kind), cells))

    def _cells(self, number: int, values: tuple[Raw, ...]) -> Iterator[object]:
        script = self.evaluator.script
        schema = script.events[number]
        travelled = iter(values)
        for arg in schema.args:
            match arg:
                case MapArg(name=name):
                    yield self.table(script.map(name))
                case ConstArg(value=value, type=t):
                    yield _shown(value, t)
                case FieldArg(field=name):
                    found = schema.payload.field(name)
                    assert found is not None
                    yield _shown(self._plain(next(travelled), found.type), found.type)

    def table(self, decl: tast.MapDecl) -> Table:
        """Return the present entries of a map."""
        table: Table = {}
        if decl.role is MapRole.MAP:
            for key, value in self.evaluator.maps.get(decl.name, {}).items():
                table[self._keys(decl, key)] = self._plain(value, decl.value)
        for key, total in self.evaluator.aggregates.get(decl.name, {}).items():
            counted = Buckets(tuple(total)) if isinstance(total, list) else total
            table[self._keys(decl, key)] = counted
        return table

    def _keys(self, decl: tast.MapDecl, key: tuple[Raw, ...]) -> tuple[Value, ...]:
        return tuple(self._plain(part, t) for part, t in zip(key, decl.keys, strict=True))

    def _plain(self, value: Raw, t: Type) -> Value:
        """Return a value as rows hold it: arrays and structs are tuples, stacks have frames."""
        if isinstance(value, int):
            return self._stack(value) if show_of(t) is Show.STACK else value
        plain = strip(t)
        if is_string(t):
            return value[: size_of(t)].ljust(size_of(t), b"\0")
        match plain:
            case Array(element=element, count=count):
                size = size_of(element)
                return tuple(self._plain(value[size * i :][:size], element) for i in range(count))
            case Struct(fields=fields):
                return tuple(
                    self._plain(value[f.offset :][: size_of(f.type)], f.type) for f in fields
                )
            case _:
                signed = isinstance(plain, Int) and plain.signed
                order = "little" if self.byteorder == "little" else "big"
                return int.from_bytes(value, order, signed=signed)  # type: ignore[arg-type]

    def _facts(self, event: RecordedEvent, target: Target, context: bytes) -> Facts:
        values: dict[str, Raw] = {
            "pid": event.pid,
            "kpid": event.tid,
            "uid": event.uid,
            "gid": event.gid,
            "cpu": event.cpu,
            "time": event.time,
            "walltime": event.time,
            "comm": event.comm.ljust(16, b"\0"),
            "execname": event.comm.ljust(16, b"\0"),
            "stack": self._number(event.stack),
            "ctx": 1,
        }
        return Facts(values, context, {**stack_arguments(event, target.arch), **event.memory})

    def _number(self, stack: tuple[int, ...]) -> int:
        """Return what a program gets for a stack: a number, or an errno for an empty one."""
        stack = stack[:_DEPTH]
        if not stack:
            return -EFAULT
        if stack not in self.stacks:
            self.stacks.append(stack)
        return self.stacks.index(stack)

    def _stack(self, number: int) -> Stack:
        frames = self.stacks[number] if 0 <= number < len(self.stacks) else ()
        return Stack(min(number, 0), frames)


def _fires(spec: ProbeSpec, name: str) -> bool:
    provider, _, place = name.partition(":")
    if provider != spec.provider:
        return False
    match spec.provider:
        case Provider.TRACEPOINT:
            return spec.tracepoint == place
        case Provider.KPROBE | Provider.KRETPROBE:
            offsets = (f"+{f.offset:#x}" if f.offset else "" for f in spec.functions)
            names = (f.symbol for f in spec.functions)
            return place in map("".join, zip(names, offsets, strict=True))
        case _:
            return spec.spec == name


def _shown(value: Value, t: Type) -> object:
    """Return what is printed of a value: a text up to its NUL, all bytes of mem()."""
    if isinstance(value, bytes) and show_of(t) is not Show.BYTES:
        return value.partition(b"\0")[0]
    if isinstance(value, tuple):
        plain = strip(t)
        if isinstance(plain, Struct):
            types = [f.type for f in plain.fields]
        else:
            assert isinstance(plain, Array)
            types = [plain.element] * plain.count
        return tuple(_shown(part, u) for part, u in zip(value, types, strict=True))
    return _common(value, t)
