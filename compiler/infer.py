"""Infer: syntax tree and Target in, TypedScript out; reports every fault it finds.

Map types depend on every use of a map, so the walk is repeated until they no longer change; types
only ever widen, so it ends. The last walk, with all types known, reports faults and makes the tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pybpf.compiler import ast, tast
from pybpf.compiler.builtins import ACTIONS, AGGREGATIONS, RESERVED
from pybpf.compiler.convert import as_int, convert, is_scalar, promote
from pybpf.compiler.expressions import (
    argument,
    check_arity,
    condition,
    map_keys,
    value,
)
from pybpf.compiler.expressions import (
    infer as infer_expr,
)
from pybpf.compiler.maptypes import MapTypes, MapUse
from pybpf.compiler.providers import PROVIDERS, find
from pybpf.compiler.scope import NotYetKnown, Refused, Scope, fault
from pybpf.errors import Diagnostic, ScriptTypeError
from pybpf.script import MapRole, ProbeSpec, Provider
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.target.target import Target
from pybpf.types import INT, S64, U64, Void, strip


def infer(script: ast.Script, target: Target) -> tast.TypedScript:
    """Type a script for a target; raises ScriptTypeError with all faults found."""
    faults: list[Diagnostic] = []
    probes = [(p, specs) for p in script.probes for specs in _resolve(p, target, faults)]
    maps = MapTypes()
    for index in _map_uses(script):
        name = index.name.name
        if name in RESERVED:
            faults.append(Diagnostic(f"'{name}' is a built-in, not a map", index.name.span))
        maps.use(name, index.name.span)
    scope = Scope(target, maps)
    while True:
        before = maps.snapshot()
        for probe, specs in probes:
            _probe(scope, probe, specs, [])
        scope.events.clear()
        if maps.snapshot() == before and not maps.guess():
            break
    typed = tuple(_probe(scope, probe, specs, faults) for probe, specs in probes)
    if faults:
        raise ScriptTypeError(list(dict.fromkeys(faults)))
    return tast.TypedScript(script.span.source, typed, maps.declarations(), tuple(scope.events))


def _resolve(
    probe: ast.Probe, target: Target, faults: list[Diagnostic]
) -> list[tuple[ProbeSpec, ...]]:
    """Return where a clause goes, as groups that can share a program.

    Tracepoints differ in their data, so each gets a program of its own, unless the clause never
    looks at it.
    """
    span = probe.spec_span
    name, _, where = probe.spec.partition(":")
    row = find(name)
    if row is None:
        known = [str(r.provider) for r in PROVIDERS]
        faults.append(
            Diagnostic(
                f"unknown provider '{name}'{did_you_mean(name, known)}",
                Span(span.source, span.start, span.start + len(name)),
                (f"there are {', '.join(known)}",),
            )
        )
        return []
    try:
        specs = row.resolve(where, span, target)
    except Refused as refused:
        diagnostic = refused.diagnostic
        faults.append(dataclasses.replace(diagnostic, span=diagnostic.span or span))
        return []
    if any(isinstance(node, ast.Name) and node.name == "data" for node in _walk(probe)):
        return [(spec,) for spec in specs]
    return [tuple(specs)]


def _map_uses(script: ast.Script) -> Iterator[ast.Index]:
    """Yield every use of a map entry, in the order of the text."""
    return (node for node in _walk(script) if isinstance(node, ast.Index))


def _walk(root: object) -> Iterator[object]:
    """Yield every node below ``root``, in the order of the text."""
    stack: list[object] = [root]
    while stack:
        node = stack.pop()
        yield node
        match node:
            case ast.Script(probes=probes):
                stack.extend(reversed(probes))
            case ast.Probe(predicate=predicate, body=body):
                stack.extend((body, predicate))
            case ast.Block(body=statements):
                stack.extend(reversed(statements))
            case ast.If(condition=test, then=then, otherwise=otherwise):
                stack.extend((otherwise, then, test))
            case ast.Delete(target=index):
                stack.append(index)
            case ast.Assign(target=index, value=assigned):
                stack.extend((assigned, index))
            case ast.ExprStmt(expr=expr):
                stack.append(expr)
            case ast.Index(keys=keys):
                stack.extend(reversed(keys))
            case ast.Call(name=name, args=args):
                stack.extend((*reversed(args), name))
            case ast.Member(object=inner) | ast.Unary(operand=inner):
                stack.append(inner)
            case ast.Binary(left=left, right=right):
                stack.extend((right, left))
            case _:
                pass


def _probe(
    scope: Scope, probe: ast.Probe, specs: tuple[ProbeSpec, ...], faults: list[Diagnostic]
) -> tast.Probe:
    scope.spec = spec = specs[0]
    scope.format = (
        scope.target.event_format(spec.tracepoint) if spec.provider is Provider.TRACEPOINT else None
    )
    predicate = None
    if probe.predicate is not None:
        try:
            predicate = condition(scope, probe.predicate)
        except (Refused, NotYetKnown) as refused:
            faults.append(_diagnostic(scope, refused))
    return tast.Probe(specs, predicate, _statement(scope, probe.body, faults), probe.span)


def _diagnostic(scope: Scope, refused: Refused | NotYetKnown) -> Diagnostic:
    if isinstance(refused, Refused):
        return refused.diagnostic
    use = scope.maps.uses[refused.name]
    if use.role is None or not use.stored:
        return Diagnostic(f"nothing is ever stored in the map '{refused.name}'", refused.span)
    return Diagnostic(f"the type of '{refused.name}' cannot be found out", refused.span)


def _statement(scope: Scope, stmt: ast.Stmt, faults: list[Diagnostic]) -> tuple[tast.Stmt, ...]:
    """Type a statement; what cannot be typed is left out, and its fault noted."""
    if isinstance(stmt, ast.Block):
        return tuple(s for inner in stmt.body for s in _statement(scope, inner, faults))
    if isinstance(stmt, ast.If):
        return (_if(scope, stmt, faults),)
    try:
        match stmt:
            case ast.Return():
                return (tast.Return(stmt.span),)
            case ast.Delete():
                return (_delete(scope, stmt),)
            case ast.Assign():
                return (_assign(scope, stmt),)
            case ast.ExprStmt(expr=ast.Call() | ast.Name() as call):
                return (_action(scope, call),)
            case ast.ExprStmt():
                return (tast.Evaluate(infer_expr(scope, stmt.expr), stmt.span),)
    except (Refused, NotYetKnown) as refused:
        faults.append(_diagnostic(scope, refused))
        return ()


def _if(scope: Scope, stmt: ast.If, faults: list[Diagnostic]) -> tast.Stmt:
    test: tast.Expr
    try:
        test = condition(scope, stmt.condition)
    except (Refused, NotYetKnown) as refused:
        faults.append(_diagnostic(scope, refused))
        test = tast.Const(0, INT, stmt.condition.span)
    then = _statement(scope, stmt.then, faults)
    otherwise = _statement(scope, stmt.otherwise, faults) if stmt.otherwise else ()
    return tast.If(test, then, otherwise, stmt.span)


def _action(scope: Scope, expr: ast.Call | ast.Name) -> tast.Stmt:
    call = expr if isinstance(expr, ast.Call) else ast.Call(expr, (), expr.span)
    row = ACTIONS.get(call.name.name)
    if row is None:
        return tast.Evaluate(infer_expr(scope, expr), expr.span)
    check_arity(call, row.least, row.most)
    if row.name == "clear":
        for name in call.args:
            if not isinstance(name, ast.Name) or name.name not in scope.maps.uses:
                raise fault(name.span, "clear() wants the name of a map that the script uses")
    args = tuple(argument(scope, arg) for arg in call.args)
    for arg in args:
        if isinstance(arg, tast.Expr) and isinstance(strip(arg.type), Void):
            raise fault(arg.span, "this has no value to print")
    return row.infer(scope, args, call.span)


def _delete(scope: Scope, stmt: ast.Delete) -> tast.Stmt:
    use = scope.maps.use(stmt.target.name.name, stmt.target.name.span)
    keys = map_keys(scope, use, stmt.target)
    if use.role is None:
        raise NotYetKnown(use.name, stmt.target.span)
    return tast.Delete(use.name, _fit(use, keys), stmt.span)


def _fit(use: MapUse, keys: tuple[tast.Expr, ...]) -> tuple[tast.Expr, ...]:
    """Convert scalar keys to the types of the map's key; strings are padded when stored."""
    types = use.key_types()
    return tuple(
        convert(key, t) if is_scalar(key.type) else key for key, t in zip(keys, types, strict=True)
    )


