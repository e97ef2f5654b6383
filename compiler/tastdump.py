"""Print a typed script: TypedScript in, text out, every expression with its type."""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.compiler import tast


def dump_types(script: tast.TypedScript) -> str:
    """Return the maps, then each probe as the compiler understood it."""
    lines = [
        f"map {m.name}[{', '.join(map(str, m.keys))}] : {m.role} of {m.value}" for m in script.maps
    ]
    for probe in script.probes:
        lines.append(probe.specs[0].spec)
        if probe.predicate is not None:
            lines.append(f"    / {expr(probe.predicate)} /")
        lines += _block(probe.body, 1)
    return "".join(f"{line}\n" for line in lines)


def _block(body: tuple[tast.Stmt, ...], depth: int) -> Iterator[str]:
    for stmt in body:
        yield from (f"{'    ' * depth}{line}" for line in _statement(stmt))


def _statement(stmt: tast.Stmt) -> Iterator[str]:
    match stmt:
        case tast.Assign():
            yield f"{_entry(stmt.map, stmt.keys)} = {expr(stmt.value)}"
        case tast.Aggregate():
            yield f"{_entry(stmt.map, stmt.keys)} = {stmt.role}({expr(stmt.value)})"
        case tast.Delete():
            yield f"delete {_entry(stmt.map, stmt.keys)}"
        case tast.If():
            yield f"if {expr(stmt.condition)}"
            yield from _block(stmt.then, 1)
            if stmt.otherwise:
                yield "else"
                yield from _block(stmt.otherwise, 1)
        case tast.Return():
            yield "return"
        case tast.Emit():
            yield f"emit #{stmt.event}({_list(stmt.values)})"
        case tast.Evaluate():
            yield expr(stmt.expr)


def _entry(name: str, keys: tuple[tast.Expr, ...]) -> str:
    return f"{name}[{_list(keys)}]"


def _list(exprs: tuple[tast.Expr, ...]) -> str:
    return ", ".join(expr(e) for e in exprs)


def expr(node: tast.Expr) -> str:
    """Return one expression, fully parenthesised, each part followed by its type."""
    return f"{_shape(node)}:{node.type}"


def _shape(node: tast.Expr) -> str:
    match node:
        case tast.Const():
            return str(node.value)
        case tast.Text():
            return '"' + node.value.decode("utf-8", "backslashreplace") + '"'
        case tast.Convert():
            return f"({expr(node.operand)})"
        case tast.Arith() | tast.Compare() | tast.Logical():
            return f"({expr(node.left)} {node.op} {expr(node.right)})"
        case tast.Negate():
            return f"-{expr(node.operand)}"
        case tast.Invert():
            return f"~{expr(node.operand)}"
        case tast.Not():
            return f"!{expr(node.operand)}"
        case tast.StrCmp():
            return f"strcmp({expr(node.left)}, {expr(node.right)})"
        case tast.Context():
            return node.name
        case tast.MapValue():
            return _entry(node.map, node.keys)
        case tast.CtxField():
            return f"ctx[{node.offset}]"
        case tast.Deref():
            return f"*({expr(node.address)} + {node.offset}){_space(node.space)}"
        case tast.ReadString():
            return f"str({expr(node.address)}){_space(node.space)}"
        case tast.DynString():
            return f"dyn({expr(node.word)})"
        case tast.Select():
            return f"{expr(node.object)}.{node.offset}"


def _space(space: object) -> str:
    return f"@{space}" if space is not None else ""
