"""An eprobe's definition as typed expressions: what it records, when, and which parts may fail."""

from __future__ import annotations

from collections.abc import Iterator

from pybpf.compiler import tast
from pybpf.compiler.eprobes.definition import RULES, Definition
from pybpf.compiler.eprobes.filters import filtered
from pybpf.compiler.eprobes.values import Fetching, argument
from pybpf.dataclass import dataclass
from pybpf.source import Span
from pybpf.target.target import Target
from pybpf.tracefs.filters.parse import parse_filter
from pybpf.tracefs.filters.rules import tracing_rules

STRING_SIZE = 512
"""How many bytes a string gets at most, its NUL included, unless one says otherwise."""


@dataclass(frozen=True, slots=True)
class Record:
    """The arguments by name, in their order, and whether they are recorded (None: always)."""

    values: dict[str, tast.Expr]
    condition: tast.Expr | None


def record(
    definition: Definition, target: Target, span: Span, string_size: int = STRING_SIZE
) -> Record:
    """Return what an eprobe records; ``span`` is where it was written.

    Raises TargetError where the target lacks what it takes.
    """
    casts = "->" in str(definition.value)
    types = target.types if casts else None
    state = Fetching(definition.parent, target, types, string_size, span)
    values = {arg.name: argument(arg, state) for arg in definition.args}
    text = definition.value.filter
    if text is None:
        return Record(values, None)
    condition = filtered(parse_filter(text, RULES), state, tracing_rules(RULES))
    return Record(values, condition)


def reads_of(value: tast.Expr) -> Iterator[tast.Expr]:
    """Yield what reads memory in the value of an argument, innermost last."""
    match value:
        case tast.Deref(address=inner) | tast.ReadString(address=inner):
            yield value
            yield from reads_of(inner)
        case tast.Convert(operand=inner):
            yield from reads_of(inner)
        case tast.Arith(left=left, right=right):
            yield from reads_of(left)
            yield from reads_of(right)
        case tast.Parts(parts=parts):
            for part in parts:
                yield from reads_of(part)
        case _:
            pass
