"""Random programs, fast and by seed: a corpus's name in; programs for many program types out.

A corpus is named ``GENERATION-SEED-COUNT``. The same name gives the same programs on every machine
and with every Python: each program has a generator of numbers of its own, seeded by the corpus and
its place there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from pybpf.corpus import CorpusMap, CorpusProgram
from pybpf.isa.abi import MapType
from pybpf.testing.programs import btf, calls, helpers, memory, numbers, objects, shapes
from pybpf.testing.programs.code import func_info
from pybpf.testing.programs.mutate import mutate
from pybpf.testing.programs.state import Ctx, Num
from pybpf.testing.programs.types import BY_NAME, FLAVOURS, Flavour
from pybpf.testing.programs.writer import Idiom, Writer

GENERATION = 3
"""Raised whenever the same seed gives other programs than before."""

IDIOMS: tuple[tuple[int, Idiom], ...] = (
    *numbers.IDIOMS,
    *memory.IDIOMS,
    *calls.IDIOMS,
    *objects.IDIOMS,
    *helpers.IDIOMS,
    *shapes.IDIOMS,
)
_SLIPS = (0.0, 0.01, 0.02, 0.04, 0.07)
_MUTATED = 0.35
_RUN_FIELDS = frozenset({0, 8, 32, 48, 52, 56, 60, 64})
_RESULTS = CorpusMap(MapType.ARRAY, 4, 128, 1)
_RUNNABLE = ("socket_filter", "xdp", "sched_cls")


def programs(seed: int, count: int, first: int = 0) -> Iterator[CorpusProgram]:
    """Yield the programs of a corpus from its ``first`` on; about half are valid."""
    for index in range(first, first + count):
        rng = Random(f"{GENERATION}-{seed}-{index}")  # noqa: S311 - no secret
        flavour = FLAVOURS[index % len(FLAVOURS)]
        program = generate(rng, flavour, f"{GENERATION}-{seed}-{index}", slips=rng.choice(_SLIPS))
        yield mutate(rng, program) if rng.random() < _MUTATED else program


def mutants(
    base: Sequence[CorpusProgram], seed: int, count: int, first: int = 0
) -> Iterator[CorpusProgram]:
    """Yield mutants of given programs: of each in turn, whatever made them."""
    for index in range(first, first + count):
        rng = Random(f"{GENERATION}-mutants-{seed}-{index}")  # noqa: S311 - no secret
        old = base[index % len(base)]
        yield replace(mutate(rng, old), id=f"{old.id}-{seed}-{index}")


def runnable(seed: int, count: int, first: int = 0) -> Iterator[CorpusProgram]:
    """Yield programs that can be run, with a packet each, and that do the same in every run."""
    for index in range(first, first + count):
        rng = Random(f"{GENERATION}-run-{seed}-{index}")  # noqa: S311 - no secret
        flavour = BY_NAME[_RUNNABLE[index % len(_RUNNABLE)]]
        fields = tuple(f for f in flavour.fields if f[0] in _RUN_FIELDS) if flavour.skb else ()
        quiet = replace(flavour, fields=fields, socket=None)
        program = generate(rng, quiet, f"{GENERATION}-run-{seed}-{index}", exact=True)
        yield replace(program, data=rng.randbytes(15 + rng.randrange(100)))


def generate(
    rng: Random, flavour: Flavour, name: str, *, slips: float = 0.0, exact: bool = False
) -> CorpusProgram:
    """Return one program; see Writer about ``slips`` and ``exact``."""
    w = Writer(rng, flavour, IDIOMS, slips=slips, exact=exact)
    w.state.regs[1] = Ctx()
    if w.chance(0.85):
        w.copy(6, 1)
        w.state.pinned = frozenset({6})
    for _ in range(1 + w.below(9)):
        w.statement()
    if exact:
        _report(w)
    w.finish()
    while w.later:
        label, write = w.later.pop(0)
        w.functions += 1
        w.code.place(label)
        w.code.functions.append(label)
        write()
    return _finished(w, name)


def _report(w: Writer) -> None:
    """Store what is in registers and on the stack where it can be seen afterwards."""
    base = w.pick([n for n in range(10) if n != 6])
    w.code.map(base, w.code.new_map(_RESULTS), 0)
    w.set(base, None)
    for place, number in enumerate(w.holding(Num)):
        w.store(base, number, 8 * place, 8)
    spare = 1 if base != 1 else 2
    slots = [slot for slot, kind in w.state.stack.items() if kind is None or isinstance(kind, Num)]
    for place, slot in enumerate(slots[:5]):
        w.load(spare, 10, slot, 8)
        w.store(base, spare, 80 + 8 * place, 8)
    w.set(base, None)


def _finished(w: Writer, name: str) -> CorpusProgram:
    code = w.code
    typed = w.typed or any(spec.btf_value for spec in code.maps)
    entries = [0, *(code.at(label) for label in code.functions)]
    kinds = [btf.STATIC_FUNCTION] * len(entries)
    if w.typed and len(kinds) > 1 and w.slips and w.chance(0.1):
        kinds[-1] = btf.GLOBAL_FUNCTION
    return CorpusProgram(
        name,
        w.flavour.prog_type,
        code.insns(),
        w.pick(w.flavour.attach),
        maps=tuple(code.maps),
        fixups=tuple(code.fixups),
        btf=btf.BLOB if typed else b"",
        func_info=func_info(entries, kinds) if w.typed else b"",
    )
