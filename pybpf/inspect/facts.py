"""An object, raw instructions or a loaded program in; what is in it, counted and named, out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pybpf.btf.reader import Kind as TypeKind
from pybpf.dataclass import dataclass, replace
from pybpf.inspect.code import Code
from pybpf.inspect.graph import loops
from pybpf.inspect.names import Names
from pybpf.inspect.needs import Kind, Need, Since, first, needs
from pybpf.isa.abi import MapFlag, ProgType
from pybpf.isa.helpers import HELPER_NAMES
from pybpf.isa.table import Effect, Form
from pybpf.objfile.code import Use
from pybpf.objfile.elf import RelocationType
from pybpf.objfile.maps import Origin
from pybpf.objfile.sections import FLAGS, Trait

if TYPE_CHECKING:
    from pybpf.btf.reader import Btf
    from pybpf.isa.insn import Insn
    from pybpf.kernel.loaded import Loaded
    from pybpf.objfile.maps import ObjectMap
    from pybpf.objfile.object import Object, ObjectProgram

_MIX: Mapping[Form, str] = {
    Form.LOAD: "load", Form.LOAD_ACQUIRE: "load", Form.STORE_REG: "store",
    Form.STORE_IMM: "store", Form.STORE_RELEASE: "store", Form.ATOMIC: "atomic",
    Form.LOAD_IMM64: "lddw", Form.JUMP: "jump", Form.JUMP_LONG: "jump", Form.BRANCH_IMM: "branch",
    Form.BRANCH_REG: "branch", Form.MAY_GOTO: "branch", Form.CALL_HELPER: "call",
    Form.CALL_LOCAL: "call", Form.CALL_KFUNC: "call", Form.CALL_REG: "call", Form.EXIT: "exit",
    Form.PACKET_ABS: "packet", Form.PACKET_IND: "packet",
}  # fmt: skip
"""What kind of instruction a form is in the mix; all others are arithmetic, ``alu``."""
_FRAME = 10


@dataclass(frozen=True, slots=True)
class SectionFacts:
    """A section: ``relocations`` counts those of each ``R_BPF_*``."""

    name: str
    type: str
    size: int
    relocations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class MapFacts:
    """A map: sizes in bytes, types of key and value as C has them, empty where not known."""

    name: str
    type: str
    key_size: int
    value_size: int
    max_entries: int
    flags: int
    key: str = ""
    value: str = ""
    origin: str = ""
    pinned: bool = False
    inner: str = ""


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """A function of a program; ``stack``: bytes below the frame pointer that it names."""

    name: str
    prototype: str
    slots: int
    stack: int


@dataclass(frozen=True, slots=True)
class Judged:
    """What a kernel's verifier says of a program; stack in bytes for each function.

    ``insn`` is the slot that is at fault, where one is.
    """

    kernel: str
    verdict: str
    message: str
    processed: int
    states: int
    stack: tuple[int, ...]
    insn: int | None = None


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A program: counts are by name. ``first`` is the first kernel that has all that it needs."""

    name: str
    section: str
    type: str
    attach: str
    target: str
    slots: int
    blocks: int
    loops: int
    functions: tuple[FunctionFacts, ...]
    mix: Mapping[str, int]
    helpers: Mapping[str, int]
    kfuncs: Mapping[str, int]
    maps: Mapping[str, int]
    core: Mapping[str, int]
    needs: tuple[Need, ...]
    first: Since
    verdict: Judged | None = None


