"""The bytes of an eBPF object in; its programs, maps and externs out, as values.

Nothing is loaded, and nothing is asked of a kernel: what depends on one, CO-RE relocations and
externs, is kept with the instruction that needs it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pybpf.btf import ext
from pybpf.btf.ext import BtfExt, CoreRelocation, SourceLine
from pybpf.btf.reader import Btf
from pybpf.dataclass import dataclass, field
from pybpf.errors import BtfError, ObjectError, TargetError
from pybpf.isa.abi import ProgType
from pybpf.isa.insn import ByteOrder, LineInfo, Program
from pybpf.isa.layout import slot_offsets
from pybpf.objfile.code import Function, Linked, Linker, Reference, functions
from pybpf.objfile.elf import Elf, read
from pybpf.objfile.externs import Extern, externs
from pybpf.objfile.maps import ObjectMap, maps
from pybpf.objfile.sections import SectionName, parse

_SIZE_AT_MOST = 256 << 20
_CATCHES = "exception_callback:"


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A function of a program: its first slot, and its type by number of the object's BTF."""

    name: str
    slot: int
    type: int
    is_global: bool


@dataclass(frozen=True, slots=True)
class CoreAt:
    """A CO-RE relocation of the instruction at ``slot`` of a program."""

    slot: int
    relocation: CoreRelocation


@dataclass(frozen=True, slots=True)
class ObjectProgram:
    """A program with all its subprograms, ready for maps, externs and types of a kernel.

    ``section`` is the name of its section as it is, ``kind`` what it says (None: it says nothing,
    and ``program`` has no type). Instructions that refer to maps, data or externs have their names
    as symbols; ``references`` tells where. ``autoload`` is False where its section begins with
    ``?``.
    """

    name: str
    section: str
    kind: SectionName | None
    program: Program
    functions: tuple[FunctionInfo, ...]
    references: tuple[Reference, ...]
    relocations: tuple[CoreAt, ...]
    autoload: bool = True


@dataclass(frozen=True, slots=True)
class Object:
    """An eBPF object file. ``version`` is the kernel's that old objects ask for, else 0.

    ``relocations`` are all for CO-RE, by the names of the sections that their instructions are in.
    """

    path: str
    byteorder: ByteOrder
    licence: str
    version: int
    programs: tuple[ObjectProgram, ...]
    maps: tuple[ObjectMap, ...]
    externs: tuple[Extern, ...]
    btf: Btf | None = field(repr=False)
    elf: Elf = field(repr=False)
    relocations: Mapping[str, tuple[CoreRelocation, ...]] = field(repr=False)

    @classmethod
    def open(cls, path: str | Path) -> Object:
        """Read an object file.

        Raises ObjectError for a file that is none or is damaged, OSError where it cannot be read.
        """
        with Path(path).open("rb") as file:
            data = file.read(_SIZE_AT_MOST + 1)
        if len(data) > _SIZE_AT_MOST:
            reason = f"over {_SIZE_AT_MOST >> 20} MiB are more than any object has"
            raise ObjectError(str(path), reason)
        return cls.parse(data, str(path))

    @classmethod
    def parse(cls, data: bytes, path: str = "<bytes>") -> Object:
        """Read the bytes of an object file, which errors call ``path``; raises ObjectError."""
        elf = read(data, path)
        btf = _types(elf)
        more = _debug(elf, btf)
        outside = externs(elf, btf)
        found = maps(elf, btf, outside)
        programs = tuple(_programs(elf, btf, more, found, outside))
        licence = _text(elf, "license")
        return cls(
            path, elf.byteorder, licence, _version(elf), programs, found, outside, btf, elf,
            more.relocations,
        )  # fmt: skip

    def program(self, name: str) -> ObjectProgram | None:
        """Return the program called ``name``, or None."""
        return next((p for p in self.programs if p.name == name), None)

    def functions(self) -> Iterator[tuple[ObjectProgram, Function]]:
        """Yield every function of every section once, and where it is.

        What it calls is only named: such a program is to be read, not loaded. Raises ObjectError.
        """
        every = functions(self.elf)
        linker = Linker(self.elf, every, self.maps, self.externs)
        describe = _Description(_debug(self.elf, self.btf))
        programs = iter(self.programs)
        for function in every:
            program = next(programs) if _is_program(function, every) else None
            if program is None or len(program.functions) > 1:
                program = describe.whole(linker.alone(function), function, self.licence)
            yield program, function

    def map(self, name: str) -> ObjectMap | None:
        """Return the map called ``name``, or None."""
        return next((m for m in self.maps if m.name == name), None)


def _types(elf: Elf) -> Btf | None:
    """Return .BTF, None where there is none."""
    section = elf.section(".BTF")
    if section is None or not section.data:
        return None
    try:
        return Btf(section.data)
    except BtfError as error:
        reason = f"no BTF: {error.reason}"
        raise ObjectError(elf.path, reason, section=section.name, offset=error.offset) from None


def _debug(elf: Elf, btf: Btf | None) -> BtfExt:
    """Return what .BTF.ext says, nothing where it or .BTF is not there."""
    section = elf.section(".BTF.ext")
    if btf is None or section is None or not section.data:
        return BtfExt({}, {}, {})
    try:
        return ext.parse(section.data, btf)
    except TargetError as error:
        raise ObjectError(elf.path, error.message, section=section.name) from None


