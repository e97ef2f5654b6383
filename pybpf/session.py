"""Run a compiled script on the live kernel: load, attach, drain, yield rows, tear down.

One loop waits for everything: records, the end of the child, signals, the caller's time limit. When
the run ends, what fires by itself is detached first, then what is still in the ring is drained, END
runs and its output is drained too, and the maps are read last.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pybpf.dataclass import dataclass, replace
from pybpf.errors import about
from pybpf.events.decode import Decoder
from pybpf.kernel.attach import MAX_PROBES, Attachments, Skipped
from pybpf.kernel.child import Child
from pybpf.kernel.limits import room_for_files
from pybpf.kernel.loader import Loaded
from pybpf.kernel.ringbuf import records
from pybpf.rows import Block, ExitRow, LostRow, Row
from pybpf.script import CompiledScript, Provider
from pybpf.target.target import Target

if TYPE_CHECKING:
    from pybpf.events.blocks import BlockReader

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How long programs that were running when they were detached may take for their records.
_PATIENCE = 1.0
# A reader that keeps up is woken for nearly every record, which costs the traced process more than
# the record does. So once busy, look no more often than this, as long as there is room: seconds for
# each byte of the buffer, which makes 4 milliseconds for one of 8M.
_PAUSE = 0.5e-9
_ROOMY = 8
# Fewer bytes than that are not worth a block.
_FEW = 256

_Printed = TypeVar("_Printed", Row, Row | Block)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ended: ``exit(code)``, a signal or the child's end.

    ``lost`` counts the records that were lost where that matters (``strict``); it may be the only
    reason.
    """

    code: int | None = None
    signal: int | None = None
    child: bool = False
    lost: int = 0


