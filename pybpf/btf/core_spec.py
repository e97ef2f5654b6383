"""An access string ("0:2:1") and the type it is about in; the fields it walks through, out.

A ``Spec`` is such a walk, in the types of an object or in those of a kernel:

    raw    one number for each step: an index of the pointer, a member, an element of an array
    path   the same without nameless members: what the source says, ``.comm[1]``

A walk of the object is found again in a kernel's type by the names on its path (``matched``).
Source: what libbpf takes and finds (relo_core.c).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from pybpf.btf.abi import COMPOSITES
from pybpf.btf.core_match import (
    CoreError,
    essential,
    fields_compatible,
    types_compatible,
    types_match,
)
from pybpf.btf.ext import CoreKind, CoreRelocation
from pybpf.btf.reader import Btf, Kind, Member
from pybpf.dataclass import dataclass, field

FIELD_KINDS = frozenset(
    {
        CoreKind.FIELD_BYTE_OFFSET, CoreKind.FIELD_BYTE_SIZE, CoreKind.FIELD_EXISTS,
        CoreKind.FIELD_SIGNED, CoreKind.FIELD_LSHIFT_U64, CoreKind.FIELD_RSHIFT_U64,
    }
)  # fmt: skip
TYPE_KINDS = frozenset(
    {
        CoreKind.TYPE_ID_LOCAL, CoreKind.TYPE_ID_TARGET, CoreKind.TYPE_EXISTS, CoreKind.TYPE_SIZE,
        CoreKind.TYPE_MATCHES,
    }
)  # fmt: skip

_STEPS_AT_MOST = 64
_LARGEST = (1 << 31) - 1
_U32 = (1 << 32) - 1
_ACCESS = re.compile(r"[0-9]{1,10}(?::[0-9]{1,10})*")
_SHOWN = 60


class Accessor(NamedTuple):
    """A step on a path: the member ``name`` of a type, or (None) a value of it by number."""

    type: int
    number: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """What a relocation is about, in the types of ``btf``; ``bits`` from the start to the field.

    Of a relocation about a type ``path`` and ``raw`` are empty, of one about an enumeration both
    have one step, to the value.
    """

    btf: Btf = field(repr=False, compare=False)
    kind: CoreKind
    root: int
    path: tuple[Accessor, ...] = ()
    raw: tuple[int, ...] = ()
    bits: int = 0

    def __str__(self) -> str:
        """Return it as C would have it, such as ``struct task_struct.comm[1] (0:5:1 @ 97)``."""
        root = describe(self.btf, self.root)
        if self.kind in TYPE_KINDS:
            return root
        if self.kind not in FIELD_KINDS:
            return f"{root}::{self.path[0].name} = {self.value()}"
        steps = "".join(
            f".{step.name}" if step.name else f"[{step.number}]" if depth or step.number else ""
            for depth, step in enumerate(self.path)
        )
        raw = ":".join(map(str, self.raw))
        bit = f".{self.bits % 8}" if self.bits % 8 else ""
        return f"{root}{steps} ({raw} @ {self.bits // 8}{bit})"

    def value(self) -> int:
        """Return the value of the enumeration that it is about."""
        step = self.path[0]
        _, value = self.btf.enumerators(step.type)[step.number]
        return value


@lru_cache(maxsize=64)
def fields(btf: Btf, number: int) -> tuple[tuple[str, Member], ...]:
    """Return the members of a structure or union; one is often asked for many of its fields."""
    return btf.fields(number)


def describe(btf: Btf, number: int) -> str:
    """Return a type as ``struct task_struct``, ``union <anon>`` or ``unsigned int``."""
    name = btf.name(number) or "<anon>"
    match kind := btf.kind(number):
        case Kind.VOID:
            return "void"
        case Kind.INT | Kind.FLOAT:
            return name
        case Kind.ENUM64:
            return f"enum {name}"
        case Kind.FWD:
            return f"{'union' if btf.flag(number) else 'struct'} {name}"
        case _:
            return f"{kind.name.lower()} {name}"


def size_of(btf: Btf, number: int) -> int:
    """Return how many bytes a type takes; raises CoreError for one without a size."""
    size = btf.size(number)
    if size is None or size > _U32:
        raise CoreError(f"type {number}, {describe(btf, number)}, has no size")
    return size


def parsed(btf: Btf, relocation: CoreRelocation) -> Spec:
    """Return what a relocation of an object is about.

    Raises CoreError where its access string is none, or leads to what is not there.
    """
    if relocation.kind not in _KINDS:
        raise CoreError(f"there is no CO-RE relocation of kind {relocation.kind}")
    kind, root, access = CoreKind(relocation.kind), relocation.type, relocation.access
    if not 0 <= root < len(btf):
        raise CoreError(f"there is no type {root}: the object has {len(btf)}")
    if kind in TYPE_KINDS:
        if access != "0":
            raise _bad(access, "that of a type is 0")
        return Spec(btf, kind, root)
    if not _ACCESS.fullmatch(access):
        raise _bad(access, "it is no numbers with colons between")
    raw = tuple(map(int, access.split(":")))
    if len(raw) > _STEPS_AT_MOST:
        raise _bad(access, f"{len(raw)} steps are more than {_STEPS_AT_MOST}")
    if max(raw) > _LARGEST:
        raise _bad(access, f"{max(raw)} is too large")
    if kind in FIELD_KINDS:
        return _field(btf, kind, root, raw)
    inner = btf.skip(root)
    values = btf.enumerators(inner)
    if len(raw) > 1 or raw[0] >= len(values):
        raise _bad(access, f"{describe(btf, inner)} has no such value")
    return Spec(btf, kind, root, (Accessor(inner, raw[0], values[raw[0]][0]),), raw)


_KINDS = frozenset(CoreKind)


def _bad(access: str, reason: str) -> CoreError:
    shown = access if len(access) <= _SHOWN else f"{access[:_SHOWN]}…"
    return CoreError(f"access string {shown!r}: {reason}")


def _field(btf: Btf, kind: CoreKind, root: int, raw: tuple[int, ...]) -> Spec:
    number = btf.skip(root)
    path = [Accessor(number, raw[0])]
    bits = raw[0] * size_of(btf, number) * 8
    for index in raw[1:]:
        number = btf.skip(number)
        if btf.kind(number) in COMPOSITES:
            members = fields(btf, number)
            if index >= len(members):
                raise CoreError(f"{describe(btf, number)} has no member {index}")
            name, member = members[index]
            bits += member.bit_offset
            if name:
                path.append(Accessor(number, index, name))
            number = member.type
        elif (element := _element(btf, path[-1], number, index)) is not None:
            number = element
            path.append(Accessor(number, index))
            bits += index * size_of(btf, number) * 8
        else:
            raise CoreError(f"{describe(btf, number)} has no element {index}")
    return Spec(btf, kind, root, tuple(path), raw, bits & _U32)


def _element(btf: Btf, last: Accessor, number: int, index: int) -> int | None:
    """Return the type of an element of an array, None where there is none.

    An array without elements that is the last member of a structure has as many as one likes.
    """
    array = btf.array(number)
    if array is None:
        return None
    flexible = not array[1] and last.name and last.number == len(fields(btf, last.type)) - 1
    return btf.skip(array[0]) if index < array[1] or flexible else None


def matched(spec: Spec, target: Btf, number: int) -> Spec | None:
    """Return what a spec of an object is in a type of a kernel, None where it is not there.

    Raises CoreError where types are nested too deeply.
    """
    if spec.kind in TYPE_KINDS:
        compare = types_match if spec.kind is CoreKind.TYPE_MATCHES else types_compatible
        there = compare(spec.btf, spec.root, target, number)
        return Spec(target, spec.kind, number) if there else None
    if spec.kind in FIELD_KINDS:
        return _Walk(spec, target, number).spec()
    inner, wanted = target.skip(number), essential(spec.path[0].name or "")
    for index, (name, _) in enumerate(target.enumerators(inner)):
        if essential(name) == wanted:
            return Spec(target, spec.kind, number, (Accessor(inner, index, name),), (index,))
    return None


class _Walk:
    """Walks the path of a spec through a type of a kernel."""

    def __init__(self, spec: Spec, target: Btf, root: int) -> None:
        self._local = spec
        self._target = target
        self._root = root

    def spec(self) -> Spec | None:
        """Return where the walk ends, None where a step of it is not there."""
        target, number = self._target, self._root
        self._raw: list[int] = []
        self._bits = 0
        path: list[Accessor] = []
        for step in self._local.path:
            number = target.skip(number)
            if step.name is not None:
                self._missing: set[int] = set()
                found = self._member(step, number)
                if found is None:
                    return None
                accessor, member = found
                path.append(accessor)
                number = member.type
                continue
            if path:
                element = _element(target, path[-1], number, step.number)
                if element is None:
                    return None
                number = element
            self._step(step.number, step.number * size_of(target, number) * 8)
            path.append(Accessor(number, step.number))
        return Spec(
            target, self._local.kind, self._root, tuple(path), tuple(self._raw), self._bits & _U32
        )

    def _step(self, index: int, bits: int) -> None:
        if len(self._raw) == _STEPS_AT_MOST:
            raise CoreError(f"{describe(self._target, self._root)} is nested too deeply")
        self._raw.append(index)
        self._bits += bits

    def _member(self, wanted: Accessor, number: int) -> tuple[Accessor, Member] | None:
        """Return the member of that name, perhaps of nameless ones within, and walk to it."""
        if number in self._missing:
            return None
        for index, (name, member) in enumerate(fields(self._target, number)):
            if name and name != wanted.name:
                continue
            self._step(index, member.bit_offset)
            if name:
                return self._compatible(wanted, Accessor(number, index, name), member)
            found = self._member(wanted, self._target.skip(member.type))
            if found:
                return found
            self._raw.pop()
            self._bits -= member.bit_offset
        self._missing.add(number)
        return None

    def _compatible(
        self, wanted: Accessor, found: Accessor, member: Member
    ) -> tuple[Accessor, Member] | None:
        local = self._local.btf
        _, mine = fields(local, wanted.type)[wanted.number]
        there = fields_compatible(local, mine.type, self._target, member.type)
        return (found, member) if there else None
