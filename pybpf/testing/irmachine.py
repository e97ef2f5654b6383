"""An oracle for the compiler's back end: an ir.Function and its surroundings in, effects out.

It shares no code with the compiler or the VM. Memory is a set of separate regions; an address is
the number of its region times 2**32, plus an offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pybpf.compiler import ir

_REGION = 32
_GARBAGE = 0xA5


@dataclass(frozen=True, slots=True)
class Table:
    """A map: a hash, or an ``array`` whose elements are all there from the start."""

    key_size: int
    value_size: int
    array: bool = False


@dataclass(slots=True)
class Surroundings:
    """What a function can see and change.

    ``results`` are what helpers without arguments return, by name. ``contents`` are the entries of
    maps, by the map's name and key.
    """

    ctx: bytes
    tables: Mapping[str, Table]
    results: Mapping[str, int] = field(default_factory=dict)
    comm: bytes = b""
    byteorder: Literal["little", "big"] = "little"
    contents: dict[tuple[str, bytes], bytearray] = field(default_factory=dict)

    def entries(self, name: str) -> dict[bytes, bytes]:
        """Return what a map holds."""
        return {key: bytes(value) for (of, key), value in self.contents.items() if of == name}


def evaluate(function: ir.Function, surroundings: Surroundings) -> int:
    """Run a function, which may change the ``contents``; return its exit value.

    Raises KeyError for a register that is not set, or a helper or map that is not known, and
    IndexError for an access outside of a region.
    """
    run = _Run(surroundings)
    blocks = {block.label: block for block in function.blocks}
    block = function.blocks[0]
    while True:
        for instr in block.instrs:
            run.operation(instr.op)
        match block.terminator:
            case ir.Goto(target=target):
                block = blocks[target]
            case ir.Branch() as branch:
                block = blocks[branch.then if run.holds(branch) else branch.otherwise]
            case ir.Exit(value=value):
                return value


class _Run:
    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._regions: list[bytearray] = []
        self._slots: dict[ir.Slot, int] = {}
        self._values: dict[int, int] = {}
        self._registers = {ir.CTX: self._add(bytearray(surroundings.ctx))}

    def operation(self, op: ir.Op) -> None:
        """Do what an operation does."""
        registers = self._registers
        match op:
            case ir.Copy(dst=dst, src=src):
                registers[dst] = self._argument(src)
            case ir.Bin(dst=dst):
                left, right = self._operand(op.left), self._operand(op.right)
                registers[dst] = _arithmetic(op.op, op.width, left, right)
            case ir.Neg(dst=dst, width=width, src=src):
                registers[dst] = -registers[src] % (1 << width)
            case ir.Extend(dst=dst, bits=bits, signed=signed, src=src):
                registers[dst] = _extend(registers[src], bits, signed=signed)
            case ir.Load(dst=dst, base=base, offset=offset, size=size, signed=signed):
                raw = int.from_bytes(self._read(self._base(base) + offset, size), self._order)
                registers[dst] = _extend(raw, 8 * size, signed=signed)
            case ir.Store(base=base, offset=offset, size=size, src=src):
                self._write(self._base(base) + offset, size, self._operand(src))
            case ir.AtomicAdd(base=base, offset=offset, size=size, src=src):
                address = self._base(base) + offset
                old = int.from_bytes(self._read(address, size), self._order)
                self._write(address, size, old + self._operand(src))
            case ir.MapValueAddr(dst=dst, name=name, offset=offset):
                registers[dst] = self._element(name, bytes(4)) + offset
            case ir.CallHelper(dst=result, helper=helper, args=args):
                value = self._call(helper, args) % (1 << 64)
                if result is not None:
                    registers[result] = value
            case ir.Comment():
                pass

    def holds(self, branch: ir.Branch) -> bool:
        """Whether a branch goes to ``then``."""
        left, right = self._operand(branch.left), self._operand(branch.right)
        return _compares(branch.cmp, branch.width, left, right)

    @property
    def _order(self) -> Literal["little", "big"]:
        return self._around.byteorder

    def _operand(self, operand: ir.Operand) -> int:
        return operand % (1 << 64) if isinstance(operand, int) else self._registers[operand]

    def _add(self, region: bytearray) -> int:
        self._regions.append(region)
        return len(self._regions) << _REGION

    def _base(self, base: ir.Base) -> int:
        if isinstance(base, ir.VReg):
            return self._registers[base]
        if base.slot not in self._slots:
            self._slots[base.slot] = self._add(bytearray([_GARBAGE] * base.slot.size))
        return self._slots[base.slot] + base.offset

    def _place(self, address: int, size: int) -> tuple[bytearray, int]:
        number, offset = address >> _REGION, address % (1 << _REGION)
        region = self._regions[number - 1] if 0 < number <= len(self._regions) else bytearray()
        if offset + size > len(region):
            raise IndexError(f"{size} bytes at {address:#x}")
        return region, offset

    def _read(self, address: int, size: int) -> bytes:
        region, offset = self._place(address, size)
        return bytes(region[offset : offset + size])

    def _write(self, address: int, size: int, value: int) -> None:
        region, offset = self._place(address, size)
        region[offset : offset + size] = (value % (1 << 8 * size)).to_bytes(size, self._order)

    def _argument(self, argument: ir.Argument) -> int:
        match argument:
            case ir.MapRef():
                raise KeyError(argument.name)
            case ir.SlotRef():
                return self._base(argument)
            case _:
                return self._operand(argument)

    def _call(self, helper: str, args: tuple[ir.Argument, ...]) -> int:
        match helper, args:
            case "bpf_map_lookup_elem", (ir.MapRef(name=name), key):
                return self._element(name, self._key(name, key))
            case "bpf_map_update_elem", (ir.MapRef(name=name), key, value, flags):
                size = self._around.tables[name].value_size
                data = self._read(self._argument(value), size)
                return self._update(name, self._key(name, key), data, self._argument(flags))
            case "bpf_map_delete_elem", (ir.MapRef(name=name), key):
                gone = self._around.contents.pop((name, self._key(name, key)), None)
                return -2 if gone is None else 0
            case "bpf_get_current_comm", (target, size):
                region, offset = self._place(self._argument(target), self._argument(size))
                width = self._argument(size)
                region[offset : offset + width] = self._around.comm.ljust(width, b"\0")[:width]
                return 0
            case _:
                return self._around.results[helper]

    def _key(self, name: str, key: ir.Argument) -> bytes:
        return self._read(self._argument(key), self._around.tables[name].key_size)

    def _element(self, name: str, key: bytes) -> int:
        table, contents = self._around.tables[name], self._around.contents
        if table.array:
            contents.setdefault((name, key), bytearray(table.value_size))
        value = contents.get((name, key))
        if value is None:
            return 0
        # A value has one address for as long as it is in the map.
        if id(value) not in self._values:
            self._values[id(value)] = self._add(value)
        return self._values[id(value)]

    def _update(self, name: str, key: bytes, data: bytes, flags: int) -> int:
        there = (name, key) in self._around.contents
        if flags == 1 and there:
            return -17
        if flags == 2 and not there:
            return -2
        self._around.contents[name, key] = bytearray(data)
        return 0


def _signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def _extend(value: int, bits: int, *, signed: bool) -> int:
    return _signed(value, bits) % (1 << 64) if signed else value % (1 << bits)


def _toward_zero(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _arithmetic(op: ir.BinOp, width: int, left: int, right: int) -> int:
    a, b = left % (1 << width), right % (1 << width)
    x, y = _signed(a, width), _signed(b, width)
    result = 0
    match op:
        case ir.BinOp.ADD:
            result = a + b
        case ir.BinOp.SUB:
            result = a - b
        case ir.BinOp.MUL:
            result = a * b
        case ir.BinOp.DIV:
            result = a // b if b else 0
        case ir.BinOp.SDIV:
            result = _toward_zero(x, y) if y else 0
        case ir.BinOp.MOD:
            result = a % b if b else a
        case ir.BinOp.SMOD:
            result = x - y * _toward_zero(x, y) if y else x
        case ir.BinOp.OR:
            result = a | b
        case ir.BinOp.AND:
            result = a & b
        case ir.BinOp.XOR:
            result = a ^ b
        case ir.BinOp.LSH:
            result = a << b % width
        case ir.BinOp.RSH:
            result = a >> b % width
        case ir.BinOp.ARSH:
            result = x >> b % width
    return result % (1 << width)


def _compares(cmp: ir.Cmp, width: int, left: int, right: int) -> bool:
    a, b = left % (1 << width), right % (1 << width)
    if cmp.startswith("s"):
        a, b = _signed(a, width), _signed(b, width)
    match cmp.removeprefix("s"):
        case "==":
            return a == b
        case "!=":
            return a != b
        case ">":
            return a > b
        case ">=":
            return a >= b
        case "<":
            return a < b
        case "<=":
            return a <= b
        case _:
            return a & b != 0