def _assign(scope: Scope, stmt: ast.Assign) -> tast.Stmt:
    name = stmt.target.name
    use = scope.maps.use(name.name, name.span)
    keys = map_keys(scope, use, stmt.target)
    assigned = stmt.value
    call = ast.Call(assigned, (), assigned.span) if isinstance(assigned, ast.Name) else assigned
    if isinstance(call, ast.Call) and call.name.name in AGGREGATIONS:
        return _aggregate(scope, stmt, use, keys, call)
    _set_role(use, MapRole.MAP, stmt.span)
    use.stored = True
    typed = value(scope, assigned)
    if isinstance(strip(typed.type), Void):
        raise fault(typed.span, "this has no value to store")
    if not use.value.add(typed):
        where = f" (line {use.value.where.line})" if use.value.where else ""
        raise fault(
            typed.span,
            f"the values of '{use.name}' are of type '{use.value_type()}'{where}, "
            f"and this is '{typed.type}'",
        )
    wanted = use.value_type()
    if is_scalar(typed.type) and wanted is not None:
        typed = convert(typed, wanted)
    return tast.Assign(use.name, _fit(use, keys), typed, stmt.span)


def _set_role(use: MapUse, role: MapRole, span: Span) -> None:
    counters = {MapRole.COUNT, MapRole.SUM}
    if use.role is None:
        use.role, use.role_where = role, span
    elif use.role in counters and role in counters:
        use.role = use.role if use.role is role else MapRole.SUM
    elif use.role is not role:
        line = use.role_where.line if use.role_where else 0
        names = {MapRole.MAP: "plain values"}
        raise fault(
            span,
            f"'{use.name}' holds {names.get(use.role, f'{use.role}()')} since line {line}, "
            f"not {names.get(role, f'{role}()')}",
            "use a second map",
        )


