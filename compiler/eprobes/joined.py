"""Strings of system calls, read when these return: a call and its arguments in, programs out.

When a call begins, the page that a string is in may not be there yet, and a program cannot wait for
it. So the addresses are kept, by thread, until the call returns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pybpf.compiler import tast
from pybpf.compiler.builtins.values import PID, VALUES
from pybpf.compiler.eprobes.definition import define
from pybpf.compiler.eprobes.family import family
from pybpf.compiler.eprobes.script import (
    CompiledEprobe,
    CompiledEprobes,
    both,
    compiled_script,
    emitted,
)
from pybpf.compiler.pipeline import Options
from pybpf.dataclass import dataclass
from pybpf.errors import TargetError
from pybpf.isa.insn import Program
from pybpf.script import MapRole, ProbeSpec, Provider
from pybpf.source import Source, Span
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target
from pybpf.tracefs.format import EventFormat
from pybpf.types import CHAR, LONG, ULONG, Array, Space

MAP = "begun"
"""The map of calls that have not returned, by thread: a 1, then the addresses."""
STRING_SIZE = 512
_CALL = re.compile(r"(?:syscalls[/.])?(?:sys_enter_)?(?P<name>[a-zA-Z_]\w*)", re.ASCII)
_RAW = re.compile(r"raw_syscalls[/.](?P<number>\d{1,6})", re.ASCII)
_ARGUMENT = re.compile(r"(?:(?P<name>[a-zA-Z_]\w*)=)?(?P<field>args\[(?P<index>[0-5])\]|\w+)")


@dataclass(frozen=True, slots=True)
class _Call:
    """The events of a call, which of them are meant (None: all), and where its arguments are."""

    name: str
    enter: str
    leave: str
    number: int | None
    places: dict[str, int]


def compile_strings(
    call: str,
    fields: Sequence[str],
    target: Target,
    options: Options | None = None,
    *,
    string_size: int = STRING_SIZE,
    pids: Sequence[int] = (),
) -> CompiledEprobes:
    """Compile the trace of a call such as ``openat`` or ``syscalls/openat``: strings and ``ret``.

    ``raw_syscalls/257`` is a call by its number, for kernels without events of each; its arguments
    are ``filename=args[1]``. ``pids`` are the processes that are traced, with what they start;
    none: all. Raises TargetError for a call or an argument that is none.
    """
    source = Source("<strings>", f"{call} {' '.join(fields)}")
    span = Span(source, 0, len(source.text))
    found = _call(call, fields, target)
    ours = family(pids, target, span)
    strings = "".join(f" {name}=$ret:ustring" for name in found.places)
    definition = define(f"e:strings/{found.name} {found.leave}{strings} ret=$ret:s64", target)
    count = 1 + len(found.places)
    kept = Array(ULONG, count)
    key = (tast.Context("kpid", VALUES["kpid"].type, span),)
    one = tast.Const(1, ULONG, span)
    addresses = [tast.CtxField(place, ULONG, span) for place in found.places.values()]
    keep = tast.Assign(MAP, key, tast.Parts((one, *addresses), kept, span), span)
    begun = tast.MapValue(MAP, key, kept, span)
    values: list[tast.Expr] = [
        tast.ReadString(
            tast.Select(begun, 8 * at, ULONG, span), Space.USER, Array(CHAR, string_size), span
        )
        for at in range(1, count)
    ]
    values.append(_of_call(found.leave, "ret", target, span))
    schema, emit, marks = emitted(0, values, span)
    ended = tast.Select(begun, 0, ULONG, span)
    probes = (
        *ours.probes,
        tast.Probe(
            (_spec(found.enter, span),),
            both(ours.condition, _is_call(found, found.enter, target, span), span),
            (keep,),
            span,
        ),
        tast.Probe(
            (_spec(found.leave, span),),
            both(
                _is_call(found, found.leave, target, span),
                tast.Compare("!=", ended, tast.Const(0, ULONG, span), span),
                span,
            ),
            (emit, tast.Delete(MAP, key, span)),
            span,
        ),
    )
    maps = (*ours.maps, tast.MapDecl(MAP, MapRole.MAP, (PID,), kept))
    typed = tast.TypedScript(source, probes, maps, (schema,))
    script = compiled_script(typed, target, options)
    return CompiledEprobes(script, (CompiledEprobe(definition, marks),))


def _call(call: str, fields: Sequence[str], target: Target) -> _Call:
    if raw := _RAW.fullmatch(call):
        enter, leave, number = "raw_syscalls/sys_enter", "raw_syscalls/sys_exit", int(raw["number"])
        name = f"syscall_{number}"
    elif match := _CALL.fullmatch(call):
        name, number = match["name"], None
        enter, leave = f"syscalls/sys_enter_{name}", f"syscalls/sys_exit_{name}"
    else:
        raise TargetError(
            f"'{call}' is no system call", hints=("such as openat, or raw_syscalls/257",)
        )
    places: dict[str, int] = {}
    for field in fields:
        own, place = _argument(field, enter, target)
        if own in places or own == "ret":
            raise TargetError(f"'{own}' is there already: give it a name, as in other={field}")
        places[own] = place
    return _Call(name, enter, leave, number, places)


def _argument(text: str, event: str, target: Target) -> tuple[str, int]:
    """Return the name of ``[NAME=]FIELD`` or ``NAME=args[N]``, and where in the record it is."""
    layout = _format(event, target)
    match = _ARGUMENT.fullmatch(text)
    whole = match["field"] if match else text
    index = int(match["index"] or 0) if match else 0
    found = layout.field("args" if match and match["index"] else whole)
    own = [f for f in layout.fields if not f.common]
    names = [f.name for f in own if f.name != "__syscall_nr"]
    if match is None or found not in own:
        near = did_you_mean(whole, names)
        raise TargetError(
            f"{event} has no argument '{whole}'{near}",
            hints=() if near else (f"it has {', '.join(names)}",),
        )
    return match["name"] or (f"arg{index}" if match["index"] else whole), found.offset + 8 * index


def _format(event: str, target: Target) -> EventFormat:
    try:
        return target.event_format(event)
    except TargetError as error:
        known = [n.removeprefix("syscalls/sys_enter_") for n in target.event_names()]
        name = event.removeprefix("syscalls/sys_enter_")
        near = did_you_mean(name, known) if name != event else ""
        hint = "where there are no events of calls, raw_syscalls/NUMBER is one by its number"
        raise TargetError(f"{error.message}{near}", hints=() if near else (hint,)) from None


def _is_call(call: _Call, event: str, target: Target, span: Span) -> tast.Expr | None:
    if call.number is None:
        return None
    number = _of_call(event, "id", target, span)
    return tast.Compare("==", number, tast.Const(call.number, LONG, span), span)


def _of_call(event: str, name: str, target: Target, span: Span) -> tast.Expr:
    found = _format(event, target).field(name)
    if found is None:
        raise TargetError(f"{event} has no field '{name}'")
    return tast.CtxField(found.offset, LONG, span)


def _spec(event: str, span: Span) -> ProbeSpec:
    return ProbeSpec(
        Provider.TRACEPOINT, f"tracepoint:{event}", Program(()), tracepoint=event, span=span
    )
