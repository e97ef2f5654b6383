"""Format files of dynamic events: name, fields and print format in, the file's text out.

Sources: f_show() of kernel/trace/trace_events.c, __set_print_fmt() of kernel/trace/trace_probe.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pybpf.dataclass import dataclass
from pybpf.tracefs.dynevents.argument import Argument


@dataclass(frozen=True, slots=True)
class Place:
    """A field as a format file shows it; the C type has its brackets: ``u8[16]``."""

    name: str
    ctype: str
    offset: int
    size: int
    signed: bool

    def __str__(self) -> str:
        declared = f"{self.ctype} {self.name}"
        if "[" in self.ctype and not self.ctype.startswith("__data_loc"):
            declared = f"{self.ctype.partition('[')[0]} {self.name}[]"
        return (
            f"\tfield:{declared};\toffset:{self.offset};\tsize:{self.size};"
            f"\tsigned:{int(self.signed)};"
        )


_COMMON = (
    Place("common_type", "unsigned short", 0, 2, signed=False),
    Place("common_flags", "unsigned char", 2, 1, signed=False),
    Place("common_preempt_count", "unsigned char", 3, 1, signed=False),
    Place("common_pid", "int", 4, 4, signed=True),
)
FIXED = 8
"""How many bytes of a record the common fields take."""

_IP = ("__probe_ip",)
_RETURN = ("__probe_func", "__probe_ret_ip")


def format_text(event: str, number: int, places: Iterable[Place], print_fmt: str) -> str:
    """Return the text of the format file of an event with the ID ``number``."""
    lines = [f"name: {event}", f"ID: {number}", "format:", *map(str, _COMMON), ""]
    return "\n".join([*lines, *map(str, places), "", f"print fmt: {print_fmt}", ""])


def eprobe_format(event: str, number: int, args: Sequence[Argument]) -> str:
    """Return the format file of an eprobe."""
    return format_text(event, number, _places(args, FIXED), _print_fmt("", (), args))


def probe_format(event: str, number: int, args: Sequence[Argument], *, returns: bool) -> str:
    """Return the format file of a probe of code, or of returns from it."""
    names = _RETURN if returns else _IP
    places = [
        Place(name, "unsigned long", FIXED + 8 * at, 8, signed=False)
        for at, name in enumerate(names)
    ]
    places += _places(args, FIXED + 8 * len(names))
    shown = "(%lx <- %lx)" if returns else "(%lx)"
    return format_text(event, number, places, _print_fmt(shown, names, args))


def _places(args: Sequence[Argument], start: int) -> list[Place]:
    return [
        Place(
            arg.name,
            arg.storage.ctype + (f"[{arg.count}]" if arg.count else ""),
            start + arg.offset,
            arg.size,
            arg.storage.signed,
        )
        for arg in args
    ]


def _print_fmt(shown: str, names: Sequence[str], args: Sequence[Argument]) -> str:
    text, values = shown, [f"REC->{name}" for name in names]
    for arg in args:
        one = arg.storage.fmt
        text += f" {arg.name}="
        text += f"{{{','.join([one] * arg.count)}}}" if arg.count else one
        items = [f"{arg.name}[{at}]" for at in range(arg.count)] if arg.count else [arg.name]
        values += [f"__get_str({i})" if arg.storage.string else f"REC->{i}" for i in items]
    return ", ".join([f'"{text}"', *values])
