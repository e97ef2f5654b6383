"""A type of an object and one of a kernel in; whether the one stands for the other, out.

CO-RE asks that in three ways, from lenient to strict: may a field be read as if it were another
(``fields_compatible``), is a type there at all (``types_compatible``), and is it the same
(``types_match``). Names count up to a flavour: ``task_struct___old`` is ``task_struct``.

Source: what libbpf answers (relo_core.c). Types are followed as deep as libbpf does; where it gives
up, CoreError is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pybpf.btf.abi import COMPOSITES, ENUMS
from pybpf.btf.reader import Btf, Kind
from pybpf.errors import TargetError

_DEEPEST = 32
_PAIRS_AT_MOST = 100_000
_FLAVOUR = re.compile(r"(.*[^_])___[^_]", re.DOTALL)

_OPAQUE = COMPOSITES | ENUMS | {Kind.VOID, Kind.FWD}


class CoreError(TargetError):
    """A CO-RE relocation for which a loader refuses the whole object."""


def essential(name: str) -> str:
    """Return a name without its flavour: what follows the last three underscores in it."""
    found = _FLAVOUR.match(name) if "___" in name else None
    return found[1] if found else name


def kinds_compatible(one: Kind, other: Kind) -> bool:
    """Say whether types of two kinds can be meant by one name: enumerations have two sizes."""
    return one is other or (one in ENUMS and other in ENUMS)


def fields_compatible(local: Btf, mine: int, target: Btf, theirs: int) -> bool:
    """Say whether a field of one type may be where one of another is expected.

    Any two integers, pointers, floats or structures may; arrays by their elements; enumerations and
    forward declarations by their names, where both have one.
    """
    for _ in range(_DEEPEST):
        mine, theirs = local.skip(mine), target.skip(theirs)
        kind, other = local.kind(mine), target.kind(theirs)
        if kind in COMPOSITES and other in COMPOSITES:
            return True
        if not kinds_compatible(kind, other):
            return False
        match kind:
            case Kind.PTR | Kind.FLOAT:
                return True
            case Kind.FWD | Kind.ENUM | Kind.ENUM64:
                names = essential(local.name(mine)), essential(target.name(theirs))
                return not all(names) or names[0] == names[1]
            case Kind.INT:
                return _whole(local, mine) and _whole(target, theirs)
            case Kind.ARRAY:
                mine, theirs = local.element(mine), target.element(theirs)
            case _:
                return False
    raise _too_deep(local, mine)


def types_compatible(local: Btf, mine: int, target: Btf, theirs: int) -> bool:
    """Say whether a type is there: of the same kind, and so is what it is made of.

    Members of structures and values of enumerations do not count, and names only for the caller.
    """
    if not kinds_compatible(local.kind(mine), target.kind(theirs)):
        return False
    return _Compatible(local, target).types(mine, theirs, _DEEPEST)


def types_match(local: Btf, mine: int, target: Btf, theirs: int) -> bool:
    """Say whether a type is as the object declares it.

    Members that it declares must be there and match; those behind a pointer by name and kind only.
    Values of enumerations must have the same names, whatever they are. Sizes of integers, and
    numbers of elements, must be the same.
    """
    return _Matching(local, target).types(mine, theirs, _DEEPEST, behind_pointer=False)


def _whole(btf: Btf, number: int) -> bool:
    """Say whether an integer is none of the old kind that are bit fields by themselves."""
    found = btf.integer(number)
    return found is not None and found.offset == 0


def _too_deep(btf: Btf, number: int) -> CoreError:
    return CoreError(f"type {number} {btf.name(number) or '<anon>'} is nested too deeply")


class _Compatible:
    """Compares types; pairs that are compatible are looked at once."""

    def __init__(self, local: Btf, target: Btf) -> None:
        self._local = local
        self._target = target
        self._known: set[tuple[int, int]] = set()

    def types(self, mine: int, theirs: int, level: int) -> bool:
        local, target = self._local, self._target
        for _ in range(_DEEPEST):
            mine, theirs = local.skip(mine), target.skip(theirs)
            if (mine, theirs) in self._known:
                return True
            kind = local.kind(mine)
            if not kinds_compatible(kind, target.kind(theirs)):
                return False
            if kind in _OPAQUE:
                return True
            match kind:
                case Kind.INT:
                    return _whole(local, mine) and _whole(target, theirs)
                case Kind.PTR:
                    mine, theirs = local.target(mine), target.target(theirs)
                case Kind.ARRAY:
                    mine, theirs = local.element(mine), target.element(theirs)
                case Kind.FUNC_PROTO:
                    if not self._params(mine, theirs, level):
                        return False
                    self._known.add((mine, theirs))
                    mine, theirs = local.target(mine), target.target(theirs)
                case _:
                    return False
        raise _too_deep(local, mine)

    def _params(self, mine: int, theirs: int, level: int) -> bool:
        own, other = self._local.params(mine), self._target.params(theirs)
        if len(own) != len(other):
            return False
        if own and level <= 0:
            raise _too_deep(self._local, mine)
        pairs = zip(own, other, strict=True)
        return all(self.types(one, another, level - 1) for (_, one), (_, another) in pairs)


class _Matching:
    """Matches types; pairs that were compared are not compared again."""

    def __init__(self, local: Btf, target: Btf) -> None:
        self._local = local
        self._target = target
        self._known: dict[tuple[int, int, bool], bool] = {}
        self._room = _PAIRS_AT_MOST

    def types(self, mine: int, theirs: int, level: int, *, behind_pointer: bool) -> bool:
        self._room -= 1
        if self._room < 0:
            raise CoreError(f"over {_PAIRS_AT_MOST} pairs of types would have to be compared")
        key = (mine, theirs, behind_pointer)
        if key not in self._known:
            self._known[key] = self._types(mine, theirs, level, behind_pointer=behind_pointer)
        return self._known[key]

    def _types(self, mine: int, theirs: int, level: int, *, behind_pointer: bool) -> bool:
        local, target = self._local, self._target
        if level <= 0:
            raise _too_deep(local, mine)
        for _ in range(_DEEPEST):
            mine, theirs = local.skip(mine), target.skip(theirs)
            if not _same_name(local.name(mine), target.name(theirs)):
                return False
            kind, other = local.kind(mine), target.kind(theirs)
            if kind in COMPOSITES or kind is Kind.FWD:
                if behind_pointer:
                    return _is_union(local, mine) == _is_union(target, theirs)
                if kind is not other:
                    return False
                if kind is Kind.FWD:
                    return local.flag(mine) == target.flag(theirs)
                return self._members(mine, theirs, level)
            if kind in ENUMS:
                return other in ENUMS and self._values(mine, theirs)
            if kind is not other:
                return False
            match kind:
                case Kind.VOID:
                    return True
                case Kind.INT:
                    return self._integers(mine, theirs)
                case Kind.PTR:
                    behind_pointer = True
                    mine, theirs = local.target(mine), target.target(theirs)
                case Kind.ARRAY:
                    own, its = local.array(mine), target.array(theirs)
                    if own is None or its is None or own[1] != its[1]:
                        return False
                    mine, theirs = own[0], its[0]
                case Kind.FUNC_PROTO:
                    if not self._params(mine, theirs, level, behind_pointer=behind_pointer):
                        return False
                    mine, theirs = local.target(mine), target.target(theirs)
                case _:
                    return False
        raise _too_deep(local, mine)

    def _integers(self, mine: int, theirs: int) -> bool:
        own, other = self._local.integer(mine), self._target.integer(theirs)
        if own is None or other is None or own.signed != other.signed:
            return False
        return self._local.size(mine) == self._target.size(theirs)

    def _params(self, mine: int, theirs: int, level: int, *, behind_pointer: bool) -> bool:
        own, other = self._local.params(mine), self._target.params(theirs)
        return len(own) == len(other) and all(
            self.types(one, another, level - 1, behind_pointer=behind_pointer)
            for (_, one), (_, another) in zip(own, other, strict=True)
        )

    def _values(self, mine: int, theirs: int) -> bool:
        own, other = self._local.enumerators(mine), self._target.enumerators(theirs)
        if self._local.size(mine) != self._target.size(theirs) or len(own) > len(other):
            return False
        return _essentials(own) <= _essentials(other)

    def _members(self, mine: int, theirs: int, level: int) -> bool:
        own, other = self._local.fields(mine), self._target.fields(theirs)
        if len(own) > len(other):
            return False
        by_name: dict[str, list[int]] = {}
        for name, member in other:
            by_name.setdefault(essential(name), []).append(member.type)
        return all(
            any(
                self.types(member.type, number, level - 1, behind_pointer=False)
                for number in by_name.get(essential(name), ())
            )
            for name, member in own
        )


def _is_union(btf: Btf, number: int) -> bool | None:
    """Say whether a structure or union, or the declaration of one, is a union; None for others."""
    match btf.kind(number):
        case Kind.STRUCT:
            return False
        case Kind.UNION:
            return True
        case Kind.FWD:
            return btf.flag(number)
        case _:
            return None


def _essentials(rows: Iterable[tuple[str, int]]) -> set[str]:
    return {essential(name) for name, _ in rows}


def _same_name(one: str, other: str) -> bool:
    return essential(one) == essential(other)