@dataclass(frozen=True, slots=True)
class ExternFacts:
    """What the kernel has to define."""

    name: str
    kind: str
    type: str
    weak: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it; what there is not of a kind of input is empty. ``types`` counts kinds of BTF."""

    name: str
    kind: str
    byteorder: str
    size: int
    licence: str
    version: int
    sections: tuple[SectionFacts, ...]
    maps: tuple[MapFacts, ...]
    programs: tuple[ProgramFacts, ...]
    externs: tuple[ExternFacts, ...]
    types: Mapping[str, int]
    notes: tuple[str, ...] = ()


def of_object(found: Object, codes: Mapping[int, Code], verdicts: Mapping[int, Judged]) -> Facts:
    """Return the facts of an object, and of those of its programs that are given as code.

    ``codes`` and ``verdicts`` are by the indices of programs.
    """
    names = Names(found.btf, found.elf)
    weak = {extern.name for extern in found.externs if extern.weak}
    maps = {one.name: (one.map_type, _asked(one)) for one in found.maps}
    programs = [
        _program(found.programs[index], code, names, maps, weak, verdicts.get(index))
        for index, code in codes.items()
    ]
    return Facts(
        found.path, "object", found.byteorder, found.elf.size, found.licence, found.version,
        tuple(_sections(found)), tuple(_map(one, names) for one in found.maps), tuple(programs),
        tuple(
            ExternFacts(e.name, str(e.kind), names.declared(e.type), e.weak)
            for e in found.externs
        ),
        _types(found.btf),
    )  # fmt: skip


def of_code(code: Code, byteorder: str) -> Facts:
    """Return the facts of raw instructions, which have neither maps nor types."""
    facts = _counted(code, Kind(ProgType.UNSPEC), {}, ())
    return Facts(
        code.name, "bytes", byteorder, len(code.data), "", 0, (), (), (facts,), (), {}
    )  # fmt: skip


def of_loaded(loaded: Loaded, code: Code, types: Btf | None, maps: tuple[MapFacts, ...]) -> Facts:
    """Return the facts of a loaded program and its maps. What the kernel put into it counts too."""
    info = loaded.info
    types_of = {facts.name: (row.type, 0) for facts, row in zip(maps, loaded.maps, strict=True)}
    program = _counted(code, Kind(info.prog_type), types_of, ())
    notes = (
        f"tag {info.tag.hex()}",
        f"{info.verified_insns} instructions processed when it was loaded",
        f"{info.jited_size} bytes of machine code",
    )
    return Facts(
        f"prog:{info.id}", "loaded program", "little", len(loaded.code), "", 0, (), maps,
        (program,), (), _types(types), notes,
    )  # fmt: skip


def _sections(found: Object) -> Iterator[SectionFacts]:
    for section in found.elf.sections:
        if section.type in {"SHT_NULL", "SHT_REL", "SHT_RELA", "SHT_STRTAB", "SHT_SYMTAB"}:
            continue
        counts = Counter(_relocation(r.type) for r in section.relocations)
        kind = "code" if section.executable else section.type.removeprefix("SHT_").lower()
        kind = f"{int(kind):#x}" if kind.isdecimal() else kind
        yield SectionFacts(section.name, kind, section.size, dict(sorted(counts.items())))


def _relocation(number: int) -> str:
    try:
        name = RelocationType(number).name
    except ValueError:
        return f"type {number}"
    return f"R_BPF_{name}" if not number else f"R_BPF_64_{name.removeprefix('INSN_')}"


def _map(found: ObjectMap, names: Names) -> MapFacts:
    return MapFacts(
        found.name, found.type_name, found.key_size, found.value_size, found.max_entries,
        found.flags, names.declared(found.key_type), names.declared(found.value_type),
        str(found.origin), found.pinned_by_name, found.inner.type_name if found.inner else "",
    )  # fmt: skip


def _asked(found: ObjectMap) -> int:
    """Return the flags of a map that a kernel must know; data can do without being mapped."""
    declared = found.origin in {Origin.LEGACY, Origin.BTF}
    return found.flags if declared else found.flags & ~MapFlag.MMAPABLE


def _types(btf: Btf | None) -> Mapping[str, int]:
    if btf is None:
        return {}
    counts = Counter(btf.kind(number) for number in range(1, len(btf)))
    return {kind.name.lower(): counts[kind] for kind in TypeKind if counts[kind]}


def _program(
    program: ObjectProgram,
    code: Code,
    names: Names,
    maps_of: Mapping[str, tuple[int, int]],
    weak: set[str],
    verdict: Judged | None,
) -> ProgramFacts:
    said = program.kind
    traits = said.kind.traits if said is not None else Trait.NONE
    attach = None if Trait.OPTIONAL in traits else program.program.expected_attach_type
    flags = frozenset(flag for trait, flag in FLAGS.items() if trait in traits)
    kind = Kind(program.program.prog_type, attach, flags)
    kfuncs = [r.name for r in program.references if r.use is Use.KFUNC]
    wanted = [name for name in kfuncs if name not in weak]
    facts = _counted(code, kind, maps_of, wanted, verdict)
    core = Counter(names.core(at.relocation) for at in program.relocations)
    maps = Counter(r.name for r in program.references if r.use in {Use.MAP, Use.DATA})
    return replace(
        facts, kfuncs=_ranked(Counter(kfuncs)), core=_ranked(core), maps=_ranked(maps),
        target=said.target if said else "",
    )  # fmt: skip


def _counted(
    code: Code,
    kind: Kind,
    maps_of: Mapping[str, tuple[int, int]],
    kfuncs: Iterable[str],
    verdict: Judged | None = None,
) -> ProgramFacts:
    """Return the facts that instructions alone tell; ``maps_of``: types and flags of maps."""
    known = code.tabled()
    called = [insn for insn in known if insn.op.form is Form.CALL_HELPER]
    loaded = [i.symbol for i in known if i.op.form is Form.LOAD_IMM64 and i.symbol in maps_of]
    maps = Counter(name for name in loaded if name is not None)
    flags = 0
    for name in maps:
        flags |= maps_of[name][1]
    wanted = needs(code, kind, (maps_of[name][0] for name in maps), kfuncs, flags)
    attach = code.program.expected_attach_type
    return ProgramFacts(
        code.name, code.section, kind.prog_type.name.lower(),
        attach.name.lower() if attach is not None else "", "",
        code.slots()[-1] - code.base, len(code.blocks()), len(loops(code)),
        tuple(_functions(code)), _ranked(Counter(_MIX.get(i.op.form, "alu") for i in known)),
        _ranked(Counter(HELPER_NAMES.get(i.imm, str(i.imm)) for i in called)), {}, _ranked(maps),
        {}, wanted, first(wanted), verdict,
    )  # fmt: skip


def _ranked(counts: Counter[str]) -> Mapping[str, int]:
    """Return counts, the most first."""
    return dict(sorted(counts.items(), key=lambda row: (-row[1], row[0])))


def _functions(code: Code) -> Iterator[FunctionFacts]:
    slots = code.slots()
    starts = [part.index for part in code.parts]
    for part, end in zip(code.parts, [*starts[1:], len(code.program.insns)], strict=True):
        depth = _stack(code.program.insns[part.index : end])
        yield FunctionFacts(part.name, part.prototype, slots[end] - slots[part.index], depth)


def _stack(insns: Iterable[Insn]) -> int:
    """Return how far below the frame pointer instructions reach, from top to bottom, in bytes."""
    deepest, holds = 0, {_FRAME: 0}
    for insn in insns:
        form, effect = insn.op.form, insn.op.effect
        if form in {Form.STORE_REG, Form.STORE_IMM, Form.ATOMIC} and insn.dst in holds:
            deepest = min(deepest, holds[insn.dst] + insn.off)
        elif form is Form.LOAD and insn.src in holds:
            deepest = min(deepest, holds[insn.src] + insn.off)
        if form is Form.ALU_REG and effect is Effect.MOV and insn.src in holds:
            holds[insn.dst] = holds[insn.src]
        elif form is Form.ALU_IMM and effect is Effect.ADD and insn.dst in holds:
            holds[insn.dst] += insn.imm
            deepest = min(deepest, holds[insn.dst])
        elif form in _WRITES and insn.dst != _FRAME:
            holds.pop(insn.dst, None)
    return -deepest


_WRITES = frozenset(
    {
        Form.ALU_IMM, Form.ALU_REG, Form.NEG, Form.MOVSX, Form.SWAP, Form.LOAD, Form.LOAD_ACQUIRE,
        Form.LOAD_IMM64, Form.ADDR_SPACE_CAST,
    }
)  # fmt: skip
