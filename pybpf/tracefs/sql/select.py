"""What a query of two events selects: expressions in, the variables of two histograms out.

What is of the first event alone is computed when that is hit, and kept in a variable; the rest when
the second is. The kernel computes from left to right without brackets, products first.
"""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.dataclass import dataclass, field
from pybpf.source import Span
from pybpf.tracefs.dynevents.synthetic import TYPES
from pybpf.tracefs.filters.fields import KernelField, Kind
from pybpf.tracefs.sql.parse import fault
from pybpf.tracefs.sql.syntax import Arithmetic, Cast, Expression, Literally, Name, Selected
from pybpf.tracefs.sql.tables import DELTAS, Side, Tables
from pybpf.tracefs.triggers.value import Binary, HistField, Number, Variable, VariableRef
from pybpf.tracefs.triggers.value import Expression as Computed
from pybpf.types import Int


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing selected: its name, the variable of the second histogram that holds it, its type.

    ``ctype`` is the type in the synthetic event. ``string`` is how to read the string that it
    points to, ustring or string.
    """

    label: str
    variable: str
    ctype: str
    size: int
    signed: bool
    string: str | None
    span: Span = field(compare=False, repr=False)


class Sides:
    """The variables of both histograms, as what is selected needs them."""

    def __init__(self, tables: Tables, prefix: str) -> None:
        self.tables, self.prefix = tables, prefix
        self.start: list[Variable] = []
        self.end: list[Variable] = []

    def choose(self, item: Selected) -> Choice:
        """Add the variables for one thing selected, and return it. Raises DynEventError."""
        expression = self._delta(item.expression)
        label = item.label or _label(expression, item)
        string = None
        if isinstance(expression, Cast):
            if expression.kind in {"ustring", "string"}:
                string = expression.kind
            elif expression.kind not in {"execname", "comm"}:
                raise fault(f"{expression.kind} is how a histogram shows a key", item.span)
        sides = {side for side, _ in self._leaves(expression)}
        value: Computed
        if sides == {"start"} and _is_flat(expression):
            value = self._kept(expression, label)
        else:
            value = self._compute(expression, "end")
        variable = f"{self.prefix}_{label}"
        self.end.append(Variable(variable, value))
        ctype, size, signed = self._type(expression, item)
        if string and (size != 8 or "char[" in ctype):
            raise fault("a string is read where a pointer leads", item.span)
        return Choice(label, variable, ctype, size, signed, string, item.span)

    def _delta(self, expression: Expression) -> Expression:
        """Replace the time between the events by what it is."""
        match expression:
            case Name((word,), span) if word in DELTAS:
                end, start = (self._time(side, DELTAS[word], span) for side in ("end", "start"))
                return Arithmetic("-", end, start, span)
            case Arithmetic(operator, left, right, span):
                return Arithmetic(operator, self._delta(left), self._delta(right), span)
            case _:
                return expression

    def _time(self, side: str, word: str, span: Span) -> Name:
        event = self.tables.event("start" if side == "start" else "end")
        called = [event.table.alias] if event.table.alias else event.name.split("/")
        return Name((*called, word), span)

    def _leaves(self, expression: Expression) -> Iterator[tuple[Side, KernelField]]:
        match expression:
            case Arithmetic(_, left, right):
                yield from self._leaves(left)
                yield from self._leaves(right)
            case Cast(name) | (Name() as name):
                side, _, found = self.tables.field(name)
                yield side, found
            case Literally():
                return

    def _kept(self, expression: Expression, label: str) -> VariableRef:
        """Keep what is of the first event in a variable there, and return the reference to it."""
        value = self._compute(expression, "start")
        for variable in self.start:
            if variable.expression == value:
                return VariableRef(variable.name)
        name = f"{self.prefix}_start_{label}"
        taken = {variable.name for variable in self.start}
        while name in taken:
            name += "_"
        self.start.append(Variable(name, value))
        return VariableRef(name)

    def _compute(self, expression: Expression, side: Side) -> Computed:
        match expression:
            case Literally(value):
                return Number(value)
            case Cast(name, "execname" | "comm", _, span):
                of, shown, _ = self.tables.field(name)
                if shown != "common_pid":
                    raise fault("the name of a process is that of common_pid", span)
                return self._here(of, HistField(shown, "execname"), side, "comm", expression)
            case Cast(name) | (Name() as name):
                of, shown, _ = self.tables.field(name)
                word, _, modifier = shown.partition(".")
                return self._here(of, HistField(word, modifier or None), side, word, expression)
            case Arithmetic(operator, left, right, span):
                first, second = self._part(left, side), self._part(right, side)
                product = operator in {"*", "/"}
                if (
                    (product and _is_sum(first))
                    or _is_sum(second)
                    or (product and isinstance(second, Binary))
                ):
                    raise fault(
                        "the kernel computes without brackets, products first",
                        span,
                        "what is in brackets may be of the first event alone",
                    )
                return Binary(operator, first, second)

    def _part(self, expression: Expression, side: Side) -> Computed:
        """Compute an operand; what is of the first event alone becomes one variable of that."""
        is_apart = side == "end" and isinstance(expression, Arithmetic) and _is_flat(expression)
        if is_apart and {of for of, _ in self._leaves(expression)} == {"start"}:
            return self._kept(expression, "part")
        return self._compute(expression, side)

    def _here(
        self, of: Side, value: HistField, side: Side, label: str, expression: Expression
    ) -> Computed:
        if of == side:
            return value
        return self._kept(expression, label)

    def _type(self, expression: Expression, item: Selected) -> tuple[str, int, bool]:
        match expression:
            case Cast(_, "execname" | "comm"):
                return "char[]", 8, False
            case Arithmetic() | Literally():
                if any(found.is_string for _, found in self._leaves(expression)):
                    raise fault("strings cannot be computed with", item.span)
                # The kernel gives a result the type of what stands first.
                first = next(self._leaves(_first(expression)), None)
                return ("u64", 8, False) if first is None else _numeric(first[1])
            case Cast(name) | (Name() as name):
                return _synthetic(self.tables.field(name)[2], item)


def _first(expression: Expression) -> Expression:
    while isinstance(expression, Arithmetic):
        expression = expression.left
    return expression


def _is_flat(expression: Expression) -> bool:
    """Say whether an expression needs no brackets."""
    if not isinstance(expression, Arithmetic):
        return True
    product = expression.operator in {"*", "/"}
    for operand, closer in ((expression.left, product), (expression.right, True)):
        if isinstance(operand, Arithmetic):
            is_sum = operand.operator in {"+", "-"}
            if (closer and is_sum) or (product and operand is expression.right):
                return False
    return _is_flat(expression.left) and _is_flat(expression.right)


def _is_sum(value: Computed) -> bool:
    return isinstance(value, Binary) and value.operator in {"+", "-"}


def _label(expression: Expression, item: Selected) -> str:
    match expression:
        case Name(words) | Cast(Name(words)):
            return words[-1]
        case _:
            raise fault("what is computed needs a name", item.span, "write … AS NAME")


def _synthetic(found: KernelField, item: Selected) -> tuple[str, int, bool]:
    match found.kind:
        case Kind.DYNAMIC_STRING | Kind.RELATIVE_STRING:
            return "char[]", 8, False
        case Kind.STATIC_STRING:
            return f"char[{found.size}]", found.size, False
        case _ if found.size in {1, 2, 4, 8}:
            return _numeric(found)
        case _:
            raise fault(f"{found.ctype} is no number and no string", item.span)


def _numeric(found: KernelField) -> tuple[str, int, bool]:
    if found.ctype in TYPES:
        size, _ = TYPES[found.ctype]
        signed = not found.ctype.startswith("u") and found.ctype != "gfp_t"
        if size == found.size:
            return found.ctype, size, signed
    return str(Int(found.size, found.signed)), found.size, found.signed
