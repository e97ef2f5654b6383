"""Two objects, programs or runs of instructions in; how they differ, out, as values.

Instructions are compared by what they say, without the labels of their jumps and the numbers of
their slots, which change with whatever stands between. Where two jumps agree in all else, they are
the same if the instructions that they lead to are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

from pybpf.dataclass import dataclass, field, replace
from pybpf.inspect.names import Names
from pybpf.objfile.elf import SymbolType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybpf.inspect.code import Code
    from pybpf.inspect.facts import MapFacts
    from pybpf.objfile.maps import ObjectMap
    from pybpf.objfile.object import Object

Sign = Literal["=", "-", "+"]
Facts = Mapping[str, str]
_EXACTLY = 1 << 20
"""Up to so many pairs of instructions the best alignment is looked for, beyond that a good one."""
_NUMBERS = frozenset({1, 2, 4, 8})
_NAME = 15
"""So many bytes of a program's name the kernel keeps."""
_LABEL = re.compile(r"(gotol?|may_goto) \S+$")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: facts of all of it, of each map and extern, and its programs, by name.

    None stands for what it does not tell: a loaded program has no externs, bytes have no maps
    either. ``kernel_names`` lead from what the kernel calls an object's maps to their names there.
    """

    facts: Facts
    maps: Mapping[str, Facts] | None
    externs: Mapping[str, Facts] | None
    programs: Mapping[str, tuple[Facts, Code]] = field(repr=False)
    kernel_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether it is one program, of no object."""
        return self.externs is None


@dataclass(frozen=True, slots=True)
class Changed:
    """A fact that is another: empty where there was, or is, none."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Named:
    """Something of a name that was added (+), removed (-) or changed (=)."""

    name: str
    sign: Sign
    changes: tuple[Changed, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction with its slots before and after: in both (=), or in one of them."""

    sign: Sign
    before: int | None
    after: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ProgramDiff:
    """How two programs of a name differ: their facts, and all their instructions aligned."""

    name: str
    sign: Sign
    changes: tuple[Changed, ...]
    rows: tuple[Row, ...]

    def count(self, sign: Sign) -> int:
        """Return how many instructions there are in both, or in one of them."""
        return sum(row.sign == sign for row in self.rows)


@dataclass(frozen=True, slots=True)
class Diff:
    """All that differs; what does not is left out."""

    changes: tuple[Changed, ...]
    maps: tuple[Named, ...]
    externs: tuple[Named, ...]
    programs: tuple[ProgramDiff, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.changes or self.maps or self.externs or self.programs)


def of_object(found: Object, codes: Iterable[Code]) -> Side:
    """Return what is compared of an object, whose programs are ``codes``."""
    names = Names(found.btf, found.elf)
    maps = {
        one.name: {
            "type": one.type_name, "key size": str(one.key_size),
            "value size": str(one.value_size), "entries": str(one.max_entries),
            "flags": f"{one.flags:#x}", "pinned": "by name" if one.pinned_by_name else "",
            "key": names.declared(one.key_type),
            "value": names.declared(one.value_type),
            "inner": one.inner.type_name if one.inner else "",
        } | _content(found, one)
        for one in found.maps
    }  # fmt: skip
    externs = {
        one.name: {
            "kind": str(one.kind), "type": names.declared(one.type),
            "weak": "weak" if one.weak else "",
        }
        for one in found.externs
    }  # fmt: skip
    facts = {
        "byte order": found.byteorder, "licence": found.licence,
        "version": f"{found.version:#x}" if found.version else "",
    }  # fmt: skip
    programs = {code.name: (_facts(code), code) for code in codes}
    known_as = {one.kernel_name: one.name for one in found.maps if one.kernel_name}
    return Side(facts, maps, externs, programs, kernel_names=known_as)


def _content(found: Object, one: ObjectMap) -> dict[str, str]:
    """Return the values of a section's variables, numbers as such, and what is of none of them."""
    rest, facts = bytearray(one.initial or b""), dict[str, str]()
    place = found.elf.section(one.name) if rest else None
    for symbol in found.elf.symbols_of(place) if place else ():
        at = slice(symbol.value, symbol.value + symbol.size)
        value = (one.initial or b"")[at]
        if symbol.type == SymbolType.OBJECT and symbol.name and value:
            number = len(value) in _NUMBERS
            text = str(int.from_bytes(value, found.byteorder)) if number else value.hex()
            facts[symbol.name] = text
            rest[at] = bytes(len(value))
    return {**facts, "content": rest.rstrip(b"\0").hex()}


def of_code(code: Code) -> Side:
    """Return what is compared of instructions."""
    return Side({}, None, None, {code.name: ({}, code)})


def of_loaded(code: Code, found: Iterable[MapFacts]) -> Side:
    """Return what is compared of a loaded program and its maps: what the kernel tells of them."""
    maps = {
        one.name: {
            "type": one.type, "key size": str(one.key_size), "value size": str(one.value_size),
            "entries": str(one.max_entries), "flags": f"{one.flags:#x}",
        } | ({"key": one.key} if one.key else {}) | ({"value": one.value} if one.value else {})
        for one in found
    }  # fmt: skip
    told = {"type": code.program.prog_type.name.lower()}
    return Side({}, maps, None, {code.name: (told, code)})


def _facts(code: Code) -> Facts:
    attach = code.program.expected_attach_type
    return {
        "section": code.section,
        "type": code.program.prog_type.name.lower(),
        "attach type": attach.name.lower() if attach is not None else "",
        "functions": ", ".join(part.prototype or part.name for part in code.parts[1:]),
    }


