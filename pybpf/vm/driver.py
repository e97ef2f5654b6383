"""Run a compiled script on recorded events: events in, the rows of a live run out.

BEGIN probes run first, then those that match each event, in the order of the script; after exit()
or the last event the END probes. Then come the maps that have entries, and what was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heapreplace
from itertools import chain

from pybpf.errors import PybpfError
from pybpf.events.decode import Decoder
from pybpf.rows import ExitRow, Row
from pybpf.script import CompiledScript, KernelFunction, MapRole, ProbeSpec, Provider
from pybpf.target.target import Target
from pybpf.vm.buffers import PerfEventArray, RingBuffer, StackTraces
from pybpf.vm.context import build_context, split_place, stack_arguments
from pybpf.vm.machine import BUDGET, Machine, Trace
from pybpf.vm.maps import ArrayMap, HashMap
from pybpf.vm.recording import RecordedEvent, read_events
from pybpf.vm.world import World

__all__ = ["RecordedEvent", "read_events", "run_events"]


def run_events(
    script: CompiledScript,
    target: Target,
    events: Iterable[RecordedEvent],
    *,
    world: World | None = None,
    batch: int = 1,
    budget: int = BUDGET,
    trace: Trace | None = None,
) -> Iterator[Row]:
    """Yield what a script prints for events, on the target it was compiled for.

    ``world`` says which process runs BEGIN and END; it changes with every event. Records are read
    after every ``batch`` events that a probe matched: a larger one lets the buffer fill up. An
    interval that the recording names fires where it stands there; any other fires at every multiple
    of its period after the first event's time, up to the last event's.

    Raises SourceError for an event that does not fit the target, TargetError for a tracepoint that
    it lacks, VmFault for a program that does what no program must, EventError for records that do
    not fit the script, and PybpfError for a script that traces the tasks of a cgroup.
    """
    if any(spec.role is MapRole.CGROUP for spec in script.maps):
        raise PybpfError("recorded events do not say which cgroup a task is in: leave --cgroup out")
    replay = _Replay(script, target, World() if world is None else world, budget, trace)
    stream = _with_intervals(script, events)
    first = next(stream, None)
    if first is not None:
        replay.world.time = first.time
    yield from replay.fire_own(Provider.BEGIN)
    waiting = 0
    for event in () if first is None else chain((first,), stream):
        if replay.exited:
            break
        waiting += replay.fire(event)
        if waiting >= batch:
            waiting = 0
            yield from replay.drain()
    yield from replay.drain()
    replay.silent = False
    yield from replay.fire_own(Provider.END)
    yield from replay.decoder.map_rows()
    yield from replay.decoder.lost_rows()


class _Replay:
    """A script that is running on recorded events.

    ``exited`` is set when it has called exit(), and ``silent`` as long as it prints no more.
    """

    def __init__(
        self,
        script: CompiledScript,
        target: Target,
        world: World,
        budget: int,
        trace: Trace | None,
    ) -> None:
        byteorder = target.arch.byteorder
        world.cpus = target.cpus
        world.pid_namespace = target.pid_namespace or world.pid_namespace
        self.world = world
        self.machine = Machine(script.maps, world, byteorder=byteorder, budget=budget, trace=trace)
        self.decoder = Decoder(script, _Maps(script, self.machine), byteorder=byteorder)
        self.exited = self.silent = False
        self._script = script
        self._target = target
        self._matching: dict[str, list[ProbeSpec]] = {}
        self._process = (world.cpu, world.pid, world.tid, world.uid, world.gid, world.comm)

    def fire_own(self, provider: Provider) -> Iterator[Row]:
        """Run the BEGIN or the END probes in the tracer's own process; yield the rows of each."""
        cpu, pid, tid, uid, gid, comm = self._process
        event = RecordedEvent(provider, self.world.time, cpu, pid, tid, uid, gid, comm)
        self._enter(event)
        for probe in self._script.probes:
            if probe.provider is provider:
                self._run(probe, event)
                yield from self.drain()

    def fire(self, event: RecordedEvent) -> bool:
        """Run every probe that matches an event; return whether there was one."""
        probes = self._matching.get(event.probe)
        if probes is None:
            probes = [p for p in self._script.probes if _matches(p, event.probe)]
            self._matching[event.probe] = probes
        self._enter(event)
        for probe in probes:
            self._run(probe, event)
        return bool(probes)

    def _run(self, probe: ProbeSpec, event: RecordedEvent) -> None:
        memory = self.machine.memory
        data = bytearray(build_context(probe, event, self._target))
        ctx = memory.add(data, "the context", writable=False)
        memory.retire(ctx)
        self.machine.run(probe.program, ctx.address)

    def _enter(self, event: RecordedEvent) -> None:
        """Make the world what it was at an event."""
        if event.cpu >= self._target.cpus:
            raise event.fault(
                "cpu", f"'cpu' is {event.cpu}, but the target has CPUs 0 to {self._target.cpus - 1}"
            )
        world = self.world
        world.cpu, world.time = event.cpu, event.time
        world.pid, world.tid, world.uid, world.gid = event.pid, event.tid, event.uid, event.gid
        world.comm = event.comm
        world.stack, world.user_stack = event.stack, event.user_stack
        world.memory = {**stack_arguments(event, self._target.arch), **event.memory}

    def drain(self) -> Iterator[Row]:
        """Yield the rows of the records since the last call, up to an exit().

        What follows it is not printed, though maps are still cleared, just as in a live run. Only
        what the END probes print is printed after an exit(), up to one of their own, which is not a
        row if it is the second.
        """
        for record in self._records():
            row = self.decoder.decode(record)
            if self.silent or row is None:
                continue
            if isinstance(row, ExitRow):
                self.silent = True
                if self.exited:
                    continue
                self.exited = True
            yield row

    def _records(self) -> list[bytes]:
        records: list[bytes] = []
        for spec in self._script.maps:
            if spec.role is MapRole.EVENTS:
                buffer = self.machine.maps[spec.name]
                if isinstance(buffer, RingBuffer):
                    records += buffer.drain()
                elif isinstance(buffer, PerfEventArray):
                    records += [data for _, data in buffer.drain()]
        return records


