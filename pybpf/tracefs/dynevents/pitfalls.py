"""What a kernel accepts but does not do: a write and its verdict in, warnings out.

Each warning says what happens instead and, where there is one, which form does what was meant. The
facts were observed on kernels 6.1, 6.12 and 7.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pybpf.errors import Diagnostic, Severity
from pybpf.source import Source, Span
from pybpf.tracefs.dynevent import Eprobe, Fprobe, Synthetic, Tprobe
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.context import Op
from pybpf.tracefs.dynevents.ctext import as_bytes, restore, words
from pybpf.tracefs.dynevents.existing import Existing
from pybpf.tracefs.dynevents.judge import Verdict
from pybpf.tracefs.dynevents.rules import MAX_ARGS
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.fetch import Builtin, Deref, Field, Text
from pybpf.tracefs.format import EventField, EventFormat, parse_format
from pybpf.types import Array, DataLoc, Int, Ptr

_FILES = frozenset({"enable", "filter", "header_page", "header_event"})
_POINTER = 8
_SCALARS = frozenset({1, 2, 4, 8})


def warnings(
    data: str | bytes, verdict: Verdict, world: World, name: str = "<definition>"
) -> tuple[Diagnostic, ...]:
    """Return what is wrong with what ``verdict`` accepts of ``data``, in the order written."""
    text = restore(as_bytes(data))
    source = Source(name, text)
    found = []
    for event in verdict.made:
        for part, message, hint in _event(event, text, verdict, world):
            place = text.find(part) if part else -1
            span = Span(source, max(place, 0), max(place, 0) + len(part) if place >= 0 else 0)
            hints = (hint,) if hint else ()
            found.append(Diagnostic(message, span, hints, Severity.WARNING))
    found += [
        Diagnostic(message, Span(source, 0, 0), (hint,), Severity.WARNING)
        for message, hint in _removals(text, verdict)
    ]
    return tuple(found)


_Warning = tuple[str, str, str]
"""The part of the text that it is about, what happens, what to write instead."""


def _event(event: Existing, text: str, verdict: Verdict, world: World) -> Iterator[_Warning]:
    yield from bad_names(event, world)
    yield from _excess(event, text)
    match event.value:
        case Eprobe(filter=condition):
            if condition is not None:
                message = "the filter is in no listing: the event cannot be made again from it"
                yield condition.split()[0], message, "keep the definition"
            fields = _fields(event, verdict, world)
            for arg in event.args:
                yield from _argument(arg, fields, world)
        case Fprobe(returns=True) if "%return" not in text:
            yield "$retval", "$retval turns the probe into one of returns", "write SYMBOL%return"
        case Synthetic(fields=members):
            names = [member.name for member in members]
            if twice := next((name for name in names if names.count(name) > 1), None):
                yield twice, f"two fields are called {twice}", "give each a name of its own"
        case Tprobe(tracepoint=tracepoint) if _is_absent(tracepoint, world):
            message = f"no tracepoint is called {tracepoint}: the event waits for one"
            yield tracepoint, message, "t takes the tracepoint's own name, such as sched_switch"
        case _:
            pass
    if any(_is_stale(arg) for arg in event.args):
        texts = [arg.text for arg in event.args if _is_stale(arg)]
        message = "where its memory cannot be read, such a value is what was in the buffer before"
        yield texts[0], message, "only strings show a fault: (fault)"


def bad_names(event: Existing, world: World) -> Iterator[_Warning]:
    """Yield which of an event's names a kernel takes, and should not have been given."""
    for name in (event.group, event.event):
        if not name.isascii():
            yield name, "a name beyond ASCII is taken byte by byte, and may be cut", "use a to z"
        elif name in _FILES:
            message = f"tracefs has files called {name}"
            if not world.rules.mount_names:
                message += ": this kernel makes no folder of that name, so it cannot be enabled"
            yield name, message, "take another name"


def _excess(event: Existing, text: str) -> Iterator[_Warning]:
    for line in text.split("\n"):
        argv = words(line)
        if len(event.args) == MAX_ARGS < len(argv) - 2 and "if" not in argv:
            message = f"this kernel silently drops all arguments after {MAX_ARGS}"
            yield argv[MAX_ARGS + 2], message, "make a second event"
    match = re.match(r"\s*[pr]\d[^\s:]*:(\S+)\s+\S*/", text)
    if event.kind == "uprobe" and match and not event.value.event:  # type: ignore[union-attr]
        message = f"the name is overlooked after a number: the event is {event.name}"
        yield match[1], message, "write r:GROUP/EVENT"


