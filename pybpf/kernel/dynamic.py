"""Dynamic events that no program can be put on: an event's name in; the refusal, with advice, out.

A program on the event of a kprobe or uprobe gets registers, not the record. On all others the
kernel refuses programs (6.1, 6.12, 7.3), or takes them and never runs them (synthetic events, 7.3).
"""

from __future__ import annotations

import errno

from pybpf.errors import KernelError, TargetError
from pybpf.kernel.tracefs import open_tracefs

_LISTING = "dynamic_events"
_KINDS = {
    "e": "an event probe",
    "p": "a kprobe event",
    "r": "a kretprobe event",
    "f": "an fprobe event",
    "t": "an event on a raw tracepoint",
    "s": "a synthetic event",
}


_NOWHERE = "at which the kernel runs no programs"
_REGISTERS = "of which programs get the registers, not the fields"


def check_event(name: str) -> None:
    """Raise KernelError where the event called ``group/name`` is a dynamic one."""
    try:
        with open_tracefs() as tree:
            listing = tree.read(_LISTING)
    except (FileNotFoundError, TargetError):
        return
    hints = why_not(name, listing)
    if hints:
        raise KernelError(errno.EOPNOTSUPP, f"cannot attach to tracepoint:{name}", hints=hints)


# line: kind [maxactive] ':' group '/' name ' ' place {' ' argument}, or a tab before the fields
def why_not(name: str, listing: str) -> tuple[str, ...]:
    """Return why no program runs at an event, and what to write instead; nothing if one does.

    ``listing`` is the text of ``dynamic_events``.
    """
    for line in listing.splitlines():
        head, *words = line.split()
        kind, _, own = head.partition(":")
        if own == name and kind[:1] in _KINDS:
            what = "an uprobe event" if _is_uprobe(kind, words) else _KINDS[kind[0]]
            registers = kind[0] in {"p", "r"}
            return (
                f"it is {what}, {_REGISTERS if registers else _NOWHERE}",
                *_instead(kind, words),
                f"`pybpf events trace {name}` records it",
            )
    return ()


def _is_uprobe(kind: str, words: list[str]) -> bool:
    return kind[:1] in {"p", "r"} and bool(words) and words[0].startswith("/")


def _instead(kind: str, words: list[str]) -> tuple[str, ...]:
    """Return what does the same in a script."""
    match kind[:1], words:
        case "e", [_, *_]:
            definition = " ".join(words).replace("\\", "\\\\").replace('"', '\\"')
            return (f'write eprobe:"{definition}"',)
        case (("p" | "r"), [place, *_]) if not _is_uprobe(kind, words):
            return (f"write {'kprobe' if kind[0] == 'p' else 'kretprobe'}:{place}",)
        case "f", [place, *_]:
            symbol, returns, _ = place.partition("%return")
            return (f"write {'kretprobe' if returns else 'kprobe'}:{symbol}",)
        case _:
            return ()
