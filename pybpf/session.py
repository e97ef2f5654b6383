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
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Self

from pybpf.events.decode import Decoder
from pybpf.kernel.attach import Attachments, Skipped
from pybpf.kernel.child import Child
from pybpf.kernel.loader import Loaded
from pybpf.rows import ExitRow, LostRow, Row
from pybpf.script import CompiledScript, Provider
from pybpf.target.target import Target

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BUFFER = 1 << 20


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ended: by ``exit(code)``, a signal, the child's end, lost records, or not yet."""

    code: int | None = None
    signal: int | None = None
    child: bool = False
    lost: int = 0


class Session:
    """A run of one script. Use it as a context manager: leaving it detaches and frees everything.

    ``strict`` ends the run when a record is lost. ``child`` is released when everything is
    attached, and its end ends the run. ``catch_signals`` makes SIGINT, SIGTERM and SIGHUP end the
    run (main thread only). ``before_wait`` is called whenever there is nothing to do for now.
    """

    def __init__(
        self,
        script: CompiledScript,
        target: Target,
        *,
        child: Child | None = None,
        strict: bool = True,
        catch_signals: bool = False,
        buffer_size: int = _BUFFER,
        before_wait: Callable[[], object] | None = None,
    ) -> None:
        self.script = script
        self.ending: Ending | None = None
        self._strict = strict
        self._target = target
        self._child = child
        self._buffer_size = buffer_size
        self._catch_signals = catch_signals
        self._before_wait = before_wait
        self._stack = ExitStack()
        self._attachments = Attachments(target)
        self._finished = False
        self._end_code: int | None = None

    def __enter__(self) -> Self:
        """Load and attach everything, run BEGIN, release the child; raises KernelError."""
        try:
            self._poll = self._stack.enter_context(select.epoll())
            if self._catch_signals:
                self._catch()
            self._loaded = Loaded(self.script, buffer_size=self._buffer_size)
            self._stack.callback(self._loaded.close)
            self._stack.callback(self._attachments.close)
            self._decoder = Decoder(self.script, self._loaded)
            self._start()
        except BaseException:
            self._stack.close()
            raise
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
        loaded, attachments = self._loaded, self._attachments
        ready = []
        for probe in self.script.probes:
            multi = attachments.wants_multi(probe)
            # Loading now shows a refusal before BEGIN has run.
            prog = loaded.program(probe, multi=multi)
            ready.append(attachments.open(probe, lambda prog=prog: prog))  # type: ignore[misc]
        if loaded.ring is not None:
            self._poll.register(loaded.ring.fileno(), select.EPOLLIN)
        if self._child is not None:
            self._poll.register(self._child.fileno(), select.EPOLLIN)
        self._run(Provider.BEGIN)
        for attach in ready:
            attach()
        if self._child is not None:
            self._child.release()

    def _run(self, provider: Provider) -> None:
        for probe in self.script.probes:
            if probe.provider is provider:
                self._loaded.program(probe).test_run()

    def _catch(self) -> None:
        """Turn signals into something to poll for; restore what was there at the end."""
        self._signals, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stack.callback(os.close, self._signals)
        self._stack.callback(os.close, write)
        self._stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(write))
        for number in _SIGNALS:
            self._stack.callback(signal.signal, number, signal.signal(number, _note))
        self._poll.register(self._signals, select.EPOLLIN)

    def rows(self, timeout: float | None = None) -> Iterator[Row]:
        """Yield rows as they come, until the run ends or ``timeout`` seconds have passed.

        After the end of the run, ``ending`` says why; ``finish`` yields the rest.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self.ending is None:
            left = None if until is None else max(0.0, until - time.monotonic())
            if self._before_wait is not None:
                self._before_wait()
            events = self._poll.poll(left)
            child_ended = signalled = False
            for fd, _ in events:
                child_ended |= self._child is not None and fd == self._child.fileno()
                signalled |= self._catch_signals and fd == self._signals
            # What was sent before the child ended is in the ring by now.
            yield from self._drain()
            if self.ending is None:
                self._decide(child_ended=child_ended, signalled=signalled)
            if until is not None and time.monotonic() >= until:
                return

    def _decide(self, *, child_ended: bool, signalled: bool) -> None:
        if signalled:
            numbers = os.read(self._signals, 64)
            self.ending = Ending(signal=numbers[0])
        elif child_ended:
            self.ending = Ending(child=True)
        elif self._strict and (lost := self._loaded.lost() + self._ring_lost()):
            self.ending = Ending(lost=lost)

    def _ring_lost(self) -> int:
        return self._loaded.ring.lost if self._loaded.ring is not None else 0

    def _drain(self) -> Iterator[Row]:
        """Yield the rows in the ring; nothing after an ``exit``, which ends the run."""
        ring = self._loaded.ring
        if ring is None:
            return
        decode = self._decoder.decode
        for record in ring.drain():
            row = decode(record)
            if self.ending is not None and self.ending.code is not None:
                continue
            if isinstance(row, ExitRow):
                self.ending = Ending(code=row.code)
            elif row is not None:
                yield row

    def finish(self) -> Iterator[Row]:
        """End the run: detach, drain, run END; yield its rows, then the maps and what was lost."""
        if self._finished:
            return
        self._finished = True
        self._attachments.close()
        yield from self._drain()
        self._run(Provider.END)
        yield from self._drain_end()
        yield from self._decoder.map_rows()
        yield from self.lost_rows()

    def _drain_end(self) -> Iterator[Row]:
        """Yield what END sent; its exit status counts unless the script had set one before."""
        ring = self._loaded.ring
        if ring is None:
            return
        for record in ring.drain():
            row = self._decoder.decode(record)
            if isinstance(row, ExitRow):
                if self._end_code is None:
                    self._end_code = row.code
            elif row is not None and self._end_code is None:
                yield row

    def lost_rows(self) -> tuple[LostRow, ...]:
        """Return what was lost so far: records, and updates by map."""
        rows = self._decoder.lost_rows()
        dropped = self._ring_lost()
        if not dropped:
            return rows
        records = sum(r.records for r in rows if r.map is None) + dropped
        return (LostRow(records), *(r for r in rows if r.map is not None))

    @property
    def status(self) -> int:
        """The exit status that the run means, as ply's: 1 after SIGINT or lost records."""
        ending = self.ending or Ending()
        if ending.code is not None:
            return ending.code
        if ending.signal is not None and ending.signal != signal.SIGINT:
            return 128 + ending.signal
        if self._end_code is not None:
            return self._end_code
        return 1 if ending.signal is not None or ending.lost else 0


def _note(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: the descriptor that signals wake up says it all."""
