"""What a register that holds a number may contain: abstract values in; abstract results out.

A `Scalar` is immutable: the known bits (``value``, ``mask``: see `tnum`), the unsigned and signed
bounds of all 64 bits (``umin umax smin smax``) and of the low 32 (``umin32 umax32 smin32
smax32``), all inclusive, and ``const``, the value if it is known, else None. `UNKNOWN`, `ZERO` and
`constant` make the common ones. Two scalars are equal if all that is known of them is.

What `arithmetic.arithmetic` makes of a `Precision` computes with them as one kernel does.
Operations are named by `isa.table.Effect`:

    alu(effect, is32, a, b)          add to arsh, div to smod, neg and mov (``b`` is what is moved)
    swap(effect, bits, a)            le, be, bswap of 16, 32 or 64 bits, little-endian machine
    move_extended(bits, is32, a)     mov with sign extension of 8, 16 or 32 bits
    zero_extend(a)                   mov of 32 bits
    load(size, a), load_signed(...)  what a load of 1, 2, 4 or 8 bytes leaves of a scalar
    pointer_add(a, b), pointer_sub   the variable part of a pointer's offset
    offset(a, delta, is32)           a register linked to ``a`` with a constant distance
    clamp(a, low, high)              ``a`` known to be in a signed range, as 32 and as 64 bits
    taken(effect, is32, a, b, same)  True, False, or None if a branch may go both ways
    refine(effect, is32, a, b)       (a, b) where it is taken, then (a, b) where it is not
    within(outer, inner)             whether pruning may take ``inner`` for ``outer``
    fork(effect, a, b)               the two values that the kernel tries for ``a`` one by one

``same`` says that both operands are one register. Kernels before 7.1 follow branches that cannot be
taken; `refine` therefore always answers, and for such a branch with what the kernel believes there.
Results are those of the kernel, not the best possible ones. Nothing raises.
"""

from __future__ import annotations

from pybpf.verifier.tnum import U64

U32 = 0xFFFFFFFF

# Both operands of a branch where it is taken, then where it is not.
Refined = tuple["Scalar", "Scalar", "Scalar", "Scalar"]

# What circular ranges know beyond bounds: base and size for all bits, then for the low half.
Arcs = tuple[int, int, int, int]


class Scalar:
    """What is known of a number; see the module for its parts."""

    __slots__ = (
        "arcs", "const", "mask", "smax", "smax32", "smin", "smin32", "umax", "umax32", "umin",
        "umin32", "value",
    )  # fmt: skip

    def __init__(
        self,
        value: int,
        mask: int,
        umin: int,
        umax: int,
        smin: int,
        smax: int,
        umin32: int,
        umax32: int,
        smin32: int,
        smax32: int,
    ) -> None:
        self.value = value
        self.mask = mask
        self.umin = umin
        self.umax = umax
        self.smin = smin
        self.smax = smax
        self.umin32 = umin32
        self.umax32 = umax32
        self.smin32 = smin32
        self.smax32 = smax32
        self.arcs: Arcs | None = None
        self.const = None if mask else value

    def bounds(self) -> tuple[int, ...]:
        """Return known bits, then bounds, in the order of the constructor."""
        return (
            self.value, self.mask, self.umin, self.umax, self.smin, self.smax,
            self.umin32, self.umax32, self.smin32, self.smax32,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Scalar):
            return NotImplemented
        return (
            self.value == other.value
            and self.mask == other.mask
            and self.arcs == other.arcs
            and self.bounds() == other.bounds()
        )

    def __hash__(self) -> int:
        return hash((self.value, self.mask, self.umin, self.umax, self.smin, self.smax))

    def __repr__(self) -> str:
        if self.const is not None:
            return f"Scalar({self.const:#x})"
        return (
            f"Scalar(({self.value:#x}; {self.mask:#x}), u=[{self.umin:#x}, {self.umax:#x}],"
            f" s=[{self.smin:#x}, {self.smax:#x}], u32=[{self.umin32:#x}, {self.umax32:#x}],"
            f" s32=[{self.smin32:#x}, {self.smax32:#x}])"
        )

    def holds(self, value: int) -> bool:
        """Return whether the 64-bit register may contain this unsigned integer."""
        signed = (value ^ 1 << 63) - (1 << 63)
        low = value & U32
        signed32 = (low ^ 1 << 31) - (1 << 31)
        return (
            value & ~self.mask == self.value
            and self.umin <= value <= self.umax
            and self.smin <= signed <= self.smax
            and self.umin32 <= low <= self.umax32
            and self.smin32 <= signed32 <= self.smax32
            and (
                self.arcs is None
                or (
                    value - self.arcs[0] & U64 <= self.arcs[1]
                    and low - self.arcs[2] & U32 <= self.arcs[3]
                )
            )
        )


def constant(value: int) -> Scalar:
    """Return the scalar known to be ``value``, an integer that is taken modulo 2**64."""
    value &= U64
    low = value & U32
    signed = (value ^ 1 << 63) - (1 << 63)
    signed32 = (low ^ 1 << 31) - (1 << 31)
    return Scalar(value, 0, value, value, signed, signed, low, low, signed32, signed32)


UNKNOWN = Scalar(0, U64, 0, U64, -1 << 63, (1 << 63) - 1, 0, U32, -1 << 31, (1 << 31) - 1)
ZERO = constant(0)