def _text(elf: Elf, section: str) -> str:
    found = elf.section(section)
    return found.data.split(b"\0", 1)[0].decode("utf-8", "replace") if found else ""


def _version(elf: Elf) -> int:
    found = elf.section("version")
    return int.from_bytes(found.data[:4], elf.byteorder) if found else 0


def _programs(
    elf: Elf, btf: Btf | None, more: BtfExt, found: tuple[ObjectMap, ...],
    outside: tuple[Extern, ...],
) -> Iterator[ObjectProgram]:  # fmt: skip
    """Link each function that is a program."""
    every = functions(elf)
    linker = Linker(elf, every, found, outside)
    describe = _Description(more)
    catching = _Catching(btf, every)
    licence = _text(elf, "license")
    for function in every:
        if _is_program(function, every):
            linked = linker.link(function, catching.of(describe.type_of(function)))
            yield describe.whole(linked, function, licence)


def _is_program(function: Function, every: Sequence[Function]) -> bool:
    """Whether a function is a program: all are but subprograms of ``.text``."""
    return function.section.name != ".text" or len(every) == 1


class _Catching:
    """Finds the functions that programs name as the end of their exceptions."""

    def __init__(self, btf: Btf | None, every: Iterable[Function]) -> None:
        self._btf = btf
        self._subprograms = {
            function.name: function
            for function in every
            if function.section.name == ".text" and function.is_global
        }

    def of(self, number: int) -> Function | None:
        """Return that of a program by its type; None without one. The kernel refuses several."""
        tags = self._btf.decl_tags(number) if self._btf is not None and number else ()
        named = [tag.removeprefix(_CATCHES) for tag in tags if tag.startswith(_CATCHES)]
        return self._subprograms.get(named[0]) if len(named) == 1 else None


_Row = TypeVar("_Row", SourceLine, CoreRelocation)
_Rows = tuple[list[int], list[_Row]]


def _sorted(rows: Iterable[_Row]) -> _Rows[_Row]:
    """Return rows in the order of their offsets, and these, to look places up in.

    An instruction has one row: the last.
    """
    by_offset = {row.offset: row for row in rows}
    offsets = sorted(by_offset)
    return offsets, [by_offset[offset] for offset in offsets]


def _moved(
    rows: Mapping[str, _Rows[_Row]], function: Function, slot: int
) -> Iterator[tuple[int, _Row]]:
    """Yield the rows of a function that begins at ``slot``, each with its own slot."""
    offsets, ordered = rows.get(function.section.name, ([], []))
    first = bisect_left(offsets, function.start)
    last = bisect_left(offsets, function.start + function.size)
    for row in ordered[first:last]:
        yield slot + (row.offset - function.start) // 8, row


class _Description:
    """Moves what .BTF.ext says of sections to where the linker put their functions."""

    def __init__(self, more: BtfExt) -> None:
        self._types = {
            (section, row.offset): row.type
            for section, rows in more.functions.items()
            for row in rows
        }
        self._lines = {name: _sorted(rows) for name, rows in more.lines.items()}
        self._relocations = {name: _sorted(rows) for name, rows in more.relocations.items()}

    def whole(self, linked: Linked, function: Function, licence: str) -> ObjectProgram:
        """Return a program with all that is known of it; ``function`` is its first."""
        section = function.section.name
        kind = parse(section)
        return ObjectProgram(
            function.name, section, kind, self.program(linked, kind, licence),
            tuple(self.functions(linked)), linked.references,
            tuple(self.relocations(linked)), not section.startswith("?"),
        )  # fmt: skip

    def program(self, linked: Linked, kind: SectionName | None, licence: str) -> Program:
        """Return the program with its type, its licence and the lines of its source."""
        plain = linked.program
        index_of = {slot: index for index, slot in enumerate(slot_offsets(plain))}
        lines = tuple(
            LineInfo(index_of[slot], row.file, row.line, row.column, row.text.rstrip())
            for piece in linked.pieces
            for slot, row in _moved(self._lines, piece.function, piece.slot)
            if slot in index_of
        )
        return Program(
            plain.insns, plain.labels, plain.name,
            kind.kind.prog_type if kind else ProgType.UNSPEC,
            kind.kind.attach_type if kind else None, licence, lines,
        )  # fmt: skip

    def functions(self, linked: Linked) -> Iterator[FunctionInfo]:
        """Yield what .BTF says of the functions of a program; 0 is the type of an unknown one."""
        for piece in linked.pieces:
            function = piece.function
            yield FunctionInfo(
                function.name, piece.slot, self.type_of(function), function.is_global
            )

    def type_of(self, function: Function) -> int:
        """Return the number of a function's type; 0 where .BTF says nothing of it."""
        return self._types.get((function.section.name, function.start), 0)

    def relocations(self, linked: Linked) -> Iterator[CoreAt]:
        """Yield the CO-RE relocations of a program."""
        for piece in linked.pieces:
            for slot, row in _moved(self._relocations, piece.function, piece.slot):
                yield CoreAt(slot, row)
