"""A program in; what it needs of a kernel, and the first kernel that has all of it, out.

The table of instructions has the first release of each, target/history.py that of helpers, and of
types and flags of programs and maps. For which types of programs a helper or kernel function is, is
known of the profiled kernels (target/profile.py): the first release is then one after the last
profile without, up to the first one with, and no older than the helper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from pybpf.dataclass import dataclass
from pybpf.inspect.graph import loops
from pybpf.isa.abi import AttachType, MapType, ProgFlag, ProgType, name_of
from pybpf.isa.helpers import HELPER_NAMES
from pybpf.isa.table import NEVER, Form
from pybpf.target import history
from pybpf.target.profile import NAMES, Profile, profile

if TYPE_CHECKING:
    from pybpf.inspect.code import Code

Release = tuple[int, int]
_LOOPS, _LONG = (5, 3), (5, 2)
_SHORT = 4096
"""Programs were no longer than this before ``_LONG``."""
_FIRST = (3, 18)
_REFERENCES = {
    "lddw_map_fd": "address of a map",
    "lddw_map_value": "address of a map's value",
    "lddw_btf_id": "address of a variable of the kernel",
    "lddw_func": "address of a function",
    "lddw_map_idx": "map by its place in a list",
    "lddw_map_idx_value": "value of a map by its place in a list",
    "call_local": "call of a function of its own",
    "call_kfunc": "call of a kernel function",
}
"""Instructions that people know by what they refer to."""


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
    """What decides which kernel's facts are about a program: its types, and ``ProgFlag``s."""

    prog_type: ProgType
    attach_type: int | None = None
    flags: frozenset[ProgFlag] = frozenset()

    @property
    def sleepable(self) -> bool:
        """Whether it may sleep."""
        return ProgFlag.SLEEPABLE in self.flags


def exact(release: Release) -> Since:
    """Return that something came with a release."""
    return Since(release, release)


def needs(
    code: Code,
    kind: Kind,
    map_types: Iterable[int] = (),
    kfuncs: Iterable[str] = (),
    map_flags: int = 0,
) -> tuple[Need, ...]:
    """Return what a program needs, what is the newest first; ``map_flags``: of all its maps."""
    found = [
        *_instructions(code), *_types(kind, code.section), *_helpers(code, kind),
        *(_map(number) for number in set(map_types)), *_flags(map_flags),
        *(_kfunc(name, kind) for name in set(kfuncs)),
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
    for op in {insn.op for insn in code.tabled()}:
        if op.since == NEVER:
            yield Need(f"instruction {op.name}", Since(None, None))
        elif op.since > _FIRST:
            what = _REFERENCES.get(op.name, f"instruction {op.name}")
            yield Need(what, exact(op.since))
    if loops(code):
        yield Need("loops", exact(_LOOPS))
    if code.slots()[-1] - code.base > _SHORT:
        yield Need(f"more than {_SHORT} instructions", exact(_LONG))


def _types(kind: Kind, section: str) -> Iterator[Need]:
    number, attach = kind.prog_type, kind.attach_type
    if number is ProgType.UNSPEC:
        if section:
            yield Need(f'a program type, which SEC("{section}") does not name', Since(None, None))
        return
    name = f"program type {number.name.lower()}"
    came = history.PROGRAM_TYPES.get(number)
    yield Need(
        name,
        _since(lambda known: number in known.program_types) if came is None else exact(came),
    )
    if attach is not None and (later := history.ATTACH_TYPES.get(attach)):
        yield Need(f"attach type {name_of(AttachType, attach)}", exact(later))
    for flag in kind.flags:
        if release := history.flag(flag, number, attach):
            yield Need(f"program flag {flag.name.lower()}", exact(release))


def _helpers(code: Code, kind: Kind) -> Iterator[Need]:
    for number in {insn.imm for insn in code.tabled() if insn.op.form is Form.CALL_HELPER}:
        yield Need(f"helper {HELPER_NAMES.get(number, number)}", _helper(number, kind))


def _helper(number: int, kind: Kind) -> Since:
    """Return when programs of a kind could first call a helper."""
    came = history.helper(number)
    if kind.prog_type is ProgType.UNSPEC and came is not None:
        return exact(came)
    found = _since(lambda known: number in _allowed(known, kind))
    if came is None or found.by is None or came > found.by:
        return found
    came = max(came, history.PROGRAM_TYPES.get(kind.prog_type, _FIRST))
    if found.least is not None:
        return exact(came) if came > found.least else found
    if history.born_with(number, kind.prog_type):
        return exact(came)
    return Since(came, found.by)


def _allowed(known: Profile, kind: Kind) -> frozenset[int]:
    """Return the helpers that a program may call; those of any type, where it has none."""
    if kind.prog_type is not ProgType.UNSPEC:
        attach, sleepable = kind.attach_type or 0, kind.sleepable
        return known.helpers(kind.prog_type, attach, sleepable=sleepable)
    return frozenset[int]().union(*(known.helpers(each) for each in known.program_types))


def _map(number: int) -> Need:
    came = history.MAP_TYPES.get(number)
    return Need(
        f"map type {name_of(MapType, number)}",
        _since(lambda known: number in known.map_types) if came is None else exact(came),
    )


def _flags(flags: int) -> Iterator[Need]:
    for flag, release in history.MAP_FLAGS.items():
        if flags & flag:
            yield Need(f"map flag {flag.name.lower()}", exact(release))


def _kfunc(name: str, kind: Kind) -> Need:
    return Need(f"kfunc {name}", _since(lambda known: name in known.kfuncs(kind.prog_type)))
