"""A verdict on a filter for people: why it is refused, or what it does not do, with a caret."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping

from pybpf.errors import Diagnostic, DynEventError, Severity, TargetError
from pybpf.source import Source, Span
from pybpf.suggest import suggest
from pybpf.tracefs.dynevents.ctext import as_bytes, restore
from pybpf.tracefs.dynevents.log import LogEntry
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.filters.fields import Fields, KernelField, Kind
from pybpf.tracefs.filters.judge import FilterVerdict, event_fields
from pybpf.tracefs.filters.messages import FilterFault, FilterMessage
from pybpf.tracefs.filters.parse import shown_place
from pybpf.tracefs.filters.rules import MAX_STRING
from pybpf.tracefs.filters.value import Comparison, Filter, Text, parts_of

DROPPED = "a refused filter drops the one before it: the event runs unfiltered until one is set"
KEPT = "the filter that was set stays"

_FIXED: Mapping[FilterMessage, str] = {
    FilterMessage.TOO_MANY_PREDS: "comparisons are joined by && and ||",
    FilterMessage.TOO_MANY_OPEN: "a ')' is missing",
    FilterMessage.TOO_MANY_CLOSE: "there is one ')' too many",
    FilterMessage.INVALID_FILTER: "a comparison is missing at the end",
    FilterMessage.MISSING_QUOTE: "a string ends at the next such quote; there are no escapes",
    FilterMessage.MISSING_BRACE_OPEN: "CPUs are CPUS{0-3,7}",
    FilterMessage.MISSING_BRACE_CLOSE: "CPUs are CPUS{0-3,7}",
    FilterMessage.OPERAND_TOO_LONG: f"a string has fewer than {MAX_STRING} bytes, a number 24",
    FilterMessage.EXPECT_STRING: 'the field is a string: quote what it is compared with, "…"',
    FilterMessage.ILLEGAL_FIELD_OP: "strings take == != ~, numbers all others, CPUS{} == != &",
    FilterMessage.NO_FUNCTION: "the kernel has no such function",
    FilterMessage.NO_FILTER: "a comparison is FIELD OPERATOR VALUE",
    FilterMessage.ERRNO: "a comparison is FIELD OPERATOR VALUE; 0 removes the filter",
}


def explain_filter(
    data: str | bytes, verdict: FilterVerdict, event: str, world: World, outcome: str = DROPPED
) -> DynEventError:
    """Return the error that tells why a filter of ``group/event`` is refused.

    ``outcome`` says what has become of the filter that was set, if it is of interest.
    """
    source = Source("<filter>", restore(as_bytes(data)))
    if not verdict.errors:
        reason = f"{os.strerror(verdict.errno)} ({errno.errorcode[verdict.errno]})"
        kept = ("a filter has fewer than 4096 bytes; the one that was set stays",)
        return DynEventError(Diagnostic(reason, Span(source, 0, 0), kept), verdict.errno)
    entry = verdict.errors[0]
    hints = filter_hints(entry, _fields(event, world), world) + ((outcome,) if outcome else ())
    return DynEventError(Diagnostic(entry.message, _span(source, entry), hints), verdict.errno)


def _fields(event: str, world: World) -> Fields | None:
    try:
        return event_fields(event, world)
    except TargetError:
        return None


def _span(source: Source, entry: LogEntry) -> Span:
    raw = as_bytes(entry.command)
    start, end = filter_place(entry)
    before = len(restore(raw[:start]))
    return Span(source, before, before + max(1, len(restore(raw[start:end]))))


def filter_place(entry: LogEntry) -> tuple[int, int]:
    """Return which bytes of its command an entry of a filter is about."""
    fault = FilterFault(0, FilterMessage(entry.message), entry.column)
    raw = as_bytes(entry.command)
    place = min(shown_place(fault), len(raw))
    if fault.message is FilterMessage.FIELD_NOT_FOUND:
        start = place
        while start and re.match(r"\w", raw[start - 1]):
            start -= 1
        return start, place
    return place, place + 1


def filter_hints(entry: LogEntry, fields: Fields | None, world: World) -> tuple[str, ...]:
    """Return what to change in a filter that was refused with ``entry``."""
    message = FilterMessage(entry.message)
    start, end = filter_place(entry)
    text = as_bytes(entry.command)
    rest = text[start:]
    match message:
        case FilterMessage.FIELD_NOT_FOUND:
            return _did_you_mean(restore(text[start:end]), fields)
        case FilterMessage.INVALID_OP:
            return _operator(rest)
        case FilterMessage.INVALID_VALUE:
            word = re.match(r"\w*", rest)
            if fields is not None and word is not None and word[0] in fields:
                return ("two fields cannot be compared with each other",)
            return ('strings need quotes: "…"',)
        case FilterMessage.EXPECT_DIGIT:
            hints = ("the field is a number: write it without quotes",)
            return (*hints, "an eprobe's argument is a string where it is made so: $comm:string")
        case FilterMessage.ILLEGAL_INTVAL if rest.startswith("-"):
            number = re.match(r"-\d{1,19}", rest)
            if number is None:
                return ()
            value = int(number[0])
            wide, narrow = value % (1 << 64), value % (1 << 32)
            return (f"the field is unsigned: write {narrow} for 32 bits, {wide} for 64",)
        case FilterMessage.ILLEGAL_INTVAL:
            return ("numbers are decimal, 0x… or 0…, of 64 bits",)
        case FilterMessage.INVALID_CPULIST:
            return (f"the kernel has {world.cpus} CPUs, from 0; a list is 0-3,7",)
        case _:
            return (_FIXED[message],) if message in _FIXED else ()


def _did_you_mean(name: str, fields: Fields | None) -> tuple[str, ...]:
    if fields is None:
        return ()
    if found := suggest(name, fields):
        return (f"did you mean {' or '.join(found)}?",)
    own = [name for name in fields if not name.startswith("common_") and fields[name].size]
    return (f"fields: {' '.join(own)}",) if own else ()


def _operator(rest: str) -> tuple[str, ...]:
    if rest.startswith("["):
        return ("elements of arrays cannot be compared: make an eprobe that fetches them",)
    if rest.startswith("."):
        return ("a field takes .ustring, where it points to user memory, and .function",)
    if rest.startswith("=~"):
        return ("matching a pattern is ~",)
    if rest.startswith("="):
        return ("equal is ==",)
    return ("operators are == != < <= > >= & and, for strings, == != ~",)


def filter_warnings(
    data: str | bytes, verdict: FilterVerdict, event: str, world: World, name: str = "<filter>"
) -> tuple[Diagnostic, ...]:
    """Return what an accepted filter of ``group/event`` does not do, though it looks like it."""
    text = restore(as_bytes(data))
    source = Source(name, text)
    found = []
    for part, message, hint in _warnings(verdict, event, world):
        place = max(text.find(part), 0)
        end = place + len(part) if part in text else place
        found.append(Diagnostic(message, Span(source, place, end), (hint,), Severity.WARNING))
    return tuple(found)


_Warning = tuple[str, str, str]


def _warnings(verdict: FilterVerdict, event: str, world: World) -> Iterator[_Warning]:
    if verdict.value is None:
        return
    fields = _fields(event, world)
    if fields is None:
        return
    for comparison in each_comparison(verdict.value):
        field = fields.get(comparison.field)
        if field is not None:
            yield from _comparison(comparison, field, event)
    for existing in world.existing:
        if existing.parent == event:
            message = f"the eprobe {existing.name} takes every hit, whatever the event's filter"
            yield "", message, "set a filter on the eprobe too"


def each_comparison(value: Filter) -> Iterator[Comparison]:
    """Yield the comparisons that a filter is made of, in order."""
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, Comparison):
            yield one
        todo += reversed(parts_of(one))


def _comparison(value: Comparison, field: KernelField, event: str) -> Iterator[_Warning]:
    match value.operand:
        case int(number) if field.kind is not Kind.CPU:
            yield from _number(value, number, field)
        case Text(text):
            yield from _text(value, text, field, event)
        case _:
            pass


def _number(value: Comparison, number: int, field: KernelField) -> Iterator[_Warning]:
    if field.size not in {1, 2, 4, 8}:
        message = f"{field.name} is {field.ctype}, of {field.size} bytes: this is never true"
        yield value.field, message, "make an eprobe that fetches a number from it"
        return
    bits = 8 * field.size
    low, high = (-(1 << bits - 1), 1 << bits - 1) if field.signed else (0, 1 << bits)
    if not low <= number < high:
        kept = number % (1 << bits)
        kept -= 1 << bits if field.signed and kept >= high else 0
        message = f"{field.name} has {bits} bits: it is compared with {kept}"
        yield str(number), message, f"values are {low} to {high - 1}"


def _text(value: Comparison, text: str, field: KernelField, event: str) -> Iterator[_Warning]:
    pointer = field.kind is Kind.POINTER_STRING
    if pointer and event.startswith("syscalls/") and not value.modifier:
        message = f"{field.name} points to user memory, which is read with .ustring only"
        yield value.field, message, f"write {field.name}.ustring"
    if value.modifier == "ustring" and not pointer:
        yield ".ustring", f"{field.name} is no pointer: .ustring has no effect", "remove it"
    if value.operator == "~" and re.match(r"[0-9].*[*?\[]", text, re.DOTALL):
        message = "a pattern that begins with a digit is compared as it is"
        yield text, message, f"write [{text[0]}]{text[1:]}"
    size = 16 if field.kind is Kind.COMM else field.size
    fixed = field.kind in {Kind.STATIC_STRING, Kind.COMM}
    if fixed and value.operator != "~" and len(as_bytes(text)) >= size:
        message = f"{field.name} has at most {size - 1} bytes: it never equals this"
        yield text, message, f'write ~ "{text[: size - 1]}*"'
