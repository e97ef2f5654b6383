"""Built-in actions: print, printf, exit and clear, which send a record to user space."""

from __future__ import annotations

from collections.abc import Callable

from pybpf.compiler import tast
from pybpf.compiler.convert import convert, is_number, is_scalar, number_hints
from pybpf.compiler.scope import Scope, each, fault
from pybpf.dataclass import dataclass
from pybpf.printf import FormatFault, parse_format
from pybpf.script import ConstArg, Conversion, EventArg, EventKind, MapArg
from pybpf.source import Span
from pybpf.types import INT, ULONG, Show, Type, is_string, show_of, size_of


@dataclass(frozen=True, slots=True)
class MapName:
    """A whole map as an argument."""

    name: str
    span: Span


Argument = tast.Expr | MapName


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action of ``least`` to ``most`` arguments (None: any number).

    ``whole_map``: they are names of maps, with keys or without.
    """

    name: str
    least: int
    most: int | None
    infer: Callable[[Scope, tuple[Argument, ...], Span], tast.Stmt]
    doc: str
    whole_map: bool = False


def _part(argument: Argument) -> tast.Expr | EventArg:
    match argument:
        case MapName():
            return MapArg(argument.name)
        case tast.Const() | tast.Text():
            return ConstArg(argument.value, argument.type)
        case _:
            return argument


def _print(scope: Scope, args: tuple[Argument, ...], span: Span) -> tast.Stmt:
    return tast.Emit(*scope.event(EventKind.PRINT, [_part(a) for a in args]), span)


def _printf(scope: Scope, args: tuple[Argument, ...], span: Span) -> tast.Stmt:
    template, *values = args
    if not isinstance(template, tast.Text):
        raise fault(template.span, "the format of printf() must be a string literal")
    pieces = parse_format(template.value)
    if isinstance(pieces, FormatFault):
        where = _position(template, pieces.position)
        raise fault(where, f"in the format: {pieces.message}")
    conversions = [p for p in pieces if isinstance(p, Conversion)]
    if len(values) != len(conversions):
        raise fault(
            span,
            f"the format has {len(conversions)} conversion{'s' * (len(conversions) != 1)}, "
            f"but there {'is' if len(values) == 1 else 'are'} {len(values)} "
            f"argument{'s' * (len(values) != 1)} after it",
            *(["write %% for a percent sign"] if len(values) < len(conversions) else []),
        )
    values = [_pointer(c, v) for c, v in zip(conversions, values, strict=True)]
    each(zip(conversions, values, strict=True), lambda pair: _check(*pair))
    return tast.Emit(*scope.event(EventKind.PRINTF, [_part(v) for v in values], pieces), span)


def _position(template: tast.Text, position: int) -> Span:
    """Return the place of a byte of a string literal; the whole literal where that is not clear."""
    span = template.span
    if span.text.encode("utf-8", "replace") != b'"%b"' % template.value:
        return span
    start = span.start + 1 + len(template.value[:position].decode("utf-8", "replace"))
    return Span(span.source, start, start + 1)


def _pointer(conversion: Conversion, value: Argument) -> Argument:
    """Return the address of a ``char *`` where a number is printed; else it means its string."""
    match value:
        case tast.ReadString(address=address, span=span) if address.span == span:
            return value if conversion.letter in "sv" else address
        case _:
            return value


def _check(conversion: Conversion, value: Argument) -> None:
    letter = conversion.letter
    if letter == "v":
        return
    if isinstance(value, MapName):
        raise fault(value.span, f"%{letter} cannot print a map", "use %v")
    symbolic = show_of(value.type) in (Show.SYMBOL, Show.STACK)
    if letter == "s":
        if not (is_string(value.type) or symbolic):
            raise fault(
                value.span, f"%s wants a string, and this is '{value.type}'", _instead(value.type)
            )
    elif not is_scalar(value.type):
        use = "use %s" if is_string(value.type) else "use %v"
        hints = number_hints(value) or [use]
        raise fault(value.span, f"%{letter} wants a number, and this is '{value.type}'", *hints)


def _instead(t: Type) -> str:
    """Say how to print a value that is no string."""
    if not is_scalar(t):
        return "use %v"
    if show_of(t) not in (Show.PLAIN, Show.HEX):
        return "use %v, or %d for the plain number"
    return "use %d, or str(…) if it is an address" if size_of(t) == ULONG.size else "use %d"


def _exit(scope: Scope, args: tuple[Argument, ...], span: Span) -> tast.Stmt:
    code: Argument = args[0] if args else tast.Const(0, INT, span)
    if isinstance(code, MapName):
        raise fault(code.span, "the exit status is a number, and this is a map")
    if not is_number(code.type):
        hints = number_hints(code)
        raise fault(code.span, f"the exit status is a number, and this is '{code.type}'", *hints)
    return tast.Emit(*scope.event(EventKind.EXIT, [_part(convert(code, INT))]), span)


def _clear(scope: Scope, args: tuple[Argument, ...], span: Span) -> tast.Stmt:
    target = args[0]
    assert isinstance(target, MapName), "its row says that it wants a map"
    return tast.Emit(*scope.event(EventKind.CLEAR, [MapArg(target.name)]), span)


ACTIONS: dict[str, ActionRow] = {
    row.name: row
    for row in (
        ActionRow("print", 1, None, _print, "print values or maps on a line"),
        ActionRow("printf", 1, None, _printf, "print by a format"),
        ActionRow("exit", 0, 1, _exit, "end the run with a status"),
        ActionRow("clear", 1, 1, _clear, "remove all entries of a map", whole_map=True),
    )
}
