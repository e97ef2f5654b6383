"""A program of an object, and a kernel's types, in; the program as it is right there, out.

The instructions that CO-RE relocations name get new operands: the ``imm`` of arithmetic and of
``lddw``, the ``off`` of loads and stores, and these another size where a field has. What is not in
the kernel is poisoned: the instruction becomes a call that no verifier lets through, which does no
harm where the program looks first whether the field exists. A report tells of each relocation.

Source: libbpf's relo_core.c (bpf_core_patch_insn) and libbpf.c (bpf_object__relocate_core).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from pybpf.btf.core import Core, Modules, Resolution, Value
from pybpf.btf.core_match import CoreError
from pybpf.btf.ext import CoreKind
from pybpf.btf.reader import Btf
from pybpf.dataclass import dataclass, replace
from pybpf.errors import ObjectError
from pybpf.isa.insn import Insn, Program
from pybpf.isa.insn import insn as make
from pybpf.isa.layout import slot_offsets
from pybpf.isa.table import FREE_FIELDS, ROWS, Form, OpSpec
from pybpf.objfile.object import CoreAt, Object, ObjectProgram

POISON = 0xBAD2310
"""The helper that a poisoned instruction calls: there is none of that number."""

_U64 = (1 << 64) - 1
_OFF_MOST = (1 << 15) - 1

_NAMES: Mapping[int, str] = {
    CoreKind.FIELD_BYTE_OFFSET: "byte_off",
    CoreKind.FIELD_BYTE_SIZE: "byte_sz",
    CoreKind.FIELD_EXISTS: "field_exists",
    CoreKind.FIELD_SIGNED: "signed",
    CoreKind.FIELD_LSHIFT_U64: "lshift_u64",
    CoreKind.FIELD_RSHIFT_U64: "rshift_u64",
    CoreKind.TYPE_ID_LOCAL: "local_type_id",
    CoreKind.TYPE_ID_TARGET: "target_type_id",
    CoreKind.TYPE_EXISTS: "type_exists",
    CoreKind.TYPE_SIZE: "type_size",
    CoreKind.ENUMVAL_EXISTS: "enumval_exists",
    CoreKind.ENUMVAL_VALUE: "enumval_value",
    CoreKind.TYPE_MATCHES: "type_matches",
}


class Outcome(StrEnum):
    """What became of a relocation."""

    PATCHED = "patched"
    POISONED = "poisoned"
    REFUSED = "refused"
    """A loader takes nothing of the object."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of the relocation of the instruction at ``slot``.

    ``kind`` is libbpf's word for it, ``spec`` what it is about (``struct task_struct.pid (0:0 @
    0)``) and ``found`` what that is in the kernel, empty where it is not there: ``reason`` then
    says what of it is missing, or why the relocation was refused. ``old`` is the operand as the
    compiler left it and ``new`` what it is now: None where there is none. A load or store that got
    another size tells both in ``sizes``, in bytes.
    """

    slot: int
    kind: str
    spec: str
    found: str
    outcome: Outcome
    old: int | None = None
    new: int | None = None
    sizes: tuple[int, int] | None = None
    reason: str = ""

    def __str__(self) -> str:
        """Return it as a line, such as ``12  byte_off  struct sock.sk_err (0:3 @ 8): 8 -> 548``."""
        match self.outcome:
            case Outcome.PATCHED:
                said = f"{self.old} -> {self.new}"
                if self.sizes:
                    said += ", {} -> {} bytes".format(*self.sizes)
                if self.reason:
                    said += f" ({self.reason})"
            case _:
                said = f"{self.outcome}: {self.reason}"
        spec = f"  {self.spec}" if self.spec else ""
        return f"{self.slot:>6}  {self.kind:<14}{spec}: {said}"


@dataclass(frozen=True, slots=True)
class Relocated:
    """A program made right for a kernel, and what was done to it, in the order of its slots.

    ``program`` has no relocations left. An instruction whose relocation is refused is poisoned.
    """

    program: ObjectProgram
    report: tuple[Row, ...]

    @property
    def refused(self) -> Row | None:
        """The first relocation for which a loader takes nothing of the object; None is good."""
        return next((row for row in self.report if row.outcome is Outcome.REFUSED), None)


def relocated(found: Object, program: ObjectProgram, target: Btf) -> Relocated:
    """Return a program with the CO-RE relocations of ``target`` applied.

    For several programs of an object, ``Relocator`` does it faster. Raises ObjectError for what
    libbpf would refuse.
    """
    return Relocator(found, target).relocated(program)


class Relocator:
    """Relocates the programs of one object for a kernel.

    ``modules`` is called for the types of its modules if it does not have all that is asked for.
    Raises ObjectError where the kernel is of another byte order than the object.
    """

    def __init__(self, found: Object, target: Btf, modules: Modules = tuple) -> None:
        self._found = found
        self._core: Core | None = None
        if found.btf is None:
            return
        try:
            self._core = Core(found.btf, target, modules)
        except CoreError as error:
            raise ObjectError(found.path, error.message) from None
        # Which candidates are left for a type depends on the relocations before, in this order;
        # those of programs that are not loaded unless asked for are none of them.
        for section, relocations in found.relocations.items():
            for relocation in () if section.startswith("?") else relocations:
                try:
                    self._core.resolve(relocation)
                except CoreError:
                    continue  # told again where an instruction has it

    def relocated(self, program: ObjectProgram) -> Relocated:
        """Return a program for the kernel; raises ObjectError for what libbpf would refuse."""
        done = self.examined(program)
        if row := done.refused:
            what = f"CO-RE {row.kind} {row.spec}" if row.spec else "CO-RE"
            reason = f"instruction {row.slot} of {program.name}: {what}: {row.reason}"
            raise ObjectError(self._found.path, reason, section=program.section)
        return done

    def examined(self, program: ObjectProgram) -> Relocated:
        """Return a program for the kernel and the report, whatever that says. Raises nothing."""
        if self._core is None:
            return Relocated(program, ())
        starts = slot_offsets(program.program)
        index_of = {slot: index for index, slot in enumerate(starts[:-1])}
        insns = list(program.program.insns)
        poisoned: set[int] = set()
        report = []
        for at in sorted(program.relocations, key=lambda at: at.slot):
            index = None if at.relocation.offset % 8 else index_of.get(at.slot)
            row, changed = _apply(self._core, at, None if index is None else insns[index])
            report.append(row)
            if changed is not None and index is not None:
                insns[index] = changed
            elif index is not None:
                poisoned.add(index)
        code = _poisoned(program.program, insns, poisoned)
        return Relocated(replace(program, program=code, relocations=()), tuple(report))


def _apply(core: Core, at: CoreAt, insn: Insn | None) -> tuple[Row, Insn | None]:
    """Return what becomes of a relocation, and its instruction; None is to be poisoned."""
    number = at.relocation.kind
    row = Row(at.slot, _NAMES.get(number, f"kind {number}"), "", "", Outcome.REFUSED)
    try:
        row = replace(row, spec=str(core.spec(at.relocation)))
        resolution = core.resolve(at.relocation)
        row = replace(row, found=str(resolution.found or ""), reason=resolution.missing)
        if insn is None:
            return replace(row, reason="no instruction begins there"), None
        reason = _unusable(insn, resolution)
        if resolution.new is None or reason:
            return replace(row, outcome=Outcome.POISONED, reason=reason), None
        changed = _patched(insn, resolution.old, resolution.new)
    except CoreError as error:
        return replace(row, reason=error.message), None
    sizes = None if changed.op is insn.op else (insn.op.width // 8, changed.op.width // 8)
    old, new = (_operand(one) for one in (insn, changed))
    return replace(row, outcome=Outcome.PATCHED, old=old, new=new, sizes=sizes), changed


def _unusable(insn: Insn, resolution: Resolution) -> str:
    """Say why an instruction is to be poisoned, nothing where it is not.

    Raises CoreError where it is not the instruction that the relocation is about.
    """
    old, new, form = resolution.old, resolution.new, insn.op.form
    if new is None:
        return resolution.missing
    plain = form in _MEMORY or form is Form.ALU_IMM or insn.op.name == "lddw"
    if not plain or insn.symbol is not None:
        raise CoreError(f"an instruction that cannot be relocated: {insn.op.name}")
    if old.exact and _operand(insn) & _U64 != old.number:
        raise CoreError(f"the instruction holds {_operand(insn)}, its types say {old.number}")
    if form not in _MEMORY:
        return ""
    if new.number > _OFF_MOST:
        raise CoreError(f"{new.number} is too far for the offset of an instruction")
    if resolution.resizable:
        return ""
    if not (old.size and new.size):
        return "it is a bit field on one side only"
    return f"{old.size} bytes are {new.size} in the kernel, and no pointer or unsigned integer"


_MEMORY = frozenset(form for form, fields in FREE_FIELDS.items() if {"dst", "off"} <= fields) - {
    Form.BRANCH_IMM, Form.BRANCH_REG,
}  # fmt: skip


def _operand(insn: Insn) -> int:
    """Return the operand that a relocation is about."""
    return insn.off if insn.op.form in _MEMORY else insn.imm


def _patched(insn: Insn, old: Value, new: Value) -> Insn:
    """Return an instruction with the new value; raises CoreError where it has not that size."""
    if insn.op.form in _MEMORY:
        op = insn.op if new.size == old.size else _resized(insn.op, old.size, new.size)
        return replace(insn, op=op, off=new.number)
    return replace(insn, imm=_wrapped(new.number, 64 if insn.op.name == "lddw" else 32))


def _wrapped(number: int, bits: int) -> int:
    """Return the lower bits of a number as a signed one."""
    number &= (1 << bits) - 1
    return number - (number >> (bits - 1) << bits)


def _resized(op: OpSpec, old: int, new: int) -> OpSpec:
    """Return the same load or store of ``new`` bytes; raises CoreError where there is none."""
    if op.width != old * 8:
        raise CoreError(f"the instruction accesses {op.width // 8} bytes, the field has {old}")
    same = (op.form, op.effect, op.imm, new * 8)
    for row in ROWS:
        if (row.form, row.effect, row.imm, row.width) == same:
            return row
    raise CoreError(f"no instruction like {op.name} accesses {new} bytes")


def _poisoned(program: Program, insns: Sequence[Insn], poisoned: set[int]) -> Program:
    """Return a program of other instructions, some poisoned: a ``lddw`` becomes two calls."""
    call = make("call_helper", imm=POISON)
    code: list[Insn] = []
    places = []
    for index, insn in enumerate(insns):
        places.append(len(code))
        code += [call] * insn.op.slots if index in poisoned else [insn]
    places.append(len(code))
    if len(code) == len(insns):
        return replace(program, insns=tuple(code))
    labels = {name: places[index] for name, index in program.labels.items()}
    lines = tuple(replace(line, index=places[line.index]) for line in program.lines)
    return replace(
        program, insns=tuple(code), labels=MappingProxyType(labels), lines=lines, spans=()
    )