def _is_absent(tracepoint: str, world: World) -> bool:
    types, formats = world.types, world.formats
    if types is not None and types.complete:
        return types.function(f"__probestub_{tracepoint}") is None
    if formats is None:
        return False
    return all(not name.endswith(f"/{tracepoint}") for name in formats)


def _fields(event: Existing, verdict: Verdict, world: World) -> EventFormat | None:
    for other in verdict.after.existing:
        if other.name == event.parent and other.format is not None:
            return parse_format(other.format)
    formats = world.formats
    parent = event.parent
    return formats[parent] if formats and parent is not None and parent in formats else None


def _is_stale(arg: Argument) -> bool:
    reads = Op.DEREF in arg.ops or Op.UDEREF in arg.ops
    return reads and not arg.storage.string


def _argument(arg: Argument, event: EventFormat | None, world: World) -> Iterator[_Warning]:
    fetch, typed = arg.value.fetch, arg.value.type is not None
    body = arg.text.partition(":")[0]
    if body.startswith(("+", "-")) and not body.endswith(")"):
        yield body, "what follows the last ) is ignored", body[: body.rindex(")") + 1]
    if arg.storage.name == "symstr":
        message = "what is no address of a symbol has no end, and runs into the text after it"
        yield arg.text, message, f"{body}:symbol"
    match fetch:
        case Builtin("comm") if not typed:
            yield arg.text, "without a type this is the address of the text", f"{body}:string"
        case Builtin("comm") if arg.storage.name == "ustring":
            yield arg.text, "the name is no memory of user space: always (fault)", f"{body}:string"
        case Text() if not typed:
            yield arg.text, "without a type this is the address of the text", f"{body}:string"
        case Field("comm", bare=False) if typed and event is not None and event.field("comm"):
            message = "this is the field comm of the event, not the name of the process"
            yield arg.text, message, ""
        case Field(name=name) if event is not None and (field := event.field(name)):
            yield from _field(arg, body, field, world)
        case Deref(offset, Field(name=name)) if event is not None and (field := event.field(name)):
            yield from _from_field(arg, offset, field, world)
        case _:
            pass


def _field(arg: Argument, body: str, field: EventField, world: World) -> Iterator[_Warning]:
    if _is_text(field):
        if arg.value.type is None:
            yield arg.text, "without a type this is the address of the text", f"{body}:string"
        elif not arg.storage.string and arg.storage.size < _POINTER:
            yield arg.text, "this is the address of the text, cut short", f"{body}:string"
    elif _is_array(field) and not world.rules.array_address:
        message = "on this kernel an array field stands for its first 8 bytes, not its address"
        yield arg.text, message, _instead_of(field)
    elif arg.storage.string and isinstance(field.type, Int) and field.size < 8:
        message = f"{field.name} is a number: text is read from that address, always (fault)"
        yield arg.text, message, body


def _from_field(arg: Argument, offset: int, field: EventField, world: World) -> Iterator[_Warning]:
    if _is_text(field) or isinstance(field.type, Ptr):
        return
    if not isinstance(field.type, Array):
        return
    if field.size in _SCALARS or not world.rules.array_address:
        what = "its value" if field.size in _SCALARS else "its first 8 bytes"
        message = f"on this kernel ${field.name} is {what}, not an address: nothing can be read"
        yield arg.text, message, _instead_of(field)
    elif arg.storage.string:
        message = f"this reads a text at the address of {field.name}[{offset // 8}] itself: (fault)"
        yield arg.text, message, f"+0({arg.text.partition(':')[0]}):{arg.storage.name}"


def _instead_of(array: EventField) -> str:
    """Return where the elements of an array are, whose address cannot be had."""
    calls = array.name == "args"
    return "the events syscalls/sys_enter_* have each argument as a field" if calls else ""


def _is_text(field: EventField) -> bool:
    match field.type:
        case DataLoc():
            return True
        case Array(Int(1)):
            return "char" in field.declaration
        case _:
            return False


def _is_array(field: EventField) -> bool:
    return isinstance(field.type, Array) and field.size not in _SCALARS


def _removals(text: str, verdict: Verdict) -> Iterator[tuple[str, str]]:
    if re.match(r"-:[^/\s]+\s*$", text) and len(verdict.removed) > 1:
        names = ", ".join(event.name for event in verdict.removed)
        yield f"without a group this removes {names}", "write -:GROUP/EVENT"
    names_made = {event.name for event in verdict.made if event.kind == "synthetic"}
    for event in verdict.after.existing:
        if event.name in names_made and event.kind != "synthetic":
            yield f"{event.name} is there already, and hides the new event", "take another name"
