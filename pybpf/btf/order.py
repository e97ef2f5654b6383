"""Types that are wanted in; in which order C wants them declared, and which only by name, out.

A member that is a structure wants it whole, and so before; a pointer wants its name only. A type
without a name is written where it is used, and wants there what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pybpf.btf.abi import Kind
from pybpf.btf.types import (
    Array,
    BtfType,
    Composite,
    DataSec,
    DeclTag,
    Enum,
    Float,
    Forward,
    Func,
    FuncProto,
    Int,
    Reference,
    Var,
    references,
)
from pybpf.errors import BtfError

_DEEPEST = 100_000


class Step(NamedTuple):
    """A type to declare, ``whole`` or by its name only."""

    number: int
    whole: bool


def ordered(roots: Iterable[int], type_of: Callable[[int], BtfType | None]) -> list[Step]:
    """Return the steps in which types are declared so that each knows those it needs.

    Raises BtfError for types that hold themselves, as no C can have, or are nested too deep.
    """
    steps: list[Step] = []
    done: set[Step] = set()
    known: dict[Step, bool] = {}  # whether all that it needs was seen
    waiting: list[tuple[Step, Iterator[Step]]] = []

    def visit(step: Step) -> None:
        t = type_of(step.number)
        if not step.whole and _is_inline(t):
            step = Step(step.number, whole=True)
        if step not in known:
            if len(waiting) == _DEEPEST:
                raise BtfError(f"type {step.number} is nested deeper than {_DEEPEST}")
            known[step] = False
            waiting.append((step, _needs(t, whole=step.whole)))
        elif not known[step]:
            raise BtfError(f"type {step.number} holds itself")

    for root in roots:
        visit(Step(root, whole=True))
        while waiting:
            step, needs = waiting[-1]
            if (need := next(needs, None)) is not None:
                visit(need)
                continue
            waiting.pop()
            known[step] = True
            declared = _declared(step, type_of(step.number))
            if declared is None or {declared, Step(step.number, whole=True)} & done:
                continue
            if declared.whole and steps[-1:] == [Step(step.number, whole=False)]:
                steps.pop()  # it refers to itself, and nothing else does yet
            done.add(declared)
            steps.append(declared)
    return steps


def _is_inline(t: BtfType | None) -> bool:
    return isinstance(t, Composite) and not t.name


def _needs(t: BtfType | None, *, whole: bool) -> Iterator[Step]:
    """Yield what is to be declared before a type, which is to be declared whole or by name."""
    match t:
        case Composite() if whole:
            for member in t.members:
                yield Step(member.type, whole=True)
        case Array():
            yield Step(t.element, whole=True)
        case Reference():
            yield Step(t.type, whole=whole and t.kind is not Kind.PTR)
        case FuncProto() | Func():
            for number in references(t):
                yield Step(number, whole=False)
        case Var() | DataSec():
            for number in references(t):
                yield Step(number, whole=True)
        case None | Composite() | Int() | Float() | Enum() | Forward() | DeclTag():
            return


def _declared(step: Step, t: BtfType | None) -> Step | None:
    """Return the step that declares a type; None where it needs no declaration of its own."""
    match t:
        case Composite(name=str(name)) if name:
            return step
        case Reference(kind=Kind.TYPEDEF) | Enum() | Int() | Float() | Func() | Var():
            return Step(step.number, whole=True)
        case Forward():
            return Step(step.number, whole=False)
        case _:
            return None
