"""The offline evaluator: an eprobe's definition and its parent's record in, its record out.

    evaluate = Evaluator("e:g/e sched.sched_switch pid=$prev_pid comm=$prev_comm:string", parent)
    evaluate(payload).text     # 'e: (sched.sched_switch) pid=0x7b comm="bash"'

What depends on memory that is not in the parent's record, and was not given either, is marked as
unknown, in the values, in the bytes and in the text.
"""

from __future__ import annotations

from pybpf.btf.reader import Btf
from pybpf.dataclass import dataclass
from pybpf.errors import EventError
from pybpf.events.eprobes.fetching import Fetched, Fetcher, as_deref
from pybpf.events.eprobes.holds import holds
from pybpf.events.eprobes.memory import (
    ALL,
    FAULT,
    NOTHING,
    UNKNOWN,
    Known,
    Outcome,
    Pointer,
    read_string,
)
from pybpf.events.eprobes.paths import Plain, plain
from pybpf.events.eprobes.slots import Slots
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.dynevent import Eprobe
from pybpf.tracefs.dynevents.argument import Argument
from pybpf.tracefs.dynevents.explain import the_eprobe
from pybpf.tracefs.dynevents.judge import judge
from pybpf.tracefs.dynevents.layout import FIXED
from pybpf.tracefs.dynevents.rules import NEWEST, Rules, rules_for
from pybpf.tracefs.dynevents.world import World
from pybpf.tracefs.fetch import Bits, Deref
from pybpf.tracefs.filters.parse import parse_filter
from pybpf.tracefs.format import EventFormat

