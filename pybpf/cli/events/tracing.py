"""What commands that record events share: options, the run, lines of text and of JSON."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from pybpf.cli import UsageError, inputs, printable
from pybpf.cli.events.programs import report_lost

if TYPE_CHECKING:
    from pybpf.errors import Diagnostic
    from pybpf.events.ftrace.reader import Lost, RawRecord
    from pybpf.kernel.child import Child
    from pybpf.kernel.ftrace.trace import Trace
    from pybpf.kernel.tracefs import Tree

_COMM = 15
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def declare_run(parser: argparse.ArgumentParser) -> None:
    """Declare what all of them take."""
    add = parser.add_argument
    add("-c", "--command", metavar="CMD", help="run CMD, record it alone; its end ends the run")
    add("-a", "--all", action="store_true", help="with -c: record all processes, not CMD alone")
    add(
        "-p", "--pid", action="append", type=inputs.count, metavar="PID", default=[],
        help="record these processes, and those that they start",
    )  # fmt: skip
    add("--format", choices=("text", "json"), default="text", help="JSON lines instead of text")
    add(
        "--buffer", type=inputs.size, metavar="SIZE",
        help="room for records of each CPU, such as 64K or 16M",
    )  # fmt: skip
    add("--filter", metavar="EXPR", help="record only what it lets through: 'prev_pid == 0'")
    add("-q", "--quiet", action="store_true", help="no warnings about what a kernel does not do")


def lines_of(options: argparse.Namespace) -> list[str]:
    """Return the lines of a plan, from arguments and a file. Raises UsageError without any."""
    lines = [*options.lines]
    if options.file is not None:
        text = inputs.read_text(options.file).text
        stripped = (line.strip() for line in text.split("\n"))
        lines += (line for line in stripped if line and not line.startswith("#"))
    if not lines:
        raise UsageError(
            "nothing to trace\n  hint: such as `pybpf events trace sched/sched_switch`"
        )
    return lines


def run(lines: Sequence[str], options: argparse.Namespace) -> int:
    """Record what lines of a plan say, print it, and return the exit status.

    A signal ends the run: what is there is printed, and all that was made is removed.
    """
    from pybpf.kernel.child import Child
    from pybpf.kernel.ftrace.trace import trace
    from pybpf.kernel.tracefs import open_tracefs

    child_of = nullcontext(None) if options.command is None else Child(options.command)
    with _caught() as signalled, child_of as child, open_tracefs() as tree:
        pids = list(options.pid)
        if child is not None and not options.all:
            pids.append(child.pid)
        room = None if options.buffer is None else max(1, options.buffer >> 10)
        # What we do to read and print would be recorded, read, printed and so on.
        with trace(
            lines,
            condition=options.filter,
            pids=pids,
            without=[os.getpid()],
            buffer_kb=room,
            tree=tree,
        ) as tracing:
            if not options.quiet:
                warn(tracing.warnings)
            _print_all(tracing, _until(tracing, child, signalled), tree, options)
            return _end(tracing, json=options.format == "json")


def warn(warnings: Iterable[Diagnostic]) -> None:
    """Print warnings to standard error."""
    for warning in warnings:
        print(printable(warning.render()), file=sys.stderr, flush=True)


@contextmanager
def _caught() -> Iterator[int]:
    """Turn signals into something to read, so that none comes between two steps."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    wakeup = signal.set_wakeup_fd(writer)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def _until(
    tracing: Trace, child: Child | None, signalled: int
) -> Iterator[Iterable[RawRecord | Lost]]:
    """Yield what was recorded, a round at a time, until the command ends or a signal comes."""
    import select
    import time

    poll = select.poll()
    poll.register(signalled, select.POLLIN)
    if child is not None:
        poll.register(child.fileno(), select.POLLIN)
        child.release()
    ends = {signalled} if child is None else {signalled, child.fileno()}
    number = tracing.stream.fileno()
    poll.register(number, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll(20 if tracing.stream.waiting else None)}
        if ready & ends:
            break
        yield tracing.stream.read()
        time.sleep(0.02)
    yield tracing.stream.read(last=True)


def _print_all(
    tracing: Trace,
    rounds: Iterator[Iterable[RawRecord | Lost]],
    tree: Tree,
    options: argparse.Namespace,
) -> None:
    show = _Json(tracing) if options.format == "json" else _Text(tracing, tree)
    out = sys.stdout
    for items in rounds:
        for item in items:
            out.write(show(item) + "\n")
        out.flush()


class _Json:
    """Shows items as JSON lines."""

    def __init__(self, tracing: Trace) -> None:
        from pybpf.events.ftrace.jsonl import to_json

        self._decode, self._to_json = tracing.stream.decode, to_json

    def __call__(self, item: RawRecord | Lost) -> str:
        return self._to_json(self._decode(item))


class _Text:
    """Shows items as the kernel's ``trace`` does."""

    def __init__(self, tracing: Trace, tree: Tree) -> None:
        from pybpf.events.ftrace.lines import line_of, parse_cmdlines

        self._formats, self._tree = tracing.stream.formats, tree
        self._line_of, self._parse = line_of, parse_cmdlines
        self._comms: dict[int, bytes] = {}

    def __call__(self, item: RawRecord | Lost) -> str:
        from pybpf.events.ftrace.reader import Lost
        from pybpf.output.escape import escape

        if isinstance(item, Lost):
            return str(item)
        pid = int.from_bytes(item.payload[4:8], self._formats.byteorder, signed=True)
        if pid not in self._comms:
            self._name(pid)
        line = self._line_of(item, self._formats.text(item), self._comms)
        return escape(line)

    def _name(self, pid: int) -> None:
        """Find the name of a process: the kernel remembers those that were traced last."""
        from pybpf.errors import PybpfError

        with suppress(FileNotFoundError, PybpfError):
            text = self._tree.read("saved_cmdlines")
            self._comms |= self._parse(text.encode("utf-8", "surrogateescape"))
        if pid not in self._comms:
            self._comms[pid] = _comm(pid)


def _comm(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123 - pathlib loads slowly
            return file.read().rstrip(b"\n")[:_COMM]  # of a kworker it says more
    except OSError:
        return b"<...>"


def _end(tracing: Trace, *, json: bool) -> int:
    """Print histograms, where there are only such, and what was lost; return the exit status."""
    if not tracing.events:
        for event, path in tracing.hists.items():
            _print_hist(event, tracing.instance.read(path), json=json)
    sys.stdout.flush()
    return report_lost(tracing.stream.lost, "--buffer makes room, --filter leaves some out")


def _print_hist(event: str, text: str, *, json: bool) -> None:
    if json:
        from pybpf.output.hists import to_json
        from pybpf.tracefs.triggers.hist_file import parse_hist

        for histogram in parse_hist(text):
            print(to_json(event, histogram))
        return
    print(f"# {event}")
    print(printable(text.strip("\n")))
