"""Type an expression: ast.Expr and a Scope in, tast.Expr out; raises Refused or NotYetKnown."""

from __future__ import annotations

from pybpf.compiler import ast, operators, tast
from pybpf.compiler.builtins import ACTIONS, AGGREGATIONS, CALLABLE, FUNCTIONS
from pybpf.compiler.builtins.actions import MapName
from pybpf.compiler.builtins.functions import STRING_SIZE, dynamic
from pybpf.compiler.convert import literal_type, text_of
from pybpf.compiler.entries import check_keys, count_keys, entry
from pybpf.compiler.members import member
from pybpf.compiler.names import event_value, named, unknown, variable
from pybpf.compiler.scope import NotYetKnown, Scope, each, fault
from pybpf.script import MapRole
from pybpf.types import CHAR, Array, DataLoc, Ptr, is_string, strip


def argument(scope: Scope, expr: ast.Expr) -> tast.Expr | MapName:
    """Type an argument of an action: the bare name of a map is the whole map.

    That of a plain map without keys is its value, as such a map is used as a variable.
    """
    found = whole_map(scope, expr)
    if found is None:
        return value(scope, expr)
    use = scope.maps.uses[found.name]
    return found if use.keys or use.role is not MapRole.MAP else value(scope, expr)


def whole_map(scope: Scope, expr: ast.Expr) -> MapName | None:
    """Return the map whose bare name ``expr`` is, or None."""
    name = _bare_map(scope, expr)
    if name is None:
        return None
    use = scope.maps.uses[name]
    if use.role is None or use.keys is None:
        raise NotYetKnown(name, expr.span)
    return MapName(name, expr.span)


def _bare_map(scope: Scope, expr: ast.Expr) -> str | None:
    match expr:
        case ast.Index(name=ast.Name(name=name), keys=()):
            return name
        case ast.Name(name=name) if name in scope.maps.uses:
            return name
        case _:
            return None


def value(scope: Scope, expr: ast.Expr) -> tast.Expr:
    """Type an expression whose value is wanted: strings behind fields and pointers are read."""
    typed = stored(scope, expr)
    t = strip(typed.type)
    if isinstance(t, Ptr) and is_string(Array(t.to, 1)):
        return tast.ReadString(typed, t.space, Array(CHAR, STRING_SIZE), typed.span)
    return typed


def stored(scope: Scope, expr: ast.Expr) -> tast.Expr:
    """Type an expression that a map keeps: a pointer stays one, so that str() can follow it later.

    A dynamic field is read at once, as it does not outlive the event.
    """
    typed = infer(scope, expr)
    if isinstance(strip(typed.type), DataLoc) and isinstance(typed, tast.CtxField):
        return dynamic(typed, STRING_SIZE, typed.span)
    return typed


def condition(scope: Scope, expr: ast.Expr) -> tast.Expr:
    """Type an expression that is asked for being non-zero."""
    return operators.condition(infer(scope, expr))


def infer(scope: Scope, expr: ast.Expr) -> tast.Expr:
    """Type an expression as it stands."""
    match expr:
        case ast.Number(value=number):
            t = literal_type(number, decimal=expr.decimal, suffix=expr.suffix)
            return tast.Const(number, t, expr.span)
        case ast.String(value=text):
            return text_of(text, expr.span)
        case ast.Name(name=name) if name in CALLABLE and name not in scope.maps.uses:
            return _uncalled(scope, expr)
        case ast.Name():
            return named(scope, expr)
        case ast.Call():
            return _call(scope, expr)
        case ast.Index(name=ast.Name(name=name), keys=()):
            return variable(scope, name, expr.span)
        case ast.Index():
            keys = map_keys(scope, expr)
            return entry(scope.maps.uses[expr.name.name], keys, expr.span)
        case ast.Member(object=inner):
            return member(scope, infer(scope, inner), expr)
        case ast.Element(object=inner, index=index):
            base, position = each((inner, index), lambda e: infer(scope, e))
            return operators.element(base, position, expr.span)
        case ast.Unary(op=op, operand=inner):
            return operators.unary(op, infer(scope, inner), expr.span)
        case ast.Binary():
            first, links = ast.chain(expr)
            left, *rights = each(
                (first, *(link.right for link in links)), lambda e: infer(scope, e)
            )
            for link, right in zip(links, rights, strict=True):
                left = operators.binary(link, left, right)
            return left


def map_keys(scope: Scope, expr: ast.Index) -> tuple[tast.Expr, ...]:
    """Type the keys of a map's entry, and check them against the map's other uses."""
    use = scope.maps.uses[expr.name.name]
    count_keys(use, expr)
    keys = each(expr.keys, lambda key: value(scope, key))
    check_keys(use, keys)
    return keys


def _uncalled(scope: Scope, expr: ast.Name) -> tast.Expr:
    if expr.name in FUNCTIONS:
        raise fault(expr.span, f"'{expr.name}' is a function: it wants arguments in parentheses")
    return _call(scope, ast.Call(expr, (), expr.span))


def _call(scope: Scope, expr: ast.Call) -> tast.Expr:
    name = expr.name.name
    if name in ACTIONS:
        raise fault(expr.span, f"{name}() gives no value: it is a statement of its own")
    if name in AGGREGATIONS:
        raise fault(
            expr.span,
            f"{name}() is stored in a map whose name begins with @, and nowhere else",
            f"write @[…] = {name}({'…' if AGGREGATIONS[name].arguments else ''});",
        )
    if row := FUNCTIONS.get(name):
        check_arity(expr, row.least, row.most)
        step = infer if row.raw else value
        return row.infer(each(expr.args, lambda arg: step(scope, arg)), expr.span)
    if name in scope.maps.uses:
        raise fault(expr.span, f"'{name}' is a map: its entries are read as {name}[…]")
    found = event_value(scope, name, expr.span)
    if found is None:
        raise unknown(scope, expr.name, "function")
    check_arity(expr, 0, 0)
    return found


def check_arity(call: ast.Call, least: int, most: int | None) -> None:
    """Refuse a call with too few or too many arguments."""
    got = len(call.args)
    if got < least:
        word, at = "few", call.span
    elif most is not None and got > most:
        word, at = "many", call.args[most].span.to(call.args[-1].span)
    else:
        return
    if least == most:
        expected = str(least)
    else:
        expected = f"{least} or more" if most is None else f"{least} to {most}"
    raise fault(at, f"too {word} arguments to {call.name.name}; expected {expected}, got {got}")
