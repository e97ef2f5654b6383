"""Values of fetch arguments: a parent's record and a fetch argument in, a value out.

Source: get_event_field() of kernel/trace/trace_eprobe.c, kernel/trace/trace_probe_tmpl.h.
"""

from __future__ import annotations

from collections.abc import Mapping

from pybpf.events.eprobes.memory import ALL, UNKNOWN, Known, Outcome, Pointer, read
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.dynevents.rules import Rules
from pybpf.tracefs.fetch import (
    Builtin,
    Deref,
    Fetch,
    Field,
    Immediate,
    Memory,
    SymbolMemory,
    Text,
)
from pybpf.tracefs.format import EventField, parse_declaration
from pybpf.types import size_of

Fetched = int | Pointer | Outcome
"""A value of 64 bits without sign, or an address of something in the kernel."""

_COMM = 16


class Fetcher:
    """Works out fetch arguments on one record of the parent."""

    __slots__ = ("byteorder", "fields", "known", "record", "rules")

    def __init__(
        self,
        record: bytes,
        fields: Mapping[str, EventField],
        rules: Rules,
        known: Known,
        byteorder: ByteOrder,
    ) -> None:
        self.fields = fields
        self.byteorder: ByteOrder = byteorder
        # What the ring buffer padded the record with was not there when the eprobe read it.
        self.record = record[: self._end(record)]
        self.rules = rules
        self.known = known

    def _end(self, record: bytes) -> int:
        """Return where the record ends, its strings included."""
        end = 0
        for field in self.fields.values():
            end = max(end, field.offset + field.size)
            location = parse_declaration(field.declaration).location
            for at in range(field.offset, field.offset + field.size, 4) if location else ():
                word = int.from_bytes(record[at : at + 4], self.byteorder)
                start = at + 4 if location == "__rel_loc" else 0
                end = max(end, start + (word & 0xFFFF) + (word >> 16))
        return end

    def value(self, fetch: Fetch) -> Fetched:
        """Return what a fetch argument without paths gives before it is stored."""
        match fetch:
            case Field(name=name):
                return self._field(self.fields[name])
            case Builtin(name="comm"):
                comm = self.known.comm
                return Pointer(None if comm is None else comm.ljust(_COMM, b"\0"))
            case Immediate(value=value):
                return value & ALL
            case Text(text=text):
                return Pointer(text.encode("utf-8", "surrogateescape") + b"\0")
            case _:
                deref = as_deref(fetch, self.known)
                return UNKNOWN if deref is None else self.word(deref)

    def word(self, deref: Deref, ahead: int = 0) -> Fetched:
        """Return the 8 bytes that a dereference reads, ``ahead`` bytes on from its own."""
        found = self.bytes_at(deref, 8, ahead)
        return found if isinstance(found, Outcome) else int.from_bytes(found, self.byteorder)

    def bytes_at(self, deref: Deref, size: int, ahead: int = 0) -> bytes | Outcome:
        """Return ``size`` bytes that a dereference reads, ``ahead`` bytes on."""
        base = self.value(deref.base)
        return read(base, deref.offset + ahead, size, self.known.memory, user=deref.user)

    def _field(self, field: EventField) -> Fetched:
        """Return a field as a value; strings, and in new kernels long arrays, as their address."""
        kind = string_kind(field)
        if kind == "static":
            return self._inside(field.offset)
        if kind:
            # Meant is an offset from the end of the word; eprobes take its beginning.
            start = field.offset if kind == "relative" else 0
            word = self._load(field.offset, 4)
            return word if isinstance(word, Outcome) else self._inside(start + (word & 0xFFFF))
        start = field.offset
        if self.byteorder == "big":
            # A system call's argument: the type is narrower than its 8 bytes.
            start -= max(0, field.size - size_of(field.type))
        if field.size in {1, 2, 4, 8}:
            return self._load(start, field.size, signed=field.signed)
        if self.rules.array_address:
            return self._inside(start)
        return self._load(start, 8, signed=field.signed)

    def _inside(self, offset: int) -> Pointer:
        return Pointer(self.record, offset, self.known.record_address)

    def _load(self, offset: int, size: int, *, signed: bool = False) -> int | Outcome:
        found = self.record[offset : offset + size]
        if len(found) < size:
            return UNKNOWN
        return int.from_bytes(found, self.byteorder, signed=signed) & ALL


def as_deref(fetch: Fetch, known: Known) -> Deref | None:
    """Return what reads memory as a dereference; None for the rest, and an unknown symbol."""
    match fetch:
        case Deref():
            return fetch
        case Memory(address=address):
            return Deref(0, Immediate(address))
        case SymbolMemory(symbol=symbol, offset=offset):
            found = None if known.address_of is None else known.address_of(symbol)
            return None if found is None else Deref(offset, Immediate(found))
        case _:
            return None


def string_kind(field: EventField) -> str:
    """Return how a field is a string to the kernel, empty if it is none.

    It asks whether ``char`` is in the type's text, see filter_assign_type(). A ``char *`` is to
    eprobes the number that it is.
    """
    declared = parse_declaration(field.declaration)
    if "char" not in declared.type_name:
        return ""
    if declared.location:
        return "relative" if declared.location == "__rel_loc" else "dynamic"
    return "static" if declared.dimensions else ""
