"""Type a statement: ast.Stmt and a Scope in, tast.Stmt out; raises Refused or NotYetKnown.

Blocks and conditions are not here: the walk in ``infer`` goes through them.
"""

from __future__ import annotations

from pybpf.compiler import ast, tast
from pybpf.compiler.builtins import ACTIONS, AGGREGATIONS
from pybpf.compiler.builtins.actions import Argument
from pybpf.compiler.builtins.aggregations import AggregationRow
from pybpf.compiler.convert import (
    as_int,
    convert,
    is_number,
    is_scalar,
    is_text,
    number_hints,
    promote,
)
from pybpf.compiler.entries import fit
from pybpf.compiler.expressions import argument, check_arity, infer, map_keys, stored, whole_map
from pybpf.compiler.maptypes import MapUse, place
from pybpf.compiler.scope import NotYetKnown, Refused, Scope, both, each, fault
from pybpf.script import MapRole
from pybpf.source import Span
from pybpf.types import S64, U64


def statement(scope: Scope, stmt: ast.Return | ast.Delete | ast.Assign | ast.ExprStmt) -> tast.Stmt:
    """Type a statement that has no others in it."""
    match stmt:
        case ast.Return():
            return tast.Return(stmt.span)
        case ast.Delete():
            return _delete(scope, stmt)
        case ast.Assign():
            return _assign(scope, stmt)
        case ast.ExprStmt(expr=ast.Call() as call) if call.name.name in ACTIONS:
            return _action(scope, call)
        case ast.ExprStmt(expr=ast.Name(name=name) as named) if name in ACTIONS:
            return _action(scope, ast.Call(named, (), named.span))
        case ast.ExprStmt():
            return tast.Evaluate(infer(scope, stmt.expr), stmt.span)


def _action(scope: Scope, call: ast.Call) -> tast.Stmt:
    row = ACTIONS[call.name.name]
    check_arity(call, row.least, row.most)
    args: tuple[Argument, ...]
    if row.whole_map:
        args = each(call.args, lambda arg: _map_of(scope, call, arg))
    else:
        args = each(call.args, lambda arg: argument(scope, arg))
    return row.infer(scope, args, call.span)


def _map_of(scope: Scope, call: ast.Call, arg: ast.Expr) -> Argument:
    found = whole_map(scope, arg)
    if found is None:
        raise fault(arg.span, f"{call.name.name}() wants the name of a map that the script uses")
    return found


def _delete(scope: Scope, stmt: ast.Delete) -> tast.Stmt:
    use = scope.maps.uses[stmt.target.name.name]
    if use.keys and not stmt.target.keys:
        hint = f"clear({use.name}) removes all entries"
        raise fault(stmt.target.span, f"'{use.name}' has keys: say which entry to delete", hint)
    if use.role is None:
        raise NotYetKnown(use.name, stmt.target.span)
    return tast.Delete(use.name, fit(use, map_keys(scope, stmt.target)), stmt.span)


def _assign(scope: Scope, stmt: ast.Assign) -> tast.Stmt:
    use = scope.maps.uses[stmt.target.name.name]
    call = _aggregation(stmt.value)
    row = AGGREGATIONS[call.name.name] if call else None
    # Keys are typed last: they may be read from this map, and the value tells what it holds.
    try:
        value, keys = both(
            lambda: _assigned(scope, stmt, use, call, row), lambda: map_keys(scope, stmt.target)
        )
    except Refused:
        use.broken = True
        raise
    except NotYetKnown as unknown:
        use.broken |= scope.maps.uses[unknown.name].broken
        raise
    if row is not None:
        return tast.Aggregate(use.name, fit(use, keys), row.role, value, stmt.span)
    return tast.Assign(use.name, fit(use, keys), value, stmt.span)


def _aggregation(value: ast.Expr) -> ast.Call | None:
    """Return the call of an aggregation, which may lack its parentheses, or None."""
    call = ast.Call(value, (), value.span) if isinstance(value, ast.Name) else value
    return call if isinstance(call, ast.Call) and call.name.name in AGGREGATIONS else None


def _assigned(
    scope: Scope, stmt: ast.Assign, use: MapUse, call: ast.Call | None, row: AggregationRow | None
) -> tast.Expr:
    if call is None or row is None:
        return _plain_value(scope, stmt, use)
    return _aggregated_value(scope, stmt, use, call, row)


def _plain_value(scope: Scope, stmt: ast.Assign, use: MapUse) -> tast.Expr:
    _set_role(use, MapRole.MAP, stmt.target.span)
    typed = stored(scope, stmt.value)
    if not use.value.add(typed):
        raise fault(
            typed.span,
            f"the values of '{use.name}' are of type '{use.value_type()}'{use.value.since()}, "
            f"and this is '{typed.type}'",
            *(
                ["str(…) gives the text that a pointer leads to"]
                if _mixes_texts(use, typed)
                else []
            ),
        )
    wanted = use.value_type()
    return convert(typed, wanted) if is_scalar(typed.type) and wanted is not None else typed


def _mixes_texts(use: MapUse, typed: tast.Expr) -> bool:
    """Whether one of the two is a text, and the other a pointer to one."""
    held = use.value_type()
    return held is not None and is_text(held) and is_text(typed.type)


def _set_role(use: MapUse, role: MapRole, span: Span) -> None:
    counters = {MapRole.COUNT, MapRole.SUM}
    if use.role is None:
        use.role, use.role_where = role, span
    elif use.role in counters and role in counters:
        use.role = use.role if use.role is role else MapRole.SUM
    elif use.role is not role:
        since = f" since {place(use.role_where)}" if use.role_where else ""
        names = {MapRole.MAP: "plain values"}
        raise fault(
            span,
            f"'{use.name}' holds {names.get(use.role, f'{use.role}()')}{since}, "
            f"not {names.get(role, f'{role}()')}",
            "use a second map",
        )


def _aggregated_value(
    scope: Scope, stmt: ast.Assign, use: MapUse, call: ast.Call, row: AggregationRow
) -> tast.Expr:
    if not use.name.startswith("@"):
        raise fault(
            stmt.target.span,
            f"{row.name}() is stored in a map whose name begins with @",
            f"name it '@{use.name}'",
        )
    check_arity(call, row.arguments, row.arguments)
    _set_role(use, row.role, stmt.target.span)
    if not call.args:
        one = tast.Const(1, U64, call.span)
        use.value.add(one)
        return one
    typed = infer(scope, call.args[0])
    if not is_number(typed.type):
        hints = number_hints(typed)
        raise fault(typed.span, f"{row.name}() wants a number, and this is '{typed.type}'", *hints)
    if row.role is MapRole.SUM:
        return _addend(use, typed)
    # What a histogram counts is promoted, but its format (time) stays for the labels.
    if as_int(typed.type) != promote(typed.type):
        typed = convert(typed, promote(typed.type))
    use.value.add(typed)
    return convert(typed, use.value_type() or typed.type)


def _addend(use: MapUse, typed: tast.Expr) -> tast.Expr:
    """Return what is added to a sum: a u64 or s64, whatever its sums are."""
    total = S64 if promote(typed.type).signed else U64
    # A literal must not adapt to what else is added: sums are all of 64 bits.
    use.value.types.setdefault(total)
    return convert(typed, use.value_type() or total)
