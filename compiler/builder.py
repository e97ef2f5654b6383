"""Builds an ir.Function block by block; lowering and the rows of the built-ins write through it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from pybpf.compiler import ir
from pybpf.compiler.operands import successors
from pybpf.errors import Diagnostic, SourceError
from pybpf.source import Span

MOST_OPERATIONS = 1 << 16
"""The largest function, so that a script gone wrong is refused before the costly passes.

The verifier gives up on what people write well before that: a statement that sets a map's entry
takes seven operations and leaves it a branch to come back to, of which it remembers 8192 (Linux:
BPF_COMPLEXITY_LIMIT_JMP_SEQ).
"""

_T = TypeVar("_T")


class Builder:
    """The function under construction. ``span`` is what new instructions are said to come from.

    Blocks must be started in topological order; every block ends with goto, branch or leave.
    ``leave`` goes to the one block that exits the program. Raises SourceError, with ``place`` as
    that of the fault, where the function grows beyond MOST_OPERATIONS. ``pid_namespace`` is the
    target's.
    """

    def __init__(
        self,
        name: str,
        place: Span | None = None,
        pid_namespace: tuple[int, int] | None = None,
    ) -> None:
        self.name = name
        self.pid_namespace = pid_namespace
        self.span: Span | None = None
        self._place = place
        self._added = 0
        self._registers = 1
        self._slots = 0
        self._labels = 0
        self._blocks: list[ir.Block] = []
        self._label: ir.Label | None = ir.Label("entry")
        self._instrs: list[ir.Instr] = []
        self._leave = ir.Label("leave")
        # Blocks are numbered as they begin. A set of blocks is a bit mask: those that every way
        # leads through, to the block under construction and to the labels that jumps go to.
        self._block = 0
        self._through = 1
        self._ways: dict[ir.Label, int] = {}
        self._made: dict[Hashable, tuple[int, object]] = {}

    def register(self) -> ir.VReg:
        """Return a fresh virtual register."""
        self._registers += 1
        return ir.VReg(self._registers - 1)

    def slot(self, size: int, align: int = 8) -> ir.Slot:
        """Return a fresh slot of ``size`` bytes, rounded up to whole words."""
        self._slots += 1
        return ir.Slot(self._slots - 1, -(-size // 8) * 8, align)

    def label(self, hint: str) -> ir.Label:
        """Return a fresh label whose name tells what it is for."""
        self._labels += 1
        return ir.Label(f"{hint}{self._labels}")

    def add(self, op: ir.Op) -> None:
        """Append an operation to the current block."""
        self._instrs.append(ir.Instr(op, self.span))
        self._added += 1
        if self._added > MOST_OPERATIONS:
            raise SourceError(
                Diagnostic(
                    f"{self.name}: the program takes more than {MOST_OPERATIONS} operations",
                    self._place,
                )
            )

    def comment(self, text: str) -> None:
        """Leave a remark in the dump."""
        self.add(ir.Comment(text))

    def copy(self, src: ir.Argument, dst: ir.VReg | None = None) -> ir.VReg:
        """Return a register (``dst`` where given) that holds ``src``."""
        dst = self.register() if dst is None else dst
        self.add(ir.Copy(dst, src))
        return dst

    def bin(self, op: ir.BinOp, left: ir.Operand, right: ir.Operand, width: int = 64) -> ir.VReg:
        """Return ``left op right``."""
        dst = self.register()
        self.add(ir.Bin(dst, op, width, left, right))
        return dst

    def extend(self, src: ir.Operand, bits: int, *, signed: bool) -> ir.VReg:
        """Return the low ``bits`` of ``src`` extended to 64."""
        register = self.copy(src) if isinstance(src, int) else src
        dst = self.register()
        self.add(ir.Extend(dst, bits, signed, register))
        return dst

    def load(self, base: ir.Base, offset: int, size: int, *, signed: bool = False) -> ir.VReg:
        """Return the ``size`` bytes at ``base + offset``."""
        dst = self.register()
        self.add(ir.Load(dst, base, offset, size, signed))
        return dst

    def store(self, base: ir.Base, offset: int, size: int, src: ir.Operand) -> None:
        """Store the low ``size`` bytes of ``src`` at ``base + offset``."""
        self.add(ir.Store(base, offset, size, src))

    def call(self, helper: str, *args: ir.Argument) -> ir.VReg:
        """Call a helper and return its result."""
        dst = self.register()
        self.add(ir.CallHelper(dst, helper, args))
        return dst

    def call_void(self, helper: str, *args: ir.Argument) -> None:
        """Call a helper for what it does."""
        self.add(ir.CallHelper(None, helper, args))

    def address(self, base: ir.Base, offset: int) -> ir.Argument:
        """Return ``base + offset`` as a helper's argument."""
        if isinstance(base, ir.SlotRef):
            return ir.SlotRef(base.slot, base.offset + offset)
        return self.bin(ir.BinOp.ADD, base, offset) if offset else base

    def start(self, label: ir.Label) -> None:
        """Begin a block; one that is still open falls through to it."""
        if self._label is not None:
            self.goto(label)
        # What follows a return, and ends in no block of its own, must not get into this one.
        self._instrs = []
        self._label = label
        self._begin(self._ways.get(label, 0))

    def once(self, what: Hashable, make: Callable[[], _T]) -> _T:
        """Return what ``make`` returned earlier, if every way here leads through where it did."""
        if what in self._made:
            block, made = self._made[what]
            if self._through >> block & 1:
                return cast("_T", made)
        result = make()
        self._made[what] = self._block, result
        return result

    def goto(self, label: ir.Label) -> None:
        """End the block with a jump."""
        self._end(ir.Goto(label))

    def branch(
        self,
        cmp: ir.Cmp,
        left: ir.VReg,
        right: ir.Operand,
        then: ir.Label,
        otherwise: ir.Label,
        *,
        width: int = 64,
    ) -> None:
        """End the block with a two-way branch on a comparison of ``width`` bits."""
        self._end(ir.Branch(cmp, left, right, then, otherwise, width))

    def leave(self) -> None:
        """End the block: the program is done."""
        self.goto(self._leave)

    @property
    def leave_label(self) -> ir.Label:
        """The block that exits the program."""
        return self._leave

    def finish(self) -> ir.Function:
        """Return the function; nothing may be added after that."""
        self.start(self._leave)
        self._end(ir.Exit(0))
        return ir.Function(self.name, tuple(self._blocks), self._registers)

    def _end(self, terminator: ir.Terminator) -> None:
        # What follows a return is unreachable; it still gets a block, which optimize removes.
        label = self._label if self._label is not None else self.label("dead")
        self._blocks.append(ir.Block(label, tuple(self._instrs), terminator, self.span))
        for target in successors(terminator):
            self._ways[target] = self._ways.get(target, -1) & self._through
        self._label, self._instrs = None, []
        self._begin(0)

    def _begin(self, through: int) -> None:
        self._block += 1
        self._through = through | 1 << self._block
