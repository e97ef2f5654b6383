"""Find aggregations whose keys are all known at compile time: typed probes in, their keys out.

Such a map becomes an array, where an entry is found without hashing and cannot be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pybpf.compiler import tast
from pybpf.compiler.convert import is_scalar
from pybpf.dataclass import replace
from pybpf.isa.insn import ByteOrder
from pybpf.script import MapRole
from pybpf.types import size_of

_MOST = 64
"""More keys than this make a hash: an array has room for every key, used or not."""


def with_constants(
    maps: Iterable[tast.MapDecl], probes: Iterable[tast.Probe], byteorder: ByteOrder
) -> tuple[tast.MapDecl, ...]:
    """Return the maps, those of constant keys with them, in order of appearance."""
    decls = {decl.name: decl for decl in maps}
    keys: dict[str, list[bytes | None]] = {}
    for stmt in (s for probe in probes for s in _walk(probe.body)):
        match stmt:
            case tast.Aggregate():
                key = constant_key(decls[stmt.map], stmt.keys, byteorder)
                keys.setdefault(stmt.map, []).append(key)
            case tast.Delete():  # an element of an array cannot be deleted
                keys.setdefault(stmt.map, []).append(None)
            case _:
                pass
    found = {name: dict.fromkeys(uses) for name, uses in keys.items()}
    return tuple(
        replace(decl, constants=tuple(k for k in found[decl.name] if k is not None))
        if decl.role is not MapRole.MAP
        and None not in found.get(decl.name, {None: None})
        and len(found[decl.name]) <= _MOST
        else decl
        for decl in decls.values()
    )


def constant_key(
    decl: tast.MapDecl, keys: tuple[tast.Expr, ...], byteorder: ByteOrder
) -> bytes | None:
    """Return the bytes of a key, or None where it depends on the event."""
    layout = decl.layout
    out = bytearray(layout.size)
    for field, key in zip(layout.fields, keys, strict=True):
        size = size_of(field.type)
        match key:
            case tast.Const() if is_scalar(field.type):
                value = key.value & ((1 << 8 * size) - 1)
                raw = value.to_bytes(size, byteorder)
            case tast.Text():
                raw = key.value[:size].ljust(size, b"\0")
            case _:
                return None
        out[field.offset : field.offset + size] = raw
    return bytes(out)


def _walk(body: tuple[tast.Stmt, ...]) -> Iterator[tast.Stmt]:
    for stmt in body:
        yield stmt
        if isinstance(stmt, tast.If):
            yield from _walk(stmt.then)
            yield from _walk(stmt.otherwise)