class Session:
    """A run of one script. Use it as a context manager: leaving it detaches and frees everything.

    ``strict`` ends the run when a record is lost. ``child`` is released when everything is
    attached, and its end ends the run. ``catch_signals`` makes SIGINT, SIGTERM and SIGHUP end the
    run (main thread only). ``before_wait`` is called whenever there is nothing to do for now.
    ``max_probes`` and ``progress`` are for patterns: see ``Attachments``.
    """

    def __init__(
        self,
        script: CompiledScript,
        target: Target,
        *,
        child: Child | None = None,
        strict: bool = True,
        catch_signals: bool = False,
        before_wait: Callable[[], object] | None = None,
        max_probes: int = MAX_PROBES,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self.script = script
        self.ending: Ending | None = None
        self._target = target
        self._child = child
        self._strict = strict
        self._catch_signals = catch_signals
        self._before_wait = before_wait
        self._progress = progress
        self._attachments = Attachments(
            target, max_probes=max_probes, progress=self._while_attaching
        )
        self._stack = ExitStack()
        self._early: deque[Row] = deque()
        self._waiting: Iterator[Any] = iter(())
        self._blocks: BlockReader | None = None
        self._drained = 0.0
        self._interrupted = False
        self._signal: tuple[int, float] | None = None
        self._exit: int | None = None
        self._end_exit: int | None = None
        self._finished = False

    def __enter__(self) -> Self:
        """Load everything, run BEGIN, attach, release the child; raises KernelError.

        A signal that comes while a pattern is attached raises KeyboardInterrupt with its number.
        Where BEGIN has ended the run, nothing is attached and the child never runs.
        """
        with ExitStack() as stack:
            self._poll = stack.enter_context(select.epoll())
            if self._catch_signals:
                self._catch(stack)
            stack.enter_context(room_for_files(self._files()))
            self._loaded = stack.enter_context(Loaded(self.script))
            stack.callback(self._attachments.close)
            self._decoder = Decoder(
                self.script, self._loaded, byteorder=self._target.arch.byteorder
            )
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def skipped(self) -> list[Skipped]:
        """The functions that globs matched but could not be probed."""
        return self._attachments.skipped

    @property
    def decoder(self) -> Decoder:
        """Reads the maps of the run as rows."""
        return self._decoder

    def recursion_misses(self) -> int:
        """Return how often a program was skipped because another one ran on that CPU."""
        return sum(prog.info().recursion_misses for prog in self._loaded.programs())

    def _start(self) -> None:
        """Open and load everything that may be refused, before anything runs."""
        attachments = self._attachments
        steps = []
        for probe in self.script.probes:
            with about(probe.span):
                prog = self._loaded.program(probe, multi=attachments.wants_multi(probe))
                steps.append((probe.span, attachments.open(probe, prog)))
        if self._loaded.ring is not None:
            self._poll.register(self._loaded.ring.fileno(), select.EPOLLIN)
        if self._child is not None:
            self._poll.register(self._child.fileno(), select.EPOLLIN)
        self._early.extend(self._fire(Provider.BEGIN, self._one_by_one))
        self.ending = self._why_end(child_ended=False)
        if self.ending is not None:
            return
        for span, attach in steps:
            with about(span):
                attach()
        if self._child is not None:
            self._child.release()

    def _while_attaching(self, done: int, count: int) -> None:
        """Give up if a signal came: attaching to many functions may take minutes."""
        if self._signal is not None:
            raise KeyboardInterrupt(self._signal[0])
        if self._progress is not None:
            self._progress(done, count)

    def _files(self) -> int:
        """Return how many files the run may have open: maps, programs with BTF, what attaches."""
        probes = self.script.probes
        places = sum(map(self._attachments.files, probes))
        return len(self.script.maps) + 2 * len(probes) + places

    def _catch(self, stack: ExitStack) -> None:
        """Let signals end the run; restore what was there at the end."""
        wake, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, wake)
        stack.callback(os.close, write)
        stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(write))
        for number in _SIGNALS:
            stack.callback(signal.signal, number, signal.signal(number, self._note))
        self._poll.register(wake, select.EPOLLIN)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        """Note the first signal; whoever sends another a while later does not want to wait.

        At once they come in pairs: timeout(1) signals its child, and then the whole group.
        """
        now = time.monotonic()
        if self._signal is None:
            self._signal = number, now
        elif now - self._signal[1] > 1:
            raise KeyboardInterrupt

    def rows(self, timeout: float | None = None) -> Iterator[Row]:
        """Yield rows as they come, until the run ends or ``timeout`` seconds have passed.

        After the end of the run, ``ending`` says why; ``finish`` yields the rest. May be abandoned
        at any row, and called again for the next.
        """
        return self._run(self._one_by_one, timeout)

    def blocks(self, timeout: float | None = None) -> Iterator[Row | Block]:
        """Do as ``rows`` does, with blocks in the place of rows that came in large numbers.

        ``finish_blocks`` yields the rest.
        """
        return self._run(self._in_blocks, timeout)

    def _run(
        self, read: Callable[[bytes], Iterable[_Printed]], timeout: float | None
    ) -> Iterator[_Printed]:
        until = None if timeout is None else time.monotonic() + timeout
        while self._early:
            yield self._early.popleft()
        while self.ending is None:
            if self._before_wait is not None:
                self._before_wait()
            left = None if until is None else max(0.0, until - time.monotonic())
            ended = self._wait(0.0 if self._interrupted else left)
            # What was sent before the child ended is in the ring by now.
            yield from self._drain(read)
            self.ending = self._why_end(child_ended=ended)
            if until is not None and time.monotonic() >= until:
                return

    def _wait(self, timeout: float | None) -> bool:
        """Wait until there is something to do; return whether the child has ended."""
        ready = [fd for fd, _ in self._poll.poll(timeout)]
        if self._child is not None and self._child.fileno() in ready:
            return True
        ring = self._loaded.ring
        if ring is not None and ring.fileno() in ready:
            early = self._drained + _PAUSE * self.script.buffer_size - time.monotonic()
            if early > 0 and ring.used < self.script.buffer_size // _ROOMY:
                time.sleep(early)
        return False

    def _why_end(self, *, child_ended: bool) -> Ending | None:
        lost = self._lost() if self._strict else 0
        if self._exit is not None:
            return Ending(code=self._exit, lost=lost)
        if self._signal is not None:
            return Ending(signal=self._signal[0], lost=lost)
        return Ending(child=child_ended, lost=lost) if child_ended or lost else None

    def _lost(self) -> int:
        """Return how many records were lost: the programs count them, and so may the ring.

        Since Linux 5.1 a program sees when a perf buffer has no room, and is exact where the buffer
        mentions losses with the next record that fits. Before that the buffer alone knows.
        """
        ring = self._loaded.ring
        return max(self._loaded.lost(), 0 if ring is None else ring.lost)

    def _one_by_one(self, batch: bytes) -> Iterator[Row]:
        for record in records(batch):
            row = self._decoder.decode(record)
            if row is not None:
                yield row

    def _in_blocks(self, batch: bytes) -> Iterator[Row | Block]:
        if len(batch) < _FEW:
            return self._one_by_one(batch)
        if self._blocks is None:
            from pybpf.events.blocks import BlockReader

            self._blocks = BlockReader(self._decoder)
        return self._blocks.read(batch)

    def _drain(self, read: Callable[[bytes], Iterable[_Printed]]) -> Iterator[_Printed]:
        """Yield what ``read`` makes of what is in the ring, until a signal; or up to an exit().

        After an exit() nothing is yielded any more, but maps are still cleared.
        """
        ring = self._loaded.ring
        if ring is None:
            return
        # What a caller who went away in the middle has left comes first.
        self._interrupted = True
        for printed in (self._waiting, chain.from_iterable(map(read, ring.batches()))):
            self._waiting = printed
            for row in printed:
                if self._exit is None:
                    if isinstance(row, ExitRow):
                        self._exit = row.code
                    yield row
                if self._signal is not None and not self._finished:
                    return
        self._interrupted = False
        self._drained = time.monotonic()

    def _fire(
        self, provider: Provider, read: Callable[[bytes], Iterable[_Printed]]
    ) -> Iterator[_Printed]:
        """Run the BEGIN or the END probes, and yield their rows."""
        for probe in self.script.probes:
            if probe.provider is provider:
                self._loaded.program(probe).test_run()
                yield from self._drain(read)

    def finish(self) -> Iterator[Row]:
        """End the run: detach, drain, run END; yield its rows, then the maps and what was lost.

        An exit() in END sets the status, unless there was one before.
        """
        return self._finish(self._one_by_one)

    def finish_blocks(self) -> Iterator[Row | Block]:
        """Do as ``finish`` does, with blocks in the place of rows that came in large numbers."""
        return self._finish(self._in_blocks)

    def _finish(self, read: Callable[[bytes], Iterable[_Printed]]) -> Iterator[_Printed]:
        if self._finished:
            return
        self._finished = True
        self._attachments.detach()
        while self._early:
            yield self._early.popleft()
        yield from self._drain_rest(read)
        before, self._exit = self._exit, None
        for row in self._fire(Provider.END, read):
            if before is None or not isinstance(row, ExitRow):
                yield row
        self._end_exit = self._exit
        yield from self._decoder.map_rows()
        if self._strict and self.ending is not None:
            self.ending = replace(self.ending, lost=self._lost())
        yield from self.lost_rows()

    def _drain_rest(self, read: Callable[[bytes], Iterable[_Printed]]) -> Iterator[_Printed]:
        """Drain until no record is being written: programs still run for a moment when detached."""
        ring = self._loaded.ring
        until = time.monotonic() + _PATIENCE
        yield from self._drain(read)
        while ring is not None and ring.used and time.monotonic() < until:
            time.sleep(0.001)
            yield from self._drain(read)

    def lost_rows(self) -> tuple[LostRow, ...]:
        """Return what was lost so far: records, and updates by map."""
        records = self._lost()
        updates = tuple(row for row in self._decoder.lost_rows() if row.map is not None)
        return (LostRow(records), *updates) if records else updates

    @property
    def status(self) -> int:
        """The exit status that the run means: the script's own, else 1 after SIGINT, as in ply.

        128 + number after other signals, as shells say. Success with lost records is none.
        """
        ending = self.ending or Ending()
        if ending.signal is not None and ending.signal != signal.SIGINT:
            return 128 + ending.signal
        code = ending.code if ending.code is not None else self._end_exit
        if code is None:
            code = 0 if ending.signal is None else 1
        return code or (1 if ending.lost else 0)
