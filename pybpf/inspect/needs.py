"""A program in; what it needs of a kernel, and the first kernel that has all of it, out.

The table of instructions has the first release of each. Of helpers, kernel functions, and types of
programs and maps it is known which of the profiled kernels (target/profile.py) have them: the first
release is then one after the last profile without, up to the first one with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.inspect.graph import loops
from pybpf.isa.abi import MapType, ProgType
from pybpf.isa.helpers import HELPER_NAMES
from pybpf.isa.table import NEVER, Form
from pybpf.target.profile import NAMES, Profile, profile

if TYPE_CHECKING:
    from pybpf.inspect.code import Code

Release = tuple[int, int]
_LOOPS, _LONG = (5, 3), (5, 2)
_SHORT = 4096
"""Programs were no longer than this before ``_LONG``."""
_FIRST = (3, 18)


@dataclass(frozen=True, slots=True)
class Since:
    """The first release that has something, or between which releases it is.

    It is not before ``least`` (``beyond``: after that), where that is known, and at the latest
    ``by``; None: no release is known to have it.
    """

    least: Release | None
    by: Release | None
    beyond: bool = False

    @property
    def exact(self) -> bool:
        """Whether it is known which release it is."""
        return self.by is not None and self.least == self.by and not self.beyond

    def __str__(self) -> str:
        if self.by is None:
            return "none that is known"
        if self.exact or self.least is None:
            return text(self.by) if self.exact else f"{text(self.by)} or older"
        if self.beyond:
            return f"after {text(self.least)}, by {text(self.by)}"
        return f"{text(self.least)} to {text(self.by)}"


@dataclass(frozen=True, slots=True)
class Need:
    """Something a program needs, by a name, and the first release that has it."""

    what: str
    since: Since


@dataclass(frozen=True, slots=True)
class Kind:
    """What decides which kernel's facts are about a program: its types, and whether it sleeps."""

    prog_type: ProgType
    attach_type: int | None = None
    sleepable: bool = False


def exact(release: Release) -> Since:
    """Return that something came with a release."""
    return Since(release, release)


def needs(
    code: Code, kind: Kind, map_types: Iterable[int] = (), kfuncs: Iterable[str] = ()
) -> tuple[Need, ...]:
    """Return what a program needs, what is the newest first."""
    found = [
        *_instructions(code), *_types(kind), *_helpers(code, kind),
        *(_map(number) for number in set(map_types)), *(_kfunc(name, kind) for name in set(kfuncs)),
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda need: (*_order(need.since), need.what)))


def first(found: Iterable[Need]) -> Since:
    """Return the first release that has all of it."""
    by, least = _FIRST, (_FIRST, False)
    for need in found:
        since = need.since
        if since.by is None:
            return since
        by = max(by, since.by)
        least = max(least, (since.least or _FIRST, since.beyond))
    if least == (_FIRST, False) and by > _FIRST:
        return Since(None, by)
    return Since(least[0], by, beyond=least[1])


def text(release: Release) -> str:
    """Return a release as people write it: ``5.15``."""
    return f"{release[0]}.{release[1]}"


def _order(since: Since) -> Release:
    by = since.by or NEVER
    return -by[0], -by[1]


@cache
def _profiles() -> tuple[Profile, ...]:
    return tuple(map(profile, NAMES))


def _since(has: Callable[[Profile], bool]) -> Since:
    before: Release | None = None
    for known in _profiles():
        if has(known):
            return Since(before, known.version, beyond=before is not None)
        before = known.version
    return Since(before, None, beyond=True)


def _instructions(code: Code) -> Iterator[Need]:
    ops = {
        insn.op for index, insn in enumerate(code.program.insns) if index not in code.texts
    }  # fmt: skip
    for op in ops:
        if op.since == NEVER:
            yield Need(f"instruction {op.name}", Since(None, None))
        elif op.since > _FIRST:
            yield Need(f"instruction {op.name}", exact(op.since))
    if loops(code):
        yield Need("loops", exact(_LOOPS))
    if code.slots()[-1] - code.base > _SHORT:
        yield Need(f"more than {_SHORT} instructions", exact(_LONG))


def _types(kind: Kind) -> Iterator[Need]:
    number = kind.prog_type
    if number is ProgType.UNSPEC:
        return
    name = f"program type {number.name.lower()}"
    yield Need(name, _since(lambda known: number in known.program_types))
    attach = kind.attach_type
    if attach is None or not any(known.attach_types(number) for known in _profiles()):
        return

    def takes(known: Profile) -> bool:
        types = known.attach_types(number)
        return number in known.program_types and (not types or attach in types)

    yield Need(f"attach type {attach}", _since(takes))


def _helpers(code: Code, kind: Kind) -> Iterator[Need]:
    numbers = {
        insn.imm
        for index, insn in enumerate(code.program.insns)
        if insn.op.form is Form.CALL_HELPER and index not in code.texts
    }
    for number in numbers:
        yield Need(
            f"helper {HELPER_NAMES.get(number, number)}",
            _since(lambda known, number=number: number in _allowed(known, kind)),  # type: ignore[misc]
        )


def _allowed(known: Profile, kind: Kind) -> frozenset[int]:
    """Return the helpers that a program may call; those of any type, where it has none."""
    if kind.prog_type is not ProgType.UNSPEC:
        attach, sleepable = kind.attach_type or 0, kind.sleepable
        return known.helpers(kind.prog_type, attach, sleepable=sleepable)
    return frozenset[int]().union(*(known.helpers(each) for each in known.program_types))


def _map(number: int) -> Need:
    names = {int(each): each.name.lower() for each in MapType}
    name = f"map type {names.get(number, number)}"
    return Need(name, _since(lambda known: number in known.map_types))


def _kfunc(name: str, kind: Kind) -> Need:
    return Need(f"kfunc {name}", _since(lambda known: name in known.kfuncs(kind.prog_type)))
