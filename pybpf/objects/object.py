"""An object file in; its maps and programs in this kernel, its variables, what is attached, out."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from pybpf.btf.reader import Btf
from pybpf.btf.values import Codec
from pybpf.errors import KernelError, ObjectError
from pybpf.isa.abi import MapType
from pybpf.kernel.bpffs import ROOT, Pins
from pybpf.kernel.live import LiveTarget
from pybpf.kernel.ringbuf import PerfBuffer, Ring, RingBuffer
from pybpf.objects.attach import attach
from pybpf.objects.attached import Attached, Unattachable, Where
from pybpf.objects.load import Parts, load
from pybpf.objects.programs import BpfProgram
from pybpf.objects.structops import BpfOperations
from pybpf.objects.table import BpfMap, Maps
from pybpf.objects.variables import Section
from pybpf.objfile.debuginfo import debug_info
from pybpf.objfile.maps import Origin
from pybpf.objfile.object import Object as Parsed
from pybpf.suggest import did_you_mean

_BUFFER = 1 << 20


class Object:
    """An eBPF object: open, perhaps changed, loaded, attached; closing it takes all that back.

        with Object.open("probe.o") as probe:
            probe.rodata.limit = 10
            probe.load()
            probe.attach()
            print(dict(probe.maps["counts"].entries()))

    ``parsed`` is the object as a value. What is refused is ObjectError or KernelError; nothing of
    the object is left in the kernel then.
    """

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self._debug = debug_info(parsed)
        # The types with the places of variables, which the compiler left to be found.
        btf = Btf(self._debug.btf) if self._debug.btf else None
        self._btf = btf
        self.maps = Maps(parsed.path, (BpfMap(spec, btf, parsed.byteorder) for spec in parsed.maps))
        self.programs: Mapping[str, BpfProgram] = MappingProxyType(
            {source.name: BpfProgram(source, self._attach_one) for source in parsed.programs}
        )
        self.sections: Mapping[str, Section] = MappingProxyType(
            {table.name: Section(table, btf)
             for table in self.maps.values() if table.is_data}
        )  # fmt: skip
        places = {name: where for where, each in self.sections.items() for name in each}
        for section in self.sections.values():
            section.neighbours(places)
        self._attached: dict[Attached, tuple[object, ...]] = {}
        self.warnings: list[str] = []
        """What loading left undone that programs may count on."""
        self.unattached: dict[str, str] = {}
        """Programs that ``attach`` left out, and why."""
        self._operations: dict[str, BpfOperations] = {}
        self._kernel = ExitStack()
        self._pins = Pins()

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read an object file; raises ObjectError, and OSError where it cannot be read."""
        return cls(Parsed.open(path))

    @property
    def path(self) -> str:
        """The path of its file."""
        return self.parsed.path

    # Variables

    def _section(self, origin: Origin) -> Section:
        if origin.value not in self.sections:
            raise ObjectError(self.path, f"it has no variables in {origin.value}")
        return self.sections[origin.value]

    @property
    def data(self) -> Section:
        """Its variables that have a value from the start; others are in ``bss``."""
        return self._section(Origin.DATA)

    @property
    def bss(self) -> Section:
        """Its variables that are 0 at the start."""
        return self._section(Origin.BSS)

    @property
    def rodata(self) -> Section:
        """Its constants, which can be written before loading."""
        return self._section(Origin.RODATA)

    @property
    def kconfig(self) -> Section:
        """The kernel's build options that it wants to know, once it is loaded."""
        return self._section(Origin.KCONFIG)

    def set_constant(self, name: str, text: str) -> None:
        """Give a variable the value that a text stands for; raises ObjectError."""
        for section in self.sections.values():
            if name in section:
                try:
                    section[name] = section.parse(name, text)
                except ObjectError as error:
                    raise ObjectError(self.path, error.reason) from None
                return
        known = [name for section in self.sections.values() for name in section]
        raise ObjectError(self.path, f"it has no variable {name}{did_you_mean(name, known)}")

    def codec(self, name: str) -> Codec:
        """Return what decodes the structure called ``name``, as records are; ObjectError."""
        number = self._btf.struct(name.removeprefix("struct ")) if self._btf is not None else None
        if number is None or self._btf is None:
            raise ObjectError(self.path, f"it has no structure {name}")
        return Codec(self._btf, number)

    # Loading

    def program(self, name: str) -> BpfProgram:
        """Return a program; raises ObjectError that says which there are."""
        if name not in self.programs:
            reason = f"it has no program {name}{did_you_mean(name, self.programs)}"
            raise ObjectError(self.path, reason)
        return self.programs[name]

    def load(
        self,
        *,
        target: Btf | None = None,
        pin_root: str = ROOT,
        progress: Callable[[str], object] = lambda _: None,
    ) -> Self:
        """Create the maps and load the programs whose ``autoload`` is set.

        CO-RE relocations are for ``target``, by default the running kernel. Maps that want to be
        pinned by their names are in ``pin_root``, and what is there already is used. ``progress``
        is told what is done, in lines. Raises ObjectError and KernelError.
        """
        if self.loaded:
            raise ObjectError(self.path, "it is loaded already")
        if self.parsed.byteorder != _native():
            raise ObjectError(self.path, "it is for machines of the other byte order")
        try:
            load(
                Parts(
                    self.parsed,
                    self._debug,
                    self.maps,
                    self.programs,
                    self._operations,
                    self._pins,
                    self.warnings,
                ),
                target=target,
                pin_root=pin_root,
                progress=progress,
            )
        except BaseException:
            self._pins.remove()
            self.close()
            raise
        return self

    @property
    def loaded(self) -> bool:
        """Whether something of it is in the kernel."""
        return any(table.loaded for table in self.maps.values()) or any(
            program.loaded for program in self.programs.values()
        )

    # Attaching

    def attach(self, where: Where | None = None, **places: str | int | None) -> list[Attached]:
        """Attach the programs that are loaded to what their sections name; return what holds them.

        Left out are those whose ``autoattach`` is not set; a structure of operations is attached
        where it is set of all its members. ``where``, or its fields by name, say what sections do
        not: ``dev="lo"``. Programs that want to be told more, or are attached by other means, are
        noted in ``unattached``. Raises KernelError where the kernel refuses; nothing is attached
        then.
        """
        wanted = where or Where(**places)  # type: ignore[arg-type]
        before = set(self._attached)
        try:
            for program in self.programs.values():
                if not (program.loaded and program.autoattach) or program.name in self._members():
                    continue
                try:
                    self._attach_one(program, wanted)
                except Unattachable as error:
                    self.unattached[program.name] = str(error).removeprefix(": ")
            for operations in self._operations.values():
                members = [self.programs[name] for _, _, name in operations.what.members]
                if all(program.autoattach for program in members):
                    link = operations.attach(dict(self.programs))
                    self._attached[Attached(operations.what.name, (link,))] = ()
        except BaseException:
            for held in [each for each in self._attached if each not in before][::-1]:
                held.close()
            raise
        return [each for each in self.attached if each not in before]

    @property
    def attached(self) -> list[Attached]:
        """What is attached now."""
        return [each for each in self._attached if not each.closed]

    def _attach_one(self, program: BpfProgram, where: Where) -> Attached:
        """Attach a program; say of a place that is taken which of the object's programs has it."""
        attach_type = program.source.program.expected_attach_type
        place = (program.prog_type, attach_type, program.target, where)
        try:
            held = attach(program, where, LiveTarget())
        except KernelError as error:
            ours = [each.program for each in self.attached if self._attached[each] == place]
            if error.errno in {errno.EBUSY, errno.EEXIST} and ours:
                error.hints += (
                    f"{ours[-1]} of the same object has just been attached there",
                    "--attach-prog NAME attaches that program only",
                    "programs[NAME].autoattach = False leaves one out, in Python",
                )
            raise
        self._attached[held] = place
        return held

    def _members(self) -> frozenset[str]:
        """Return the programs that are attached as members of structures."""
        return frozenset(
            name for each in self._operations.values() for _, _, name in each.what.members
        )

    def detach(self) -> None:
        """Take back all that ``attach`` did."""
        while self._attached:
            held, _ = self._attached.popitem()
            held.close()

    # Records

    def records(self, name: str, *, buffer: int = _BUFFER) -> Ring:
        """Return the reader of a ring buffer, or of a perf event array (``buffer``: bytes in all).

        It is closed with the object.
        """
        held = self.maps.named(name).kernel
        match held.map_type:
            case MapType.RINGBUF:
                ring: Ring = RingBuffer(held)
            case MapType.PERF_EVENT_ARRAY:
                ring = PerfBuffer(held, buffer)
            case _:
                raise ObjectError(self.path, f"map {name} is no buffer of records")
        self._kernel.callback(ring.close)
        return ring

    # Pins

    def pin(self, folder: str) -> None:
        """Pin programs, maps and links in a folder of a bpf file system, all of them or none.

        Links are called ``PROGRAM_link``. Maps that are pinned by their names stay where they are.
        """
        with Pins() as pins:
            for program in self.programs.values():
                if program.loaded:
                    pins.add(program.kernel, f"{folder}/{program.name}")
            for table in self.maps.values():
                if table.loaded and not table.spec.pinned_by_name:
                    pins.add(table.kernel, f"{folder}/{_file_name(table)}")
            links: dict[str, int] = {}
            for held in self.attached:
                if not held.links:
                    reason = f"{held.program} is attached by what cannot be pinned"
                    raise ObjectError(self.path, reason)
                for link in held.links:
                    number = links[held.program] = links.get(held.program, -1) + 1
                    more = f"_{number}" if number else ""
                    pins.add(link, f"{folder}/{held.program}_link{more}")

    def unpin(self) -> None:
        """Remove the names of maps that loading pinned."""
        self._pins.remove()

    def close(self) -> None:
        """Detach, and let go of all that is in the kernel; closing twice is allowed."""
        self.detach()
        for section in self.sections.values():
            section.close()
        self._kernel.close()
        for operations in self._operations.values():
            operations.close()
        self._operations.clear()
        for program in self.programs.values():
            program.close()
        for table in self.maps.values():
            table.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Object({self.path!r})"


def _native() -> str:
    import sys

    return sys.byteorder


def _file_name(table: BpfMap) -> str:
    """Return what a map is pinned as: names in a bpf file system have no dots."""
    return (table.spec.kernel_name if table.is_data else table.name).replace(".", "_")