Value = int | str | Outcome | tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What the eprobe records of a hit.

    ``values`` are by name: int, str, a tuple for an array; `UNKNOWN`, or `FAULT` for a string that
    the kernel could not read. ``data`` are the record's bytes as far as their places are known;
    ``mask`` has 1 for each that is known and 0 for the others. ``size`` is None where it depends
    on an unknown string. ``fires`` is False where the filter does not let it through, None where
    that depends on what is not known. In ``text``, what is not known is ``?``.
    """

    values: dict[str, Value]
    data: bytes
    mask: bytes
    size: int | None
    text: str
    fires: bool | None

    @property
    def complete(self) -> bool:
        """Whether all values are known."""
        return not any(_unknown(value) for value in self.values.values())

    @property
    def dropped(self) -> bool:
        """Whether the record is too long for a page, so that the kernel loses it silently."""
        return self.size is not None and self.size > _LARGEST

    def agrees(self, data: bytes) -> bool:
        """Whether a record of the kernel has every byte that is known."""
        if self.size is not None and len(data) != self.size:
            return False
        known = zip(self.data, self.mask, data, strict=False)
        return len(data) >= len(self.data) and all(a == b for a, sure, b in known if sure)


_LARGEST = 4072
"""The longest record of the ring buffer with pages of 4096 bytes: BUF_MAX_DATA_SIZE."""


class Evaluator:
    """Evaluates one definition on records of its parent, by the rules of a kernel.

    ``number`` is the ID that the eprobe got, part of its records. Raises DynEventError where the
    kernel refuses the definition, and TargetError for a ``kernel`` that is none.
    """

    def __init__(
        self,
        definition: str | Eprobe,
        parent: EventFormat,
        kernel: str | Rules = NEWEST,
        *,
        types: Btf | None = None,
        number: int | None = None,
        byteorder: ByteOrder = "little",
    ) -> None:
        self.rules = kernel if isinstance(kernel, Rules) else rules_for(kernel)
        text = str(definition)
        target = next((word for word in text.split()[1:2]), "").replace("/", ".", 1)
        world = World(self.rules, formats={target.replace(".", "/", 1): parent}, types=types)
        verdict = judge(text, world)
        made = the_eprobe(text, verdict, world)
        assert isinstance(made.value, Eprobe)
        self.definition = made.value
        self.event = made.event
        self.number = number
        self._parent = {field.name: field for field in reversed(parent.fields)}
        self._byteorder: ByteOrder = byteorder
        self._args = [(arg, plain(arg.value.fetch, types)) for arg in made.args]
        self._fixed = FIXED + sum(arg.size for arg in made.args)
        # Without types, how much place a member of a structure takes is not known.
        guessed = [FIXED + arg.offset for arg in made.args if not arg.known]
        self._certain = min(guessed, default=self._fixed)
        condition = self.definition.filter
        self._filter = None if condition is None else parse_filter(condition, self.rules)

    def __call__(self, record: bytes, known: Known = NOTHING) -> Evaluated:
        """Return what the eprobe records where its parent recorded ``record``.

        Raises EventError for bytes that are no record.
        """
        if len(record) < FIXED:
            raise EventError(f"{self.event}: {len(record)} bytes are no record of the parent")
        fetcher = Fetcher(record, self._parent, self.rules, known, self._byteorder)
        slots = Slots(self._fixed, self._byteorder, self._certain)
        self._head(record, slots)
        for arg, fetch in self._args:
            if fetch is None:
                slots.unknown(arg)
            elif arg.storage.string:
                _store_strings(arg, fetch, fetcher, slots)
            else:
                _store_numbers(arg, fetch, fetcher, slots)
        slots.finish()
        values = {arg.name: slots.value(arg) for arg, _ in self._args}
        shown = "".join(f" {arg.name}={slots.text(arg, known.symbols)}" for arg, _ in self._args)
        fires = True if self._filter is None else holds(self._filter, fetcher)
        return Evaluated(
            values,
            bytes(slots.data),
            bytes(slots.mask),
            slots.size,
            f"{self.event}: ({self.definition.target}){shown}",
            fires,
        )

    def _head(self, record: bytes, slots: Slots) -> None:
        """Store what all records begin with; preemption is off once more than in the parent.

        The flags are the parent's unless the need to reschedule came up in between.
        """
        if self.number is not None:
            slots.put(0, self.number.to_bytes(2, self._byteorder))
        slots.put(3, bytes([(record[3] + 1) & 0xFF]))
        slots.put(4, record[4:8])


def _store_numbers(arg: Argument, fetch: Plain, fetcher: Fetcher, slots: Slots) -> None:
    """Store an argument that is no string; what cannot be read keeps what was in the slot."""
    size, count = arg.storage.size, arg.count or 1
    deref = as_deref(fetch.fetch, fetcher.known)
    for at in range(count):
        found: bytes | Outcome
        if deref is not None:
            found = fetcher.bytes_at(deref, size, at * size)
        else:
            found = _as_bytes(fetcher.value(fetch.fetch), size, fetcher)
        if not isinstance(found, Outcome):
            bits = _bits(arg, fetch)
            if bits is not None:
                found = _bit_field(found, bits, fetcher)
            slots.put(FIXED + arg.offset + at * size, found)


def _as_bytes(value: Fetched, size: int, fetcher: Fetcher) -> bytes | Outcome:
    if isinstance(value, Pointer):
        value = value.address
    if isinstance(value, Outcome):
        return value
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, fetcher.byteorder)


def _bits(arg: Argument, fetch: Plain) -> tuple[int, int] | None:
    """Return the offset and width of the bit field that an argument is, or None."""
    declared = arg.value.type.base if arg.value.type is not None else None
    if isinstance(declared, Bits):
        return declared.offset, declared.width
    return fetch.bits if arg.value.type is None else None


def _bit_field(data: bytes, bits: tuple[int, int], fetcher: Fetcher) -> bytes:
    offset, width = bits
    value = int.from_bytes(data, fetcher.byteorder) >> offset & ((1 << width) - 1)
    return value.to_bytes(len(data), fetcher.byteorder)


def _store_strings(arg: Argument, fetch: Plain, fetcher: Fetcher, slots: Slots) -> None:
    place = FIXED + arg.offset
    if arg.storage.name == "symstr":
        slots.put_string(place, _symbol(fetcher.value(fetch.fetch), fetcher.known))
        return
    user = arg.storage.name == "ustring"
    memory = fetcher.known.memory
    deref = as_deref(fetch.fetch, fetcher.known)
    if fetch.pointer and deref is not None:
        deref = Deref(0, deref, user)
    if arg.count:
        _store_array(arg, fetch, deref, fetcher, slots)
    elif deref is not None:
        base = fetcher.value(deref.base)
        user = user or deref.user
        slots.put_string(place, read_string(base, deref.offset, memory, user=user))
    else:
        value = fetcher.value(fetch.fetch)
        slots.put_string(place, read_string(value, 0, memory, user=user))


def _store_array(
    arg: Argument, fetch: Plain, deref: Deref | None, fetcher: Fetcher, slots: Slots
) -> None:
    """Store an array of strings, whose pointers follow each other in memory.

    Where one of the pointers cannot be read, the kernel gives the array up as a whole, and what is
    in all but its first slot is chance. Without a dereference there is but one pointer.
    """
    user = arg.storage.name == "ustring"
    pointers: list[Fetched]
    if deref is None:
        pointers = [fetcher.value(fetch.fetch), *[FAULT] * (arg.count - 1)]
    else:
        pointers = [fetcher.word(deref, 8 * at) for at in range(arg.count)]
    place, memory = FIXED + arg.offset, fetcher.known.memory
    if UNKNOWN in pointers:
        slots.unknown(arg)
    elif FAULT in pointers:
        slots.put_string(place, FAULT)
    else:
        for at, pointer in enumerate(pointers):
            slots.put_string(place + 4 * at, read_string(pointer, 0, memory, user=user))


def _symbol(value: Fetched, known: Known) -> bytes | Outcome:
    """Return a symbol's text; kernels do not count the NUL of an address that is in none."""
    if isinstance(value, Pointer):
        value = value.address
    if isinstance(value, Outcome):
        return value
    if known.symbols is None:
        return UNKNOWN
    found = known.symbols(value & ALL)
    return f"0x{value:x}".encode() if found is None else found.encode() + b"\0"


def _unknown(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(map(_unknown, value))
    return value is UNKNOWN
