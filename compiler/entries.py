"""Type the use of a map's entry: the typed keys and what is known of the map in, the entry out."""

from __future__ import annotations

from pybpf.compiler import ast, tast
from pybpf.compiler.convert import convert, is_scalar
from pybpf.compiler.maptypes import Gathered, MapUse, place
from pybpf.compiler.scope import NotYetKnown, fault
from pybpf.script import MapRole
from pybpf.source import Span
from pybpf.types import DataLoc, strip


def entry(use: MapUse, keys: tuple[tast.Expr, ...], span: Span) -> tast.Expr:
    """Return the value of a map's entry; an aggregation has none as long as the script runs."""
    if use.role not in (None, MapRole.MAP):
        raise fault(
            span, f"'{use.name}' is an aggregation: its value is known only when it is printed"
        )
    t = use.value_type()
    if t is None:
        raise NotYetKnown(use.name, span)
    return tast.MapValue(use.name, fit(use, keys), t, span)


def count_keys(use: MapUse, expr: ast.Index) -> None:
    """Hold the number of an entry's keys to that of the map's other uses."""
    if use.keys is None:
        use.keys = [Gathered() for _ in expr.keys]
        use.where = expr.span
    elif len(use.keys) != len(expr.keys):
        raise fault(
            expr.span,
            f"'{use.name}' is used with {_counted(len(expr.keys))}, "
            f"but with {_counted(len(use.keys))} at {place(use.where)}",
        )


def check_keys(use: MapUse, keys: tuple[tast.Expr, ...]) -> None:
    """Hold the types of an entry's keys to those of the map's other uses."""
    for number, (gathered, key) in enumerate(zip(use.keys or (), keys, strict=True), start=1):
        if isinstance(strip(key.type), DataLoc):
            raise fault(key.span, f"a value of type '{key.type}' cannot be a key")
        if not gathered.add(key):
            raise fault(
                key.span,
                f"key {number} of '{use.name}' is of type '{gathered.result()}'"
                f"{gathered.since()}, and this is '{key.type}'",
            )


def _counted(keys: int) -> str:
    return f"{keys or 'no'} key{'s' * (keys != 1)}"


def fit(use: MapUse, keys: tuple[tast.Expr, ...]) -> tuple[tast.Expr, ...]:
    """Convert scalar keys to the types of the map's key; strings are padded when stored."""
    types = use.key_types()
    return tuple(
        convert(key, t) if is_scalar(key.type) else key for key, t in zip(keys, types, strict=True)
    )
