"""Event probes as programs of this kernel: definitions in, the records they would have made out.

Nothing is written to tracefs, and the kernel need not have eprobes (CONFIG_EPROBE_EVENTS). Any
number of processes may trace the same at once, and each sees every hit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self, TypedDict, Unpack

from pybpf.compiler.eprobes.joined import compile_strings
from pybpf.compiler.eprobes.script import HEADER, CompiledEprobes, compile_eprobes
from pybpf.compiler.pipeline import Options
from pybpf.dataclass import dataclass, replace
from pybpf.events.eprobes.payload import Payloads
from pybpf.events.ftrace.printer import Symbols
from pybpf.events.ftrace.reader import RawRecord, RecordFormats
from pybpf.events.ftrace.record import TraceRecord
from pybpf.kernel.child import Child
from pybpf.kernel.live import LiveTarget
from pybpf.rows import Cell, RecordRow, Row, Value
from pybpf.session import Ending, Session
from pybpf.tracefs.dynevent import Eprobe

STRING_SIZE = 512
"""How many bytes a string gets at most, its NUL included, unless one says otherwise."""


class How(TypedDict, total=False):
    """How to run. ``command`` runs once everything is attached, and its end is the end of the run.

    ``pids`` limits the trace to processes and what they start; a command is one of them, unless
    ``everything`` is to be traced. ``strict`` ends the run when a record is lost; ``catch_signals``
    makes signals end it. ``symbols`` name addresses, ``options`` say how much room there is;
    ``before_wait`` is called whenever there is nothing to do for now.
    """

    command: str | None
    pids: Iterable[int]
    everything: bool
    strict: bool
    catch_signals: bool
    symbols: Symbols | None
    options: Options | None
    before_wait: Callable[[], object] | None


@dataclass(frozen=True, slots=True)
class EprobeRecord:
    """One hit of an eprobe.

    ``raw`` are the time, the CPU and the bytes that the kernel's eprobe would have recorded;
    ``faults`` the names of the arguments whose memory could not be read: a number is 0 then, a
    string empty, and printed as ``(fault)``.
    """

    raw: RawRecord
    pid: int
    comm: bytes
    faults: frozenset[str]


def trace_eprobes(
    definitions: Sequence[str | Eprobe],
    *,
    string_size: int = STRING_SIZE,
    **how: Unpack[How],
) -> EprobeTrace:
    """Return a context manager that records what eprobes of these definitions would.

    ``string_size`` is how many bytes a string may have, its NUL included. Needs root, or CAP_BPF
    and CAP_PERFMON, and the right to read tracefs. Entering it raises DynEventError for a
    definition that is faulty and TargetError for what this kernel lacks.
    """
    options = how.get("options")

    def compiled(target: LiveTarget, pids: Sequence[int]) -> CompiledEprobes:
        return compile_eprobes(definitions, target, options, string_size=string_size, pids=pids)

    return EprobeTrace(compiled, **how)


def trace_strings(
    call: str,
    fields: Sequence[str],
    *,
    string_size: int = STRING_SIZE,
    **how: Unpack[How],
) -> EprobeTrace:
    """Return a context manager that records strings given to a system call, and what it returned.

    They are read when the call returns, when they are in memory: see ``compile_strings``, whose
    errors entering it raises.
    """
    options = how.get("options")

    def compiled(target: LiveTarget, pids: Sequence[int]) -> CompiledEprobes:
        return compile_strings(call, fields, target, options, string_size=string_size, pids=pids)

    return EprobeTrace(compiled, **how)


class EprobeTrace:
    """What records while the ``with`` block runs: made by ``trace_eprobes`` and ``trace_strings``.

    Entering raises what is said there, and KernelError where the kernel refuses. ``formats`` decode
    and print what ``raw`` of a record is.
    """

    def __init__(
        self,
        compile_: Callable[[LiveTarget, Sequence[int]], CompiledEprobes],
        *,
        command: str | None = None,
        pids: Iterable[int] = (),
        everything: bool = False,
        options: Options | None = None,
        strict: bool = False,
        catch_signals: bool = False,
        symbols: Symbols | None = None,
        before_wait: Callable[[], object] | None = None,
    ) -> None:
        self._target = LiveTarget()
        self._compile = compile_
        self._command = command
        self._pids = [*pids]
        self._everything = everything
        self._options = options or Options()
        self._strict = strict
        self._catch_signals = catch_signals
        self._before_wait = before_wait
        self._payloads: list[Payloads] = []
        self._stack = ExitStack()
        self.formats = RecordFormats((), self._target.arch.byteorder, symbols)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            child, pids = None, self._pids
            if self._command is not None:
                # The command waits with its pid known: the programs may be about it.
                child = stack.enter_context(Child(self._command))
                pids = pids if self._everything else [*pids, child.pid]
            compiled = self._compile(self._target, pids)
            self._prepare(compiled)
            self._session = stack.enter_context(
                Session(
                    compiled.script,
                    self._target,
                    child=child,
                    strict=self._strict,
                    catch_signals=self._catch_signals,
                    before_wait=self._before_wait,
                )
            )
            self._stack = stack.pop_all()
        return self

    def _prepare(self, compiled: CompiledEprobes) -> None:
        """Make ready what reads the records."""
        byteorder, symbols = self.formats.byteorder, self.formats.symbols
        for number, eprobe in enumerate(compiled.eprobes, start=1):
            definition = eprobe.definition
            parent = definition.target.replace("/", ".", 1)
            self.formats.add(replace(definition.format, id=number), f"({parent})")
            payloads = Payloads(definition.args, eprobe.marks, number, byteorder, symbols)
            self._payloads.append(payloads)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def ending(self) -> Ending | None:
        """Why the run ended by itself, or None while it goes on."""
        return self._session.ending

    @property
    def lost(self) -> int:
        """How many hits were lost so far for want of room: in the buffer, or to note a call."""
        return sum(row.records for row in self._session.lost_rows())

    @property
    def skipped(self) -> int:
        """How many hits came while another program ran on that CPU, so that the kernel ran none.

        Since Linux 6.13 a thread can lose its CPU in the middle of a program on a system call; what
        others call there meanwhile is skipped.
        """
        return self._session.recursion_misses()

    def records(self, timeout: float | None = None) -> Iterator[EprobeRecord]:
        """Yield records as they come: for ``timeout`` seconds, or (None) until the command ends."""
        return self._records(self._session.rows(timeout))

    def finish(self) -> Iterator[EprobeRecord]:
        """Detach, and yield what is left."""
        return self._records(self._session.finish())

    def decode(self, record: EprobeRecord) -> TraceRecord:
        """Return a record with its fields, as one that was read from the kernel's buffer."""
        found = self.formats.decode(record.raw)
        assert isinstance(found, TraceRecord), "each has a format"
        return found

    def text(self, record: EprobeRecord) -> str:
        """Return ``EVENT: (GROUP.EVENT) NAME=VALUE …`` as the kernel prints it."""
        return self.formats.text(record.raw)

    def _records(self, rows: Iterable[Row]) -> Iterator[EprobeRecord]:
        for row in rows:
            if isinstance(row, RecordRow):
                yield self._record(row)

    def _record(self, row: RecordRow) -> EprobeRecord:
        values = [cell.value for cell in row.cells if isinstance(cell, Cell)]
        header, rest = values[: len(HEADER)], values[len(HEADER) :]
        time, cpu, pid = (_number(value) for value in header[:3])
        comm = header[3]
        assert isinstance(comm, bytes)
        payloads = self._payloads[row.event]
        count = payloads.count
        data, faults = payloads.make(pid, rest[:count], [_number(v) for v in rest[count:]])
        raw = RawRecord(time, cpu, row.event + 1, data)
        return EprobeRecord(raw, pid, comm.partition(b"\0")[0], faults)


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
