"""What the compiler hands on: programs, the maps they need, the records they emit.

A CompiledScript is plain data. It is a function of the script's text and the Target, holds no file
descriptors, and is read by the loader, the VM, the record decoder and the object writer.
"""

from __future__ import annotations

from enum import StrEnum

from pybpf.dataclass import dataclass, field
from pybpf.isa.abi import MapType
from pybpf.isa.insn import Program
from pybpf.source import Source, Span
from pybpf.types import U64, Array, Struct, Type


class MapRole(StrEnum):
    """What a map is for. The first four belong to the script, the others to the run time."""

    MAP = "map"
    COUNT = "count"
    SUM = "sum"
    QUANTIZE = "quantize"
    EVENTS = "events"
    LOST = "lost"
    SCRATCH = "scratch"
    STACKS = "stacks"
    ZERO = "zero"
    CGROUP = "cgroup"
    TARGET = "target"


class Filled(StrEnum):
    """What a field of an array's keys is, where it is not a constant."""

    CPU = "cpu"
    """The CPU whose value it is."""
    STACK = "stack"
    """The id of a stack, or a negative errno: the index of the element, less STACK_ERRORS."""


STACK_ERRORS = 128
"""How many elements an array by stacks has in front, for the errnos of stacks that failed."""


@dataclass(frozen=True, slots=True)
class MapSpec:
    """A map a script needs. Sizes in bytes; ``value_size`` is that of one CPU's value.

    ``name`` is the script's (``@``, ``@reads``, ``start``) or, for the run time's own, begins
    with a dot. ``key`` is a Struct of the key fields (named ``0``, ``1``…) for a script's map, else
    None. ``value`` is what one entry means to the reader: the element type of a MAP, u64 of COUNT,
    u64 or s64 of SUM; for QUANTIZE the type of the argument, which decides the labels.
    ``failures`` is the index of this map's counter in the LOST map (None: it cannot fail).

    ``constants``: the only keys the script uses, as ``key`` lays them out. Such a map is an array
    (``key_size`` is that of an index into ``constants``), and an entry is there once any byte of
    its value is not zero; a SUM has a second u64 for that, which is 1 once the sum has begun.
    ``filled``: the fields of these keys, by their offsets, that are not constant but follow from
    where in the array a value is. With one that is a stack, there is one key in ``constants``.

    ``initial``: what the first element of an array begins as (nothing: as zeros).
    """

    name: str
    role: MapRole
    type: MapType
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    key: Struct | None = None
    value: Type | None = None
    failures: int | None = None
    constants: tuple[bytes, ...] = ()
    filled: tuple[tuple[int, Filled], ...] = ()
    initial: bytes = b""

    @property
    def buckets(self) -> int:
        """How many buckets a QUANTIZE map's value has."""
        return self.value_size // 8

    @property
    def content(self) -> Type:
        """What the value of one CPU consists of."""
        if self.role in {MapRole.MAP, MapRole.TARGET} and self.value is not None:
            return self.value
        number = self.value if self.role is MapRole.SUM and self.value is not None else U64
        return number if self.value_size == 8 else Array(number, self.value_size // 8)


class EventKind(StrEnum):
    """What a record asks user space to do."""

    PRINT = "print"
    PRINTF = "printf"
    EXIT = "exit"
    CLEAR = "clear"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class FieldArg:
    """An argument that travels in the record: the field of the payload with that name."""

    field: str


@dataclass(frozen=True, slots=True)
class ConstArg:
    """An argument known when the script was compiled; it does not travel."""

    value: int | bytes
    type: Type


@dataclass(frozen=True, slots=True)
class MapArg:
    """A whole map, printed from user space."""

    name: str


EventArg = FieldArg | ConstArg | MapArg


@dataclass(frozen=True, slots=True)
class Text:
    """A literal piece of a printf format."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Conversion:
    """One ``%`` conversion: flags, width, precision (None: not given) and conversion letter."""

    flags: str
    width: int | None
    precision: int | None
    letter: str


@dataclass(frozen=True, slots=True)
class EventSchema:
    """The layout and meaning of one kind of record.

    A record begins with a u32, the schema's ``id`` (its index in CompiledScript.events), in the
    byte order of the target. ``payload`` offsets count from the start of the record, the first is
    at least 4; the payload's size is the record's whole size, a multiple of 8. ``format`` belongs
    to PRINTF: the Conversions take ``args`` in order. A CLEAR has one MapArg. A RECORD is what an
    eprobe records: its ``args`` are all fields of the payload, the last of which say what memory
    could not be read.
    """

    id: int
    kind: EventKind
    payload: Struct
    args: tuple[EventArg, ...] = ()
    format: tuple[Text | Conversion, ...] = ()


class Provider(StrEnum):
    """What makes a probe fire."""

    BEGIN = "BEGIN"
    END = "END"
    KPROBE = "kprobe"
    KRETPROBE = "kretprobe"
    TRACEPOINT = "tracepoint"
    EPROBE = "eprobe"
    INTERVAL = "interval"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """A place in kernel text: a symbol plus a byte offset, or (no symbol) an absolute address.

    The symbol may be qualified by a module: ``dummy:dummy_xmit``.
    """

    symbol: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """One clause, compiled, and where it is to be attached.

    ``spec`` is as written. By provider: ``functions`` of a k(ret)probe, all that a glob matched
    (``glob``), and whether its program does with the registers that ftrace saves for everyone
    (``traced``); ``tracepoint`` as ``category/event``, of an eprobe that of its parent, which
    ``definition`` goes on from; ``period`` in nanoseconds of an interval;
    ``frequency`` in Hz and ``cpu`` (None: all) of a profile. ``span`` is where it was written.
    """

    provider: Provider
    spec: str
    program: Program
    functions: tuple[KernelFunction, ...] = ()
    glob: bool = False
    traced: bool = False
    tracepoint: str = ""
    definition: str = ""
    period: int = 0
    frequency: int = 0
    cpu: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


BUFFER = 1 << 23
"""The room for records, in bytes, where probes make them that may fire at any rate."""


@dataclass(frozen=True, slots=True)
class CompiledScript:
    """Everything a run needs. ``probes`` are in the order of the text, as BEGINs and ENDs run.

    ``cgroup`` is what the map of that role, if there is one, is to hold: the cgroup at a path, or
    the run's own (``self``). ``buffer_size`` is the room for records, in bytes.
    """

    source: Source
    arch: str
    probes: tuple[ProbeSpec, ...]
    maps: tuple[MapSpec, ...]
    events: tuple[EventSchema, ...]
    cgroup: str | None = None
    buffer_size: int = BUFFER

    def map(self, name: str) -> MapSpec:
        """Return the map called ``name``; raises KeyError."""
        for spec in self.maps:
            if spec.name == name:
                return spec
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a tracepoint's record, where its format file says that it is; sizes in bytes."""

    tracepoint: str
    name: str
    offset: int
    size: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Needs:
    """What code has in it of the target that it was compiled for, beside the architecture.

    ``release`` is that kernel's; only where code depends on its types (``types``) does another
    one's not do. ``features`` are those that the code makes use of. ``pids`` says whether it knows
    processes by their numbers, which are then those of ``pid_namespace``. ``fields`` are what it
    reads of records, ``events`` the ids of tracepoints and ``addresses`` the kernel's symbols that
    became constants, and ``environment`` what stood for ``$name``.
    """

    release: str
    features: tuple[str, ...] = ()
    pids: bool = False
    pid_namespace: tuple[int, int] | None = None
    types: bool = False
    fields: tuple[RecordField, ...] = ()
    events: tuple[tuple[str, int], ...] = ()
    addresses: tuple[tuple[str, int], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
