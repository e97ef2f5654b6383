r"""Recorded events: lines of JSON in, RecordedEvents out.

One object a line; empty lines are skipped. What is left out is 0 or empty, but ``probe`` must be
there, and ``tid`` is ``pid`` unless given:

    {"probe": "tracepoint:syscalls/sys_enter_read", "time": 1000, "cpu": 0,
     "pid": 7, "tid": 7, "uid": 0, "gid": 0, "comm": "dd",
     "data": {"fd": 0, "count": 512}, "args": [], "retval": 0, "regs": {"rax": 0},
     "stack": ["0xffffffff81000000"], "user_stack": [],
     "memory": {"0x7ffe0000": "a string", "0x7ffe1000": {"hex": "00 ff"}}}

``time`` is in nanoseconds. An integer may also be written as a string: ``"0x10"``. A string in
``memory`` ends in a NUL that is not written; bytes that are no UTF-8 are lone surrogates
``\udc80``…``\udcff``, as Python writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from pybpf.dataclass import dataclass, field
from pybpf.errors import Diagnostic, SourceError
from pybpf.script import Provider
from pybpf.source import Source, Span
from pybpf.suggest import did_you_mean

Datum = int | bytes | tuple["Datum", ...]
"""The value of a field of a tracepoint: an integer, text (or an integer in it), or elements."""

# A run fires BEGIN and END by itself, and eprobes with their parents.
_PROVIDERS = tuple(
    p.value for p in Provider if p not in {Provider.BEGIN, Provider.END, Provider.EPROBE}
)
_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1
_SIGNED = -(1 << 63)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """One event and all that programs may ask about it. ``span`` is the line it comes from.

    ``probe`` is a provider's full name, a colon, and a place: ``kprobe:vfs_read``. ``args`` and
    ``retval`` are those of the function; ``regs`` overrides single registers. ``stack`` and
    ``user_stack`` are return addresses, innermost first. ``memory`` holds pieces of kernel and user
    memory by address.
    """

    probe: str
    time: int = 0
    cpu: int = 0
    pid: int = 0
    tid: int = 0
    uid: int = 0
    gid: int = 0
    comm: bytes = b""
    data: Mapping[str, Datum] = field(default_factory=dict)
    args: tuple[int, ...] = ()
    retval: int | None = None
    regs: Mapping[str, int] = field(default_factory=dict)
    stack: tuple[int, ...] = ()
    user_stack: tuple[int, ...] = ()
    memory: Mapping[int, bytes] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False, repr=False)

    def fault(self, name: str, message: str) -> SourceError:
        """Return the error that something about the field ``name`` is wrong."""
        return SourceError(
            Diagnostic(message, None if self.span is None else _find(self.span, name))
        )


_NAMES = tuple(f.name for f in fields(RecordedEvent) if f.name != "span")


def _find(line: Span, name: str) -> Span:
    """Return where a line first has ``name`` as a JSON string, or the whole line."""
    import json

    quoted = json.dumps(name)
    at = line.text.find(quoted)
    return line if at < 0 else Span(line.source, line.start + at, line.start + at + len(quoted))


def read_events(source: Source) -> Iterator[RecordedEvent]:
    """Yield the events of a recording in their order.

    Raises SourceError, with the line and what is wrong there, for what is no JSON object and for
    unknown names, wrong types and numbers out of range.
    """
    start = 0
    for text in source.text.split("\n"):
        if text.strip():
            yield _Line(Span(source, start, start + len(text.rstrip()))).event()
        start += len(text) + 1


class _Line:
    """One line, being read."""

    def __init__(self, span: Span) -> None:
        self.span = span

    def event(self) -> RecordedEvent:
        values = self._object()
        for name in values:
            if name not in _NAMES:
                raise self._fault(name, f"unknown field '{name}'{did_you_mean(name, _NAMES)}")
        if "probe" not in values:
            raise self._fault("", "an event must name its 'probe'")
        pid = self._number("pid", values.get("pid", 0), 0, _U32)
        retval = values.get("retval")
        return RecordedEvent(
            probe=self._probe(values["probe"]),
            time=self._number("time", values.get("time", 0), 0, _U64),
            cpu=self._number("cpu", values.get("cpu", 0), 0, _U32),
            pid=pid,
            tid=self._number("tid", values.get("tid", pid), 0, _U32),
            uid=self._number("uid", values.get("uid", 0), 0, _U32),
            gid=self._number("gid", values.get("gid", 0), 0, _U32),
            comm=self._text("comm", values.get("comm", "")),
            data={k: self._datum(k, v) for k, v in self._mapping("data", values).items()},
            args=self._numbers("args", values),
            retval=None if retval is None else self._number("retval", retval, _SIGNED, _U64),
            regs={
                k: self._number(k, v, _SIGNED, _U64)
                for k, v in self._mapping("regs", values).items()
            },
            stack=self._numbers("stack", values),
            user_stack=self._numbers("user_stack", values),
            memory={
                self._number(k, k, 0, _U64): self._piece(k, v)
                for k, v in self._mapping("memory", values).items()
            },
            span=self.span,
        )

    def _fault(self, name: str, message: str, *hints: str) -> SourceError:
        place = _find(self.span, name) if name else self.span
        return SourceError(Diagnostic(message, place, hints))

    def _object(self) -> dict[str, Any]:
        import json

        try:
            found = json.loads(self.span.text)
        except json.JSONDecodeError as error:
            at = self.span.start + error.pos
            place = Span(self.span.source, at, at + 1)
            raise SourceError(Diagnostic(f"no JSON: {error.msg}", place)) from None
        except (ValueError, RecursionError) as error:
            raise SourceError(Diagnostic(f"no JSON: {error}", self.span)) from None
        if not isinstance(found, dict):
            raise self._fault("", f"an event is a JSON object, not {_kind(found)}")
        return found

    def _probe(self, value: object) -> str:
        if not isinstance(value, str):
            raise self._fault("probe", f"'probe' must be a string, not {_kind(value)}")
        provider, colon, place = value.partition(":")
        full = [name for name in _PROVIDERS if colon and provider and name.startswith(provider)]
        if full and provider not in full:
            raise self._fault(
                "probe",
                f"'{value}' names no event that can be recorded",
                f"here the provider has its full name: {full[0]}:{place}",
            )
        if provider not in _PROVIDERS or not colon:
            hint = did_you_mean(provider, _PROVIDERS)
            raise self._fault("probe", f"'{value}' names no event that can be recorded{hint}")
        return value

    def _number(self, name: str, value: object, low: int, high: int) -> int:
        found = _integer(value)
        if found is None:
            raise self._fault(name, f"'{name}' must be an integer, not {_kind(value)}")
        if not low <= found <= high:
            raise self._fault(name, f"'{name}' must be from {low} to {high} but is {found}")
        return found

    def _numbers(self, name: str, values: dict[str, Any]) -> tuple[int, ...]:
        found = values.get(name, [])
        if not isinstance(found, list):
            raise self._fault(name, f"'{name}' must be a list of integers, not {_kind(found)}")
        return tuple(self._number(name, value, _SIGNED, _U64) & _U64 for value in found)

    def _mapping(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        found = values.get(name, {})
        if not isinstance(found, dict):
            raise self._fault(name, f"'{name}' must be an object, not {_kind(found)}")
        return found

    def _text(self, name: str, value: object) -> bytes:
        if not isinstance(value, str):
            raise self._fault(name, f"'{name}' must be a string, not {_kind(value)}")
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise self._fault(name, f"'{name}' holds a surrogate that is no byte") from None

    def _datum(self, name: str, value: object, depth: int = 0) -> Datum:
        if isinstance(value, str):
            return self._text(name, value)
        if isinstance(value, list):
            if depth == _DEEPEST:
                raise self._fault(name, f"'{name}' holds lists more than {_DEEPEST} deep")
            return tuple(self._datum(name, element, depth + 1) for element in value)
        return self._number(name, value, _SIGNED, _U64)

    def _piece(self, name: str, value: object) -> bytes:
        if isinstance(value, str):
            return self._text(name, value) + b"\0"
        if isinstance(value, dict) and value.keys() == {"hex"} and isinstance(value["hex"], str):
            try:
                return bytes.fromhex(value["hex"])
            except ValueError:
                raise self._fault(name, f"'{name}' is no hexadecimal bytes") from None
        raise self._fault(
            name, f"""'{name}' must be a string or {{"hex": "…"}}, not {_kind(value)}"""
        )


def _integer(value: object) -> int | None:
    """Return an integer, or the one written in a string as Python or C does; None for others."""
    if isinstance(value, str):
        try:
            return int(value, 0)
        except ValueError:
            return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_DEEPEST = 8
_KINDS = {bool: "a boolean", int: "an integer", float: "a fraction", str: "a string"}


def _kind(value: object) -> str:
    """Name the kind of a JSON value."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return _KINDS.get(type(value), "null")
