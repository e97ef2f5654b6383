"""A BTF in; every type in it, as lines of text or as values for JSON, out.

The text is what ``bpftool btf dump file X`` shows, the JSON what its ``-j`` does: a type refers to
others by their numbers. Source: the manual page bpftool-btf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from pybpf.btf.abi import Encoding, Kind, Linkage
from pybpf.btf.reader import Btf
from pybpf.btf.types import (
    Array,
    BtfType,
    Composite,
    DataSec,
    DeclTag,
    Enum,
    Float,
    Forward,
    Func,
    FuncProto,
    Int,
    Reference,
    Var,
    kind_of,
)

_PARTS = ("members", "values", "params", "vars")
_KIND_NAMES: Mapping[Kind, str] = {kind: kind.name for kind in Kind}
_LINKAGES: Mapping[int, str] = {int(one): one.name.lower() for one in Linkage}


def facts(btf: Btf, numbers: Iterable[int] | None = None) -> Iterator[dict[str, Any]]:
    """Yield what is told of some types, or of all of the BTF's own; raises BtfError as they do."""
    for number in range(btf.first, len(btf)) if numbers is None else numbers:
        if (t := btf.type(number)) is not None:
            yield {"id": number, "kind": _KIND_NAMES[kind_of(t)], **_facts(t, btf)}


def lines(btf: Btf, numbers: Iterable[int] | None = None) -> Iterator[str]:
    """Yield the same as lines of text, those of a type's parts indented."""
    for fact in facts(btf, numbers):
        parts = [fact.pop(name) for name in _PARTS if name in fact]
        number, kind = fact.pop("id"), fact.pop("kind")
        text = _pairs(fact)
        if kind == "VAR":
            text = text.replace(" linkage=", ", linkage=")
        yield f"[{number}] {kind} {text}"
        end = ""
        if kind == "ENUM64":
            end = "LL" if fact["encoding"] == "SIGNED" else "ULL"
        for part in chain(*parts):
            if kind == "DATASEC":
                name, of = part.pop("name"), btf.kind(part["type_id"]).name
                end = f" ({of} '{_quotable(name)}')"
            yield f"\t{_pairs(part)}{end}"


def _pairs(fact: Mapping[str, Any]) -> str:
    return " ".join(
        [
            f"'{_quotable(value)}'" if key == "name" else f"{key}={value}"
            for key, value in fact.items()
        ]
    )


def _quotable(name: str) -> str:
    """Return a name without what could upset a terminal, or begin another line."""
    return name if name.isprintable() else name.encode("unicode_escape").decode()


def _name(name: str) -> str:
    return name or "(anon)"


def _facts(t: BtfType, btf: Btf) -> dict[str, Any]:
    name = _name(getattr(t, "name", ""))
    match t:  # the most frequent first
        case Reference() | DeclTag() if t.attribute:
            component = {"component_idx": t.component} if isinstance(t, DeclTag) else {}
            return {"name": name, "type_id": t.type, **component, "attribute": True}
        case Reference():
            return {"name": name, "type_id": t.type}
        case DeclTag():
            return {"name": name, "type_id": t.type, "component_idx": t.component}
        case FuncProto():
            params = [{"name": _name(n), "type_id": inner} for n, inner in t.params]
            return {"name": name, "ret_type_id": t.returns, "vlen": len(params), "params": params}
        case Func() | Var():
            return {"name": name, "type_id": t.type, "linkage": _linkage(t.linkage)}
        case Int():
            found = {"size": t.size, "bits_offset": t.offset, "nr_bits": t.bits}
            return {"name": name, **found, "encoding": _encoding(t.encoding)}
        case Float():
            return {"name": name, "size": t.size}
        case Array():
            return {"name": name, "type_id": t.element, "index_type_id": t.index,
                    "nr_elems": t.count}  # fmt: skip
        case Composite():
            members = [
                {"name": _name(m.name), "type_id": m.type, "bits_offset": m.bit_offset}
                | ({"bitfield_size": m.bit_size} if m.bit_size else {})
                for m in t.members
            ]
            return {"name": name, "size": t.size, "vlen": len(members), "members": members}
        case Enum():
            values = [{"name": _name(n), "val": value} for n, value in t.values]
            encoding = "SIGNED" if t.signed else "UNSIGNED"
            return {"name": name, "encoding": encoding, "size": t.size, "vlen": len(values),
                    "values": values}  # fmt: skip
        case Forward():
            return {"name": name, "fwd_kind": "union" if t.union else "struct"}
        case DataSec():
            variables = [
                {"type_id": v.type, "offset": v.offset, "size": v.size,
                 "name": _name(btf.name(v.type))}
                for v in t.variables
            ]  # fmt: skip
            return {"name": name, "size": t.size, "vlen": len(variables), "vars": variables}


def _encoding(encoding: Encoding) -> str:
    names = [one.name for one in (Encoding.SIGNED, Encoding.CHAR, Encoding.BOOL) if one & encoding]
    return "|".join(str(name) for name in names) or "(none)"


def _linkage(linkage: int) -> str | int:
    return _LINKAGES.get(linkage, linkage)
