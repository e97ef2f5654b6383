"""An oracle for the compiler: a TypedScript and events in, maps and records out, without eBPF.

It walks the typed tree with Python's integers, and shares no code with lowering, the back end or
the VM, so that what they compute can be held against it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pybpf.compiler import tast
from pybpf.script import MapRole
from pybpf.types import (
    Array,
    DataLoc,
    Int,
    Ptr,
    Show,
    Space,
    Struct,
    Type,
    is_string,
    show_of,
    size_of,
    strip,
)

Value = int | bytes
Key = tuple[Value, ...]

_MASK = (1 << 64) - 1

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITH: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


class _Returned(Exception):
    """A ``return`` statement."""


@dataclass(slots=True)
class Facts:
    """What a script can see at one event.

    ``values`` are those of built-ins by name, ``memory`` pieces of memory by address; no two of
    them touch.
    """

    values: Mapping[str, Value]
    context: bytes = b""
    memory: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Evaluator:
    """The state of a run. ``maps`` and ``aggregates`` hold entries by the values of their keys.

    ``records`` are (schema id, values of the payload's fields). An aggregate of a QUANTIZE map is
    a list of bucket counts, any other a number. ``separate``: the kernel does not read user memory
    as its own, nor the reverse; kernels that lack probe_read_kernel go by the address alone.
    """

    script: tast.TypedScript
    byteorder: str = "little"
    separate: bool = True
    maps: dict[str, dict[Key, Value]] = field(default_factory=dict)
    aggregates: dict[str, dict[Key, int | list[int]]] = field(default_factory=dict)
    records: list[tuple[int, tuple[Value, ...]]] = field(default_factory=list)

    def run(self, probe: tast.Probe, facts: Facts) -> None:
        """Run one probe at one event."""
        if probe.predicate is not None and not self.number(probe.predicate, facts):
            return
        try:
            self._block(probe.body, facts)
        except _Returned:
            return

    def _block(self, body: tuple[tast.Stmt, ...], facts: Facts) -> None:
        for stmt in body:
            match stmt:
                case tast.Return():
                    raise _Returned
                case tast.If():
                    chosen = stmt.then if self.number(stmt.condition, facts) else stmt.otherwise
                    self._block(chosen, facts)
                case tast.Evaluate():
                    self.value(stmt.expr, facts)
                case tast.Assign():
                    value = _fit(self.value(stmt.value, facts), self.script.map(stmt.map).value)
                    key = self._key(stmt.map, stmt.keys, facts)
                    self.maps.setdefault(stmt.map, {})[key] = value
                case tast.Delete():
                    key = self._key(stmt.map, stmt.keys, facts)
                    self.maps.setdefault(stmt.map, {}).pop(key, None)
                    self.aggregates.setdefault(stmt.map, {}).pop(key, None)
                case tast.Aggregate():
                    self._aggregate(stmt, facts)
                case tast.Emit():
                    values = tuple(self.value(v, facts) for v in stmt.values)
                    self.records.append((stmt.event, values))

    def _key(self, name: str, keys: tuple[tast.Expr, ...], facts: Facts) -> Key:
        types = self.script.map(name).keys
        return tuple(_fit(self.value(k, facts), t) for k, t in zip(keys, types, strict=True))

    def _aggregate(self, stmt: tast.Aggregate, facts: Facts) -> None:
        decl = self.script.map(stmt.map)
        amount = self.number(stmt.value, facts)
        key = self._key(stmt.map, stmt.keys, facts)
        entries = self.aggregates.setdefault(stmt.map, {})
        if decl.role is MapRole.QUANTIZE:
            bits = 8 * size_of(decl.value)
            buckets = entries.setdefault(key, [0] * bits)
            assert isinstance(buckets, list)
            buckets[bits - 1 if amount < 0 else max(amount.bit_length() - 1, 0)] += 1
        else:
            before = entries.get(key, 0)
            assert isinstance(before, int)
            entries[key] = _wrap(before + amount, decl.value)

    def number(self, expr: tast.Expr, facts: Facts) -> int:
        """Return the value of a scalar expression, in the range of its type."""
        value = self.value(expr, facts)
        assert isinstance(value, int)
        return value

    def text(self, expr: tast.Expr, facts: Facts) -> bytes:
        """Return the value of an array or struct, as bytes."""
        value = self.value(expr, facts)
        assert isinstance(value, bytes)
        return value

    def value(self, expr: tast.Expr, facts: Facts) -> Value:
        """Return the value of an expression."""
        match expr:
            case tast.Const():
                return expr.value
            case tast.Text():
                return expr.value.ljust(expr.type.count, b"\0")
            case tast.Convert():
                return _wrap(self.number(expr.operand, facts), expr.type)
            case tast.Arith():
                left, right = self.number(expr.left, facts), self.number(expr.right, facts)
                return _wrap(_arith(expr.op, left, right, expr.type), expr.type)
            case tast.Negate():
                return _wrap(-self.number(expr.operand, facts), expr.type)
            case tast.Invert():
                return _wrap(~self.number(expr.operand, facts), expr.type)
            case tast.Not():
                return int(not self.number(expr.operand, facts))
            case tast.Compare():
                compare = _COMPARE[expr.op]
                return int(compare(self.number(expr.left, facts), self.number(expr.right, facts)))
            case tast.Logical():
                return self._logical(expr, facts)
            case tast.StrCmp():
                return _strcmp(self.text(expr.left, facts), self.text(expr.right, facts))
            case tast.Context():
                return facts.values[expr.name]
            case tast.MapValue():
                key = self._key(expr.map, expr.keys, facts)
                found = self.maps.get(expr.map, {}).get(key)
                return _zero(expr.type) if found is None else found
            case tast.CtxField():
                return self._decode(facts.context, expr.offset, expr.type)
            case tast.Select():
                return self._decode(self.text(expr.object, facts), expr.offset, expr.type)
            case tast.DynString():
                return self._dynamic(expr, facts)
            case tast.Deref():
                address = self.number(expr.address, facts) + expr.offset
                size = size_of(expr.type)
                found = self._memory(facts, address, size, expr.space)
                raw = bytes(size) if found is None else found
                return raw if show_of(expr.type) is Show.BYTES else self._decode(raw, 0, expr.type)
            case tast.ReadString():
                address, size = self.number(expr.address, facts), size_of(expr.type)
                found = self._memory(facts, address, size, expr.space, text=True) or b""
                return found.partition(b"\0")[0][: size - 1].ljust(size, b"\0")
            case tast.AddressOf() | tast.Parts() | tast.Like() | tast.Sound():
                raise AssertionError(f"{type(expr).__name__} is made of eprobes, not of scripts")

    def _logical(self, expr: tast.Logical, facts: Facts) -> int:
        left = bool(self.number(expr.left, facts))
        match expr.op:
            case "&&":
                return int(left and bool(self.number(expr.right, facts)))
            case "||":
                return int(left or bool(self.number(expr.right, facts)))
            case _:
                return int(left != bool(self.number(expr.right, facts)))

    def _memory(
        self, facts: Facts, address: int, size: int, space: Space | None, *, text: bool = False
    ) -> bytes | None:
        """Return ``size`` bytes at an address (``text``: or fewer with a NUL), None if unreadable.

        The context is kernel memory, at an address that no test knows.
        """
        address &= _MASK
        kernel = address >> 63 != 0
        if self.separate and space is not None and kernel is not (space is not Space.USER):
            return None
        for start, piece in facts.memory.items():
            if start <= address < start + len(piece):
                found = piece[address - start :][:size]
                if len(found) == size or (text and b"\0" in found):
                    return found
        return None

    def _decode(self, memory: bytes, offset: int, t: Type) -> Value:
        """Return a part of memory as scripts see it: strings end at their NUL."""
        raw = memory[offset : offset + size_of(t)]
        match strip(t):
            case Struct(fields=fields, size=size):
                clean = bytearray(size)
                for part in fields:
                    value = self._decode(raw, part.offset, part.type)
                    clean[part.offset : part.offset + size_of(part.type)] = self._encode(
                        value, size_of(part.type)
                    )
                return bytes(clean)
            case Array() if is_string(t):
                return raw.partition(b"\0")[0].ljust(len(raw), b"\0")
            case Int(signed=signed):
                return int.from_bytes(raw, self._order, signed=signed)
            case Ptr() | DataLoc():
                return int.from_bytes(raw, self._order)
            case _:
                return raw

    def _encode(self, value: Value, size: int) -> bytes:
        if isinstance(value, bytes):
            return value
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, self._order)

    @property
    def _order(self) -> Literal["little", "big"]:
        return "little" if self.byteorder == "little" else "big"

    def _dynamic(self, expr: tast.DynString, facts: Facts) -> bytes:
        word = self.number(expr.word, facts)
        start, length = word & 0xFFFF, word >> 16
        start += expr.end if expr.relative else 0
        size = size_of(expr.type)
        raw = facts.context[start : start + min(length, size)]
        if expr.text:
            raw = raw.partition(b"\0")[0][: size - 1]
        return raw.ljust(size, b"\0")


def _wrap(value: int, t: Type) -> int:
    plain = strip(t)
    return plain.wrap(value) if isinstance(plain, Int) else value & _MASK


def _arith(op: str, left: int, right: int, t: Type) -> int:
    if op in _ARITH:
        return _ARITH[op](left, right)
    plain = strip(t)
    bits = plain.bits if isinstance(plain, Int) else 64
    match op:
        case "<<":
            return left << (right % bits)
        case ">>":
            return left >> (right % bits)
        case "/":
            # As C: towards zero; by zero, as the ISA says, 0.
            quotient = abs(left) // abs(right) if right else 0
            return quotient if (left < 0) == (right < 0) else -quotient
        case _:
            remainder = abs(left) % abs(right) if right else abs(left)
            return -remainder if left < 0 else remainder


def _strcmp(left: bytes, right: bytes) -> int:
    a, b = left.partition(b"\0")[0] + b"\0", right.partition(b"\0")[0] + b"\0"
    return next((x - y for x, y in zip(a, b, strict=False) if x != y), 0)


def _zero(t: Type) -> Value:
    return bytes(size_of(t)) if isinstance(strip(t), Array | Struct) else 0


def _fit(value: Value, t: Type) -> Value:
    """Return a value as a map stores it: shorter strings and arrays are padded."""
    return _wrap(value, t) if isinstance(value, int) else value.ljust(size_of(t), b"\0")
