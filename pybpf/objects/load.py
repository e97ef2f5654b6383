"""An object with what is asked for changed in; its maps and programs in the kernel out."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pybpf.btf.reader import Btf
from pybpf.dataclass import dataclass
from pybpf.errors import KernelError, ObjectError
from pybpf.isa.abi import MapType
from pybpf.kernel import programs
from pybpf.kernel.bpffs import Pins
from pybpf.kernel.fd import Fd
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.types import KernelTypes
from pybpf.objects import externs, structops
from pybpf.objects.create import create, fill_with_maps
from pybpf.objects.programs import BpfProgram, Loading, Place
from pybpf.objects.structops import BpfOperations
from pybpf.objects.table import BpfMap, Maps
from pybpf.objfile.debuginfo import ObjectDebug
from pybpf.objfile.object import Object

if TYPE_CHECKING:
    from pybpf.objfile.relocate import Relocator


@dataclass(frozen=True, slots=True)
class Parts:
    """What an object consists of; loading fills maps, programs and what follows them."""

    found: Object
    debug: ObjectDebug
    maps: Maps
    programs: Mapping[str, BpfProgram]
    operations: dict[str, BpfOperations]
    pins: Pins
    warnings: list[str]


def load(
    parts: Parts, *, target: Btf | None, pin_root: str, progress: Callable[[str], object]
) -> None:
    """Create the maps and load the programs that are to be; see ``Object.load``.

    Where it raises, closing what was made so far is up to the caller.
    """
    with ExitStack() as stack:
        types = KernelTypes()
        stack.callback(types.close)
        _Load(parts, types, target, progress).run(stack, pin_root)


class _Load:
    def __init__(
        self,
        parts: Parts,
        types: KernelTypes,
        target: Btf | None,
        progress: Callable[[str], object],
    ) -> None:
        self._parts = parts
        self._types = types
        self._target = target
        self._say = progress

    def run(self, stack: ExitStack, pin_root: str) -> None:
        parts = self._parts
        btf = self._load_types(stack)
        known = externs.resolve(parts.found, self._types, LiveTarget())
        for name in externs.missing(known.symbols):
            self._say(f"extern {name}: not in this kernel, and weak")
        if known.options:
            parts.maps[".kconfig"].set_initial(known.options)
        self._create_maps(btf, pin_root)
        places = self._create_operations(btf)
        loading = Loading(
            parts.found, parts.debug, btf, parts.maps, known.symbols, self._types,
            self._relocator(), places,
        )  # fmt: skip
        for program in parts.programs.values():
            self._load_program(program, loading)
        self._fill_with_programs()

    def _load_types(self, stack: ExitStack) -> Fd | None:
        """Load the object's BTF; a kernel that refuses it may do without."""
        if not self._parts.debug.btf:
            return None
        try:
            return stack.enter_context(programs.load_btf(self._parts.debug.btf))
        except KernelError as error:
            if error.errno == errno.EPERM:
                error.action = f"cannot load {self._parts.found.path}"
                raise
            self._say(f"BTF: the kernel refuses it, so it is left out: {error}")
            return None

    def _create_maps(self, btf: Fd | None, pin_root: str) -> None:
        maps, path = self._parts.maps, self._parts.found.path
        for table in maps.values():
            create(path, table, btf, self._parts.pins, pin_root)
            self._say(_about(table))
        for table in maps.values():
            if not table.reused:
                fill_with_maps(path, table, maps)

    def _create_operations(self, btf: Fd | None) -> Mapping[str, Place]:
        """Create the maps of structures of operations; return what their programs are for."""
        parts = self._parts
        places: dict[str, Place] = {}
        for what in structops.operations(parts.found, self._types):
            if not all(parts.programs[name].autoload for _, _, name in what.members):
                continue
            parts.operations[what.name] = BpfOperations(what, btf, self._types)
            self._say(f"map {what.name}: created, struct_ops of struct {what.type_name}")
            places.update(what.places())
        return places

    def _relocator(self) -> Relocator | None:
        """Return what applies CO-RE relocations; None where there are none."""
        if not any(program.source.relocations for program in self._parts.programs.values()):
            return None
        from pybpf.objfile.relocate import Relocator

        if self._target is not None:
            return Relocator(self._parts.found, self._target)
        return Relocator(self._parts.found, self._types.own, self._types.modules)

    def _load_program(self, program: BpfProgram, loading: Loading) -> None:
        if not program.autoload:
            self._say(f"program {program.name}: left out, as nobody asked for it")
            return
        program.load(loading)
        for row in program.report:
            self._say(f"program {program.name}: CO-RE {str(row).strip()}")
        self._say(f"program {program.name}: loaded, {program.prog_type.name.lower()}")

    def _fill_with_programs(self) -> None:
        """Put the programs that an array of programs holds from the start into it."""
        for table in self._parts.maps.values():
            if table.spec.map_type != MapType.PROG_ARRAY or table.reused:
                continue
            missing = []
            for index, name in table.spec.values:
                program = self._parts.programs.get(name)
                if program is None:
                    reason = f"map {table.name} holds {name}, which is no program of it"
                    raise ObjectError(self._parts.found.path, reason)
                if program.loaded:
                    table[index] = program
                else:
                    missing.append(f"{name} (slot {index})")
            if missing:
                self._parts.warnings.append(
                    f"tail calls through {table.name} do nothing where programs are not loaded: "
                    f"{', '.join(missing)}"
                )


def _about(table: BpfMap) -> str:
    spec = table.spec
    how = "found where it is pinned" if table.reused else "created"
    return (
        f"map {spec.name}: {how}, {spec.type_name}, key {spec.key_size}, "
        f"value {spec.value_size}, {table.max_entries} entries"
    )
