"""Idioms that call helpers with maps: values, ring buffers, queues, tail calls, and locks."""

from __future__ import annotations

from pybpf.corpus import CorpusMap
from pybpf.isa.abi import MapFlag, MapType, ProgType
from pybpf.testing.programs import btf, memory, numbers
from pybpf.testing.programs.state import Mem
from pybpf.testing.programs.writer import Writer

_ARRAYS = (MapType.ARRAY, MapType.PERCPU_ARRAY)
_LOOKUP_TYPES = (
    MapType.HASH, MapType.HASH, MapType.ARRAY, MapType.ARRAY, MapType.PERCPU_HASH,
    MapType.PERCPU_ARRAY, MapType.LRU_HASH, MapType.LPM_TRIE,
)  # fmt: skip
_DETERMINISTIC = (MapType.HASH, MapType.ARRAY, MapType.PERCPU_ARRAY, MapType.PERCPU_HASH)

_RESERVE, _SUBMIT, _DISCARD = 131, 132, 133


def lookup_map(w: Writer) -> tuple[int, CorpusMap]:
    """Return a map that can be looked up, and its number."""
    existing = [
        n
        for n, spec in enumerate(w.code.maps)
        if spec.type in _LOOKUP_TYPES and (w.slips or not spec.btf_value)
    ]
    if existing and w.chance(0.6):
        number = w.pick(existing)
        return number, w.code.maps[number]
    map_type = w.pick(_DETERMINISTIC if w.exact else _LOOKUP_TYPES)
    array = map_type in _ARRAYS
    key_size = 4 if array else 8 if map_type is MapType.LPM_TRIE else w.pick((1, 4, 4, 8, 13, 16))
    lazy = map_type is MapType.LPM_TRIE or (w.chance(0.2) and not array)
    flags = MapFlag.NO_PREALLOC if lazy else 0
    if map_type is MapType.LRU_HASH:
        flags = 0
    entries = w.pick((1, 4, 16)) if array or not w.exact else 64
    spec = CorpusMap(map_type, key_size, w.pick((4, 8, 8, 16, 20, 48, 64)), entries, flags)
    return w.code.new_map(spec), spec


def key_on_stack(w: Writer, spec: CorpusMap) -> int:
    """Put a key on the stack; return its offset."""
    off = w.free_slots(spec.key_size)
    w.fill_stack(off, spec.key_size)
    if spec.type in _ARRAYS and w.chance(0.8):
        w.store_imm(10, off, 4, w.below(spec.max_entries + 1))
        w.state.stack[off] = None
    return off


def lookup(w: Writer) -> None:
    """Look up a key, mostly check for NULL, and use the value."""
    number, spec = lookup_map(w)
    off = key_on_stack(w, spec)
    w.code.map(1, number)
    w.set(1, None)
    w.stack_pointer(2, off)
    if w.wrong():
        _spoil(w, (1, 2))
    kind = Mem(spec.value_size, null=True, ident=w.ident(), map=number)
    w.call(1, kind)
    _checked(w, kind)


def _checked(w: Writer, kind: Mem) -> None:
    """Check r0, which may be NULL, and go on where it is not, in one of several ways."""
    register = 0
    if w.chance(0.6):
        register = w.target(but=(0,), saved=True)
        w.copy(register, 0)
    if w.wrong():
        w.state.present(kind.ident)
        if w.chance(0.7):
            memory.value(w)
        return
    roll = w.rng.random()
    absent = w.code.label()
    if roll < 0.5 or w.in_function:
        w.branch("jeq64", register, None, 0, absent)
        before = w.state.copy()
        before.absent(kind.ident)
        w.state.present(kind.ident)
        for _ in range(1 + w.below(2)):
            memory.value(w)
            w.block(2)
        w.meet(absent, before)
    else:
        w.branch("jne64", register, None, 0, absent)
        before = w.state.copy()
        w.state.absent(kind.ident)
        w.finish()
        w.code.place(absent)
        w.state = before
        w.state.present(kind.ident)
        memory.value(w)


