"""Where random scripts put clauses, and what can be said there: an architecture in, Places out.

The probes are those of ``testing.tracepoints`` and ``testing.recordings``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from pybpf.target.arch import ARCHES
from pybpf.testing.tracepoints import FIRST, FUNCTION, INTEGERS, SECOND

INTERVAL, PROFILE = "interval:153722867m", "profile:99hz"
"""Probes by the clock. That interval is the longest: it passes only where a recording says so."""

POINTERS = ("data->kernel_text", "data->user_text")
"""Pointers to texts, which a map would keep as they are."""


INSIDE = f"{FUNCTION}+0x4"
"""An instruction inside of a function."""
_PATTERNS = ("tracepoint", "*"), ("t", "@(first|sec?nd)")


@dataclass(frozen=True, slots=True)
class Place:
    """A probe, and what only its clauses can use: expressions by what they are, and statements.

    ``data``: it is a tracepoint; ``records``: the first one, whose records maps keep.
    """

    probe: str
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    data: bool = False
    records: bool = False


_TRACEPOINT = Place(
    SECOND,
    (
        *(f"data->{name}" for name in INTEGERS), "data->words[1]", "data->mac[5]",
        "data->common_pid", "data->common_type", "(*data).c", "(data->words)[0b10]",
        "data->name[3]", "*data->number", "data->number[1]", "*data->kernel_text",
        "data->user_text[1]",
    ),
    (
        "data->name", "data->text", "data->tail", "data->blob", "dyn(data->text, 5)",
        "dyn(data->tail, 300)", "dyn(data->blob, 3)", "dyn(data->blob)", "str(data->b)",
        "str(data->kernel_text, 3)", "str(data->kernel_text + 1)", "str(uptr(data->b), 9)",
        "mem(data->b, 4)", "mem(uptr(data->user_text), 2)", *POINTERS,
    ),
    (*POINTERS, "data->number", "uptr(data->b)"),
    ("data->words", "data->mac", "data->number"),
    data=True,
)  # fmt: skip


@cache
def places(arch: str) -> tuple[Place, ...]:
    """Return all places that there are on an architecture; most are tracepoints."""
    first = replace(_TRACEPOINT, probe=FIRST, values=(*_TRACEPOINT.values, "*data"), records=True)
    both = [replace(_TRACEPOINT, probe=f"{start}:test/{p}") for start, p in _PATTERNS]
    clocks = Place(INTERVAL), Place(PROFILE), Place("profile:1:99hz")
    entry, back = _entry(arch), _return(arch)
    inside = replace(entry, probe=f"kprobe:{INSIDE}")
    many = replace(entry, probe=f"{entry.probe}*"), replace(back, probe=f"kr:?(x){FUNCTION}")
    functions = entry, inside, back, *many
    return first, _TRACEPOINT, *both, *functions, Place("BEGIN"), Place("END"), *clocks


def _entry(arch: str) -> Place:
    arguments = tuple(f"arg{number}" for number in range(len(ARCHES[arch].arguments) + 4))
    return Place(
        f"kprobe:{FUNCTION}",
        ("caller", *arguments, *_registers(arch)),
        (
            "str(arg0)", "str(uptr(arg1), 9)", "mem(arg0, 4)", "mem(uptr(arg1))",
            f"str({arguments[-2]})", f"str(regs->{ARCHES[arch].arguments[0]})",
        ),
        ("uptr(arg1)", "uptr(caller)"),
        ("caller", "*regs", "arg2", f"regs->{ARCHES[arch].sp}"),
        (
            "@callers[caller] = count();", "@callers[caller] = sum(arg2);",
            f"@arguments[arg2, {arguments[-3]}] = quantize(arg3);", "entered[kpid] = caller;",
            "registers[cpu] = *regs;", "@registers[*regs] = count();", "contexts[cpu] = ctx;",
        ),
    )  # fmt: skip


def _return(arch: str) -> Place:
    return Place(
        f"kretprobe:{FUNCTION}",
        ("retval", "(retval < 0)", *_registers(arch)),
        ("str(retval)", "mem(uptr(retval), 4)"),
        ("uptr(retval)",),
        ("retval", "*regs"),
        ("@returned = quantize(retval);", "@failed[comm, -retval] = count();"),
    )


def _registers(arch: str) -> tuple[str, ...]:
    return tuple(f"regs->{register.name}" for register in ARCHES[arch].regs.fields)
