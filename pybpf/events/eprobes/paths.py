"""Casts of fetch arguments by the kernel's types: a path in, the dereferences it stands for out."""

from __future__ import annotations

from pybpf.btf.reader import Btf, Kind
from pybpf.dataclass import dataclass
from pybpf.tracefs.fetch import Cast, Deref, Fetch, Path


@dataclass(frozen=True, slots=True)
class Plain:
    """A fetch argument without paths.

    ``bits`` are the offset and the width of a bit field in it, ``pointer`` says that it is a
    ``char *``, whose text is elsewhere.
    """

    fetch: Fetch
    bits: tuple[int, int] | None = None
    pointer: bool = False


def plain(fetch: Fetch, types: Btf | None) -> Plain | None:
    """Return a fetch argument with its paths followed; None where the types do not tell."""
    match fetch:
        case Path(base=Cast(struct=struct, base=base, member=member)):
            inner = plain(base, types)
            number = None if types is None else types.struct(struct)
            if types is None or inner is None or number is None:
                return None
            back = _dotted(number, (member or "").split("."), types) if member else (0, 0, 0)
            if back is None:
                return None
            return _follow(fetch, inner.fetch, number, -(back[0] // 8), types)
        case Path() | Cast():
            return None
        case Deref(offset=offset, base=base, user=user):
            inner = plain(base, types)
            return None if inner is None else Plain(Deref(offset, inner.fetch, user))
        case _:
            return Plain(fetch)


def _follow(path: Path, base: Fetch, number: int, offset: int, types: Btf) -> Plain | None:
    """Return the members of a path from a pointer to a structure, ``offset`` bytes off it."""
    groups: list[list[str]] = []
    for step in path.steps:
        if step.operator == "->":
            groups.append([step.name])
        else:
            groups[-1].append(step.name)
    fetch, bits = base, (0, 0, number)
    for place, names in enumerate(groups):
        if place:
            if types.kind(number) is not Kind.PTR:
                return None
            number = types.pointed(number)
        found = _dotted(number, names, types)
        if found is None:
            return None
        bits, number = found, found[2]
        fetch, offset = Deref(offset + bits[0] // 8, fetch), 0
    field = (bits[0] % 8, bits[1]) if bits[1] else None
    pointer = types.kind(number) is Kind.PTR
    return Plain(fetch, field, pointer)


def _dotted(number: int, names: list[str], types: Btf) -> tuple[int, int, int] | None:
    """Return where a member is in bits, its width if it is a bit field, and its type."""
    at, width = 0, 0
    for name in names:
        member = types.member(number, name)
        if member is None:
            return None
        at, width, number = at + member.bit_offset, member.bit_size, types.skip(member.type)
    return at, width, number
