"""Find aggregations that can be arrays: typed probes in, the maps with the keys known of them out.

That are those with keys known at compile time, but for what follows from where in a per-CPU array
an entry is: the CPU, and the id of a stack, which is a small number. An array has an entry without
hashing, and none can be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pybpf.compiler import tast
from pybpf.compiler.convert import is_scalar
from pybpf.dataclass import dataclass, replace
from pybpf.isa.insn import ByteOrder
from pybpf.script import Filled, MapRole
from pybpf.types import size_of

_MOST = 64
"""More keys than this make a hash: an array has room for every key, used or not."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an array has an entry: its key without what is ``filled``, and the stack among that."""

    constant: bytes
    filled: tuple[tuple[int, Filled], ...] = ()
    stack: tast.Expr | None = None


def with_constants(
    maps: Iterable[tast.MapDecl], probes: Iterable[tast.Probe], byteorder: ByteOrder
) -> tuple[tast.MapDecl, ...]:
    """Return the maps, those that can be arrays with their keys, in order of appearance."""
    decls = {decl.name: decl for decl in maps}
    places: dict[str, list[Place | None]] = {}
    for stmt in (s for probe in probes for s in _walk(probe.body)):
        match stmt:
            case tast.Aggregate():
                place = place_of(decls[stmt.map], stmt.keys, byteorder)
                places.setdefault(stmt.map, []).append(place)
            case tast.Delete():  # an element of an array cannot be deleted
                places.setdefault(stmt.map, []).append(None)
            case _:
                pass
    return tuple(_as_array(decl, places.get(decl.name, ())) for decl in decls.values())


def _as_array(decl: tast.MapDecl, places: Sequence[Place | None]) -> tast.MapDecl:
    """Return the map as an array, if all its places are of one kind and not too many."""
    known = [place for place in places if place is not None]
    constants = tuple(dict.fromkeys(place.constant for place in known))
    if decl.role is MapRole.MAP or not known or len(known) < len(places):
        return decl
    if len({place.filled for place in known}) > 1:
        return decl
    most = 1 if known[0].stack else _MOST
    if len(constants) > most:
        return decl
    return replace(decl, constants=constants, filled=known[0].filled)


def place_of(decl: tast.MapDecl, keys: tuple[tast.Expr, ...], byteorder: ByteOrder) -> Place | None:
    """Return where an array would have the entry, or None where only a hash can have it."""
    layout = decl.layout
    out = bytearray(layout.size)
    filled: list[tuple[int, Filled]] = []
    stack: tast.Expr | None = None
    for field, key in zip(layout.fields, keys, strict=True):
        size = size_of(field.type)
        match key:
            case tast.Const() if is_scalar(field.type):
                value = key.value & ((1 << 8 * size) - 1)
                out[field.offset : field.offset + size] = value.to_bytes(size, byteorder)
            case tast.Text():
                out[field.offset : field.offset + size] = key.value[:size].ljust(size, b"\0")
            case tast.Context(name="cpu"):
                filled.append((field.offset, Filled.CPU))
            case tast.Context(name="stack") if stack is None:
                filled.append((field.offset, Filled.STACK))
                stack = key
            case _:
                return None
    return Place(bytes(out), tuple(filled), stack)


def _walk(body: tuple[tast.Stmt, ...]) -> Iterator[tast.Stmt]:
    for stmt in body:
        yield stmt
        if isinstance(stmt, tast.If):
            yield from _walk(stmt.then)
            yield from _walk(stmt.otherwise)
