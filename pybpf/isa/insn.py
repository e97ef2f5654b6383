"""Instructions and programs as values; jumps and maps are named until encoded or loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from pybpf.dataclass import dataclass, field
from pybpf.isa.abi import AttachType, ProgType
from pybpf.isa.table import OPS, OpSpec
from pybpf.source import Span

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 = range(11)
STACK_SIZE = 512

ByteOrder = Literal["little", "big"]


@dataclass(frozen=True, slots=True)
class Insn:
    """One instruction; ``lddw`` is one although it takes two slots.

    Fields that the row fixes or does not use are 0 here: the ``off`` 1 that makes a division
    signed on the wire belongs to the row (see ``table.FREE_FIELDS``).

    ``imm`` is signed: 32 bits, or 64 for ``lddw``. A ``lddw_map_value`` (or ``_map_idx_value``)
    holds the map's descriptor (or index) in the low and the byte offset into the value in the high
    32 bits; a ``lddw_btf_id`` the type id in the low and the descriptor of the BTF object in the
    high ones; a ``lddw_func`` a signed distance of 32 bits, as ``call_local`` does.

    ``symbol`` names what the instruction refers to: the label a jump goes to, the subprogram that a
    ``call_local`` or a ``lddw_func`` names, or the map that a ``lddw_map_…`` loads; the number it
    stands for is filled in when the program is encoded (labels) or loaded (maps). A jump without a
    symbol holds the distance itself: slots from the one after it (for ``lddw_func``, after its
    first).
    """

    op: OpSpec
    dst: int = 0
    src: int = 0
    off: int = 0
    imm: int = 0
    symbol: str | None = None


@dataclass(frozen=True, slots=True)
class LineInfo:
    """The source line that the instructions from ``index`` on come from; ``index`` counts Insns."""

    index: int
    file: str
    line: int
    column: int
    text: str


def _no_labels() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Program:
    """A sequence of instructions and what the kernel must know to load it.

    ``labels`` maps a name to the index (counting Insns, not slots) it stands before. Entry points
    of subprograms are labels that a ``call_local`` or a ``lddw_func`` names. Names are letters,
    digits and ``_.$@``, and do not begin with a digit. ``spans`` says of each instruction where in
    a script it comes from, as far as that is known.
    """

    insns: tuple[Insn, ...]
    labels: Mapping[str, int] = field(default_factory=_no_labels)
    name: str = ""
    prog_type: ProgType = ProgType.UNSPEC
    expected_attach_type: AttachType | None = None
    licence: str = "GPL"
    lines: tuple[LineInfo, ...] = ()
    spans: tuple[Span | None, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def from_bytes(cls, data: bytes, byteorder: ByteOrder = "little") -> Program:
        """Decode raw instructions; see ``encoding.decode``.

        Raises EncodingError where a slot holds no valid instruction.
        """
        from pybpf.isa.encoding import decode

        return decode(data, byteorder)

    def __bytes__(self) -> bytes:
        """Encode little-endian; raises EncodingError for a field that does not fit."""
        from pybpf.isa.encoding import encode

        return encode(self, "little")


def insn(
    name: str, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0, symbol: str | None = None
) -> Insn:
    """Return the instruction of the table row called ``name`` (KeyError where there is none)."""
    return Insn(OPS[name], dst, src, off, imm, symbol)


def lines_of(spans: Sequence[Span | None]) -> Iterator[LineInfo]:
    """Yield an entry wherever the line changes; the kernel wants one for the first instruction."""
    current = next((span for span in spans if span), None)
    shown: tuple[str, int] | None = None
    for index, span in enumerate(spans):
        current = span or current
        if current is None:
            return
        line, column = current.source.position(current.start)
        if (current.source.name, line) != shown:
            shown = (current.source.name, line)
            yield LineInfo(index, *shown, column, current.source.line(line))
