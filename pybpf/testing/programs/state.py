"""What a generator knows of registers and stack while it writes: kinds in, and joined at labels.

This is far less than a verifier knows. It is enough to use things for what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

U64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Num:
    """A number between ``lo`` and ``hi``, unsigned."""

    lo: int = 0
    hi: int = U64

    @property
    def known(self) -> bool:
        """Whether there is one number that it can be."""
        return self.lo == self.hi


@dataclass(frozen=True, slots=True)
class Ctx:
    """The program's context."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An address on the stack: r10 + ``off``."""

    off: int


@dataclass(frozen=True, slots=True)
class Mem:
    """``size`` bytes of a map's value or of a reservation, from ``off`` on; maybe NULL.

    ``ident`` tells the copies of what may be NULL; it is negative for what must be given back.
    """

    size: int
    off: int = 0
    null: bool = False
    ident: int = 0
    map: int = -1
    writable: bool = True


@dataclass(frozen=True, slots=True)
class Packet:
    """The packet's data + ``off``."""

    off: int = 0


@dataclass(frozen=True, slots=True)
class PacketEnd:
    """The end of the packet's data."""


@dataclass(frozen=True, slots=True)
class Sock:
    """A socket; maybe NULL, maybe held."""

    null: bool = True
    ident: int = 0


Kind = Num | Ctx | Frame | Mem | Packet | PacketEnd | Sock


@dataclass(slots=True)
class State:
    """Registers by number, and the stack's initialised slots of 8 bytes by offset.

    Of a slot that is no copy of a register only that it holds bytes is known: None. ``pinned``
    registers are not overwritten; ``held`` are those that hold references, with the helper that
    gives them back.
    """

    regs: dict[int, Kind] = field(default_factory=dict)
    stack: dict[int, Kind | None] = field(default_factory=dict)
    pinned: frozenset[int] = frozenset()
    held: tuple[tuple[int, int], ...] = ()

    def copy(self) -> State:
        """Return a state that can change on its own."""
        return replace(self, regs=dict(self.regs), stack=dict(self.stack))

    def join(self, other: State) -> None:
        """Keep what is so in both states."""
        self.regs = _join(self.regs, other.regs)
        self.stack = {
            slot: _common(kind, other.stack[slot])
            for slot, kind in self.stack.items()
            if slot in other.stack
            and (kind == other.stack[slot] or (_readable(kind) and _readable(other.stack[slot])))
        }

    def become(self, other: State) -> None:
        """Be like another state."""
        self.regs, self.stack = dict(other.regs), dict(other.stack)

    def called(self) -> None:
        """Forget what a call leaves undefined."""
        for number in range(6):
            self.regs.pop(number, None)

    def present(self, ident: int) -> None:
        """Note that what may have been NULL is not."""
        self.regs = {n: _present(kind, ident) for n, kind in self.regs.items()}
        self.stack = {n: _present(kind, ident) if kind else None for n, kind in self.stack.items()}

    def absent(self, ident: int) -> None:
        """Note that it is NULL, which is a number."""
        for number, kind in self.regs.items():
            if isinstance(kind, Mem | Sock) and kind.null and kind.ident == ident:
                self.regs[number] = Num(0, 0)
        for slot, spilled in self.stack.items():
            if isinstance(spilled, Mem | Sock) and spilled.null and spilled.ident == ident:
                self.stack[slot] = Num(0, 0)


def _present(kind: Kind, ident: int) -> Kind:
    if isinstance(kind, Mem | Sock) and kind.null and kind.ident == ident:
        return replace(kind, null=False)
    return kind


def _readable(kind: Kind | None) -> bool:
    """Whether a slot's bytes are those of a number."""
    return kind is None or isinstance(kind, Num)


def _common(a: Kind | None, b: Kind | None) -> Kind | None:
    if a == b:
        return a
    if isinstance(a, Num) and isinstance(b, Num):
        return Num(min(a.lo, b.lo), max(a.hi, b.hi))
    return None


def _join(a: dict[int, Kind], b: dict[int, Kind]) -> dict[int, Kind]:
    joined = {n: _common(kind, b.get(n)) for n, kind in a.items()}
    return {n: kind for n, kind in joined.items() if kind is not None}
