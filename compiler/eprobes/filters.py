"""An event filter as a condition on the parent's record: a filter's value in, tast.Expr out.

Source: kernel/trace/trace_events_filter.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pybpf.compiler import tast
from pybpf.compiler.builtins.values import COMM, CPU
from pybpf.compiler.convert import text_of
from pybpf.compiler.eprobes.values import Fetching, own_string
from pybpf.compiler.parser import MAX_DEPTH
from pybpf.errors import TargetError
from pybpf.target.target import Target
from pybpf.tracefs.filters.fields import KernelField, Kind, kernel_fields
from pybpf.tracefs.filters.rules import TracingRules
from pybpf.tracefs.filters.value import (
    And,
    Comparison,
    Cpus,
    Filter,
    Function,
    Not,
    Or,
    Text,
    fold,
)
from pybpf.types import CHAR, INT, LONG, ULONG, Array, Int, Space

_LARGEST_FUNCTION = 1 << 20


def filtered(value: Filter, state: Fetching, rules: TracingRules) -> tast.Expr:
    """Return whether a filter lets a record of the parent through, as 0 or 1.

    Raises TargetError for what only the kernel's own filters can ask.
    """
    if fold(value, _depth) > MAX_DEPTH:
        raise TargetError(f"a filter of a program has at most {MAX_DEPTH} levels of ! && ||")
    return fold(value, lambda one, parts: _filtered(one, parts, state, rules))


def _depth(_: Filter, parts: list[int]) -> int:
    return 1 + max(parts, default=0)


def _filtered(
    value: Filter, parts: list[tast.Expr], state: Fetching, rules: TracingRules
) -> tast.Expr:
    match value:
        case Not():
            return tast.Not(parts[0], state.span)
        case And():
            return _chain("&&", parts, state)
        case Or():
            return _chain("||", parts, state)
        case Comparison():
            field = kernel_fields(state.parent.fields, rules)[value.field]
            return _comparison(value, field, state)


def _chain(op: str, parts: Sequence[tast.Expr], state: Fetching) -> tast.Expr:
    return reduce(lambda left, right: tast.Logical(op, left, right, state.span), parts)


def _comparison(value: Comparison, field: KernelField, state: Fetching) -> tast.Expr:
    match value.operand:
        case Text(text=text):
            return _text(value, field, text.encode("utf-8", "surrogateescape"), state)
        case int() as number:
            return _number(value.operator, _field(field, state), number, state)
        case Cpus(list=cpus):
            return _cpus(value, field, _listed(cpus, state.target.cpus), state)
        case Function(name=name):
            start, end = _extent(name, state.target)
            wide = _as(_field(field, state), ULONG, state)
            above = _compare(">=", wide, tast.Const(start, ULONG, state.span))
            below = _compare("<", wide, tast.Const(end, ULONG, state.span))
            inside = tast.Logical("&&", above, below, state.span)
            return inside if value.operator == "==" else tast.Not(inside, state.span)


def _field(field: KernelField, state: Fetching) -> tast.Expr:
    """Return a field as a number, as wide as the filter takes it."""
    if field.kind is Kind.CPU:
        return tast.Convert(tast.Context("cpu", CPU, state.span), INT, state.span)
    own = state.field_or_common(field.name)
    if own.name == "common_pid":
        return tast.Convert(tast.Context("kpid", INT, state.span), INT, state.span)
    if own.common and own.name != "common_type":
        raise TargetError(f"the kernel hides '{own.name}' from programs")
    if own.common:
        return tast.Const(state.parent.id, INT, state.span)
    size = field.size if field.size in {1, 2, 4, 8} else 8
    return tast.CtxField(own.offset, Int(size, field.signed), state.span)


def _number(operator: str, found: tast.Expr, number: int, state: Fetching) -> tast.Expr:
    narrow = found.type
    assert isinstance(narrow, Int)
    t = LONG if narrow.signed else ULONG
    wanted = tast.Const(t.wrap(narrow.wrap(number)), t, state.span)
    wide = _as(found, t, state)
    if operator == "&":
        both = tast.Arith("&", wide, wanted, t, state.span)
        return _compare("!=", both, tast.Const(0, t, state.span))
    return _compare(operator, wide, wanted)


def _text(value: Comparison, field: KernelField, text: bytes, state: Fetching) -> tast.Expr:
    span = state.span
    found, may_fail = _string(value, field, state)
    result: tast.Expr
    if value.operator == "~":
        result = tast.Like(found, text, span)
    else:
        difference = tast.StrCmp(found, text_of(text, span), span)
        result = _compare(value.operator, difference, tast.Const(0, INT, span))
    return tast.Sound(result, span) if may_fail else result


def _string(value: Comparison, field: KernelField, state: Fetching) -> tuple[tast.Expr, bool]:
    """Return the string that is compared, and whether it may be one that cannot be read."""
    span = state.span
    if field.kind is Kind.COMM:
        return tast.Context("comm", COMM, span), False
    own = state.field(field.name)
    if field.kind is not Kind.POINTER_STRING and value.modifier != "ustring":
        inside = own_string(own, state)
        assert inside is not None, "the filter fits the parent"
        return inside, False
    space = Space.USER if value.modifier == "ustring" else Space.KERNEL
    pointer = tast.CtxField(own.offset, ULONG, span)
    return tast.ReadString(pointer, space, Array(CHAR, state.string_size), span), True


def _cpus(
    value: Comparison, field: KernelField, cpus: frozenset[int], state: Fetching
) -> tast.Expr:
    """Return whether a number is one of some CPUs; it is equal only to a set of one."""
    if field.kind is Kind.CPUMASK:
        raise TargetError(f"'{field.name}' is a mask of CPUs, which programs do not compare")
    span = state.span
    if value.operator != "&" and len(cpus) != 1:
        return tast.Const(int(value.operator == "!="), INT, span)
    found = _as(_field(field, state), ULONG, state)
    members = [_compare("==", found, tast.Const(cpu, ULONG, span)) for cpu in sorted(cpus)]
    inside = _chain("||", members, state) if members else tast.Const(0, INT, span)
    return tast.Not(inside, span) if value.operator == "!=" else inside


def _listed(text: str, count: int) -> frozenset[int]:
    """Return the CPUs of a list such as ``0-3,7``, ``0-31:2/4`` or ``all``, below ``count``."""
    found: set[int] = set()
    for part in text.replace(",", " ").split():
        whole, _, groups = part.partition(":")
        if whole.lower() == "all":
            whole = f"0-{count - 1}"
        first, dash, last = whole.replace("N", str(count - 1)).partition("-")
        used, _, group = (groups or "1/1").partition("/")
        start, end = int(first), int(last if dash else first)
        found |= {n for n in range(start, end + 1) if (n - start) % int(group) < int(used)}
    return frozenset(found)


def _extent(name: str, target: Target) -> tuple[int, int]:
    """Return where a function begins and ends, of which any address may be given."""
    symbols = target.symbols
    if name[:1].isdigit():
        address = int(name, 0)
    else:
        found = symbols.addresses(name)
        if not found:
            raise TargetError(f"unknown function '{name}'")
        address = found[0]
    resolved = symbols.resolve(address)
    if resolved is None:
        raise TargetError(f"no function has the address {address:#x}")
    start = address - resolved[1]
    low, high = start, start + _LARGEST_FUNCTION
    while high - low > 1:
        middle = (low + high) // 2
        inside = symbols.resolve(middle)
        low, high = (middle, high) if inside == (resolved[0], middle - start) else (low, middle)
    return start, high


def _compare(op: str, left: tast.Expr, right: tast.Expr) -> tast.Expr:
    return tast.Compare(op, left, right, left.span)


def _as(value: tast.Expr, t: Int, state: Fetching) -> tast.Expr:
    if isinstance(value, tast.Const):
        return tast.Const(t.wrap(value.value), t, state.span)
    return value if value.type == t else tast.Convert(value, t, state.span)