def compare(before: Side, after: Side) -> Diff:
    """Return how two sides differ. Of what each has one program only, these are compared.

    Of an object and a loaded program, that program is compared, and what both tell of it.
    """
    if before.alone and not after.alone:
        before, after = _as_one(before, after)
    elif after.alone and not before.alone:
        after, before = _as_one(after, before)
    old, new = before.programs, after.programs
    if len(old) == len(new) == 1 and old.keys() != new.keys():
        old = dict(zip(new, old.values(), strict=True))
    programs = [_program(name, old.get(name), new.get(name)) for name in _both(old, new)]
    return Diff(
        _changes(before.facts, after.facts),
        tuple(_named(before.maps, after.maps)),
        tuple(_named(before.externs, after.externs)),
        tuple(program for program in programs if program is not None),
    )


def _as_one(alone: Side, other: Side) -> tuple[Side, Side]:
    """Return a program with the names of an object, and what the object tells of that program."""
    (name,) = alone.programs
    chosen = [each for each in other.programs if each[:_NAME] == name[:_NAME]][:1]
    programs = {each: other.programs[each] for each in chosen} or other.programs
    # Notes are from what the object knows beyond its instructions.
    bare = {each: (told, replace(code, notes={})) for each, (told, code) in programs.items()}
    told, code = alone.programs[name]
    used = {insn.symbol for _, code in programs.values() for insn in code.program.insns}
    maps = {other.kernel_names.get(each, each): told for each, told in (alone.maps or {}).items()}
    there = {n: told for n, told in (other.maps or {}).items() if n in used or n in maps}
    return (
        replace(
            alone,
            maps=None if alone.maps is None else maps,
            programs={name: (told, _renamed(code, other.kernel_names))},
        ),
        replace(other, maps=there, programs=bare),
    )


def _renamed(code: Code, names: Mapping[str, str]) -> Code:
    insns = tuple(
        insn if insn.symbol is None else replace(insn, symbol=names.get(insn.symbol, insn.symbol))
        for insn in code.program.insns
    )
    return replace(code, program=replace(code.program, insns=insns))


def _both(before: Mapping[str, _T], after: Mapping[str, _T]) -> list[str]:
    return [*before, *(name for name in after if name not in before)]


def _changes(before: Facts | None, after: Facts | None) -> tuple[Changed, ...]:
    """Return what differs of what both sides tell; all of it where it is in one of them only."""
    if before is not None and after is not None:
        return tuple(
            Changed(what, fact, after[what])
            for what, fact in before.items()
            if what in after and fact != after[what]
        )
    old, new = before or {}, after or {}
    every = [(what, old.get(what, ""), new.get(what, "")) for what in _both(old, new)]
    return tuple(Changed(what, was, now) for what, was, now in every if was != now)


def _named(
    before: Mapping[str, Facts] | None, after: Mapping[str, Facts] | None
) -> Iterator[Named]:
    if before is None or after is None:
        return
    for name in _both(before, after):
        old, new = before.get(name), after.get(name)
        changes = _changes(old, new)
        if changes or old is None or new is None:
            yield Named(name, "+" if old is None else "-" if new is None else "=", changes)


def _program(
    name: str, before: tuple[Facts, Code] | None, after: tuple[Facts, Code] | None
) -> ProgramDiff | None:
    """Return how two programs differ; None where they do not."""
    changes = _changes(before[0] if before else None, after[0] if after else None)
    if before is None or after is None:
        sign: Sign = "+" if before is None else "-"
        present = before or after
        rows = tuple(_all(present[1], sign)) if present else ()
        return ProgramDiff(name, sign, changes, rows)
    rows = tuple(_rows(before[1], after[1]))
    if not changes and all(row.sign == "=" for row in rows):
        return None
    return ProgramDiff(name, "=", changes, rows)


def _all(code: Code, sign: Sign) -> Iterator[Row]:
    for slot, (text, _) in zip(code.slots(), _texts(code), strict=False):
        yield Row(sign, slot if sign == "-" else None, slot if sign == "+" else None, text)


def _word(jump: re.Match[str]) -> str:
    return jump[1]


def _texts(code: Code) -> list[tuple[str, str]]:
    """Return each instruction as it is shown, and as it is compared."""
    found, slots, jumps = [], code.slots(), dict(code.jumps())
    for index in range(len(code.program.insns)):
        note = code.notes.get(index, "")
        shown = f"to {slots[jumps[index]]}" if index in jumps else note
        text = f"{code.text(index)}  ; {shown}" if shown else code.text(index)
        found.append((text, f"{_LABEL.sub(_word, code.text(index))}  ; {note}"))
    return found


def _rows(before: Code, after: Code) -> Iterator[Row]:
    old, new = _texts(before), _texts(after)
    pairs = _aligned([key for _, key in old], [key for _, key in new])
    partner = dict(pairs)
    old_jumps, new_jumps = dict(before.jumps()), dict(after.jumps())
    old_slots, new_slots = before.slots(), after.slots()
    left = right = 0
    for one, other in (*pairs, (len(old), len(new))):
        for index in range(left, one):
            yield Row("-", old_slots[index], None, old[index][0])
        for index in range(right, other):
            yield Row("+", None, new_slots[index], new[index][0])
        left, right = one + 1, other + 1
        if one == len(old):
            return
        goal = old_jumps.get(one)
        if goal is not None and partner.get(goal) != new_jumps.get(other):
            yield Row("-", old_slots[one], None, old[one][0])
            yield Row("+", None, new_slots[other], new[other][0])
        else:
            yield Row("=", old_slots[one], new_slots[other], new[other][0])


def _aligned(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indices of what is the same in both, in order."""
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, old, new, autojunk=len(old) * len(new) > _EXACTLY)
    middle = [
        (first + block.a + n, first + block.b + n)
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    ]
    ends = [(len(before) - n, len(after) - n) for n in range(last, 0, -1)]
    return [*((n, n) for n in range(first)), *middle, *ends]
