"""Two ways to run a script, to be held against each other: events in, an Outcome out.

``simulated`` runs the compiled script in the VM, ``expected`` the typed one by the evaluator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pybpf.compiler import tast
from pybpf.rows import Buckets, Cell, ExitRow, LostRow, MapRow, PrintfRow, PrintRow, Value
from pybpf.script import CompiledScript, ConstArg, EventKind, FieldArg, MapArg, MapRole
from pybpf.target.features import PROBE_READ_KERNEL
from pybpf.target.target import Target
from pybpf.testing.evaluator import Evaluator, Facts
from pybpf.testing.evaluator import Value as Raw
from pybpf.types import Array, Int, Show, Struct, Type, is_string, show_of, size_of, strip
from pybpf.vm.context import build_context
from pybpf.vm.driver import run_events
from pybpf.vm.recording import RecordedEvent

Table = dict[tuple[Value, ...], Value]
"""A map's entries: values by keys."""
Line = tuple[str, tuple[object, ...]]
"""A kind of row and what is in it: values, and Tables for whole maps."""


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
            case MapRow(name=name, entries=entries):
                outcome.maps[name] = dict(entries)
            case PrintRow(cells=cells):
                outcome.lines.append(("print", tuple(_cell(c) for c in cells)))
            case PrintfRow(cells=cells):
                outcome.lines.append(("printf", tuple(_cell(c) for c in cells)))
            case ExitRow(code=code):
                outcome.lines.append(("exit", (code,)))
            case LostRow(records=records):
                outcome.lost += records
    return outcome


def _cell(cell: Cell | MapRow) -> object:
    return dict(cell.entries) if isinstance(cell, MapRow) else _shown(cell.value, cell.type)


def expected(script: tast.TypedScript, target: Target, events: Iterable[RecordedEvent]) -> Outcome:
    """Run a typed script by the evaluator."""
    order = target.arch.byteorder
    separate = PROBE_READ_KERNEL in target.features
    run = _Run(Evaluator(script, order, separate=separate), order)
    for event in events:
        run.event(target, event)
        if run.exited:
            break
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

    def event(self, target: Target, event: RecordedEvent) -> None:
        place = event.probe.partition(":")[2]
        for probe in self.evaluator.script.probes:
            for spec in probe.specs:
                if spec.tracepoint == place:
                    context = build_context(spec, event, target)
                    self.evaluator.run(probe, _facts(event, context))
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
        if self.exited:
            return
        cells = tuple(self._cells(number, values))
        if schema.kind is EventKind.EXIT:
            (code,) = cells
            assert isinstance(code, int)
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
        """Return a value as rows hold it: arrays and structs are tuples."""
        if isinstance(value, int):
            return value
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


def _facts(event: RecordedEvent, context: bytes) -> Facts:
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
        # Nobody knows the context's address, but it is not 0.
        "ctx": 1,
    }
    return Facts(values, context, event.memory)


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
    return value
