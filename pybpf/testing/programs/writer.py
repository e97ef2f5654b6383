"""The writer of random programs: choices, registers and blocks; a state that follows the code.

Idioms (``numbers``, ``memory``, ``calls`` and their like) are functions that take a writer and
write a few instructions that make sense where they stand. Now and then, by ``wrong``, they do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from pybpf.testing.programs.code import Code
from pybpf.testing.programs.state import Ctx, Frame, Kind, Num, State
from pybpf.testing.programs.types import Flavour

T = TypeVar("T")
Idiom = Callable[["Writer"], None]

BRANCHES = ("jeq", "jne", "jgt", "jge", "jlt", "jle", "jsgt", "jsge", "jslt", "jsle", "jset")
EDGES = (
    0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 0x7FFF, 0xFFFF, 0x10000,
    0x7FFFFFFE, 0x7FFFFFFF, -1, -2, -7, -8, -16, -64, -128, -256, -0x7FFFFFFF, -0x80000000,
)  # fmt: skip
_SUFFIX = {1: "b", 2: "h", 4: "w", 8: "dw"}
_DEEPEST = 3
# Helpers without a result: tail_call, spin_lock, spin_unlock, ringbuf_submit, ringbuf_discard.
_VOID = frozenset({12, 93, 94, 132, 133})


class Writer:
    """Writes one program. ``slips`` is the probability of a mistake where one can be made.

    ``exact`` programs do only what has the same outcome in every run: no pointer becomes a number,
    and nothing depends on the time or the machine.
    """

    def __init__(
        self,
        rng: Random,
        flavour: Flavour,
        idioms: Sequence[tuple[int, Idiom]],
        *,
        slips: float = 0.0,
        exact: bool = False,
    ) -> None:
        self.rng = rng
        self.flavour = flavour
        self.code = Code()
        self.state = State()
        self.slips = slips
        self.exact = exact
        self.depth = 0
        self.in_function = False
        self.returns = flavour.returns
        self.later: list[tuple[int, Callable[[], None]]] = []
        """Subprograms that are called and not yet written: label, and what writes them."""
        self._idioms = [idiom for _, idiom in idioms]
        self._weights = [weight for weight, _ in idioms]
        self._ident = 0
        self.functions = 0
        """How many subprograms are written."""
        self.typed = False
        """Whether the kernel must be told the types of subprograms."""

    # --- choices

    def wrong(self) -> bool:
        """Whether to make a mistake here."""
        return self.slips > 0 and self.rng.random() < self.slips

    def chance(self, probability: float) -> bool:
        """Whether something as probable happens."""
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[int(self.rng.random() * len(choices))]

    def below(self, count: int) -> int:
        """Return a number from 0 on, below ``count``."""
        return int(self.rng.random() * count)

    def imm(self) -> int:
        """Return a number of 32 bits with a sign; mostly one near which things change."""
        roll = self.rng.random()
        if roll < 0.4:
            return self.below(20)
        if roll < 0.75:
            return self.pick(EDGES)
        return self.rng.getrandbits(32) - 0x80000000

    def ident(self) -> int:
        """Return a number for what is one thing in all its copies."""
        self._ident += 1
        return self._ident

    # --- registers

    def get(self, number: int) -> Kind | None:
        """Return what a register holds, or None."""
        return self.state.regs.get(number)

    def set(self, number: int, kind: Kind | None) -> None:
        """Note what a register holds."""
        if kind is None:
            self.state.regs.pop(number, None)
        else:
            self.state.regs[number] = kind

    def target(self, *, but: Sequence[int] = (), saved: bool = False) -> int:
        """Return a register that may be overwritten; a ``saved`` one survives calls if it can."""
        if self.wrong():
            return self.below(11)
        free = [n for n in range(10) if n not in self.state.pinned and n not in but]
        if saved and (kept := [n for n in free if n >= 6]):
            free = kept
        empty = [n for n in free if n not in self.state.regs]
        plain = [n for n in free if isinstance(self.state.regs.get(n), Num)]
        if empty and self.chance(0.6):
            return self.pick(empty)
        return self.pick(plain or empty or free)

    def holding(self, *kinds: type[Kind]) -> list[int]:
        """Return the registers that hold one of these kinds."""
        return [n for n, kind in self.state.regs.items() if isinstance(kind, kinds)]

    def number(self, *, but: Sequence[int] = ()) -> int:
        """Return a register that holds a number, which is loaded if there is none."""
        if self.wrong():
            return self.pick([*self.state.regs, 10]) if self.chance(0.8) else self.below(11)
        found = [n for n in self.holding(Num) if n not in but]
        if found and self.chance(0.9):
            return self.pick(found)
        into = self.target(but=but)
        self.load_imm(into, self.imm())
        return into

    def load_imm(self, dst: int, value: int) -> None:
        """Write ``dst = value``."""
        self.code.emit("mov64_imm", dst, imm=value)
        self.set(dst, _num(value))

    def copy(self, dst: int, src: int) -> None:
        """Write ``dst = src``."""
        if dst == src:
            return
        self.code.emit("mov64_reg", dst, src)
        self.set(dst, Frame(0) if src == 10 else self.get(src))

    def context(self) -> int | None:
        """Return a register that holds the context, or None."""
        found = self.holding(Ctx)
        return self.pick(found) if found else None

    def stack_pointer(self, dst: int, off: int) -> None:
        """Write ``dst = r10 + off``."""
        self.code.emit("mov64_reg", dst, 10)
        self.code.emit("add64_imm", dst, imm=off)
        self.set(dst, Frame(off))

    def load(self, dst: int, src: int, off: int, size: int, kind: Kind | None = None) -> None:
        """Write ``dst = *(size)(src + off)``."""
        signed = kind is None and size < 8 and self.chance(0.1)
        self.code.emit(f"ldx{'s' if signed else ''}{_SUFFIX[size]}", dst, src, off)
        self.set(dst, kind or (Num() if signed else Num(0, (1 << 8 * size) - 1)))

    def store(self, dst: int, src: int, off: int, size: int) -> None:
        """Write ``*(size)(dst + off) = src``."""
        self.code.emit(f"stx{_SUFFIX[size]}", dst, src, off)

    def store_imm(self, dst: int, off: int, size: int, value: int) -> None:
        """Write ``*(size)(dst + off) = value``."""
        self.code.emit(f"st{_SUFFIX[size]}", dst, off=off, imm=value)

    def call(self, helper: int, result: Kind | None = None) -> None:
        """Write the call of a helper."""
        self.code.emit("call_helper", imm=helper)
        self.state.called()
        self.set(0, None if helper in _VOID else result or Num())

    # --- stack

    def free_slots(self, size: int) -> int:
        """Return the offset of a place on the stack, ``size`` bytes in slots of 8."""
        room = (size + 7) // 8
        # Programs with subprograms share 512 bytes.
        deepest = 14 if self.in_function else 32
        return -8 * (room + self.below(max(1, deepest - room)))

    def fill_stack(self, off: int, size: int) -> None:
        """Write zeros or numbers over what is not initialised of ``size`` bytes at r10 + off."""
        for slot in range(off & ~7, off + size, 8):
            bytes_there = slot in self.state.stack and isinstance(
                self.state.stack[slot], Num | None
            )
            if (bytes_there and self.chance(0.7)) or self.wrong():
                continue
            sources = self.holding(Num)
            if sources and self.chance(0.4):
                source = self.pick(sources)
                self.store(10, source, slot, 8)
                self.state.stack[slot] = self.get(source)
            else:
                self.store_imm(10, slot, 8, value := self.imm())
                self.state.stack[slot] = _num(value)

    def scribbled(self, off: int, size: int) -> None:
        """Note that a call wrote to the stack."""
        for slot in range(off & ~7, off + size, 8):
            if slot in self.state.stack or (slot >= off and slot + 8 <= off + size):
                self.state.stack[slot] = None

    # --- blocks

    def statement(self) -> None:
        """Write one idiom."""
        (idiom,) = self.rng.choices(self._idioms, self._weights)
        idiom(self)

    def block(self, most: int = 3) -> None:
        """Write some idioms, one level deeper."""
        if self.depth >= _DEEPEST:
            return
        self.depth += 1
        for _ in range(1 + self.below(most)):
            self.statement()
        self.depth -= 1

    def branch(self, name: str, dst: int, src: int | None, imm: int, to: int) -> None:
        """Write a conditional jump; ``name`` without its operand's suffix, such as jgt32."""
        if src is None:
            self.code.emit(f"{name}_imm", dst, imm=imm, to=to)
        else:
            self.code.emit(f"{name}_reg", dst, src, to=to)

    def meet(self, label: int, other: State, *, but: Sequence[int] = ()) -> None:
        """Place a label that a path with the state ``other`` leads to as well.

        Of the registers ``but`` nothing is known from there on.
        """
        self.code.place(label)
        inside, self.state = self.state, other
        for number in but:
            self.set(number, None)
        self.state.join(inside)

    def finish(self) -> None:
        """Write an end of the program: references given back, r0 what it may be, and exit."""
        for register, helper in self.state.held:
            if not self.wrong():
                self.code.emit("mov64_reg", 1, register)
                if helper in {132, 133}:
                    self.code.emit("mov64_imm", 2, imm=0)
                self.call(helper)
        self.result()
        self.code.emit("exit")

    def result(self) -> None:
        """Put an allowed result into r0."""
        low, high = self.returns
        held = self.get(0)
        if isinstance(held, Num) and low <= held.lo and held.hi <= high and self.chance(0.5):
            return
        numbers = self.holding(Num)
        wide = high > 1
        if numbers and wide and self.chance(0.7):
            self.code.emit(
                self.pick(("mov64_reg", "mov64_reg", "mov32_reg")), 0, self.pick(numbers)
            )
        elif self.wrong():
            self.code.emit("mov64_imm", 0, imm=self.imm())
        elif numbers and self.chance(0.4):
            self.code.emit("mov64_reg", 0, self.pick(numbers))
            self.code.emit("and64_imm", 0, imm=1)
        else:
            self.code.emit("mov64_imm", 0, imm=low + self.below(min(high - low, 3) + 1))
        self.set(0, Num())


def _num(value: int) -> Num:
    value &= (1 << 64) - 1
    return Num(value, value)
