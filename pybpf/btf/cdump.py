"""The types of a BTF in; a C header that declares them, with the same layout, out.

    print(dump(btf), end="")                    # what bpftool calls vmlinux.h
    print(dump(btf, [btf.struct("task_struct")]))

Order (order.py), names (cnames.py) and layout (layout.py) are worked out elsewhere; here is what is
written. What BTF does not tell, such as whether an array of no elements was ``[]`` or ``[0]``, is
written so that any compiler takes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pybpf.btf.abi import Encoding, Kind
from pybpf.btf.cnames import BUILT_IN, Scope, identifier, is_number
from pybpf.btf.layout import DEEPEST, Filler, Layouts
from pybpf.btf.order import Step, ordered
from pybpf.btf.reader import Btf
from pybpf.btf.types import (
    Array,
    BtfType,
    Composite,
    Enum,
    Field,
    Float,
    Forward,
    Func,
    FuncProto,
    Int,
    Reference,
    Var,
)
from pybpf.errors import BtfError

_HEAD = """\
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)
#endif

"""
_FOOT = """\
#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif /* __VMLINUX_H__ */
"""
_ROOTS = (Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64, Kind.TYPEDEF, Kind.FWD)
_QUALIFIERS = {Kind.CONST: "const", Kind.VOLATILE: "volatile", Kind.RESTRICT: "restrict"}
_MODES = {1: "QI", 2: "HI", 4: "SI", 8: "DI"}
_UNITS = {8: "char", 16: "short", 32: "int", 64: "long long"}
_NUMBERS = {1: "char", 2: "short", 4: "int", 8: "long long", 16: "__int128"}
_FLOATS = {2: "_Float16", 4: "float", 8: "double", 16: "long double"}


def dump(btf: Btf, roots: Iterable[int] | None = None) -> str:
    """Return a header with some types and all that they need, or with all types that have names.

    A function or a variable is declared, too, where it is asked for. Raises BtfError for types that
    are nested too deep, or would take more room than a BTF of its size can mean.
    """
    if roots is None:
        roots = [number for number in btf.numbers(*_ROOTS) if _stands_alone(btf.type(number))]
    writer = _Writer(btf)
    steps = ordered(roots, writer.type)
    return "".join([_HEAD, *(writer.declared(step) for step in steps), _FOOT])


def _stands_alone(t: BtfType | None) -> bool:
    return isinstance(t, Enum) or bool(getattr(t, "name", ""))


class _Writer:
    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self._types: dict[int, BtfType | None] = {}
        self._told: set[str] = set()
        self._layouts = Layouts(self.type, btf.pointer_size)
        self._tags, self._names = Scope(), Scope()
        # A member takes three words. This stops what is nested in itself in many ways.
        self._lines_left = len(btf.blob.words) + 10_000

    def type(self, number: int) -> BtfType | None:
        """Return a type; raises BtfError."""
        if number not in self._types:
            self._types[number] = self._btf.type(number)
        return self._types[number]

    def declared(self, step: Step) -> str:
        """Return the lines that declare a type."""
        number, t = step.number, self.type(step.number)
        match t:
            case Composite() | Forward() if not step.whole:
                tag = self._tag(number, t)
                return "" if tag in self._told else f"{tag};\n\n"
            case Composite():
                tag = self._tag(number, t)
                self._told.add(tag)
                return f"{self._composite(number, t, 0, tag=tag)};\n\n"
            case Enum():
                return f"{self._enum(number, t, 0)};\n\n"
            case Int() | Float():
                return "" if is_number(t.name) else self._number(number, t)
            case Reference(name=name) if name not in BUILT_IN:
                return f"typedef {self._declaration(t.type, self._names.name(number, name))};\n\n"
            case Func(name=name):
                return f"{self._declaration(t.type, self._names.name(number, name))};\n\n"
            case Var(name=name):
                name = self._names.name(number, name)
                return f"extern {self._declaration(t.type, name)};\n\n"
            case _:
                return ""

    def _number(self, number: int, t: Int | Float) -> str:
        """Return a typedef for a number that C has no name for."""
        if isinstance(t, Float):
            plain = _FLOATS.get(t.size)
        else:
            plain = _NUMBERS.get(t.size)
            if plain and t.encoding & Encoding.BOOL and t.size == 1:
                plain = "_Bool"
            elif plain:
                signed = "signed" if t.encoding & Encoding.SIGNED else "unsigned"
                plain = f"{signed} {plain}"
        name = self._names.name(number, t.name)
        if plain is None:
            return f"typedef struct {{ char bytes[{t.size}]; }} {name};\n\n"
        return f"typedef {plain} {name};\n\n"

    def _tag(self, number: int, t: Composite | Enum | Forward) -> str:
        """Return ``struct x``; a forward declaration is of the structure of that name, if any."""
        if isinstance(t, Enum):
            return f"enum {self._tags.name(number, t.name)}"
        if isinstance(t, Composite):
            kind: Kind = t.kind
        else:
            kind = Kind.UNION if t.union else Kind.STRUCT
            number = self._btf.index.find(kind, t.name) or number
        return f"{kind.name.lower()} {self._tags.name(number, t.name)}"

    # --- declarations -----------------------------------------------------------------------------

    def _declaration(self, number: int, name: str, indent: int = 0, depth: int = 0) -> str:
        """Return ``type name``, with the pointers, arrays and functions around the name."""
        said: list[str] = []  # qualifiers, which are about what comes next
        for _ in range(DEEPEST - depth):
            t = self.type(number)
            match t:
                case Reference(kind=Kind.PTR, type=number):
                    name = f"*{' '.join(said)}{' ' if said and name else ''}{name}"
                    said = []
                case Reference(kind=Kind.TYPE_TAG, type=number):
                    tag = t.name if t.attribute else f'btf_type_tag("{t.name}")'
                    said.insert(0, f"__attribute__(({tag}))")
                case Reference() if t.kind is not Kind.TYPEDEF:
                    # gcc says of an array and of its elements that they are const.
                    if (qualifier := _QUALIFIERS[t.kind]) not in said:
                        said.insert(0, qualifier)
                    number = t.type
                case Reference(name=built_in) if built_in in BUILT_IN:
                    number = t.type
                case Array(element=number, count=count):
                    name = f"({name})" if name.startswith("*") else name
                    name += f"[{count}]"
                case FuncProto(returns=number):
                    name = f"({name})" if name.startswith("*") else name
                    name += f"({self._parameters(t, indent, depth + 1)})"
                    said = []
                case _:
                    words = [*(word for word in said if word != "restrict")]
                    words.append(self._specifier(number, t, indent, depth + 1))
                    return " ".join([*words, name] if name else words)
        raise self._too_deep(number)

    def _too_deep(self, number: int) -> BtfError:
        return BtfError(f"type {number} is nested deeper than {DEEPEST}", self._btf.place(number))

    def _parameters(self, t: FuncProto, indent: int, depth: int) -> str:
        if not t.params:
            return "void"
        return ", ".join(
            "..."
            if not inner and not name
            else self._declaration(inner, identifier(name), indent, depth)
            for name, inner in t.params
        )

    def _specifier(self, number: int, t: BtfType | None, indent: int, depth: int) -> str:
        """Return what stands first in a declaration: a name, or all of a nameless type."""
        match t:
            case None:
                return "void"
            case Int() | Float():
                return t.name if is_number(t.name) else self._names.name(number, t.name)
            case Reference():
                return self._names.name(number, t.name)
            case Composite() if not t.name:
                return self._composite(number, t, indent, depth)
            case Enum() if not t.name:
                return self._enum(number, t, indent)
            case Composite() | Enum() | Forward():
                return self._tag(number, t)
            case _:
                raise BtfError(
                    f"type {number} is a {self._btf.kind(number).name}, and none that a value has",
                    self._btf.place(number),
                )

    # --- what has members -------------------------------------------------------------------------

    def _composite(
        self, number: int, t: Composite, indent: int, depth: int = 0, tag: str = ""
    ) -> str:
        """Return a structure or union with its members, and the attributes that keep its layout."""
        if depth > DEEPEST:
            raise self._too_deep(number)
        layout = self._layouts.of(number, t)
        head = tag or t.kind.name.lower()
        pad = "\t" * (indent + 1)
        lines = [] if layout.exact else [f"{pad}/* no C has this layout: {t.size} bytes */"]
        for member, fillers in zip((*t.members, None), layout.fillers, strict=True):
            lines += (f"{pad}{self._filler(each, len(lines))};" for each in fillers)
            if member is not None:
                lines.append(f"{pad}{self._member(member, indent + 1, depth)};")
            self._count(1 + len(fillers))
        attributes = ["packed"] * layout.packed + [f"aligned({layout.aligned})"][: layout.aligned]
        tail = f" __attribute__(({', '.join(attributes)}))" if attributes else ""
        body = "".join(f"{line}\n" for line in lines)
        return f"{head} {{\n{body}{pad[1:]}}}{tail}" if lines else f"{head} {{}}{tail}"

    def _member(self, member: Field, indent: int, depth: int) -> str:
        inner = self._btf.skip(member.type)
        t = self.type(inner)
        if not member.name and isinstance(t, Composite):
            # Of a structure that has a name, only compilers with -fms-extensions make a member.
            return self._composite(inner, t, indent, depth + 1)
        slot = self._layouts.slot(member)
        name = identifier(member.name)
        bits = f": {slot.size}" if slot.unit else ""
        return self._declaration(member.type, name, indent, depth) + bits

    def _filler(self, filler: Filler, line: int) -> str:
        if not filler.unit:
            return f"char __pad{line}[{filler.bits // 8}]"
        return f"{_UNITS[filler.unit]}: {filler.bits}"

    def _enum(self, number: int, t: Enum, indent: int) -> str:
        """Return an enumeration with its values; one without is of unknown size in C."""
        head = self._tag(number, t) if t.name else "enum"
        if not t.values:
            return head if t.name else _NUMBERS.get(t.size, "int")
        self._count(len(t.values))
        pad = "\t" * (indent + 1)
        lines = [
            f"{pad}{self._names.unique(name or '_')} = {_literal(value)},\n"
            for name, value in t.values
        ]
        wide = any(not -(1 << 31) <= value < 1 << 32 for _, value in t.values)
        mode = "" if t.size == (8 if wide else 4) else _MODES.get(t.size, "")
        tail = f" __attribute__((mode({mode})))" if mode else ""
        return f"{head} {{\n{''.join(lines)}{pad[1:]}}}{tail}"

    def _count(self, lines: int) -> None:
        self._lines_left -= lines
        if self._lines_left < 0:
            raise BtfError("its types are nested in each other so often that no file could hold it")


def _literal(value: int) -> str:
    if value == -1 << 63:
        return "-9223372036854775807LL - 1"
    if value >= 1 << 63:
        return f"{value}ULL"
    return f"{value}LL" if not -(1 << 31) <= value < 1 << 32 else str(value)
