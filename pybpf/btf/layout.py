"""A structure's members in; what makes a C compiler put them there out: packing and padding.

BTF has no attributes, so they are found by laying the members out as compilers do: each at the next
multiple of its alignment, a bit field where it does not straddle a unit of its type. Gaps are
filled with bit fields without names, which are no members. Source: System V ABI, "Bit-Fields".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pybpf.btf.abi import Kind
from pybpf.btf.types import Array, BtfType, Composite, Enum, Field, Float, Int, Reference
from pybpf.dataclass import dataclass
from pybpf.errors import BtfError

DEEPEST = 64
"""The most pointers, arrays and nameless structures within each other; a kernel has 12 or so."""
_BYTE = 8
_MOST_FILLERS = 64


@dataclass(frozen=True, slots=True)
class Slot:
    """A member to be placed, in bits: where, how many, aligned to what.

    ``unit`` is the size of a bit field's type, 0 for another member.
    """

    offset: int
    size: int
    align: int
    unit: int = 0


@dataclass(frozen=True, slots=True)
class Filler:
    """``: bits`` of an integer of ``unit`` bits; or an array of ``bits / 8`` bytes (``unit`` 0)."""

    unit: int
    bits: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a structure is to be declared; ``align`` is what it then has, in bits.

    ``fillers`` go before each member, the last after all of them. ``aligned`` is a number of bytes
    for an attribute, or 0. ``exact`` is False where no C has this layout.
    """

    align: int
    fillers: tuple[tuple[Filler, ...], ...]
    packed: bool = False
    aligned: int = 0
    exact: bool = True


def structure(slots: Sequence[Slot], size: int) -> Layout:
    """Return the layout of a structure of ``size`` bits."""
    align = max((slot.align for slot in slots), default=_BYTE)
    for packed in (False, True):
        fillers = _fillers(slots, size, _BYTE if packed else align, packed=packed)
        if fillers is not None:
            return Layout(_BYTE if packed else align, fillers, packed=packed)
    return Layout(align, ((),) * (len(slots) + 1), exact=False)


def union(slots: Sequence[Slot], size: int) -> Layout:
    """Return the layout of a union of ``size`` bits."""
    align = max((slot.align for slot in slots), default=_BYTE)
    taken = max((slot.size for slot in slots), default=0)
    nothing: tuple[tuple[Filler, ...], ...] = ((),) * (len(slots) + 1)
    exact = all(not slot.offset for slot in slots) and taken <= size
    if _up(taken, align) == size or not exact:
        return Layout(align, nothing, exact=exact)
    if _up(taken, _BYTE) == size:
        return Layout(_BYTE, nothing, packed=True)
    if not taken:
        return Layout(_BYTE, (*nothing[1:], (Filler(0, size),)))
    while _up(taken, align) < size:
        align *= 2
    return Layout(align, nothing, aligned=align // _BYTE, exact=_up(taken, align) == size)


def _up(number: int, align: int) -> int:
    return -(-number // align) * align


def _fillers(
    slots: Sequence[Slot], size: int, align: int, *, packed: bool
) -> tuple[tuple[Filler, ...], ...] | None:
    """Return what to fill the gaps with, None where members cannot be where they are."""
    if size % align:
        return None
    found, at = [], 0
    unit = min(align, 64)
    for slot in slots:
        step = slot.unit or (_BYTE if packed else slot.align)
        first = at if slot.unit else _up(at, step)
        if slot.offset < first or (not slot.unit and slot.offset % step):
            return None
        if slot.unit and not packed and _straddles(slot):
            return None
        gap = (at, slot.offset) if slot.offset > first else (at, at)
        found.append(tuple(_gap(*gap, unit, packed=packed)))
        at = slot.offset + slot.size
    if _up(at, align) > size:
        return None
    found.append(tuple(_gap(at, size, unit, packed=packed)) if _up(at, align) < size else ())
    return tuple(found)


def _straddles(slot: Slot) -> bool:
    last = slot.offset + max(slot.size, 1) - 1
    return slot.offset // slot.unit != last // slot.unit


def _gap(start: int, end: int, unit: int, *, packed: bool) -> Iterator[Filler]:
    """Yield what fills bits; in what is packed, a bit field may be of any type, anywhere."""
    if packed:
        unit = 64
    if end - start > unit * _MOST_FILLERS:
        first, start = _up(start, _BYTE), end // _BYTE * _BYTE
        yield Filler(0, start - first)
    while start < end:
        bits = min(unit if packed else unit - start % unit, end - start)
        yield Filler(unit, bits)
        start += bits


class Layouts:
    """The layouts of structures and unions by their numbers, as far as their members decide."""

    def __init__(self, type_of: Callable[[int], BtfType | None], pointer_size: int) -> None:
        self._type = type_of
        self._pointer = pointer_size * _BYTE
        self._known: dict[int, Layout] = {}
        self._depth = 0

    def of(self, number: int, t: Composite) -> Layout:
        """Return the layout of a structure or union; raises BtfError for one too deep in others."""
        if number in self._known:
            return self._known[number]
        if self._depth == DEEPEST:
            raise BtfError(f"type {number} is nested deeper than {DEEPEST}")
        self._depth += 1
        # Until it is known, for what holds itself, as no C does.
        self._known[number] = Layout(_BYTE, ((),) * (len(t.members) + 1))
        slots = [self.slot(member) for member in t.members]
        lay_out = structure if t.kind is Kind.STRUCT else union
        self._known[number] = found = lay_out(slots, t.size * _BYTE)
        self._depth -= 1
        return found

    def slot(self, member: Field) -> Slot:
        """Return what a member needs; an integer that has fewer bits than bytes is a bit field."""
        size, align, t = self._measured(member.type)
        offset, bits = member.bit_offset, member.bit_size
        if not bits and isinstance(t, Int) and 0 < t.bits < t.size * _BYTE:
            offset, bits = offset + t.offset, t.bits
        return Slot(offset, bits or size, align, size if bits else 0)

    def _measured(self, number: int) -> tuple[int, int, BtfType | None]:
        """Return size and alignment of a type in bits, and what is behind its typedefs."""
        count = 1
        for _ in range(DEEPEST):
            t = self._type(number)
            match t:
                case Array(element=number):
                    count *= t.count
                case Reference(kind=Kind.PTR):
                    return count * self._pointer, self._pointer, t
                case Reference(type=number):
                    pass
                case Composite(size=size):
                    return count * size * _BYTE, self.of(number, t).align, t
                case Int(size=size) | Float(size=size) | Enum(size=size):
                    return count * size * _BYTE, self._natural(size), t
                case _:
                    return 0, _BYTE, t
        raise BtfError(f"type {number} is nested deeper than {DEEPEST}")

    def _natural(self, size: int) -> int:
        """Return the alignment of a number: its size, on 32 bits no more than that of a pointer.

        There some compilers align it to more; fillers then are where they would leave a gap.
        """
        most = 128 if self._pointer == 64 else self._pointer
        return min((size & -size) * _BYTE, most) or _BYTE
