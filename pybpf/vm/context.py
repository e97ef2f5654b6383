"""The context a program gets for an event: a recorded event in, the bytes r1 points to out.

A tracepoint's is its record, as the format file lays it out; a kprobe's the registers; that of an
interval or a profile is struct bpf_perf_event_data:

     0                 n            n + 8           n + 16
    +-----------------+---------------+---------------+
    |    registers    | sample_period |     addr      |        n: the size of the arch's registers
    +-----------------+---------------+---------------+
"""

from __future__ import annotations

from pybpf.isa.insn import ByteOrder
from pybpf.script import ProbeSpec, Provider
from pybpf.suggest import did_you_mean
from pybpf.target.arch import Arch
from pybpf.target.target import Target
from pybpf.tracefs.format import EventField, EventFormat
from pybpf.types import Array, DataLoc, Int, Ptr, Type, is_string, size_of, strip
from pybpf.vm.recording import Datum, RecordedEvent

_U64 = (1 << 64) - 1
_STACK_POINTER = 0xFFFF_C900_0000_4000
"""Where the stack ends if nobody recorded it and a function has arguments there."""


def build_context(probe: ProbeSpec, event: RecordedEvent, target: Target) -> bytes:
    """Return the context of a probe's program for an event.

    Fields and registers that the recording lacks are 0. Raises SourceError for a field or register
    that the target does not have and for values that do not fit, TargetError for a tracepoint that
    it does not have.
    """
    byteorder = target.arch.byteorder
    match probe.provider:
        case Provider.BEGIN | Provider.END:
            return b""
        case Provider.TRACEPOINT | Provider.EPROBE:
            return _record(target.event_format(probe.tracepoint), event, byteorder)
        case Provider.KPROBE | Provider.KRETPROBE:
            return _registers(event, target)
        case Provider.INTERVAL | Provider.PROFILE:
            period = probe.period or (10**9 // probe.frequency if probe.frequency else 0)
            return (
                _registers(event, target)
                + period.to_bytes(8, byteorder)
                + (0).to_bytes(8, byteorder)
            )


def stack_arguments(event: RecordedEvent, arch: Arch) -> dict[int, bytes]:
    """Return the memory that holds the arguments beyond the registers, by address.

    They lie where the stack pointer says, recorded or not.
    """
    extra = event.args[len(arch.arguments) :]
    if not extra or arch.stack_arguments is None:
        return {}
    data = b"".join(value.to_bytes(8, arch.byteorder) for value in extra)
    stack = event.regs.get(arch.sp, _STACK_POINTER)
    return {(stack + arch.stack_arguments) & _U64: data}


def _registers(event: RecordedEvent, target: Target) -> bytes:
    arch = target.arch
    values = dict(zip(arch.arguments, event.args, strict=False))
    if len(event.args) > len(arch.arguments):
        values[arch.sp] = _STACK_POINTER
    if event.retval is not None:
        values[arch.retval] = event.retval
    values[arch.ip] = _instruction_pointer(event, target)
    for name, value in event.regs.items():
        if arch.regs.field(name) is None:
            hint = did_you_mean(name, [f.name for f in arch.regs.fields])
            raise event.fault(name, f"{arch.name} has no register '{name}'{hint}")
        values[name] = value
    data = bytearray(arch.regs.size)
    for register in arch.regs.fields:
        size = size_of(register.type)
        value = values.get(register.name, 0) & ((1 << size * 8) - 1)
        data[register.offset : register.offset + size] = value.to_bytes(size, arch.byteorder)
    return bytes(data)


def _instruction_pointer(event: RecordedEvent, target: Target) -> int:
    """Return where the event happened: the top of its stack, or the address of the function."""
    if event.stack:
        return event.stack[0]
    provider, _, place = event.probe.partition(":")
    if provider != Provider.KPROBE:
        return 0
    symbol, offset = split_place(place)
    if not symbol:
        return offset
    addresses = target.symbols.addresses(symbol)
    return addresses[0] + offset if addresses else 0


def split_place(place: str) -> tuple[str, int]:
    """Return the symbol and offset that ``vfs_read+0x10`` names; ``0x…`` is ("", an address)."""
    symbol, _, offset = place.partition("+")
    try:
        if place.startswith("0x"):
            return "", int(place, 0)
        return symbol, int(offset or "0", 0)
    except ValueError:
        return place, 0


def _record(layout: EventFormat, event: RecordedEvent, byteorder: ByteOrder) -> bytes:
    for name in event.data:
        if layout.field(name) is None:
            hint = did_you_mean(name, [f.name for f in layout.fields])
            raise event.fault(name, f"{layout.name} has no field '{name}'{hint}")
    return _Record(layout, event, byteorder).build()


class _Record:
    """A tracepoint's record, being laid out: fixed fields first, dynamic arrays behind them."""

    def __init__(self, layout: EventFormat, event: RecordedEvent, byteorder: ByteOrder) -> None:
        self._layout = layout
        self._event = event
        self._byteorder: ByteOrder = byteorder
        end = max((f.offset + f.size for f in layout.fields), default=0)
        self._data = bytearray(end)

    def build(self) -> bytes:
        values: dict[str, Datum] = {
            "common_type": self._layout.id & 0xFFFF,
            "common_pid": self._event.tid,
            **self._event.data,
        }
        for field in self._layout.fields:
            if field.name in values:
                self._put(field, values[field.name])
        # The kernel's records end on a multiple of 8 bytes.
        return bytes(self._data) + bytes(-len(self._data) % 8)

    def _put(self, field: EventField, value: Datum) -> None:
        t = strip(field.type)
        if isinstance(t, DataLoc):
            data = self._locate(field, t, value, field.offset)
        elif isinstance(t, Array) and isinstance(word := strip(t.element), DataLoc):
            elements = self._elements(field, value, t.count)
            words = [
                self._locate(field, word, element, field.offset + 4 * index)
                for index, element in enumerate(elements)
            ]
            data = b"".join(words)
        elif isinstance(t, Int | Ptr) and size_of(t) < field.size:
            # A system call's argument: the register holds it, extended.
            data = self._integer(field, Int(field.size, signed=True), value)
            offset = field.offset - (field.size - size_of(t) if self._byteorder == "big" else 0)
            self._data[offset : offset + field.size] = data
            return
        else:
            data = self._encode(field, t, value)
        self._data[field.offset : field.offset + len(data)] = data

    #      31      16 15       0
    #     +----------+----------+
    #     |  length  |  offset  |
    #     +----------+----------+
    def _locate(self, field: EventField, word: DataLoc, value: Datum, place: int) -> bytes:
        """Append a dynamic array; return the word that says where it is."""
        element = strip(word.element)
        if isinstance(value, bytes):
            data = value + b"\0" if is_string(Array(element, 1)) else value
        elif isinstance(value, tuple):
            data = b"".join(self._encode(field, element, each) for each in value)
        else:
            raise self._misfit(field, "is a dynamic array: give a string or a list")
        offset = len(self._data) - (place + 4 if word.relative else 0)
        if len(data) > 0xFFFF or offset > 0xFFFF:
            raise self._misfit(field, "is too long for a record")
        self._data += data
        return ((len(data) << 16) | offset).to_bytes(4, self._byteorder)

    def _encode(self, field: EventField, t: Type, value: Datum) -> bytes:
        t = strip(t)
        match t:
            case Int() | Ptr():
                return self._integer(field, t, value)
            case Array(element=element, count=count):
                if isinstance(value, bytes) and size_of(element) == 1:
                    if len(value) > count:
                        raise self._misfit(field, f"has room for {count} bytes, not {len(value)}")
                    return value.ljust(count, b"\0")
                elements = self._elements(field, value, count)
                data = b"".join(self._encode(field, element, each) for each in elements)
                return data.ljust(size_of(t), b"\0")
            case _:
                raise self._misfit(field, f"is of type '{t}', which cannot be recorded")

    def _elements(self, field: EventField, value: Datum, count: int) -> tuple[Datum, ...]:
        if not isinstance(value, tuple):
            raise self._misfit(field, "is an array: give a list")
        if len(value) > count:
            raise self._misfit(field, f"has {count} elements, not {len(value)}")
        return value

    def _integer(self, field: EventField, t: Int | Ptr, value: Datum) -> bytes:
        """Return an integer's bytes; any value of that many bits will do, signed or not."""
        if isinstance(value, bytes):
            try:
                value = int(value, 0)
            except ValueError:
                raise self._misfit(field, f"is of type '{t}': give an integer") from None
        if isinstance(value, tuple):
            raise self._misfit(field, f"is of type '{t}': give an integer")
        bits = size_of(t) * 8
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise self._misfit(field, f"is of type '{t}', which cannot hold {value}")
        return (value & ((1 << bits) - 1)).to_bytes(bits // 8, self._byteorder)

    def _misfit(self, field: EventField, what: str) -> Exception:
        return self._event.fault(field.name, f"'{field.name}' of {self._layout.name} {what}")
