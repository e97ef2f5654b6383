"""Numbers of an object's types in; what C calls them out: declarations, members, variables."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from pybpf.btf.ext import CoreKind
from pybpf.btf.reader import Btf, Kind
from pybpf.objfile.elf import SymbolType

if TYPE_CHECKING:
    from pybpf.btf.ext import CoreRelocation
    from pybpf.btf.reader import Member
    from pybpf.objfile.elf import Elf, Symbol

_DEEPEST = 32
_value = attrgetter("value")
_TAGS: Mapping[Kind, str] = {
    Kind.STRUCT: "struct ",
    Kind.UNION: "union ",
    Kind.ENUM: "enum ",
    Kind.ENUM64: "enum ",
    Kind.FWD: "struct ",
}
_WORDS: Mapping[Kind, str] = {
    Kind.CONST: "const",
    Kind.VOLATILE: "volatile",
    Kind.RESTRICT: "restrict",
}
_ASKED: Mapping[int, str] = {
    CoreKind.FIELD_BYTE_SIZE: "sizeof",
    CoreKind.FIELD_EXISTS: "exists",
    CoreKind.FIELD_SIGNED: "signed",
    CoreKind.FIELD_LSHIFT_U64: "lshift",
    CoreKind.FIELD_RSHIFT_U64: "rshift",
    CoreKind.TYPE_ID_LOCAL: "local id",
    CoreKind.TYPE_ID_TARGET: "id",
    CoreKind.TYPE_EXISTS: "exists",
    CoreKind.TYPE_SIZE: "sizeof",
    CoreKind.TYPE_MATCHES: "matches",
    CoreKind.ENUMVAL_EXISTS: "exists",
}
"""What a CO-RE relocation asks, where that is not a member's offset or an enumerator's value."""
_OF_ENUM = frozenset({CoreKind.ENUMVAL_EXISTS, CoreKind.ENUMVAL_VALUE})
_OF_TYPE = frozenset(
    {
        CoreKind.TYPE_ID_LOCAL, CoreKind.TYPE_ID_TARGET, CoreKind.TYPE_EXISTS, CoreKind.TYPE_SIZE,
        CoreKind.TYPE_MATCHES,
    }
)  # fmt: skip


# The header of BTF, and an empty name: what an object without types says of them.
_NO_TYPES = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, 1) + b"\0"


class Names:
    """What the types and variables of one object are called; both may be missing.

    It keeps what it was asked, as the same types come again and again.
    """

    def __init__(self, btf: Btf | None, elf: Elf | None = None) -> None:
        self._btf = Btf(_NO_TYPES) if btf is None else btf
        self._elf = elf
        self._fields: dict[int, tuple[tuple[str, Member], ...]] = {}
        self._variables: dict[str, tuple[list[int], list[Symbol]]] = {}
        self._at: dict[tuple[int, int], str] = {}

    def type(self, number: int, name: str = "") -> str:
        """Return a type as C declares it, of a variable where that has a name: ``char comm[16]``.

        Parameters of a function that is pointed to, and what nests deeply, are ``…``.
        """
        btf, inner = self._btf, name
        words: list[str] = []
        for _ in range(_DEEPEST):
            kind, target = btf.kind(number), btf.target(number)
            if kind is Kind.PTR:
                inner = " ".join(["*", *words]) + (" " if words and inner else "") + inner
                words = []
                if btf.kind(target) in {Kind.ARRAY, Kind.FUNC_PROTO}:
                    inner = f"({inner})"
            elif kind is Kind.ARRAY:
                target, count = btf.array(number) or (0, 0)
                inner += f"[{count}]"
            elif kind is Kind.FUNC_PROTO:
                inner += "(…)"
            elif kind in _WORDS:
                words.append(_WORDS[kind])
            elif kind is not Kind.TYPE_TAG:
                text = _TAGS.get(kind, "") + (btf.name(number) or _nameless(kind))
                return " ".join([*words, text, *([inner] if inner else [])])
            number = target
        return f"… {inner}".rstrip()

    def declared(self, number: int) -> str:
        """Return a type as C has it; empty where there is none, which 0 stands for."""
        return self.type(number) if number else ""

    def function(self, number: int) -> str:
        """Return the prototype of a function: ``int parse(struct xdp_md *ctx)``; empty of none."""
        proto = self._btf.prototype(number) if self._btf.kind(number) is Kind.FUNC else None
        if proto is None:
            return ""
        params = [self.type(inner, name) if inner else "..." for name, inner in proto.params]
        return self.type(proto.returns, f"{self._btf.name(number)}({', '.join(params) or 'void'})")

    def core(self, relocation: CoreRelocation) -> str:
        """Return what a CO-RE relocation is about: ``task_struct.pid``, ``exists struct sock``."""
        number, kind = relocation.type, relocation.kind
        if kind in _OF_TYPE:
            text = self.type(number)
        elif kind in _OF_ENUM:
            text = self._enumerator(number, relocation.access)
        else:
            text = self._member(number, relocation.access)
        asked = _ASKED.get(kind, "" if kind in set(CoreKind) else f"kind {kind}:")
        return f"{asked} {text}".lstrip()

    def _enumerator(self, number: int, access: str) -> str:
        names = self._btf.enumerators(self._btf.skip(number))
        index = int(access) if access.isdecimal() and len(access) < 10 else len(names)
        return names[index][0] if index < len(names) else f"{self.type(number)} {access}"

    def _member(self, number: int, access: str) -> str:
        """Walk as an access string says; what cannot be walked is kept as it is."""
        first, *rest = access.split(":")
        btf, number = self._btf, self._btf.skip(number)
        text = btf.name(number) or _nameless(btf.kind(number))
        text += f"[{first}]" if first != "0" else ""
        for at, word in enumerate(rest):
            index = int(word) if word.isdecimal() and len(word) < 10 else -1
            if array := btf.array(number):
                text, number = f"{text}[{word}]", btf.skip(array[0])
                continue
            fields = self.fields(number)
            if not 0 <= index < len(fields):
                return f"{text}:{':'.join(rest[at:])}"
            name, member = fields[index]
            text, number = f"{text}.{name}" if name else text, btf.skip(member.type)
        return text

    def fields(self, number: int) -> tuple[tuple[str, Member], ...]:
        """Return the members of a structure or union, as ``Btf.fields`` does."""
        found = self._fields.get(number)
        if found is None:
            found = self._fields[number] = self._btf.fields(number)
        return found

    def at(self, number: int, offset: int) -> str:
        """Return the member of a structure that begins at a byte: ``.remote_ip6[1]``, or nothing.

        Of the members of a union it is the first.
        """
        found = self._at.get((number, offset))
        if found is None:
            found = self._at[number, offset] = self._find_at(number, offset)
        return found

    def _find_at(self, number: int, offset: int) -> str:
        text, btf = "", self._btf
        for _ in range(_DEEPEST):
            number = btf.skip(number)
            if array := btf.array(number):
                size = btf.size(array[0]) or 0
                if not size or offset >= size * array[1]:
                    return ""
                text, number, offset = f"{text}[{offset // size}]", array[0], offset % size
                continue
            if not btf.is_aggregate(number):
                return text if not offset else ""
            for name, member in self.fields(number):
                start, size = member.bit_offset // 8, btf.size(member.type) or 0
                if start <= offset < start + size and not member.bit_size:
                    text += f".{name}" if name else ""
                    number, offset = member.type, offset - start
                    break
            else:
                return ""
        return ""

    def variable(self, section: str, offset: int) -> str:
        """Return the variable of a section that holds a byte: ``limits + 8``, or nothing."""
        # The places that .BTF has are those before the linker laid out the section.
        if section not in self._variables:
            place = self._elf.section(section) if self._elf else None
            symbols = self._elf.symbols_of(place) if self._elf and place else ()
            rows = sorted((s for s in symbols if s.type == SymbolType.OBJECT), key=_value)
            self._variables[section] = [row.value for row in rows], rows
        offsets, rows = self._variables[section]
        found = bisect_right(offsets, offset) - 1
        if found < 0 or offset - offsets[found] >= max(rows[found].size, 1):
            return ""
        more = offset - offsets[found]
        return f"{rows[found].name} + {more}" if more else rows[found].name

    def context(self, number: int) -> tuple[int, str]:
        """Return the structure that the first parameter of a function points to, and its name.

        That is (0, "") where it points to none.
        """
        btf = self._btf
        proto = btf.prototype(number) if btf.kind(number) is Kind.FUNC else None
        if not proto or not proto.params:
            return 0, ""
        name, declared = proto.params[0]
        first = btf.skip(declared)
        pointed = btf.pointed(first) if btf.kind(first) is Kind.PTR else 0
        return (pointed, name or "ctx") if btf.kind(pointed) is Kind.STRUCT else (0, "")


def _nameless(kind: Kind) -> str:
    return "void" if kind is Kind.VOID else "{…}" if kind in _TAGS else "?"
