r"""The text of ``trace`` and ``trace_pipe``: lines in, their parts out, and the other way round.

         COMM-PID     [CPU] FLAGS    SECONDS: EVENT: TEXT

It is bytes: names of processes may have any (spaces, dashes and colons too), and so may what events
print, newlines included, which go on in the next line.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from pybpf.dataclass import dataclass, replace
from pybpf.errors import EventError
from pybpf.events.ftrace.reader import Lost, RawRecord
from pybpf.isa.insn import ByteOrder

_COMM = 16
"""The kernel pads names to this width; the longest is shorter by one."""


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A record as text. ``time`` is in ns; a count where the trace clock counts.

    ``comm`` is ``<...>`` where the kernel forgot the name. ``flags`` are the columns of irqs-off,
    need-resched, hardirq/softirq and the depths, empty with the option ``noirq-info``. ``tgid`` is
    None without the option ``record-tgid`` or where it is not known. ``event`` is empty for what is
    no event, such as a tracer's line.
    """

    comm: bytes
    pid: int
    cpu: int
    flags: str
    time: int
    event: str
    text: bytes
    tgid: int | None = None


_HEAD = re.compile(
    rb"(?P<pid>\d{1,10}) +(?:\( *(?P<tgid>-+|\d{1,10})\) +)?\[(?P<cpu>\d{1,10})\] "
    rb"(?:(?P<flags>[^ 0-9][^ ]{3,5}) +)? *(?P<time>\d{1,20}(?:\.\d{1,9})?): "
)
_LOST = re.compile(rb"CPU:(\d{1,10}) \[LOST(?: (\d{1,20}))? EVENTS\]")
_NOTE = re.compile(rb"##### CPU \d+ buffer started ####")
_EVENT = re.compile(rb"(\w+):(?: |$)")
_CMDLINE = re.compile(rb"^(\d{1,10}) (.*?)\n?(?=^\d{1,10} |\Z)", re.MULTILINE | re.DOTALL)


# line: '#' text | 'CPU:' N ' [LOST' [' ' N] ' EVENTS]' | comm(16) '-' pid ' ' ['(' tgid ')']
#       '[' cpu ']' [flags] time ':' [event ':'] text | (the rest of the line before) text
def parse_lines(lines: Iterable[bytes]) -> Iterator[TraceLine | Lost]:
    r"""Yield the records and losses in lines, which may end in ``\n``.

    A line that begins no record goes on the record before it. What a loss was before is taken from
    the record that follows it. Raises EventError for a text that does not begin with a record.
    """
    waiting: TraceLine | None = None
    more: list[bytes] = []
    losses: list[Lost] = []
    for number, full in enumerate(lines, start=1):
        line = full.removesuffix(b"\n")
        started = _parse_line(line)
        if started is not None:
            if waiting is not None:
                yield _with(waiting, more)
            more.clear()
            for lost in losses:
                yield replace(lost, timestamp=started.time)
            losses.clear()
            waiting = started
        elif (lost_line := _LOST.fullmatch(line)) is not None:
            count = None if lost_line[2] is None else int(lost_line[2])
            losses.append(Lost(0, int(lost_line[1]), count))
        elif waiting is not None and not _NOTE.fullmatch(line):
            more.append(line)
        elif line and not line.startswith(b"#"):
            raise EventError(f"trace: line {number}: no record: {line[:80]!r}")
    if waiting is not None:
        yield _with(waiting, more)
    yield from losses


def _with(record: TraceLine, more: list[bytes]) -> TraceLine:
    return replace(record, text=b"\n".join((record.text, *more))) if more else record


def _parse_line(line: bytes) -> TraceLine | None:
    # The name's width is fixed, so no name can be mistaken for what follows it.
    if line[_COMM : _COMM + 1] != b"-":
        return None
    match = _HEAD.match(line, _COMM + 1)
    if match is None:
        return None
    text = line[match.end() :]
    event = _EVENT.match(text)
    tgid = match["tgid"]
    return TraceLine(
        line[:_COMM].lstrip(b" "),
        int(match["pid"]),
        int(match["cpu"]),
        (match["flags"] or b"").decode("latin-1"),
        _time(match["time"]),
        "" if event is None else event[1].decode("ascii"),
        text if event is None else text[event.end() :],
        None if tgid is None or tgid.startswith(b"-") else int(tgid),
    )