def direct_value(w: Writer) -> None:
    """Load the address of an array's first value."""
    spec = CorpusMap(MapType.ARRAY, 4, w.pick((8, 16, 64)), 1)
    number = w.code.new_map(spec)
    off = 4 * w.below(spec.value_size // 4) if w.chance(0.4) else 0
    if w.wrong():
        off = spec.value_size + w.below(2)
    into = w.target(saved=True)
    w.code.map(into, number, off)
    w.set(into, Mem(spec.value_size, off, map=number))


def change_map(w: Writer) -> None:
    """Update or delete an entry."""
    number, spec = lookup_map(w)
    off = key_on_stack(w, spec)
    delete = w.chance(0.3) and (spec.type not in _ARRAYS or w.wrong())
    value_off = 0
    if not delete:
        value_off = w.free_slots(spec.value_size)
        w.fill_stack(value_off, spec.value_size)
        w.fill_stack(off, spec.key_size)
    w.code.map(1, number)
    w.set(1, None)
    w.stack_pointer(2, off)
    if not delete:
        w.stack_pointer(3, value_off)
        w.load_imm(4, w.below(3))
    if w.wrong():
        _spoil(w, (1, 2, 3))
    w.call(3 if delete else 2)


def _spoil(w: Writer, registers: tuple[int, ...]) -> None:
    """Put something else into one of the arguments."""
    number = w.pick(registers)
    others = [n for n in w.state.regs if n != number]
    if others and w.chance(0.6):
        w.copy(number, w.pick(others))
    else:
        w.load_imm(number, w.imm())


def ring(w: Writer) -> None:
    """Reserve room in a ring buffer, fill it, and submit or discard it."""
    register = 6 + w.below(4)
    if register in w.state.pinned or (w.state.held and not w.wrong()):
        return
    number = w.code.new_map(CorpusMap(MapType.RINGBUF, 0, 0, 4096))
    size = w.pick((8, 16, 24, 64))
    w.code.map(1, number)
    w.set(1, None)
    w.load_imm(2, size)
    w.load_imm(3, 0)
    w.call(_RESERVE)
    kind = Mem(size, null=True, ident=-w.ident())
    w.set(0, kind)
    w.copy(register, 0)
    absent = w.code.label()
    if not w.wrong():
        w.branch("jeq64", register, None, 0, absent)
    before = w.state.copy()
    before.absent(kind.ident)
    w.state.present(kind.ident)
    pinned, held = w.state.pinned, w.state.held
    w.set(0, None)
    give_back = w.pick((_SUBMIT, _SUBMIT, _DISCARD))
    w.state.pinned, w.state.held = pinned | {register}, (*held, (register, give_back))
    for _ in range(1 + w.below(3)):
        size = w.pick((1, 2, 4, 8))
        off = size * w.below(kind.size // size)
        memory.access(w, register, kind.size if w.wrong() else off, size)
    w.block(2)
    if not w.wrong():
        w.code.emit("mov64_reg", 1, register)
        w.load_imm(2, 0)
        w.call(give_back)
    if w.wrong():
        memory.access(w, register, 0, 8)
    w.set(register, None)
    w.state.pinned, w.state.held = pinned, held
    w.meet(absent, before, but=(register, 0))


def ring_output(w: Writer) -> None:
    """Copy bytes of the stack to a ring buffer, or ask it something."""
    number = w.code.new_map(CorpusMap(MapType.RINGBUF, 0, 0, 4096))
    if w.chance(0.3) and not w.exact:
        w.code.map(1, number)
        w.load_imm(2, w.below(5))
        w.call(134)
        return
    size = w.pick((8, 16, 24))
    off = w.free_slots(size)
    w.fill_stack(off, size)
    w.code.map(1, number)
    w.stack_pointer(2, off)
    w.load_imm(3, size + (8 if w.wrong() else 0))
    w.load_imm(4, 0)
    w.call(130)


def queue(w: Writer) -> None:
    """Push to, pop from or peek into a queue or a stack."""
    spec = CorpusMap(w.pick((MapType.QUEUE, MapType.STACK)), 0, w.pick((4, 8, 16)), 4)
    number = w.code.new_map(spec)
    off = w.free_slots(spec.value_size)
    helper = w.pick((87, 88, 89))
    if helper == 87:
        w.fill_stack(off, spec.value_size)
        w.load_imm(3, 0)
    w.code.map(1, number)
    w.stack_pointer(2, off)
    if w.wrong():
        _spoil(w, (1, 2))
    w.call(helper)
    if helper != 87:
        w.scribbled(off, spec.value_size)


def inner_map(w: Writer) -> None:
    """Look up a map in a map of maps, and a value in that."""
    inner = CorpusMap(MapType.ARRAY, 4, w.pick((8, 16)), 2)
    outer = CorpusMap(
        w.pick((MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS)), 4, 4, 2, inner_map=inner
    )
    number = w.code.new_map(outer)
    off = w.free_slots(4)
    w.fill_stack(off, 4)
    w.code.map(1, number)
    w.stack_pointer(2, off)
    w.call(1)
    end = w.code.label()
    if not w.wrong():
        w.branch("jeq64", 0, None, 0, end)
    before = w.state.copy()
    before.regs.pop(0, None)
    w.code.emit("mov64_reg", 1, 0)
    w.stack_pointer(2, off)
    kind = Mem(inner.value_size, null=True, ident=w.ident())
    w.call(1, kind)
    _checked(w, kind)
    w.meet(end, before)


def tail_call(w: Writer) -> None:
    """Call another program, which mostly is not there."""
    ctx = w.context()
    if ctx is None or ((w.state.held or w.in_function) and not w.wrong()):
        return
    number = w.code.new_map(CorpusMap(MapType.PROG_ARRAY, 4, 4, 4))
    index = w.number(but=(ctx,))
    w.copy(1, ctx)
    if index < 3:
        w.load_imm(3, w.below(5))
    elif index != 3:
        w.copy(3, index)
    w.code.map(2, number)
    w.set(2, None)
    if w.wrong():
        _spoil(w, (1, 2, 3))
    w.call(12)


def lock(w: Writer) -> None:
    """Take the spin lock of a map's value, change the value, and give the lock back."""
    without = w.flavour.tracing or w.flavour.prog_type is ProgType.SOCKET_FILTER
    if w.in_function or (without and not w.wrong()):
        return
    spec = CorpusMap(MapType.ARRAY, 4, 16, 1, btf_key=btf.LOCKED_KEY, btf_value=btf.LOCKED_VALUE)
    number = w.code.new_map(spec)
    off = w.free_slots(4)
    w.store_imm(10, off, 4, 0)
    w.state.stack.pop(off, None)
    register = 6 + w.below(4)
    if register in w.state.pinned:
        return
    w.code.map(1, number)
    w.stack_pointer(2, off)
    w.call(1)
    w.copy(register, 0)
    w.set(register, None)
    w.set(0, None)
    end = w.code.label()
    w.branch("jeq64", register, None, 0, end)
    before = w.state.copy()
    w.code.emit("mov64_reg", 1, register)
    w.code.emit("add64_imm", 1, imm=4 if w.wrong() else 0)
    w.call(93)
    pinned = w.state.pinned
    w.state.pinned = pinned | {register}
    for _ in range(1 + w.below(3)):
        # The lock lies in the first four bytes.
        size = w.pick((1, 2, 4, 8))
        off = w.pick(range(8, 16, size))
        memory.access(w, register, 0 if w.wrong() else off, size)
        numbers.arithmetic(w)
    if w.wrong():
        w.call(5)
    if not w.wrong():
        w.code.emit("mov64_reg", 1, register)
        w.code.emit("add64_imm", 1, imm=0)
        w.call(94)
    w.set(register, None)
    w.state.pinned = pinned
    w.meet(end, before, but=(register, 0))


IDIOMS = (
    (9, lookup),
    (5, direct_value),
    (4, change_map),
    (3, ring),
    (1, ring_output),
    (2, queue),
    (1, inner_map),
    (1, tail_call),
    (2, lock),
)
