"""What an object declares ``extern`` in, as values out: kernel options, symbols and kfuncs.

A variable of ``.kconfig`` gets the value of a kernel option and a place in a map of all of them;
one of ``.ksyms`` the address of a kernel symbol, or of a variable that the kernel's BTF knows; a
function of ``.ksyms`` is a kfunc. What is weak may be missing: its address is then 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from pybpf.btf.reader import Btf, Kind
from pybpf.dataclass import dataclass
from pybpf.errors import ObjectError
from pybpf.objfile.elf import Binding, Elf

_OPTION_SIZE = 1 << 16


class ExternKind(StrEnum):
    """What defines it."""

    KCONFIG = "kconfig"
    KSYM = "ksym"
    """An address in /proc/kallsyms; its type is ``void``."""
    TYPED_KSYM = "typed ksym"
    """A variable that the kernel's BTF knows."""
    KFUNC = "kfunc"


@dataclass(frozen=True, slots=True)
class Extern:
    """A name that the kernel defines; ``offset``, ``size``: bytes of an option in its map."""

    name: str
    kind: ExternKind
    type: int
    weak: bool
    offset: int = 0
    size: int = 0


def externs(elf: Elf, btf: Btf | None) -> tuple[Extern, ...]:
    """Return what an object uses and does not define, options in the order of their places.

    Raises ObjectError for one whose type says nothing of its size.
    """
    undefined = {s.name: s.binding == Binding.WEAK for s in elf.symbols if s.name and s.undefined}
    if btf is None or not undefined:
        return ()
    return (*_options(elf, btf, undefined), *_symbols(btf, undefined))


def _options(elf: Elf, btf: Btf, undefined: dict[str, bool]) -> Iterator[Extern]:
    found = []
    for variable in btf.variables(btf.datasec(".kconfig") or 0):
        if variable.name not in undefined:
            continue
        size = btf.size(variable.type)
        if not size:
            raise ObjectError(elf.path, f"{variable.name} has no size", section=".kconfig")
        if size > _OPTION_SIZE:
            reason = f"{variable.name} has {size} bytes, more than any option"
            raise ObjectError(elf.path, reason, section=".kconfig")
        found.append((-_align(btf, variable.type), size, variable.name, variable.type))
    end = 0
    for minus, size, name, number in sorted(found):
        offset = (end - minus - 1) // -minus * -minus
        end = offset + size
        yield Extern(name, ExternKind.KCONFIG, number, undefined[name], offset, size)


def _align(btf: Btf, number: int) -> int:
    """Return the alignment of a type: the greatest of all that is in it. Types may be cyclic."""
    found, waiting, seen = 1, [number], set[int]()
    while waiting:
        number = btf.skip(waiting.pop())
        if number in seen:
            continue
        seen.add(number)
        if array := btf.array(number):
            waiting.append(array[0])
        elif btf.is_aggregate(number):
            waiting += (member.type for _, member in btf.fields(number))
        else:
            found = max(found, min(btf.size(number) or 1, 8))
    return found


def _symbols(btf: Btf, undefined: dict[str, bool]) -> Iterator[Extern]:
    number = btf.datasec(".ksyms")
    for inner, name in btf.externs(number or 0):
        if name not in undefined:
            continue
        target = btf.target(inner)
        if btf.kind(inner) is Kind.FUNC:
            kind = ExternKind.KFUNC
        elif btf.skip(target) == 0:
            kind = ExternKind.KSYM
        else:
            kind = ExternKind.TYPED_KSYM
        yield Extern(name, kind, target, undefined[name])
