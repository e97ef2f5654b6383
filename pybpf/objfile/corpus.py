"""An object in; each of its programs as a CorpusProgram, whole, out.

What a loader would take from the running kernel is not there: kfuncs, variables and what a program
is attached to have a name but no number. Without a kernel's types, CO-RE relocations keep what the
compiler wrote, which suits the object's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.btf.reader import Btf
from pybpf.corpus import CorpusMap, CorpusProgram, Fixup, FixupKind, Ksym
from pybpf.errors import EncodingError, ObjectError
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.encoding import encode
from pybpf.objfile.code import Use
from pybpf.objfile.debuginfo import func_info
from pybpf.objfile.externs import ExternKind
from pybpf.objfile.maps import ObjectMap, Origin
from pybpf.objfile.object import Object, ObjectProgram
from pybpf.objfile.relocate import Relocated, Relocator
from pybpf.objfile.sections import FLAGS, Trait
from pybpf.objfile.structops import member_of
from pybpf.objfile.types import kernel_types

# Map types that take no types of keys and values (libbpf's bpf_object__create_map).
WITHOUT_TYPES = frozenset(
    {
        MapType.PERF_EVENT_ARRAY, MapType.CGROUP_ARRAY, MapType.STACK_TRACE, MapType.ARRAY_OF_MAPS,
        MapType.HASH_OF_MAPS, MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP, MapType.XSKMAP,
        MapType.SOCKMAP, MapType.SOCKHASH, MapType.QUEUE, MapType.STACK, MapType.RINGBUF,
        MapType.USER_RINGBUF, MapType.ARENA, MapType.PROG_ARRAY,
    }
)  # fmt: skip
_CPUS = 1
"""What libbpf gives a perf event array that does not say how large it is: any will do here."""
_PAGE = 4096
_RINGS = frozenset({MapType.RINGBUF, MapType.USER_RINGBUF})


def corpus_programs(
    found: Object, target: Btf | None = None
) -> Iterator[tuple[ObjectProgram, CorpusProgram]]:
    """Yield the programs of an object in its order, each as it would be loaded.

    ``target`` has the types of a kernel, for which CO-RE relocations are then applied.

    Raises ObjectError for one that cannot be encoded or relocated, or is for a machine of the other
    byte order.
    """
    for done, corpus in relocated_programs(found, target):
        yield done.program, corpus


def relocated_programs(
    found: Object, target: Btf | None
) -> Iterator[tuple[Relocated, CorpusProgram]]:
    """Yield the same with the report of what was relocated; raises ObjectError, too."""
    if found.byteorder != "little":
        raise ObjectError(found.path, "the object is for a big-endian machine")
    types = kernel_types(found)
    relocator = None if target is None else Relocator(found, target)
    for program in found.programs:
        done = relocator.relocated(program) if relocator else Relocated(program, ())
        yield done, _program(found, done.program, types)


def _program(found: Object, program: ObjectProgram, types: bytes) -> CorpusProgram:
    numbers: dict[str, int] = {}
    fixups = []
    for reference in program.references:
        if reference.use in {Use.MAP, Use.DATA}:
            number = numbers.setdefault(reference.name, len(numbers))
            kind: FixupKind = "map_fd" if reference.use is Use.MAP else "map_value"
            fixups.append(Fixup(reference.slot, kind, number))
    try:
        code = encode(program.program, "little")
    except EncodingError as error:
        raise ObjectError(found.path, str(error), section=program.section) from None
    return CorpusProgram(
        program.name,
        int(program.program.prog_type),
        code,
        int(program.program.expected_attach_type or 0),
        prog_flags(program),
        tuple(_map(found, name) for name in numbers),
        tuple(fixups),
        program.program.licence,
        types,
        func_info(program, "<"),
        kfuncs=tuple((one.slot, one.name) for one in program.references if one.use is Use.KFUNC),
        ksyms=tuple(_ksyms(found, program)),
        attach_to=_attach_to(found, program),
    )


def prog_flags(program: ObjectProgram) -> int:
    """Return the flags that the name of a program's section asks for, as BPF_PROG_LOAD has them."""
    traits = program.kind.kind.traits if program.kind is not None else Trait.NONE
    return sum(flag for trait, flag in FLAGS.items() if trait in traits)


def _ksyms(found: Object, program: ObjectProgram) -> Iterator[Ksym]:
    externs = {extern.name: extern for extern in found.externs}
    for one in program.references:
        if one.use is Use.EXTERN:
            extern = externs[one.name]
            yield Ksym(one.slot, one.name, extern.kind is not ExternKind.KSYM, extern.weak)


def _attach_to(found: Object, program: ObjectProgram) -> str:
    """Return what of the kernel a program is attached to, empty for those that are not."""
    if program.kind is None:
        return ""
    if program.kind.kind.prog_type is ProgType.STRUCT_OPS:
        return member_of(found, program.name)
    return program.kind.target if Trait.BTF in program.kind.kind.traits else ""


def _map(found: Object, name: str) -> CorpusMap:
    spec = found.map(name)
    if spec is None:
        raise ObjectError(found.path, f"no map is called {name}")
    return _converted(spec)


def _converted(spec: ObjectMap) -> CorpusMap:
    entries = spec.max_entries
    if spec.map_type == MapType.PERF_EVENT_ARRAY and not entries:
        entries = _CPUS
    if spec.map_type in _RINGS and entries:
        # Loaders make it a power of 2 of pages.
        entries = max(_PAGE, 1 << (entries - 1).bit_length())
    typed = spec.map_type not in WITHOUT_TYPES
    filled = spec.initial is not None and spec.initial.count(0) < len(spec.initial)
    return CorpusMap(
        spec.map_type,
        spec.key_size,
        spec.value_size,
        entries,
        spec.flags,
        None if spec.inner is None else _converted(spec.inner),
        spec.key_type if typed else 0,
        spec.value_type if typed else 0,
        ((bytes(spec.key_size), spec.initial or b""),) if filled else (),
        frozen=spec.origin in {Origin.RODATA, Origin.KCONFIG},
    )