def _aggregate(
    scope: Scope, stmt: ast.Assign, use: MapUse, keys: tuple[tast.Expr, ...], call: ast.Call
) -> tast.Stmt:
    row = AGGREGATIONS[call.name.name]
    if not use.name.startswith("@"):
        raise fault(
            stmt.target.span,
            f"{row.name}() is stored in a map whose name begins with @",
            f"name it '@{use.name}'",
        )
    check_arity(call, row.arguments, row.arguments)
    _set_role(use, row.role, stmt.span)
    use.stored = True
    if not call.args:
        use.value.add(tast.Const(1, U64, call.span))
        return tast.Aggregate(
            use.name, _fit(use, keys), row.role, tast.Const(1, U64, call.span), stmt.span
        )
    typed = infer_expr(scope, call.args[0])
    if not is_scalar(typed.type):
        raise fault(typed.span, f"{row.name}() wants a number, and this is '{typed.type}'")
    if row.role is MapRole.SUM:
        total = S64 if promote(typed.type).signed else U64
        use.value.add(tast.Context("", total, typed.span))
        typed = convert(typed, total)
    else:
        # What a histogram counts is promoted, but its format (time) stays for the labels.
        if as_int(typed.type) != promote(typed.type):
            typed = convert(typed, promote(typed.type))
        use.value.add(typed)
        typed = convert(typed, use.value_type() or typed.type)
    return tast.Aggregate(use.name, _fit(use, keys), row.role, typed, stmt.span)
