"""Idioms that shape control flow: loops, subprograms, and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pybpf.corpus import CorpusMap
from pybpf.isa.abi import MapType
from pybpf.testing.programs import memory, numbers
from pybpf.testing.programs.state import Ctx, Kind, Mem, Num, State
from pybpf.testing.programs.writer import Writer

_LOOP, _FOR_EACH = 181, 164
_MOST_FUNCTIONS = 5


def loop(w: Writer) -> None:
    """Do something a number of times that is known, or at least bounded."""
    counter = 6 + w.below(4)
    if counter in w.state.pinned or w.depth >= 2:
        return
    limit: int | None = None
    if w.chance(0.3):
        limit = numbers.number(w, w.pick((3, 7, 15)), but=(counter,))
        if limit < 6 or limit in {*w.state.pinned, counter, 10}:
            limit = None
    w.load_imm(counter, 0)
    head = _loop_head(w, {counter} | ({limit} if limit is not None else set()))
    start, end = w.code.label(), w.code.label()
    w.code.place(start)
    if not w.exact and w.chance(0.08):
        w.code.emit("may_goto", to=end)
    w.block(2)
    if not w.wrong():
        w.code.emit(w.pick(("add64_imm", "add64_imm", "add32_imm")), counter, imm=1)
    _mend(w, head)
    name = w.pick(("jlt64", "jne64", "jlt32", "jslt64"))
    if limit is None:
        most = w.pick((1, 2, 3, 5, 10, 20)) if w.exact or w.chance(0.95) else 1000
        w.branch(name, counter, None, most, start)
    else:
        w.branch("jle64", counter, limit, 0, start)
    w.code.place(end)
    _forget(w, head)
    w.set(counter, Num())


def _loop_head(w: Writer, counters: set[int]) -> State:
    """Keep of the state what can be kept through a loop; return what was there before."""
    state = w.state
    for number, kind in list(state.regs.items()):
        if number < 6:
            state.regs.pop(number)
        elif isinstance(kind, Num):
            state.regs[number] = Num()
    state.stack = {
        slot: None for slot, kind in state.stack.items() if kind is None or isinstance(kind, Num)
    }
    held = {n for n, kind in state.regs.items() if not isinstance(kind, Num)}
    kept = State(dict(state.regs), dict(state.stack), state.pinned)
    state.pinned = state.pinned | held | counters
    return kept


def _mend(w: Writer, head: State) -> None:
    """Bring registers and stack into the state that they had at the loop's head."""
    for number, kind in head.regs.items():
        if isinstance(kind, Num) and not isinstance(w.get(number), Num) and not w.wrong():
            w.load_imm(number, 0)
    for slot in head.stack:
        kept = slot in w.state.stack and isinstance(w.state.stack[slot], Num | None)
        if not kept and not w.wrong():
            w.store_imm(10, slot, 8, 0)


def _forget(w: Writer, head: State) -> None:
    w.state.pinned = head.pinned
    w.state.regs = {n: kind for n, kind in w.state.regs.items() if n in head.regs}
    for number, kind in w.state.regs.items():
        if isinstance(kind, Num):
            w.state.regs[number] = Num()
    w.state.stack = dict(head.stack)


def function(w: Writer) -> None:
    """Call a subprogram, which is written later, with numbers and pointers."""
    if len(w.later) + w.functions >= _MOST_FUNCTIONS or (w.in_function and w.chance(0.6)):
        return
    label = w.code.label()
    given: dict[int, Kind] = {}
    areas: list[int] = []
    for number in range(1, 1 + w.below(4)):
        given[number] = _argument(w, number, areas)
    w.code.emit("call_local", to=label)
    w.state.called()
    w.set(0, Num())
    for off in areas:
        w.state.stack[off] = None
    w.later.append((label, _body(w, given, (0, 0xFFFF))))


def _argument(w: Writer, number: int, areas: list[int]) -> Kind:
    roll = w.rng.random()
    values = [n for n in (6, 7, 8, 9) if isinstance(w.get(n), Mem | Ctx)]
    if roll < 0.25 and values:
        source = w.pick(values)
        kind = w.state.regs[source]
        if not (isinstance(kind, Mem) and (kind.null or kind.ident < 0)):
            w.copy(number, source)
            return kind
    if roll < 0.5:
        off = w.free_slots(8)
        w.fill_stack(off, 8)
        w.stack_pointer(number, off)
        areas.append(off)
        return Mem(8)
    sources = [n for n in w.holding(Num) if n > number or n == 0]
    if sources:
        w.copy(number, w.pick(sources))
        kind = w.state.regs[number]
        return kind if isinstance(kind, Num) and not w.in_function else Num()
    w.load_imm(number, w.imm())
    return Num()


def _body(w: Writer, given: Mapping[int, Kind], returns: tuple[int, int]) -> Callable[[], None]:
    """Return what writes a subprogram."""

    def write() -> None:
        w.state = State(dict(given))
        w.in_function, w.depth, w.returns = True, 1, returns
        for number, kind in given.items():
            if w.chance(0.5) and isinstance(kind, Mem | Ctx):
                w.copy(5 + number, number)
        for _ in range(1 + w.below(4)):
            w.statement()
            if w.chance(0.4):
                memory.value(w)
        w.finish()

    return write


def callback(w: Writer) -> None:
    """Call a helper that calls a subprogram many times: bpf_loop, bpf_for_each_map_elem."""
    if len(w.later) + w.functions >= _MOST_FUNCTIONS or w.in_function:
        return
    label = w.code.label()
    area = 0
    context: Kind = Num(0, 0)
    if w.chance(0.6):
        area = w.free_slots(8)
        w.fill_stack(area, 8)
        context = Mem(8)
    every = w.chance(0.35)
    if every:
        spec = CorpusMap(w.pick((MapType.ARRAY, MapType.HASH)), 4, w.pick((8, 16)), 4)
        number = w.code.new_map(spec)
        w.code.map(1, number)
        key, value = Mem(4, writable=False), Mem(spec.value_size, map=number)
        given: dict[int, Kind] = {2: key, 3: value, 4: context}
    else:
        w.load_imm(1, w.pick((0, 1, 4, 16)))
        given = {1: Num(), 2: context}
    w.code.function(2, label)
    if area:
        w.stack_pointer(3, area)
    else:
        w.load_imm(3, 0)
    w.load_imm(4, 1 if w.wrong() else 0)
    w.call(_FOR_EACH if every else _LOOP)
    if area:
        w.state.stack[area] = None
    # A callback may run many times, so nothing that was a copy of a register is one for sure.
    w.later.append((label, _body(w, given, (0, 1))))
    w.typed = True


IDIOMS = ((4, loop), (3, function), (2, callback))
