"""Programs in the making: instructions by name, labels and maps in; a ``CorpusProgram`` out.

Unlike ``pybpf.isa`` this holds slots as they are encoded, whatever is in them, since what is made
here need not be valid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from types import MappingProxyType

from pybpf.corpus import CorpusMap, CorpusProgram, Fixup, FixupKind
from pybpf.dataclass import replace
from pybpf.isa.table import DISTANCE_FIELD, OPS, OpSpec

SLOT = struct.Struct("<BBhI")
_U32 = 0xFFFFFFFF
_LDDW = OPS["lddw"].opcode
_CALL_KFUNC = bytes([OPS["call_kfunc"].opcode, (OPS["call_kfunc"].src or 0) << 4])
_FIELDS = MappingProxyType({row.name: DISTANCE_FIELD[row] for row in DISTANCE_FIELD})


def pack(op: OpSpec, dst: int, src: int, off: int, imm: int) -> bytes:
    """Return a slot of an operation; what its row fixes is put in, what does not fit is cut off."""
    return SLOT.pack(
        op.opcode,
        dst & 15 | (src if op.src is None else op.src) << 4 & 0xF0,
        (((off if op.off is None else op.off) + 0x8000) & 0xFFFF) - 0x8000,
        (imm if op.imm is None else op.imm) & _U32,
    )


class Code:
    """A program in the making. A label is a number, which ``label`` gives out."""

    def __init__(self) -> None:
        self.slots: list[bytes] = []
        self.maps: list[CorpusMap] = []
        self.fixups: list[Fixup] = []
        self.functions: list[int] = []
        """The labels of subprograms, in the order of their places."""
        self._places: list[int | None] = []
        self._jumps: list[tuple[int, str, int]] = []

    def emit(
        self, name: str, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0, to: int = -1
    ) -> None:
        """Append an instruction of one slot; ``to`` is the label that a jump or call goes to."""
        if to >= 0:
            self._jumps.append((len(self.slots), _FIELDS[name], to))
        self.slots.append(pack(OPS[name], dst, src, off, imm))

    def number(self, dst: int, value: int) -> None:
        """Load a number of 64 bits, by two slots."""
        self._wide(dst, 0, value & _U32, value >> 32 & _U32)

    def map(self, dst: int, number: int, offset: int | None = None) -> None:
        """Load a map; with an offset, the address of that byte of an array's first value."""
        kind: FixupKind = "map_fd" if offset is None else "map_value"
        self.fixups.append(Fixup(len(self.slots), kind, number))
        self._wide(dst, 1 if offset is None else 2, 0, offset or 0)

    def function(self, dst: int, label: int) -> None:
        """Load the address of a subprogram."""
        self._jumps.append((len(self.slots), "imm", label))
        self._wide(dst, 4, 0, 0)

    def _wide(self, dst: int, src: int, low: int, high: int) -> None:
        self.slots.append(SLOT.pack(_LDDW, dst | src << 4, 0, low))
        self.slots.append(SLOT.pack(0, 0, 0, high))

    def label(self) -> int:
        """Return a new label, to be placed later."""
        self._places.append(None)
        return len(self._places) - 1

    def place(self, label: int) -> None:
        """Place a label before the next instruction."""
        self._places[label] = len(self.slots)

    def at(self, label: int) -> int:
        """Return the slot of a label that has been placed."""
        place = self._places[label]
        assert place is not None
        return place

    def new_map(self, spec: CorpusMap) -> int:
        """Return the number of a map like this, which is new unless the program has one."""
        if spec not in self.maps:
            self.maps.append(spec)
        return self.maps.index(spec)

    def insns(self) -> bytes:
        """Return the instructions, with jumps that lead where their labels are."""
        slots = list(self.slots)
        for slot, field, label in self._jumps:
            code, regs, off, imm = SLOT.unpack(slots[slot])
            distance = self.at(label) - slot - 1
            if field == "off":
                off = ((distance + 0x8000) & 0xFFFF) - 0x8000
            else:
                imm = distance & _U32
            slots[slot] = SLOT.pack(code, regs, off, imm)
        return b"".join(slots)


def func_info(offsets: Iterable[int], types: Iterable[int]) -> bytes:
    """Return a struct bpf_func_info for the function at each slot, of the type of that number."""
    return b"".join(struct.pack("<II", *pair) for pair in zip(offsets, types, strict=True))


def with_insns(
    program: CorpusProgram, insns: bytes, fixups: Iterable[Fixup],
    kfuncs: Iterable[tuple[int, str]] | None = None,
) -> CorpusProgram:  # fmt: skip
    """Return a program with other instructions.

    ``kfuncs``: where calls of the kernel's functions are now, None: where they were. What is no
    longer such a call loses its name.
    """
    named = program.kfuncs if kfuncs is None else kfuncs
    calls = tuple(
        (slot, name) for slot, name in named if insns[slot * 8 : slot * 8 + 2] == _CALL_KFUNC
    )
    return replace(program, insns=insns, fixups=tuple(fixups), kfuncs=calls)
