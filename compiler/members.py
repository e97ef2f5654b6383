"""Type ``object.field``, ``pointer->field`` and ``*pointer``: a typed object in, its part out."""

from __future__ import annotations

from pybpf.compiler import ast, tast
from pybpf.compiler.builtins import VALUES
from pybpf.compiler.scope import Scope, fault
from pybpf.dataclass import replace
from pybpf.script import Provider
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.types import U16, Array, Field, Ptr, Space, Struct, Type, size_of, strip

_SHOWN = 12
"""An error lists the fields of a struct that has no more than these."""


def member(scope: Scope, base: tast.Expr, expr: ast.Member) -> tast.Expr:
    """Type a field of a struct, or of the struct that a pointer leads to."""
    struct = _struct(base, expr)
    if _is_record(scope, base) and (known := _common(scope, expr)) is not None:
        return known
    found = _field(struct, expr.name)
    if expr.arrow:
        return behind(base, found.offset, found.type, expr.span)
    return part(base, found.offset, found.type, expr.span)


def part(base: tast.Expr, offset: int, t: Type, span: Span) -> tast.Expr:
    """Return what lies ``offset`` bytes into a struct or an array."""
    match base:
        case tast.Parts():
            return _part(base, offset, t, span)
        case tast.CtxField():
            return tast.CtxField(base.offset + offset, t, span)
        case tast.Deref():
            return tast.Deref(base.address, base.offset + offset, base.space, t, span)
        case tast.Select():
            return tast.Select(base.object, base.offset + offset, t, span)
        case _:
            return tast.Select(base, offset, t, span)


def _part(whole: tast.Parts, offset: int, t: Type, span: Span) -> tast.Expr:
    """Return the part that lies there, or the whole where that is of the type."""
    if whole.type == t:
        return replace(whole, span=span)
    if isinstance(whole.type, Array):
        return replace(whole.parts[offset // size_of(whole.type.element)], span=span)
    index = [field.offset for field in whole.type.fields].index(offset)
    return replace(whole.parts[index], span=span)


def behind(pointer: tast.Expr, offset: int, t: Type, span: Span) -> tast.Expr:
    """Return what lies behind a pointer; reading the context needs no helper."""
    target = strip(pointer.type)
    assert isinstance(target, Ptr)
    if isinstance(pointer, tast.AddressOf):
        return part(pointer.object, offset, t, span)
    if isinstance(pointer, tast.Context) and target.space is Space.CTX:
        return tast.CtxField(offset, t, span)
    return tast.Deref(pointer, offset, target.space, t, span)


def _struct(base: tast.Expr, expr: ast.Member) -> Struct:
    t = strip(base.type)
    if expr.arrow:
        if isinstance(t, Ptr) and isinstance(struct := strip(t.to), Struct):
            return struct
        hint = ["use . instead of ->"] if isinstance(t, Struct) else []
        raise fault(expr.object.span, f"-> wants a pointer to a struct, not '{base.type}'", *hint)
    if isinstance(t, Struct):
        return t
    hint = ["use -> instead of ."] if isinstance(t, Ptr) else []
    raise fault(expr.object.span, f". wants a struct, not '{base.type}'", *hint)


def _is_record(scope: Scope, base: tast.Expr) -> bool:
    """Whether ``base`` is the record of the event, or the pointer to it."""
    return scope.probe.provider is Provider.TRACEPOINT and isinstance(
        base, tast.Context | tast.CtxField
    )


def _common(scope: Scope, expr: ast.Member) -> tast.Expr | None:
    """Return what a common field of a record holds where that is known without reading it."""
    match expr.name.name:
        case "common_pid":
            row = VALUES["kpid"]
            return tast.Context(row.name, row.type, expr.span)
        case "common_type":
            assert scope.format is not None, "tracepoint probes have a format"
            return tast.Const(scope.format.id, U16, expr.span)
        case _:
            return None


def _field(struct: Struct, name: ast.Name) -> Field:
    found = struct.field(name.name)
    if found is not None:
        return found
    if name.name.startswith("common_"):
        raise fault(
            name.span,
            f"the kernel hides '{name.name}' from programs",
            "pid, kpid and cpu say whose event it is",
        )
    fields = [f.name for f in struct.fields]
    raise fault(
        name.span,
        f"'{struct.name}' has no field '{name.name}'{did_you_mean(name.name, fields)}",
        *([f"it has {', '.join(fields)}"] if fields and len(fields) <= _SHOWN else []),
    )
