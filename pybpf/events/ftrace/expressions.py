"""Expressions of a print format over a record's bytes: syntax trees in, functions out.

Integers have C's types and are wrapped as C does. Pointers into the record are offsets in it.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping
from typing import Any

from pybpf.dataclass import replace
from pybpf.events.ftrace.cexpr import (
    Binary,
    Braces,
    Call,
    Cast,
    Conditional,
    Expr,
    Index,
    Name,
    Number,
    RecordField,
    String,
    Unary,
    Unprintable,
)
from pybpf.events.ftrace.compiled import Address, Compiled, Inside, Integer, Run, Text
from pybpf.events.ftrace.helpers import call
from pybpf.events.ftrace.record import letter_of
from pybpf.isa.insn import ByteOrder
from pybpf.tracefs.format import EventFormat
from pybpf.types import (
    INT,
    LONG,
    U8,
    UINT,
    ULONG,
    Array,
    DataLoc,
    Int,
    Ptr,
    Type,
    Typedef,
    size_of,
    strip,
)

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_UNARY: Mapping[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
}
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_LARGEST = 1 << 16
"""No record is larger: it fits a page."""

Constants = Callable[[str], int | None]
"""The value of a name of an enum, which a print format may use; None for one that is not known."""


class Compiler:
    """Compiles the expressions of one format."""

    def __init__(
        self,
        format_: EventFormat,
        byteorder: ByteOrder,
        constants: Constants | None = None,
    ) -> None:
        self._constants = constants
        self._fields = {field.name: field for field in format_.fields}
        self.order = "<" if byteorder == "little" else ">"

    def compile(self, expr: Expr) -> Compiled:
        """Return what computes an expression. Raises Unprintable."""
        match expr:
            case Number(value=value, type=t):
                return Integer(lambda _: value, t)
            case String(text=text):
                return Text(lambda _: text)
            case RecordField(name=name):
                return self._field(name)
            case Cast(type=t, operand=operand):
                return self._cast(t, self.compile(operand))
            case Unary():
                return self._unary(expr)
            case Binary():
                return self._binary(expr)
            case Conditional():
                return self._conditional(expr)
            case Index(base=base, index=index):
                return self._index(self.compile(base), self.integer(index), index)
            case Call():
                return call(expr, self)
            case Name(name=name):
                return self._constant(name)
            case Braces():
                raise Unprintable("braces")

    def integer(self, expr: Expr) -> Integer:
        """Return what computes an integer. Raises Unprintable for another expression."""
        found = self.compile(expr)
        if isinstance(found, Address):
            return Integer(found.run, ULONG)
        if not isinstance(found, Integer):
            raise Unprintable("an integer expected")
        return found

    def _constant(self, name: str) -> Integer:
        value = None if self._constants is None else self._constants(name)
        if value is None:
            raise Unprintable(f"{name} is not known")
        t = INT if -(1 << 31) <= value < 1 << 31 else LONG
        return Integer(lambda _: value, t)

    def _field(self, name: str) -> Compiled:
        field = self._fields.get(name)
        if field is None:
            raise Unprintable(f"no field {name}")
        offset, t = field.offset, strip(field.type)
        match t:
            case Int():
                return Integer(self._load(offset, t), t, offset)
            case Ptr():
                return Address(self._load(offset, t), offset)
            case DataLoc():
                return Integer(self._load(offset, UINT), UINT)
            case Array(element=element) if isinstance(field.type, Typedef):
                return Inside(lambda _: offset, element, at=offset)
            case Array(element=element):
                return Inside(lambda _: offset, strip(element), at=offset)
            case _:
                raise Unprintable(f"a field of type {field.type}")

    def _load(self, offset: int, t: Type) -> Run:
        unpack = struct.Struct(self.order + letter_of(t)).unpack_from
        return lambda payload: unpack(payload, offset)[0]

    def _at(self, place: Run, t: Type) -> Compiled:
        """Return what loads the value at a place in the payload."""
        t = strip(t)
        match t:
            case Int():
                unpack = struct.Struct(self.order + letter_of(t)).unpack_from
                return Integer(lambda payload: unpack(payload, place(payload))[0], t)
            case Array(element=element):
                return Inside(place, strip(element))
            case Ptr():
                unpack = struct.Struct(self.order + "Q").unpack_from
                return Address(lambda payload: unpack(payload, place(payload))[0])
            case _:
                raise Unprintable(f"a value of type {t}")

    def _index(self, base: Compiled, index: Integer, number: Expr) -> Compiled:
        if not isinstance(base, Inside):
            raise Unprintable("an index of no array")
        start, at, size = base.run, index.run, size_of(base.element)
        if base.at is not None and isinstance(number, Number):
            if (offset := base.at + size * number.value) > _LARGEST:
                raise Unprintable("an index that is not in the record")
            return self._fixed(offset, base.element)
        return self._at(lambda payload: start(payload) + size * at(payload), base.element)

    def _fixed(self, offset: int, t: Type) -> Compiled:
        """Return what loads the value at an offset that is the same in every payload."""
        found = self._at(lambda _: offset, t)
        match found:
            case Integer(type=loaded):
                return Integer(self._load(offset, loaded), loaded, offset)
            case Address():
                return Address(self._load(offset, ULONG), offset)
            case Inside():
                return replace(found, at=offset)
            case Text():
                return found

    def _cast(self, t: Type, operand: Compiled) -> Compiled:
        match t, operand:
            case Int(), Integer(run=run, type=before):
                if before == t:
                    return operand
                return Integer(_wrapped(run, t), t)
            case Int(size=8), Address(run=run, at=at):
                return Integer(run, ULONG, at) if not t.signed else Integer(_wrapped(run, t), t)
            case Ptr(), Integer(run=run):
                return Address(lambda payload: ULONG.wrap(run(payload)))
            case Ptr(to=to), Inside(run=run, end=end):
                return Inside(run, to if isinstance(strip(to), Int) else U8, end)
            case Ptr(), Address() | Text():
                return operand
            case _:
                raise Unprintable(f"a cast to {t}")

    def _unary(self, expr: Unary) -> Compiled:
        operand = self.compile(expr.operand)
        match expr.op, operand:
            case "*", Inside(run=run, element=element):
                return self._at(run, element)
            case "&", Inside():
                return operand
            case "&", _ if isinstance(expr.operand, RecordField):
                offset = self._fields[expr.operand.name].offset
                return Inside(lambda _: offset, self._fields[expr.operand.name].type)
            case "!", Integer(run=run) | Address(run=run):
                return Integer(lambda payload: int(not run(payload)), INT)
            case ("-" | "+" | "~") as op, Integer(run=run, type=before):
                t = _promoted(before)
                apply = _UNARY[op]
                return Integer(lambda payload: t.wrap(apply(run(payload))), t)
            case _:
                raise Unprintable(f"{expr.op} of a pointer")

    def _binary(self, expr: Binary) -> Compiled:
        left, right = self.compile(expr.left), self.compile(expr.right)
        if isinstance(left, Inside) and expr.op in {"+", "-"}:
            run, by, size = left.run, self.integer(expr.right).run, size_of(left.element)
            sign = size if expr.op == "+" else -size
            return Inside(lambda payload: run(payload) + sign * by(payload), left.element)
        a, b = _number(left), _number(right)
        x, y = a.run, b.run
        if expr.op == "&&":
            return Integer(lambda payload: int(bool(x(payload) and y(payload))), INT)
        if expr.op == "||":
            return Integer(lambda payload: int(bool(x(payload) or y(payload))), INT)
        if expr.op in {"<<", ">>"}:
            t = _promoted(a.type)
            shift = operator.lshift if expr.op == "<<" else operator.rshift
            mask = t.bits - 1
            return Integer(lambda payload: t.wrap(shift(x(payload), y(payload) & mask)), t)
        t = _common(a.type, b.type)
        if expr.op in _COMPARISONS:
            compare = _COMPARISONS[expr.op]
            return Integer(lambda p: int(compare(t.wrap(x(p)), t.wrap(y(p)))), INT)
        compute = _ARITHMETIC.get(expr.op) or _division(expr.op)
        return Integer(lambda p: t.wrap(compute(t.wrap(x(p)), t.wrap(y(p)))), t)

    def _conditional(self, expr: Conditional) -> Compiled:
        test = self.compile(expr.test)
        then, other = self.compile(expr.then), self.compile(expr.other)
        decide = test.run
        a, b = then.run, other.run

        def run(payload: bytes) -> Any:
            return a(payload) if decide(payload) else b(payload)

        if isinstance(test, Text | Inside):
            raise Unprintable("a pointer as a condition")
        match then, other:
            case Integer(type=first), Integer(type=second):
                return Integer(run, _common(first, second))
            case ((Text() | Inside()), (Text() | Inside())):
                x, y = self.text(then), self.text(other)
                return Text(lambda payload: x(payload) if decide(payload) else y(payload))
            case Address(), Address():
                return Address(run)
            case _:
                raise Unprintable("a choice between different types")

    def text(self, value: Compiled) -> Run:
        """Return what gives the text of a string. Raises Unprintable for what is none."""
        match value:
            case Text(run=run):
                return run
            case Inside(run=run, end=end):
                return _string(run, end)
            case Address(run=run):
                # The text is in the kernel's memory, which we do not have.
                return lambda payload: f"(0x{run(payload):x})" if run(payload) else "(null)"
            case Integer():
                raise Unprintable("an integer as a string")

    def location(self, expr: Expr) -> tuple[Run, Run, Type]:
        """Return where the data of a field are, up to where, and the type of their elements."""
        name, index = expr, 0
        if isinstance(expr, Index) and isinstance(expr.index, Number):
            name, index = expr.base, expr.index.value
        field = self._fields.get(name.name) if isinstance(name, Name | RecordField) else None
        if field is None:
            raise Unprintable("a location of no field")
        t = field.type.element if isinstance(field.type, Array) else field.type
        if not isinstance(t, DataLoc):
            raise Unprintable(f"{field.name} is no location")
        place = field.offset + 4 * index
        load = struct.Struct(f"{self.order}I").unpack_from
        base = place + 4 if t.relative else 0

        def start(payload: bytes) -> int:
            word: int = load(payload, place)[0]
            return base + (word & 0xFFFF)

        def end(payload: bytes) -> int:
            word: int = load(payload, place)[0]
            return base + (word & 0xFFFF) + (word >> 16)

        return start, end, t.element


def _wrapped(run: Run, t: Int) -> Run:
    wrap = t.wrap
    return lambda payload: wrap(run(payload))


def _string(start: Run, end: Run | None) -> Run:
    def run(payload: bytes) -> str:
        first = start(payload)
        last = len(payload) if end is None else end(payload)
        found = payload[first:last].partition(b"\0")[0]
        return found.decode("utf-8", "surrogateescape")

    return run


def _number(value: Compiled) -> Integer:
    match value:
        case Integer():
            return value
        case Address(run=run):
            return Integer(run, ULONG)
        case _:
            raise Unprintable("arithmetic with pointers")


def _promoted(t: Int) -> Int:
    return INT if t.size < 4 else t


def _common(a: Int, b: Int) -> Int:
    """Return the type that C computes with for operands of two types."""
    a, b = _promoted(a), _promoted(b)
    if a.size != b.size:
        return a if a.size > b.size else b
    return b if a.signed else a


def _division(op: str) -> Callable[[int, int], int]:
    def divide(a: int, b: int) -> int:
        if not b:
            return 0
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "/" else a - b * quotient

    return divide
