"""What a kernel answers to one write: the bytes and a world in, a verdict out.

Source: trace_parse_run_command() of kernel/trace/trace.c, kernel/trace/trace_dynevent.c.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal

from pybpf.dataclass import dataclass, replace
from pybpf.tracefs.dynevents.ctext import as_bytes, words
from pybpf.tracefs.dynevents.eprobe import make_eprobe
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.fprobe import make_fprobe
from pybpf.tracefs.dynevents.kprobe import make_kprobe
from pybpf.tracefs.dynevents.log import Answer, LogEntry, Refused
from pybpf.tracefs.dynevents.messages import Message
from pybpf.tracefs.dynevents.probe import NotMine, State
from pybpf.tracefs.dynevents.removal import remove_all, remove_named
from pybpf.tracefs.dynevents.rules import MAX_LINE
from pybpf.tracefs.dynevents.synthetic import make_synthetic, run_synthetic
from pybpf.tracefs.dynevents.uprobe import make_uprobe
from pybpf.tracefs.dynevents.world import Kind, World

File = Literal["dynamic_events", "kprobe_events", "uprobe_events", "synthetic_events"]

_ONLY: Mapping[str, Kind] = {
    "kprobe_events": "kprobe",
    "uprobe_events": "uprobe",
    "synthetic_events": "synthetic",
}
_BUFFER = MAX_LINE + 2


@dataclass(frozen=True, slots=True)
class Verdict(Answer):
    """The kernel's answer to one write.

    ``errno`` is 0 where it is accepted; ``at`` says which call fails otherwise. ``written`` counts
    bytes, None where the call fails: lines before a refused one have taken effect all the same.
    ``made`` and ``removed`` are the events that are there or gone because of the write, ``after``
    the world then. ``assumptions`` says what was taken for granted for lack of knowledge.
    """

    errno: int
    at: Literal["open", "write"]
    written: int | None
    errors: tuple[LogEntry, ...]
    made: tuple[Existing, ...]
    removed: tuple[Existing, ...]
    after: World
    assumptions: tuple[str, ...]
    line: int
    """Where in the data, in bytes, the line begins that was refused; else the last line."""

    @property
    def listing(self) -> tuple[str, ...]:
        """The lines that the events which were made have in ``dynamic_events``."""
        return tuple(event.listed for event in self.made)

    @property
    def formats(self) -> Mapping[str, str | None]:
        """The format files of the events which were made, by ``group/event``; None: not known."""
        return {event.name: event.format for event in self.made}


def judge(
    data: str | bytes, world: World, *, file: File = "dynamic_events", truncate: bool = False
) -> Verdict:
    """Return what the kernel answers where ``data`` is written to ``file`` in one call.

    ``truncate`` says that the file is opened with O_TRUNC (a shell's ``>``), which removes events
    first. No text raises.
    """
    state = State(world)
    at: Literal["open", "write"] = "open"
    number, written = 0, None
    text = as_bytes(data)
    try:
        if truncate:
            remove_all(state, _ONLY.get(file))
        at = "write"
        _run(text, state, _runner(file, state))
        written = len(text)
    except Refused as refusal:
        number = refusal.errno
    return Verdict(
        number,
        at,
        written,
        tuple(state.log.entries),
        tuple(state.made),
        tuple(state.removed),
        replace(world, existing=tuple(state.events)),
        tuple(state.assumptions),
        state.line,
    )


def _run(data: str, state: State, run: Callable[[str], None]) -> None:
    """Give each line of a write to ``run``, without newline and comment. Raises Refused.

    The kernel reads 4095 bytes at a time and starts over at the line that does not end in them. It
    takes a NUL for the end of what it read, and never gets beyond it.
    """
    done = 0
    while done < len(data):
        piece = data[done : done + _BUFFER - 1].partition("\0")[0]
        place = 0
        while True:
            state.line = done
            end = piece.find("\n", place)
            if end >= 0:
                line, size = piece[place:end], end - place + 1
            else:
                line, size = piece[place:], len(piece) - place
                if done + size < len(data):
                    if place:
                        break
                    raise Refused(errno.EINVAL)
            done += size
            run(line.partition("#")[0])
            place += size
            if done >= len(data):
                return


def _runner(file: File, state: State) -> Callable[[str], None]:
    match file:
        case "synthetic_events":
            return lambda line: run_synthetic(line, state)
        case "kprobe_events":
            return lambda line: _run_probe(line, state, "kprobe")
        case "uprobe_events":
            return lambda line: _run_probe(line, state, "uprobe")
        case _:
            return lambda line: _run_any(line, state)


def _run_probe(line: str, state: State, kind: Kind) -> None:
    argv = words(line)
    if line.startswith("-"):
        remove_named(argv, state, kind)
    elif argv:
        try:
            (make_kprobe if kind == "kprobe" else make_uprobe)(argv, state)
        except NotMine:
            raise Refused(errno.EINVAL) from None


_MAKERS: tuple[tuple[Kind, Callable[[str, list[str], State], None]], ...] = (
    ("synthetic", lambda line, _, state: make_synthetic(line, state)),
    ("eprobe", lambda _, argv, state: make_eprobe(argv, state)),
    ("kprobe", lambda _, argv, state: make_kprobe(argv, state)),
    ("fprobe", lambda _, argv, state: make_fprobe(argv, state)),
    ("uprobe", lambda _, argv, state: make_uprobe(argv, state)),
)


def _run_any(line: str, state: State) -> None:
    argv = words(line)
    if line.startswith(("-", "!")):
        remove_named(argv, state)
        return
    if not argv:
        return
    for kind, make in _MAKERS:
        if kind not in state.world.lacking:
            with suppress(NotMine):
                make(line, argv, state)
                return
    if state.world.rules.logs_unknown_kind:
        state.log.plain("dynevent", Message.NO_MATCHING_TYPE, line, 0)
    raise Refused(errno.EINVAL)