def _time(text: bytes) -> int:
    seconds, dot, fraction = text.partition(b".")
    if not dot:
        return int(seconds)
    return int(seconds) * 1_000_000_000 + int(fraction.ljust(9, b"0")[:9])


def parse_cmdlines(text: bytes) -> dict[int, bytes]:
    """Return the names by pid that ``saved_cmdlines`` holds. Raises EventError for another text."""
    first = text.partition(b"\n")[0]
    if text and not _CMDLINE.match(text):
        raise EventError(f"saved_cmdlines: line 1: no pid and name: {first[:80]!r}")
    # A name may have line ends in it.
    return {int(match[1]): match[2] for match in _CMDLINE.finditer(text)}


# Bits of common_flags, include/linux/trace_events.h.
_IRQS_OFF, _LAZY, _RESCHED, _HARDIRQ = 0x01, 0x02, 0x04, 0x08
_SOFTIRQ, _PREEMPT, _NMI, _BH_OFF = 0x10, 0x20, 0x40, 0x80
_NEEDS = {
    _RESCHED | _PREEMPT | _LAZY: "B",
    _RESCHED | _PREEMPT: "N",
    _LAZY | _PREEMPT: "L",
    _RESCHED | _LAZY: "b",
    _RESCHED: "n",
    _LAZY: "l",
    _PREEMPT: "p",
}
_CONTEXTS = {
    _NMI | _HARDIRQ: "Z",
    _NMI | _HARDIRQ | _SOFTIRQ: "Z",
    _NMI: "z",
    _NMI | _SOFTIRQ: "z",
    _HARDIRQ | _SOFTIRQ: "H",
    _HARDIRQ: "h",
    _SOFTIRQ: "s",
}


@lru_cache(maxsize=1024)
def flag_columns(flags: int, preempt_count: int) -> str:
    """Return the five columns that show common_flags and common_preempt_count."""
    off = {_IRQS_OFF | _BH_OFF: "D", _IRQS_OFF: "d", _BH_OFF: "b"}
    return (
        off.get(flags & (_IRQS_OFF | _BH_OFF), ".")
        + _NEEDS.get(flags & (_RESCHED | _PREEMPT | _LAZY), ".")
        + _CONTEXTS.get(flags & (_NMI | _HARDIRQ | _SOFTIRQ), ".")
        + (f"{preempt_count & 15:x}" if preempt_count & 15 else ".")
        + (f"{preempt_count >> 4:x}" if preempt_count >> 4 else ".")
    )


_COMMON = {"little": struct.Struct("<HBBi").unpack_from, "big": struct.Struct(">HBBi").unpack_from}


def line_of(
    raw: RawRecord, text: str, comms: Mapping[int, bytes], byteorder: ByteOrder = "little"
) -> bytes:
    """Return the line of ``trace`` for a record, without its newline.

    ``text`` is ``EVENT: TEXT``; ``comms`` are the names of processes by pid. Raises EventError for
    a payload that does not begin as all do.
    """
    timestamp, cpu, _, payload = raw
    try:
        _, flags, preempt_count, pid = _COMMON[byteorder](payload)
    except struct.error:
        raise EventError(f"a record of {len(payload)} bytes") from None
    who = _who(comms.get(pid, b"<...>") if pid else b"<idle>", pid)
    columns = flag_columns(flags, preempt_count)
    seconds, rest = divmod((timestamp + 500) // 1000, 1_000_000)
    line = f"{who} [{cpu:03}] {columns} {seconds:5}.{rest:06}: {text}"
    return line.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=4096)
def _who(comm: bytes, pid: int) -> str:
    return f"{comm.rjust(_COMM).decode('utf-8', 'surrogateescape')}-{pid:<7}"
