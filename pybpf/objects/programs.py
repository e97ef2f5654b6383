"""A program of an object in; loaded with what it needs of this kernel, or the reason why not, out.

CO-RE relocations are applied, maps and externs get their descriptors, addresses and numbers, and
what the program is attached to is looked up among the kernel's types.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping
from errno import EPERM
from typing import TYPE_CHECKING

from pybpf.btf.attach import TARGETS
from pybpf.btf.reader import Btf, Kind
from pybpf.dataclass import dataclass, replace
from pybpf.errors import EncodingError, KernelError, ObjectError
from pybpf.isa.abi import AttachType, ProgType
from pybpf.isa.encoding import encode
from pybpf.isa.insn import Insn, Program, insn
from pybpf.isa.layout import slot_offsets
from pybpf.kernel import packed, programs
from pybpf.kernel.fd import Fd
from pybpf.kernel.programs import DebugInfo, Prog
from pybpf.kernel.rejection import locate, rejected_slot
from pybpf.kernel.syscall import TestRun
from pybpf.kernel.types import KernelTypes, Named
from pybpf.objects.externs import Symbol
from pybpf.objects.table import BpfMap
from pybpf.objfile.code import Reference, Use
from pybpf.objfile.corpus import prog_flags
from pybpf.objfile.debuginfo import DebugRecords, ObjectDebug
from pybpf.objfile.object import Object, ObjectProgram
from pybpf.objfile.sections import Trait, kinds
from pybpf.suggest import did_you_mean

if TYPE_CHECKING:
    from pybpf.objects.attached import Attached, Where
    from pybpf.objfile.relocate import Relocator, Row

_MISSING_KFUNC = 2_002_000_000
"""The helper that a kfunc which is not there becomes: no verifier lets a call of it through."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a program was written for, beyond its type: a type of the kernel, or of a program.

    ``btf_id`` is the number of the type, ``held`` whose it is: the BTF of a module, a program, or
    (None) the kernel itself. Of a structure of operations ``attach_type`` is the index of the
    member.
    """

    btf_id: int = 0
    held: Fd | None = None
    attach_type: int | None = None


@dataclass(frozen=True, slots=True)
class Loading:
    """What all programs of an object are loaded with."""

    found: Object
    debug: ObjectDebug
    btf: Fd | None
    maps: Mapping[str, BpfMap]
    symbols: Mapping[str, Symbol]
    types: KernelTypes
    core: Relocator | None
    places: Mapping[str, Place]
    """Of programs that are members of a structure of operations, by their names."""


class BpfProgram:
    """A program, before and after it is loaded.

    ``autoload`` says whether loading the object loads it; ``target`` is what it is attached to, as
    the name of its section has it behind the slash. Both can be set before that. ``autoattach``
    says whether attaching the object attaches it.
    """

    def __init__(
        self, source: ObjectProgram, attach: Callable[[BpfProgram, Where], Attached]
    ) -> None:
        self.source = source
        self._attach = attach
        self.autoattach = True
        # A function of .text that nothing calls is a program, but of no type.
        self.autoload = source.autoload and source.section != ".text"
        self.target = source.kind.target if source.kind is not None else ""
        self._replaced: Place | None = None
        self.report: tuple[Row, ...] = ()
        """What became of its CO-RE relocations."""
        self._prog: Prog | None = None

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.source.name

    @property
    def section(self) -> str:
        """The name of its section, as ``SEC()`` has it."""
        return self.source.section

    @property
    def prog_type(self) -> ProgType:
        """Its type."""
        return self.source.program.prog_type

    @property
    def loaded(self) -> bool:
        """Whether it is in the kernel."""
        return self._prog is not None

    @property
    def kernel(self) -> Prog:
        """The program in the kernel; raises ObjectError before it is loaded, or after closing."""
        if self._prog is None:
            raise ObjectError("", f"program {self.name} is not loaded")
        return self._prog

    def fileno(self) -> int:
        """Return the descriptor, for what wants one."""
        return self.kernel.fileno()

    def run(self, ctx: bytes = b"", data: bytes = b"", *, repeat: int = 0) -> TestRun:
        """Run it once here and now, on a context or a packet; raises KernelError."""
        return self.kernel.test_run(ctx, data, repeat=repeat)

    def replace(self, other: BpfProgram | Fd, function: str = "") -> None:
        """Take the place of a global function of a loaded program, when attached (``freplace``).

        ``function`` is by default what its section says. To be called before loading; raises
        KernelError, and ObjectError where the other has no such function.
        """
        from pybpf.kernel.loaded import types_of

        held = other.kernel if isinstance(other, BpfProgram) else other
        name = function or self.target
        blob = types_of(held)
        number = Btf(blob).function_number(name) if blob else None
        if number is None:
            reason = f"the program that {self.name} is to replace a function of has no {name}"
            raise ObjectError("", reason)
        self._replaced = Place(number, held)

    def attach(self, where: Where | None = None, **places: str | int | None) -> Attached:
        """Attach it alone, as ``Object.attach`` does; closing the result, or the object, detaches.

        Raises ObjectError where it is not loaded or wants to be told more, and KernelError.
        """
        from pybpf.objects.attached import Where

        self.kernel.fileno()  # which raises where it is not loaded
        return self._attach(self, where or Where(**places))  # type: ignore[arg-type]

    def attach_to(self, sockets: BpfMap) -> None:
        """Attach a program for sockets to a map of them, for as long as there is the map.

        Raises KernelError.
        """
        attach_type = self.source.program.expected_attach_type
        if attach_type is None:
            raise ObjectError("", f"the section of {self.name} does not say what it does to a map")
        packed.prog_attach(self.kernel, sockets.kernel, attach_type)

    def close(self) -> None:
        """Let go of it; it stays while it is attached or pinned."""
        if self._prog is not None:
            self._prog.close()
        self._prog = None

    def load(self, loading: Loading) -> None:
        """Load it; raises ObjectError for what is not there, KernelError where it is refused."""
        path = loading.found.path
        source = self.source
        if source.kind is None:
            raise _unknown_section(path, source)
        if loading.core is not None and source.relocations:
            done = loading.core.relocated(source)
            self.report = done.report
            if (refused := done.refused) is not None:
                reason = f"program {self.name}: no CO-RE relocation of {refused.spec}"
                hints = (refused.reason,)
                raise ObjectError(path, reason, section=self.section, hints=hints)
            source = done.program
        place = self._place(loading)
        program, modules = _bound(source, loading)
        try:
            code = encode(program, sys.byteorder)
        except EncodingError as error:
            raise ObjectError(path, str(error), section=self.section) from None
        records = loading.debug.programs.get(self.name, DebugRecords())
        debug = None
        if loading.btf is not None:
            debug = DebugInfo(loading.btf, records.func_info, records.line_info)
        try:
            self._prog = programs.load(
                code, program.prog_type, self.name, licence=program.licence,
                expected_attach_type=(
                    program.expected_attach_type if place.attach_type is None else place.attach_type
                ),
                debug=debug, flags=prog_flags(source), attach_btf_id=place.btf_id,
                attach_fd=place.held, kern_version=loading.found.version, modules=modules,
            )  # fmt: skip
        except KernelError as error:
            error.action = f'cannot load the program {self.name} (SEC("{self.section}"))'
            _explain(error, program)
            _explain_rights(error, program)
            raise

    def _place(self, loading: Loading) -> Place:
        """Return what it is attached to by type, as far as its section says that it is."""
        if self.name in loading.places:
            return loading.places[self.name]
        kind = self.source.kind
        if kind is None or Trait.BTF not in kind.kind.traits:
            return Place()
        word = kind.kind.name.removesuffix("+")
        if self.prog_type is ProgType.EXT:
            if self._replaced is None:
                hint = f"--replace {self.name}=prog:ID, or pinned:PATH"
                raise self._lacks(loading, "a loaded program, of which it replaces a part", hint)
            return self._replaced
        if not self.target:
            hint = f"--target {self.name}=…"
            raise self._lacks(loading, f'a target, as in SEC("{word}/NAME")', hint)
        return self._typed(loading, kind.kind.attach_type)

    def _lacks(self, loading: Loading, what: str, hint: str) -> ObjectError:
        reason = f"program {self.name} wants {what}"
        return ObjectError(loading.found.path, reason, section=self.section, hints=(hint,))

    def _typed(self, loading: Loading, attach_type: AttachType | None) -> Place:
        assert attach_type is not None, "each section with types has one"
        kind, prefix = TARGETS[attach_type]
        module, colon, name = self.target.rpartition(":")
        named = loading.types.find(kind, prefix + name, module if colon else None)
        if named is None:
            raise self._missing(loading, kind, prefix)
        held = loading.types.descriptor(named.module) if named.module else None
        return Place(named.number, held)

    def _missing(self, loading: Loading, kind: Kind, prefix: str) -> ObjectError:
        name = self.target.rpartition(":")[2]
        known = (
            loading.types.own.name(number).removeprefix(prefix)
            for number in loading.types.own.numbers(kind)
            if loading.types.own.name(number).startswith(prefix)
        )
        what = {"btf_trace_": "tracepoint", "bpf_lsm_": "hook", "bpf_iter_": "iterator"}
        reason = (
            f"program {self.name}: the kernel's types know no "
            f"{what.get(prefix, 'function')} {self.target}{did_you_mean(name, known)}"
        )
        return ObjectError(loading.found.path, reason, section=self.section)

    def __repr__(self) -> str:
        return f"BpfProgram({self.name!r}, {self.section!r})"


def _unknown_section(path: str, source: ObjectProgram) -> ObjectError:
    word = source.section.split("/")[0]
    similar = did_you_mean(word, {kind.name.removesuffix("+") for kind in kinds()})
    reason = f"program {source.name}: no type of program goes by this section{similar}"
    return ObjectError(path, reason, section=source.section)


def _bound(source: ObjectProgram, loading: Loading) -> tuple[Program, list[Fd]]:
    """Return a program whose names are resolved, and the modules whose kfuncs it calls."""
    program = source.program
    insns = list(program.insns)
    index_of = {slot: index for index, slot in enumerate(slot_offsets(program))}
    modules: list[str] = []
    for reference in source.references:
        index = index_of[reference.slot]
        insns[index] = _resolved(insns[index], reference, loading, modules)
    bound = replace(program, insns=tuple(insns))
    return bound, [loading.types.descriptor(name) for name in modules]


def _resolved(one: Insn, reference: Reference, loading: Loading, modules: list[str]) -> Insn:
    match reference.use:
        case Use.MAP | Use.DATA:
            # The low half is the descriptor, the high half an offset into the value.
            return replace(one, imm=one.imm | loading.maps[reference.name].fileno())
        case Use.KFUNC:
            found = loading.symbols[reference.name].found
            if found is None:
                return insn("call_helper", imm=_MISSING_KFUNC)
            return replace(one, imm=found.number, off=_number_of(found, modules))
        case Use.EXTERN:
            return _symbol(one, reference, loading)


def _number_of(found: Named, modules: list[str]) -> int:
    """Return by which number a call refers to the types of a module; the kernel's own is 0."""
    if not found.module:
        return 0
    if found.module not in modules:
        modules.append(found.module)
    return 1 + modules.index(found.module)


