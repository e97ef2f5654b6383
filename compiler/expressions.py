"""Type an expression: ast.Expr and a Scope in, tast.Expr out; raises Refused or NotYetKnown."""

from __future__ import annotations

import re

from pybpf.compiler import ast, tast
from pybpf.compiler.builtins import ACTIONS, AGGREGATIONS, CALLABLE, FUNCTIONS, VALUES
from pybpf.compiler.builtins.actions import MapName
from pybpf.compiler.builtins.functions import STRING_SIZE, dynamic
from pybpf.compiler.builtins.values import HEX, SYMBOL
from pybpf.compiler.convert import (
    arith,
    common,
    convert,
    is_scalar,
    literal_type,
    promote,
)
from pybpf.compiler.maptypes import MapUse
from pybpf.compiler.providers import row_of
from pybpf.compiler.scope import NotYetKnown, Refused, Scope, fault
from pybpf.script import MapRole, Provider
from pybpf.source import Span
from pybpf.suggest import did_you_mean
from pybpf.types import (
    CHAR,
    INT,
    LONG,
    ULONG,
    Array,
    DataLoc,
    Field,
    Int,
    Ptr,
    Space,
    Struct,
    Type,
    Void,
    is_string,
    size_of,
    strip,
)

_ARG = re.compile(r"arg(0|[1-9][0-9]*)")
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
_LOGICAL = frozenset({"&&", "||", "^^"})


def argument(scope: Scope, expr: ast.Expr) -> tast.Expr | MapName:
    """Type an argument of an action: the bare name of a map with keys is the whole map."""
    if isinstance(expr, ast.Name) and expr.name in scope.maps.uses:
        return MapName(expr.name, expr.span)
    return value(scope, expr)


def value(scope: Scope, expr: ast.Expr) -> tast.Expr:
    """Type an expression whose value is wanted: strings behind fields and pointers are read."""
    return readable(infer(scope, expr))


def readable(expr: tast.Expr) -> tast.Expr:
    """Return what a person means by ``expr``: a dynamic field or a ``char *`` is its string."""
    t = strip(expr.type)
    if isinstance(t, DataLoc) and isinstance(expr, tast.CtxField):
        return dynamic(expr, STRING_SIZE, expr.span)
    if isinstance(t, Ptr) and is_string(Array(t.to, 1)):
        return tast.ReadString(expr, t.space, Array(CHAR, STRING_SIZE), expr.span)
    return expr


def condition(scope: Scope, expr: ast.Expr) -> tast.Expr:
    """Type an expression that is asked for being non-zero."""
    typed = infer(scope, expr)
    if not is_scalar(typed.type):
        hint = (
            ["compare strings with strcmp(), which gives 0 where they are equal"]
            if is_string(typed.type)
            else []
        )
        raise fault(typed.span, f"a condition is a number, and this is '{typed.type}'", *hint)
    return typed


def infer(scope: Scope, expr: ast.Expr) -> tast.Expr:
    """Type an expression as it stands."""
    match expr:
        case ast.Number():
            text = expr.span.text
            decimal = not text.startswith("0") and not text.startswith("'")
            return tast.Const(
                expr.value,
                literal_type(expr.value, decimal=decimal, suffix=expr.suffix),
                expr.span,
            )
        case ast.String():
            return text_of(expr.value, expr.span)
        case ast.Name():
            return _name(scope, expr)
        case ast.Call():
            return _call(scope, expr)
        case ast.Index():
            return _index(scope, expr)
        case ast.Member():
            return _member(scope, expr)
        case ast.Unary():
            return _unary(scope, expr)
        case ast.Binary():
            return _binary(scope, expr)