class _Maps:
    """The maps of a machine, as the decoder reads them."""

    def __init__(self, script: CompiledScript, machine: Machine) -> None:
        self._maps = machine.maps
        self._cpus = machine.world.cpus
        self._stacks = [
            found
            for spec in script.maps
            if isinstance(found := machine.maps[spec.name], StackTraces)
        ]

    def _keyed(self, name: str) -> HashMap | ArrayMap:
        found = self._maps[name]
        assert isinstance(found, HashMap | ArrayMap), name
        return found

    def items(self, name: str, /) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
        return self._keyed(name).items()

    def clear(self, name: str, /) -> None:
        self._keyed(name).clear()

    def stack(self, stack_id: int, /) -> tuple[int, ...]:
        return next((frames for s in self._stacks if (frames := s.stack(stack_id))), ())

    def cpus(self) -> range:
        return range(self._cpus)


_PARENT = Provider.TRACEPOINT
"""What is recorded where an eprobe fires."""


def _place(spec: str) -> str:
    """Return what stands behind the colon of a probe's specification."""
    return spec.partition(":")[2]


def _matches(probe: ProbeSpec, name: str) -> bool:
    """Return whether a probe fires at a recorded event's ``probe``."""
    provider, _, place = name.partition(":")
    if provider != (_PARENT if probe.provider is Provider.EPROBE else probe.provider):
        return False
    match probe.provider:
        case Provider.BEGIN | Provider.END:
            return True
        case Provider.TRACEPOINT | Provider.EPROBE:
            return place == probe.tracepoint
        case Provider.KPROBE | Provider.KRETPROBE:
            return KernelFunction(*split_place(place)) in probe.functions
        case Provider.INTERVAL | Provider.PROFILE:
            return place == _place(probe.spec)


def _with_intervals(
    script: CompiledScript, events: Iterable[RecordedEvent]
) -> Iterator[RecordedEvent]:
    """Yield the events, and between them those of intervals that were not recorded."""
    periods = {
        f"{Provider.INTERVAL}:{_place(probe.spec)}": probe.period
        for probe in script.probes
        if probe.provider is Provider.INTERVAL and probe.period
    }
    if not periods:
        yield from events
        return
    events = list(events)
    start = events[0].time if events else 0
    recorded = {event.probe for event in events}
    due = [(start + period, name) for name, period in periods.items() if name not in recorded]
    heapify(due)
    for event in events:
        while due and due[0][0] <= event.time:
            time, name = due[0]
            heapreplace(due, (time + periods[name], name))
            # The timer interrupts whatever runs on CPU 0, most likely nothing.
            yield RecordedEvent(name, time, comm=b"swapper/0")
        yield event