def _symbol(one: Insn, reference: Reference, loading: Loading) -> Insn:
    symbol = loading.symbols[reference.name]
    if symbol.found is None:
        place = symbol.address + (reference.offset if symbol.address else 0)
        return insn("lddw", one.dst, imm=(place ^ 1 << 63) - (1 << 63))
    module = symbol.found.module
    held = loading.types.descriptor(module).fileno() if module else 0
    return insn("lddw_btf_id", one.dst, imm=held << 32 | symbol.found.number)


def _explain_rights(error: KernelError, program: Program) -> None:
    """Say of a refusal that it is no lack of rights, where this process lacks none."""
    from pybpf.kernel import rights

    if error.errno != EPERM or rights.needed() or not rights.are_told():
        return
    kind = program.prog_type.name.lower()
    why = (
        f"this process has the rights: this kernel, or its policy, refuses a program of type {kind}"
    )
    error.hints = tuple(hint for hint in (why, rights.explain()) if hint)


def _explain(error: KernelError, program: Program) -> None:
    """Add to an error which instruction the verifier refuses, and of which line of C it is."""
    slot = rejected_slot(error.log)
    if slot is None:
        return
    locate(error, program)
    starts = slot_offsets(program)
    if not 0 <= slot < starts[-1] or not program.lines:
        return
    index = bisect_right(starts, slot) - 1
    before = [line for line in program.lines if line.index <= index]
    if before:
        line = before[-1]
        error.hints += (f"{line.file}:{line.line}:{line.column}: {line.text.strip()}",)