def text_of(text: bytes, span: Span) -> tast.Text:
    """Return a string constant; its array holds the final NUL, in whole words."""
    return tast.Text(text, Array(CHAR, -(-(len(text) + 1) // 8) * 8), span)


def _name(scope: Scope, expr: ast.Name) -> tast.Expr:
    name = expr.name
    if name.startswith("$"):
        return _environment(scope, expr)
    use = scope.maps.uses.get(name)
    if use is not None:
        if use.keys:
            count = f"{len(use.keys)} key{'s' * (len(use.keys) != 1)}"
            raise fault(
                expr.span, f"'{name}' is a map with {count}: say which entry, as in {name}[…]"
            )
        return _entry(use, (), expr.span)
    if row := VALUES.get(name):
        return tast.Context(row.name, row.type, expr.span)
    if (found := _probe_value(scope, name, expr.span)) is not None:
        return found
    if name in FUNCTIONS:
        raise fault(expr.span, f"'{name}' is a function: it wants arguments in parentheses")
    if name in ACTIONS or name in AGGREGATIONS:
        return _call(scope, ast.Call(expr, (), expr.span))
    raise _unknown(scope, expr, "variable")


def _unknown(scope: Scope, name: ast.Name, kind: str) -> Refused:
    own = row_of(scope.probe.provider).fields
    if kind == "function":
        known = [*CALLABLE, *VALUES]
    else:
        known = [*VALUES, *own, *scope.maps.uses, *(f"arg{n}" for n in range(6) if "arg" in own)]
    hints: list[str] = []
    if name.name in {"data", "regs", "caller", "retval"} or _ARG.fullmatch(name.name):
        kind = "variable"
        where = {
            "data": "tracepoint probes",
            "retval": "kretprobe probes",
            "regs": "kprobe and kretprobe probes",
        }.get(name.name, "kprobe probes")
        hints = [f"{name.name} exists in {where} only"]
    return fault(
        name.span,
        f"unknown {kind} '{name.name}' in {scope.probe.provider}"
        + ("" if hints else did_you_mean(name.name, known)),
        *hints,
    )


def _environment(scope: Scope, expr: ast.Name) -> tast.Expr:
    """Return the constant that an environment variable holds: a number if it reads as one."""
    found = scope.target.environment.get(expr.name[1:], "")
    match = re.fullmatch(r"\s*([-+]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", found)
    if match:
        digits = match[2]
        base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") else 10
        number = int(digits, base)
        number = -number if match[1] == "-" else number
        if -(2**63) <= number < 2**64:
            t = literal_type(number, decimal=base == 10)
            return tast.Const(number, t, expr.span)
    return text_of(found.encode("utf-8", "surrogateescape"), expr.span)


def _probe_value(scope: Scope, name: str, span: Span) -> tast.Expr | None:
    """Return what only probes of this kind know: registers, arguments, the tracepoint's data."""
    probe, arch = scope.probe, scope.target.arch
    fields = row_of(probe.provider).fields
    if name == "data" and name in fields:
        return tast.Context("ctx", Ptr(_data_struct(scope), Space.CTX), span)
    if name == "regs" and name in fields:
        return tast.Context("ctx", Ptr(arch.regs, Space.CTX), span)
    if name == "caller" and name in fields:
        return _register(scope, arch.ip, SYMBOL, span)
    if name == "retval" and name in fields:
        return _register(scope, arch.retval, LONG, span)
    if (match := _ARG.fullmatch(name)) and "arg" in fields:
        number = int(match[1])
        if number < len(arch.arguments):
            return _register(scope, arch.arguments[number], HEX, span)
        if arch.stack_arguments is None or number > 64:
            raise fault(span, f"where {name} lies is not known on {arch.name}")
        offset = arch.stack_arguments + 8 * (number - len(arch.arguments))
        sp = _register(scope, arch.sp, ULONG, span)
        return tast.Deref(sp, offset, Space.KERNEL, HEX, span)
    return None


def _register(scope: Scope, name: str, t: Type, span: Span) -> tast.Expr:
    found = scope.target.arch.regs.field(name)
    assert found is not None, "the table of registers names its own"
    return tast.CtxField(found.offset, t, span)


def _data_struct(scope: Scope) -> Struct:
    """Return the record of the probe's tracepoint as a struct.

    The common fields are left out: the kernel hides the start of the record from programs.
    """
    assert scope.format is not None, "tracepoint probes have a format"
    fields = [f for f in scope.format.fields if not f.common]
    size = max((f.offset + f.size for f in fields), default=8)
    return Struct(
        scope.format.name, tuple(Field(f.name, f.type, f.offset) for f in fields), size, 8
    )


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
    row = FUNCTIONS.get(name)
    if row is None:
        known = name in VALUES or _probe_value(scope, name, expr.name.span) is not None
        if known and not expr.args:
            return _name(scope, expr.name)
        if known:
            check_arity(expr, 0, 0)
        if name in scope.maps.uses:
            raise fault(expr.span, f"'{name}' is a map: its entries are read as {name}[…]")
        raise _unknown(scope, expr.name, "function")
    check_arity(expr, row.least, row.most)
    each = infer if row.raw or name in {"str", "mem", "uptr"} else value
    return row.infer(tuple(each(scope, a) for a in expr.args), expr.span)


def check_arity(call: ast.Call, least: int, most: int | None) -> None:
    """Refuse a call with too few or too many arguments."""
    got = len(call.args)
    if got < least:
        word, at = "few", call.span
    elif most is not None and got > most:
        word, at = "many", call.args[most].span.to(call.args[-1].span)
    else:
        return
    expected = (
        str(least)
        if least == most
        else f"{least} or more"
        if most is None
        else (f"{least} to {most}")
    )
    raise fault(at, f"too {word} arguments to {call.name.name}; expected {expected}, got {got}")


def _index(scope: Scope, expr: ast.Index) -> tast.Expr:
    name = expr.name.name
    use = scope.maps.uses[name]
    keys = map_keys(scope, use, expr)
    if use.role not in (None, MapRole.MAP):
        raise fault(
            expr.span,
            f"'{name}' is an aggregation: its value is known only when it is printed",
        )
    return _entry(use, keys, expr.span)


def _entry(use: MapUse, keys: tuple[tast.Expr, ...], span: Span) -> tast.Expr:
    if use.role not in (None, MapRole.MAP):
        raise fault(span, f"'{use.name}' is an aggregation: its value is known only when printed")
    t = use.value_type()
    if t is None:
        raise NotYetKnown(use.name, span)
    return tast.MapValue(use.name, keys, t, span)


def map_keys(scope: Scope, use: MapUse, expr: ast.Index) -> tuple[tast.Expr, ...]:
    """Type the keys of a map's entry, and check them against the map's other uses."""
    keys = tuple(value(scope, key) for key in expr.keys)
    for key in keys:
        if isinstance(strip(key.type), Void | DataLoc):
            raise fault(key.span, f"a value of type '{key.type}' cannot be a key")
    span = expr.span
    if use.keys is None:
        use.keys = [type(use.value)() for _ in keys]
        use.where = expr.name.span
    elif len(use.keys) != len(keys):
        raise fault(
            span,
            f"'{use.name}' has {len(use.keys)} key{'s' * (len(use.keys) != 1)}, not {len(keys)}",
            f"it is first used in line {use.where.line}",
        )
    for number, (gathered, key) in enumerate(zip(use.keys, keys, strict=True), start=1):
        if not gathered.add(key):
            where = f" (line {gathered.where.line})" if gathered.where else ""
            raise fault(
                key.span,
                f"key {number} of '{use.name}' is of type '{gathered.result()}'{where}, "
                f"and this is '{key.type}'",
            )
    return keys


def _member(scope: Scope, expr: ast.Member) -> tast.Expr:
    base = infer(scope, expr.object)
    t = strip(base.type)
    if expr.arrow:
        if not isinstance(t, Ptr) or not isinstance(struct := strip(t.to), Struct):
            hint = ["use . instead of ->"] if isinstance(t, Struct) else []
            raise fault(
                expr.object.span, f"-> wants a pointer to a struct, not '{base.type}'", *hint
            )
        found = _field(scope, struct, expr.name)
        if isinstance(found, tast.Context):
            return found
        return _at(base, found.offset, found.type, expr.span)
    if not isinstance(t, Struct):
        hint = ["use -> instead of ."] if isinstance(t, Ptr) else []
        raise fault(expr.object.span, f". wants a struct, not '{base.type}'", *hint)
    found = _field(scope, t, expr.name)
    if isinstance(found, tast.Context):
        return found
    match base:
        case tast.CtxField():
            return tast.CtxField(base.offset + found.offset, found.type, expr.span)
        case tast.Deref():
            return tast.Deref(
                base.address, base.offset + found.offset, base.space, found.type, expr.span
            )
        case tast.Select():
            return tast.Select(base.object, base.offset + found.offset, found.type, expr.span)
        case _:
            return tast.Select(base, found.offset, found.type, expr.span)


def _field(scope: Scope, struct: Struct, name: ast.Name) -> Field | tast.Context:
    found = struct.field(name.name)
    if found is not None:
        return found
    if scope.probe.provider is Provider.TRACEPOINT and name.name == "common_pid":
        row = VALUES["kpid"]
        return tast.Context(row.name, row.type, name.span)
    if name.name.startswith("common_"):
        raise fault(
            name.span,
            f"the kernel hides '{name.name}' from programs",
            "pid, kpid and cpu say whose event it is",
        )
    fields = [f.name for f in struct.fields]
    raise fault(
        name.span,
        f"{struct} has no field '{name.name}'{did_you_mean(name.name, fields)}",
        *([f"it has {', '.join(fields)}"] if fields and len(fields) <= 12 else []),
    )


def _at(pointer: tast.Expr, offset: int, t: Type, span: Span) -> tast.Expr:
    """Return what lies behind a pointer; reading the context needs no helper."""
    target = strip(pointer.type)
    assert isinstance(target, Ptr)
    if isinstance(pointer, tast.Context) and target.space is Space.CTX:
        return tast.CtxField(offset, t, span)
    return tast.Deref(pointer, offset, target.space, t, span)


def _unary(scope: Scope, expr: ast.Unary) -> tast.Expr:
    operand = infer(scope, expr.operand)
    t = strip(operand.type)
    if expr.op == "*":
        if not isinstance(t, Ptr) or size_of(t.to) == 0:
            hint = ["use mem() or str() to read at an address"] if is_scalar(t) else []
            raise fault(
                expr.span, f"* wants a pointer to a known type, not '{operand.type}'", *hint
            )
        return _at(operand, 0, t.to, expr.span)
    if expr.op == "!":
        return tast.Not(_scalar(operand, "!"), expr.span)
    number = promote(_number(operand, expr.op).type)
    if isinstance(operand, tast.Const):
        result = -operand.value if expr.op == "-" else ~operand.value
        if expr.op == "-" and isinstance(expr.operand, ast.Number) and number == INT:
            return tast.Const(result, INT, expr.span)
        return tast.Const(number.wrap(result), number, expr.span)
    node = tast.Negate if expr.op == "-" else tast.Invert
    return node(convert(operand, number), number, expr.span)


def _binary(scope: Scope, expr: ast.Binary) -> tast.Expr:
    # A chain of operators leans left and may be thousands long: walk it without recursion.
    chain: list[ast.Binary] = []
    first: ast.Expr = expr
    while isinstance(first, ast.Binary):
        chain.append(first)
        first = first.left
    left = infer(scope, first)
    for node in reversed(chain):
        left = _combine(node, left, infer(scope, node.right))
    return left


def _combine(node: ast.Binary, left: tast.Expr, right: tast.Expr) -> tast.Expr:
    op, span = node.op, left.span.to(right.span)
    for side in (left, right):
        if is_string(side.type) and op in {"==", "!="}:
            raise fault(
                node.op_span,
                f"{op} compares numbers, and this is '{side.type}'",
                f"use strcmp(a, b) {op} 0",
            )
    if op in _LOGICAL:
        return tast.Logical(op, _scalar(left, op), _scalar(right, op), span)
    if op in _COMPARISONS:
        _scalar(left, op)
        _scalar(right, op)
        t = common(left.type, right.type)
        return tast.Compare(op, convert(left, t), convert(right, t), span)
    pointer = _pointer_arithmetic(op, left, right, span)
    if pointer is not None:
        return pointer
    return arith(op, _number(left, op), _number(right, op), span)


def _pointer_arithmetic(op: str, left: tast.Expr, right: tast.Expr, span: Span) -> tast.Expr | None:
    """Return pointer + n, n + pointer or pointer - n in C's units, or None for other operands."""
    if op == "+" and isinstance(strip(right.type), Ptr) and isinstance(strip(left.type), Int):
        left, right = right, left
    t = strip(left.type)
    if not isinstance(t, Ptr) or op not in "+-" or not isinstance(strip(right.type), Int):
        return None
    if t.space is Space.CTX:
        raise fault(span, "the context has no addresses to compute with", "name its fields")
    scale = max(1, size_of(t.to))
    count = convert(right, LONG)
    if scale > 1:
        count = arith("*", count, tast.Const(scale, LONG, right.span), right.span)
    return tast.Arith(op, convert(left, ULONG), convert(count, ULONG), left.type, span)


def _scalar(expr: tast.Expr, op: str) -> tast.Expr:
    if not is_scalar(expr.type):
        hint = ["compare strings with strcmp()"] if is_string(expr.type) else []
        raise fault(expr.span, f"{op} wants numbers, and this is '{expr.type}'", *hint)
    return expr


def _number(expr: tast.Expr, op: str) -> tast.Expr:
    _scalar(expr, op)
    if isinstance(strip(expr.type), Ptr):
        raise fault(expr.span, f"{op} wants numbers, and this is a pointer ('{expr.type}')")
    return expr
