"""What an operation of the IR writes and reads, and the same operation on other registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pybpf.compiler.ir import (
    Argument,
    AtomicAdd,
    Base,
    Bin,
    BinOp,
    Block,
    Branch,
    CallHelper,
    Comment,
    Copy,
    Exit,
    Extend,
    Function,
    Goto,
    Instr,
    Label,
    Load,
    MapRef,
    MapValueAddr,
    Neg,
    Op,
    Operand,
    Slot,
    SlotRef,
    Store,
    Terminator,
    VReg,
)
from pybpf.dataclass import replace

COMMUTATIVE = frozenset({BinOp.ADD, BinOp.MUL, BinOp.OR, BinOp.AND, BinOp.XOR})

IMM32 = range(-(1 << 31), 1 << 31)
"""The constants that an instruction's immediate field holds."""

Values = Mapping[VReg, Argument]
"""What registers are known to hold: another register, a constant, an address."""


def defined(op: Op) -> VReg | None:
    """Return the register an operation writes."""
    match op:
        case Store() | AtomicAdd() | Comment():
            return None
        case _:
            return op.dst


def used(op: Op | Terminator) -> tuple[VReg, ...]:
    """Return the registers an operation reads, once for each mention."""
    match op:
        case Bin() | Branch():
            return _registers(op.left, op.right)
        case Copy() | Neg() | Extend():
            return _registers(op.src)
        case Load():
            return _registers(op.base)
        case Store() | AtomicAdd():
            return _registers(op.base, op.src)
        case CallHelper():
            return _registers(*op.args)
        case MapValueAddr() | Comment() | Goto() | Exit():
            return ()


def slots(op: Op) -> tuple[Slot, ...]:
    """Return the slots an operation mentions."""
    match op:
        case Copy(src=SlotRef(slot=slot)) | Load(base=SlotRef(slot=slot)):
            return (slot,)
        case Store(base=SlotRef(slot=slot)) | AtomicAdd(base=SlotRef(slot=slot)):
            return (slot,)
        case CallHelper():
            return tuple(arg.slot for arg in op.args if isinstance(arg, SlotRef))
        case _:
            return ()


def with_op(instr: Instr, op: Op) -> Instr:
    """Return an instruction that does ``op`` in the name of the same piece of script."""
    return instr if op is instr.op else Instr(op, instr.span)


def with_dst(op: Op, dst: VReg) -> Op:
    """Return an operation that writes ``dst`` instead of the register it writes."""
    match op:
        case Store() | AtomicAdd() | Comment():
            return op
        case _:
            return replace(op, dst=dst)


def substitute(op: Op, values: Values) -> Op:
    """Return an operation that reads ``values`` instead of the registers they are known for.

    A place that takes registers only keeps its register where the value is none.
    """
    if values.keys().isdisjoint(used(op)):
        return op
    match op:
        case Bin():
            return replace(op, left=_operand(op.left, values), right=_operand(op.right, values))
        case Copy():
            return replace(op, src=_argument(op.src, values))
        case Neg() | Extend():
            return replace(op, src=_register(op.src, values))
        case Load():
            return replace(op, base=_base(op.base, values))
        case Store():
            return replace(op, base=_base(op.base, values), src=_operand(op.src, values))
        case AtomicAdd():
            return replace(op, base=_base(op.base, values), src=_register(op.src, values))
        case CallHelper():
            return replace(op, args=tuple(_argument(arg, values) for arg in op.args))
        case MapValueAddr() | Comment():
            return op


def substitute_branch(branch: Branch, values: Values) -> Branch:
    """Return a branch as ``substitute`` returns an operation."""
    return replace(
        branch, left=_register(branch.left, values), right=_operand(branch.right, values)
    )


def successors(terminator: Terminator) -> tuple[Label, ...]:
    """Return the blocks that may come next."""
    match terminator:
        case Goto(target=target):
            return (target,)
        case Branch(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Exit():
            return ()


def retarget(terminator: Terminator, labels: Mapping[Label, Label]) -> Terminator:
    """Return a terminator that goes to ``labels[x]`` where it went to a block ``x`` among them."""
    match terminator:
        case Goto(target=target):
            return Goto(labels.get(target, target))
        case Branch(then=then, otherwise=otherwise):
            return replace(
                terminator,
                then=labels.get(then, then),
                otherwise=labels.get(otherwise, otherwise),
            )
        case Exit():
            return terminator


def operations(function: Function) -> Iterator[Op]:
    """Yield every operation in order."""
    for block in function.blocks:
        for instr in block.instrs:
            yield instr.op


def next_slot(function: Function) -> int:
    """Return the first number above those of all slots."""
    return max((slot.id for op in operations(function) for slot in slots(op)), default=-1) + 1


def predecessors(blocks: tuple[Block, ...]) -> dict[Label, list[Label]]:
    """Return the blocks that lead to each block, a block once for each edge."""
    found: dict[Label, list[Label]] = {block.label: [] for block in blocks}
    for block in blocks:
        for label in successors(block.terminator):
            found[label].append(block.label)
    return found


def _registers(*operands: Argument) -> tuple[VReg, ...]:
    return tuple([operand for operand in operands if isinstance(operand, VReg)])


def _argument(argument: Argument, values: Values) -> Argument:
    return values.get(argument, argument) if isinstance(argument, VReg) else argument


def _operand(operand: Operand, values: Values) -> Operand:
    if isinstance(operand, int):
        return operand
    value = values.get(operand, operand)
    return operand if isinstance(value, SlotRef | MapRef) else value


def _register(register: VReg, values: Values) -> VReg:
    value = values.get(register, register)
    return value if isinstance(value, VReg) else register


def _base(base: Base, values: Values) -> Base:
    if isinstance(base, SlotRef):
        return base
    value = values.get(base, base)
    return base if isinstance(value, int | MapRef) else value
