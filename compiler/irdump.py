"""Functions and allocations as text, for ``-d ir`` and ``-d alloc``.

One operation a line, in the manner of the BPF assembler; ``v7`` is a virtual register, ``s2`` a
slot, ``u32`` before an operation says that it works on 32 bits. An allocation shows machine
registers as ``r6:v7`` and where slots lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pybpf.compiler.allocate import Allocation
from pybpf.compiler.ir import (
    Argument,
    AtomicAdd,
    Base,
    Bin,
    Branch,
    CallHelper,
    Comment,
    Copy,
    Exit,
    Extend,
    Function,
    Goto,
    Load,
    MapRef,
    MapValueAddr,
    Neg,
    Op,
    Slot,
    SlotRef,
    Store,
    Terminator,
    VReg,
)
from pybpf.compiler.operands import operations, slots

_Name = Callable[[VReg], str]


def dump_function(function: Function) -> str:
    """Return the text of a function."""
    return "".join(f"{line}\n" for line in _function(function, _virtual, lambda _: ""))


def dump_allocation(allocation: Allocation) -> str:
    """Return the text of a function with the places of its values and slots."""

    def name(register: VReg) -> str:
        return f"r{allocation.registers[register]}:{_virtual(register)}"

    def place(slot: Slot) -> str:
        return f" at r10{allocation.places[slot]:+d}"

    lines = list(_function(allocation.function, name, place))
    if allocation.scratch_size:
        lines.insert(1, f"    scratch: {allocation.scratch_size} bytes")
    return "".join(f"{line}\n" for line in lines)


def _virtual(register: VReg) -> str:
    return "ctx" if register.number == 0 else f"v{register.number}"


def _function(function: Function, name: _Name, place: Callable[[Slot], str]) -> Iterator[str]:
    yield f"function {function.name}"
    found = {slot for op in operations(function) for slot in slots(op)}
    for slot in sorted(found, key=lambda slot: slot.id):
        yield f"    s{slot.id}: {slot.size} bytes, aligned to {slot.align}{place(slot)}"
    for block in function.blocks:
        yield f"{block.label}:"
        for instr in block.instrs:
            yield f"    {_operation(instr.op, name)}"
        yield f"    {_terminator(block.terminator, name)}"


def _operation(op: Op, name: _Name) -> str:
    match op:
        case Copy(dst=dst, src=src):
            return f"{name(dst)} = {_argument(src, name)}"
        case Bin(dst=dst, op=kind, width=width, left=left, right=right):
            half = "u32 " if width == 32 else ""
            return f"{name(dst)} = {half}{_argument(left, name)} {kind} {_argument(right, name)}"
        case Neg(dst=dst, width=width, src=src):
            return f"{name(dst)} = {'u32 ' if width == 32 else ''}-{name(src)}"
        case Extend(dst=dst, bits=bits, signed=signed, src=src):
            return f"{name(dst)} = ({'s' if signed else 'u'}{bits}) {name(src)}"
        case Load(dst=dst, base=base, offset=offset, size=size, signed=signed):
            return f"{name(dst)} = {_access(base, offset, size, name, signed=signed)}"
        case Store(base=base, offset=offset, size=size, src=src):
            return f"{_access(base, offset, size, name)} = {_argument(src, name)}"
        case AtomicAdd(base=base, offset=offset, size=size, src=src):
            return f"lock {_access(base, offset, size, name)} += {name(src)}"
        case MapValueAddr(dst=dst, name=map_name, offset=offset):
            return f"{name(dst)} = &value({map_name})[{offset}]"
        case CallHelper(dst=result, helper=helper, args=args):
            call = f"{helper}({', '.join(_argument(arg, name) for arg in args)})"
            return call if result is None else f"{name(result)} = {call}"
        case Comment(text=text):
            return f"# {text}"


def _terminator(terminator: Terminator, name: _Name) -> str:
    match terminator:
        case Goto(target=target):
            return f"goto {target}"
        case Exit(value=value):
            return f"exit {value}"
        case Branch(cmp=cmp, left=left, right=right, then=then, otherwise=otherwise, width=width):
            half = "u32 " if width == 32 else ""
            condition = f"{half}{name(left)} {cmp} {_argument(right, name)}"
            return f"if {condition} goto {then} else {otherwise}"


def _argument(argument: Argument, name: _Name) -> str:
    match argument:
        case int():
            return str(argument)
        case VReg():
            return name(argument)
        case SlotRef(slot=slot, offset=offset):
            return f"&s{slot.id}[{offset}]"
        case MapRef(name=map_name):
            return f"map({map_name})"


def _access(base: Base, offset: int, size: int, name: _Name, *, signed: bool = False) -> str:
    kind = f"{'s' if signed else 'u'}{8 * size}"
    if isinstance(base, SlotRef):
        return f"*({kind} *)(&s{base.slot.id} {base.offset + offset:+d})"
    return f"*({kind} *)({name(base)} {offset:+d})"
