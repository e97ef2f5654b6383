"""A function -> the same with constants folded, copies followed and nothing computed twice.

Dominator-based value numbering (Briggs, Cooper, Simpson 1997) in one walk: control flow has no
loops and blocks stand in topological order, so whatever reaches an operation has been seen before
it. A register with one definition stands for one value wherever that definition dominates;
registers that merge paths are followed as long as all paths agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from pybpf.compiler.ir import (
    CTX,
    Argument,
    AtomicAdd,
    Bin,
    Block,
    Branch,
    CallHelper,
    Copy,
    Extend,
    Function,
    Label,
    Load,
    MapValueAddr,
    Neg,
    Op,
    Operand,
    Store,
    Terminator,
    VReg,
)
from pybpf.compiler.operands import (
    COMMUTATIVE,
    defined,
    operations,
    predecessors,
    substitute,
    substitute_branch,
    used,
    with_dst,
    with_op,
)
from pybpf.compiler.pointers import find_pointers
from pybpf.compiler.simplify import simplify, simplify_branch
from pybpf.compiler.width import FULL, Width, join, of_constant, of_result
from pybpf.dataclass import replace

PER_EVENT = frozenset(
    {
        "bpf_get_current_pid_tgid",
        "bpf_get_current_uid_gid",
        "bpf_get_smp_processor_id",
        "bpf_get_current_task",
        "bpf_get_current_cgroup_id",
        "bpf_get_stackid",
    }
)
"""Helpers that give the same answer however often one run of a program asks."""


def fold_values(function: Function) -> Function:
    """Return the function with every operation as cheap as what is known of its operands allows.

    Every block must be reachable. Operations that become unused stay, for ``drop_dead``.
    """
    walk = _Walk(function)
    blocks = tuple(walk.block(block) for block in function.blocks)
    return replace(function, blocks=blocks)


def _count_reads(function: Function) -> Counter[VReg]:
    """Count how often each register is read, by itself or through copies of it."""
    reads: Counter[VReg] = Counter()
    for block in reversed(function.blocks):
        reads.update(used(block.terminator))
        for instr in reversed(block.instrs):
            match instr.op:
                case Copy(dst=dst, src=VReg() as src):
                    reads[src] += reads[dst]
                case op:
                    reads.update(used(op))
    return reads


class _Walk:
    """What is known at one point of the walk; answers ``simplify``'s questions."""

    def __init__(self, function: Function) -> None:
        ops = list(operations(function))
        definitions = Counter(dst for op in ops if (dst := defined(op)) is not None)
        self._merged = {register for register, count in definitions.items() if count > 1}
        self._known_merged: set[VReg] = set()
        self._reads = _count_reads(function)
        self._pointers = find_pointers(function)
        self._predecessors = predecessors(function.blocks)
        self._values: dict[VReg, Argument] = {}
        self._definitions: dict[VReg, Op] = {}
        self._widths: dict[VReg, Width] = {}
        # For what was computed: the blocks that did it, and the register of each.
        self._computed: dict[tuple[Op, int], int] = defaultdict(int)
        self._available: dict[tuple[tuple[Op, int], int], VReg] = {}
        # Sets of blocks are bit masks: bit n is the n-th block walked.
        self._dominators: dict[Label, int] = {}
        self._bit = self._here = 0
        self._epochs = 0
        self._memory = self._context = 0
        self._ends: dict[Label, tuple[dict[VReg, Argument], int, int]] = {}

    def constant(self, register: VReg) -> int | None:
        value = self._values.get(register)
        return value if isinstance(value, int) else None

    def width(self, operand: Operand) -> Width:
        if isinstance(operand, int):
            return of_constant(operand)
        return self._widths.get(operand, FULL)

    def definition(self, operand: Operand) -> Op | None:
        return self._definitions.get(operand) if isinstance(operand, VReg) else None

    def read_once(self, register: VReg) -> bool:
        return self._reads[register] == 1

    def is_pointer(self, register: VReg) -> bool:
        return register in self._pointers

    def block(self, block: Block) -> Block:
        """Return a block made cheaper; the blocks before it must have been walked."""
        self._enter(block.label)
        instrs = tuple([with_op(instr, self._operation(instr.op)) for instr in block.instrs])
        terminator: Terminator = block.terminator
        if isinstance(terminator, Branch):
            terminator = simplify_branch(substitute_branch(terminator, self._values), self)
        merged = {register: self._values[register] for register in self._known_merged}
        self._ends[block.label] = (merged, self._memory, self._context)
        return replace(block, instrs=instrs, terminator=terminator)

    def _enter(self, label: Label) -> None:
        """Know at the start of a block what is known at the end of all that lead to it."""
        before = self._predecessors[label]
        self._bit = 1 << len(self._dominators)
        common = -1 if before else 0
        for other in before:
            common &= self._dominators[other]
        self._dominators[label] = self._here = common | self._bit
        for register in self._known_merged:
            del self._values[register]
        self._known_merged.clear()
        if before:
            first, *others = [self._ends[other][0] for other in before]
            for register, value in first.items():
                if all(other.get(register) == value for other in others):
                    self._values[register] = value
                    self._known_merged.add(register)
        if len(before) == 1:
            _, self._memory, self._context = self._ends[before[0]]
        else:
            self._memory = self._epoch()
            self._context = self._epoch()

    def _epoch(self) -> int:
        """Begin a time in which memory does not change."""
        self._epochs += 1
        return self._epochs

    def _operation(self, op: Op) -> Op:
        op = simplify(substitute(op, self._values), self)
        op = self._shared(op)
        match op:
            case Store() | AtomicAdd():
                self._memory = self._epoch()
            case CallHelper():
                self._memory = self._epoch()
                self._context = self._epoch()
            case _:
                pass
        dst = defined(op)
        if dst is not None:
            self._record(dst, op)
        return op

    def _shared(self, op: Op) -> Op:
        """Return a copy of the result where the same was computed on every way here."""
        key = self._key(op)
        dst = defined(op)
        if key is None or dst is None or any(r in self._merged for r in used(op)):
            return op
        computed = self._computed[key] & self._here
        if computed:
            earliest = computed & -computed
            return Copy(dst, self._available[key, earliest])
        if dst not in self._merged:
            self._computed[key] |= self._bit
            self._available[key, self._bit] = dst
        return op

    def _key(self, op: Op) -> tuple[Op, int] | None:
        """Return what two operations have in common that give the same, with the time of it."""
        match op:
            case Bin(op=kind, left=VReg() as left, right=VReg() as right) if kind in COMMUTATIVE:
                if left.number > right.number:
                    op = replace(op, left=right, right=left)
                return with_dst(op, CTX), 0
            case Bin() | Neg() | Extend() | MapValueAddr():
                return with_dst(op, CTX), 0
            case Load(base=base):
                return with_dst(op, CTX), self._context if base == CTX else self._memory
            case CallHelper(helper=helper) if helper in PER_EVENT:
                return with_dst(op, CTX), 0
            case _:
                return None

    def _record(self, dst: VReg, op: Op) -> None:
        self._values.pop(dst, None)
        self._known_merged.discard(dst)
        # What is copied to a merged register should not be read after that: the two can be one.
        match op:
            case Copy(src=VReg() as src) if dst in self._merged or src in self._merged:
                pass
            case Copy(src=src):
                self._values[dst] = src
                if dst in self._merged:
                    self._known_merged.add(dst)
            case _:
                pass
        width = of_result(op, self.width)
        if dst in self._merged:
            earlier = self._widths.get(dst)
            self._widths[dst] = width if earlier is None else join(earlier, width)
            return
        self._widths[dst] = width
        if not any(register in self._merged for register in used(op)):
            self._definitions[dst] = op
