"""Print a typed script: TypedScript in, text out, every expression with its type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pybpf.compiler import tast
from pybpf.script import ConstArg, Conversion, EventArg, EventSchema, FieldArg, MapArg, Text


def dump_types(script: tast.TypedScript) -> str:
    """Return the maps, then each probe as the compiler understood it."""
    lines = [
        f"map {m.name}[{', '.join(map(str, m.keys))}] : {m.role} of {m.value}" for m in script.maps
    ]
    for probe in script.probes:
        lines.append(_places(probe))
        if probe.predicate is not None:
            lines.append(f"    / {expr(probe.predicate)} /")
        lines += _block(script.events, probe.body, 1)
    return "".join(f"{line}\n" for line in lines)


def _places(probe: tast.Probe) -> str:
    first = probe.specs[0]
    places = [s.tracepoint for s in probe.specs if s.glob and s.tracepoint]
    places += [f.symbol for f in first.functions] if first.glob else []
    return f"{first.spec} ({', '.join(places)})" if places else first.spec


def _block(events: Sequence[EventSchema], body: tuple[tast.Stmt, ...], depth: int) -> Iterator[str]:
    indent = "    " * depth
    for stmt in body:
        match stmt:
            case tast.If():
                yield f"{indent}if {expr(stmt.condition)}"
                yield from _block(events, stmt.then, depth + 1)
                if stmt.otherwise:
                    yield f"{indent}else"
                    yield from _block(events, stmt.otherwise, depth + 1)
            case tast.Assign():
                yield f"{indent}{_entry(stmt.map, stmt.keys)} = {expr(stmt.value)}"
            case tast.Aggregate():
                yield f"{indent}{_entry(stmt.map, stmt.keys)} = {stmt.role}({expr(stmt.value)})"
            case tast.Delete():
                yield f"{indent}delete {_entry(stmt.map, stmt.keys)}"
            case tast.Return():
                yield f"{indent}return"
            case tast.Emit():
                yield indent + _emit(events[stmt.event], stmt)
            case tast.Evaluate():
                yield indent + expr(stmt.expr)


def _emit(schema: EventSchema, stmt: tast.Emit) -> str:
    """Show all arguments, those that do not travel in the record too."""
    values = iter(stmt.values)
    args = [expr(next(values)) if isinstance(a, FieldArg) else _fixed(a) for a in schema.args]
    if schema.format:
        args.insert(0, f'"{"".join(map(_piece, schema.format))}"')
    return f"{schema.kind} #{schema.id}({', '.join(args)})"


def _fixed(arg: EventArg) -> str:
    match arg:
        case MapArg(name=name):
            return f"map {name}"
        case ConstArg(value=int() as value, type=t):
            return f"{value}:{t}"
        case ConstArg(value=bytes() as value, type=t):
            return f'"{_escaped(value)}":{t}'
        case _:
            raise AssertionError("a field is an expression")


def _piece(piece: Text | Conversion) -> str:
    if isinstance(piece, Text):
        return _escaped(piece.value.replace(b"%", b"%%"))
    width = "" if piece.width is None else str(piece.width)
    precision = "" if piece.precision is None else f".{piece.precision}"
    return f"%{piece.flags}{width}{precision}{piece.letter}"


def _escaped(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in shown)


def _entry(name: str, keys: tuple[tast.Expr, ...]) -> str:
    return f"{name}[{', '.join(map(expr, keys))}]"


def expr(node: tast.Expr) -> str:
    """Return one expression, fully parenthesised, each part followed by its type."""
    return f"{_shape(node)}:{node.type}"


def _shape(node: tast.Expr) -> str:
    match node:
        case tast.Const():
            return str(node.value)
        case tast.Text():
            return f'"{_escaped(node.value)}"'
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
        case tast.AddressOf():
            return f"&({expr(node.object)})"
        case tast.Parts():
            return f"{{{', '.join(map(expr, node.parts))}}}"
        case tast.Like():
            return f'({expr(node.text)} ~ "{_escaped(node.pattern)}")'
        case tast.Sound():
            return f"sound({expr(node.operand)})"


def _space(space: object) -> str:
    return f"@{space}" if space is not None else ""
